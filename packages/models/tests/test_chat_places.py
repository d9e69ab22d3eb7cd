"""Content is found where it stands, however an answer is cut, and whatever else has the same letters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rase_models.chat.dialect import chat_dialect
from rase_models.chat.options import ChatOptions
from rase_models.chat.places import content_places
from rase_models.chat.tool_calls.tool import Tool

TEMPLATE = '{# <think></think> <tool_call></tool_call> "name" "arguments" #}{{ messages }}'
CALL = '<tool_call>\n{"name": "look", "arguments": {"a": "in the"}}\n</tool_call>'
READING = chat_dialect(TEMPLATE).reading("", ChatOptions(tools=(Tool("look"),)))
ANSWERS = [
    ("<think>\nk or A?\n</think>\n\nA", ["A"]),
    ("<think>k</think>k", ["k"]),
    ("k</think>think", ["think"]),
    (f"look{CALL}look", ["look", "look"]),
    (f"<think>in the</think>\nin the {CALL}\n the", ["in the", "the"]),
    (CALL, []),
    ("a < b <thin", ["a < b <thin"]),
    ("", []),
]


@pytest.mark.parametrize(("answer", "said"), ANSWERS)
@pytest.mark.parametrize("step", [1, 2, 3, 5])
def test_content_is_found_among_thoughts_and_calls(answer: str, said: list[str], step: int) -> None:
    check(answer, said, list(range(0, len(answer), step)))


@given(st.sampled_from(ANSWERS), st.lists(st.integers(-3, 200)))
def test_content_is_found_however_the_answer_is_cut(case: tuple[str, list[str]], cuts: list[int]) -> None:
    check(*case, cuts)


def check(answer: str, said: list[str], cuts: list[int]) -> None:
    reply = READING.read(answer)
    assert reply.reader is not None
    places = content_places(reply.reader(), answer, cuts)
    assert "".join(answer[place.start : place.stop] for place in places) == reply.content
    assert sorted(places, key=lambda place: place.start) == places
    ends = [answer.rindex(text) + len(text) for text in said[-1:]]
    assert [place.stop for place in places[-1:]] == ends
