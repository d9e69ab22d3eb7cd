from hypothesis import example, given
from hypothesis import strategies as st
from rase_core.text import Utf8Assembler


@given(st.text(), st.integers(1, 5))
def test_text_survives_any_cut(text: str, width: int) -> None:
    data, assembler = text.encode(), Utf8Assembler()
    assert "".join(assembler.push(data[i : i + width]) for i in range(0, len(data), width)) == text


@given(st.binary(max_size=40))
@example(b"a\xed\xa0")  # half of a surrogate is two errors when whole, and waits for a third byte before
def test_bytes_that_are_no_text_become_replacement_characters(data: bytes) -> None:
    assembler = Utf8Assembler()
    out = "".join(assembler.push(bytes([byte])) for byte in data)
    whole = data.decode("utf-8", errors="replace")
    held = whole.removeprefix(out)  # a character cut short at the end does not come out
    assert out + held == whole and held in ("", "\ufffd", "\ufffd\ufffd")


def test_a_character_comes_out_when_its_last_byte_arrives() -> None:
    assembler = Utf8Assembler()
    assert [assembler.push(bytes([byte])) for byte in "é🦙".encode()] == ["", "é", "", "", "", "🦙"]
