import pytest
from hypothesis import given
from hypothesis import strategies as st
from rase_core.errors import InvalidModelId
from rase_core.model_id import check_model_id

WINDOWS = {"con", "prn", "aux", "nul", *(f"{port}{i}" for port in ("com", "lpt") for i in range(10))}
"""Names that Windows keeps for itself, with any extension."""


@given(
    st.from_regex(r"[a-z0-9_][A-Za-z0-9._-]{0,60}x", fullmatch=True).filter(
        lambda name: name.partition(".")[0].lower() not in WINDOWS
    )
)
def test_letters_digits_and_three_marks_make_an_id(model_id: str) -> None:
    assert check_model_id(model_id) == model_id


@pytest.mark.parametrize(
    "model_id",
    [
        "",
        ".",
        "..",
        ".hidden",
        "-x",
        "--help",
        "a/b",
        "a\\b",
        "../x",
        "a b",
        "a\n",
        "ä",
        "a:b",
        "x" * 129,
        "٣",
        "a\0",
        "con",
        "NUL.gguf",
    ],
)
def test_anything_else_is_none(model_id: str) -> None:
    with pytest.raises(InvalidModelId) as caught:
        check_model_id(model_id)
    assert caught.value.model_id == model_id


@given(st.text())
def test_an_id_is_one_file_name(text: str) -> None:
    try:
        check_model_id(text)
    except InvalidModelId:
        return
    assert text.isascii() and not set(text) & set("/\\:\0 ") and not text.startswith((".", "-"))
