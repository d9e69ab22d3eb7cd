from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rase_models.chat.parts import Content, Part, Reasoning, merged
from rase_models.chat.reasoning import THINK, ReasoningReader, ThinkTags, begins_untold, think_tags


def read(pieces: Iterable[str], *, is_open: bool = False, tags: ThinkTags = THINK) -> list[Part]:
    reader = ReasoningReader(tags, is_open=is_open)
    parts = [part for piece in pieces for part in reader.push(piece)]
    return merged(parts + reader.finish())


def thought_and_said(text: str, *, is_open: bool = False) -> tuple[str, str]:
    parts = read([text], is_open=is_open)
    thought = "".join(part.text for part in parts if isinstance(part, Reasoning))
    return thought, "".join(part.text for part in parts if isinstance(part, Content))


@pytest.mark.parametrize(
    ("text", "is_open", "thought", "said"),
    [
        ("<think>\nhm\nhm\n</think>\n\nYes.\n", False, "hm\nhm", "Yes.\n"),
        ("\n <think>hm</think>Yes.", False, "hm", "Yes."),
        ("hm</think>\n\nYes.", True, "hm", "Yes."),
        ("<think>\n\n</think>\n\nYes.", False, "", "Yes."),
        ("</think>Yes.", True, "", "Yes."),
        ("<think>hm</think>\n</think>\n\nYes.", False, "hm", "Yes."),
        ("<think>hm</think>", False, "hm", ""),
        ("<think>hm", False, "hm", ""),
        ("hm ", True, "hm", ""),
        ("<think>\nhm</think>Yes.", True, "hm", "Yes."),
        ("<think></think><think>hm</think>Yes.", False, "hm", "Yes."),
        ("hm </think> Yes.", False, "", "hm Yes."),
        ("Yes.", False, "", "Yes."),
        ("  Yes. \n", False, "", "  Yes. \n"),
        (" \n", False, "", " \n"),
        ("", False, "", ""),
        ("", True, "", ""),
        (
            "<think>a <think> b</think>c <think>d</think> </think>e",
            False,
            "a <think> b",
            "c <think>d</think> </think>e",
        ),
        ("Say <think> to think.", False, "", "Say <think> to think."),
        ("<thinkers> think", False, "", "<thinkers> think"),
        ("<think>a < b </ c</think>d", False, "a < b </ c", "d"),
    ],
)
def test_thought_and_answer_are_told_apart(text: str, is_open: bool, thought: str, said: str) -> None:
    assert thought_and_said(text, is_open=is_open) == (thought, said)


PIECES = st.lists(
    st.sampled_from(["<think>", "</think>", "<", "</thi", "think>", " ", "\n", "a", "bc", "</think"]),
    max_size=12,
)


@given(pieces=PIECES, cuts=st.lists(st.integers(0, 40), max_size=8), is_open=st.booleans())
def test_it_does_not_matter_how_the_text_is_cut(pieces: list[str], cuts: list[int], is_open: bool) -> None:
    text = "".join(pieces)
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    cut = [text[a:b] for a, b in pairwise(places)]
    assert read(cut, is_open=is_open) == read([text], is_open=is_open) == read(text, is_open=is_open)


@given(text=st.text())
def test_an_answer_without_tags_is_what_it_was(text: str) -> None:
    if "think>" not in text:
        assert thought_and_said(text) == ("", text)


def test_a_thought_comes_as_it_grows() -> None:
    reader = ReasoningReader(THINK, is_open=True)
    assert reader.push("one ") == [Reasoning("one")]
    assert reader.push("two") == [Reasoning(" two")]
    assert reader.push("</th") == []
    assert reader.push("ink>\n\nY") == [Content("Y")]


def test_white_space_within_an_answer_comes_at_once() -> None:
    reader = ReasoningReader(THINK, is_open=False)
    assert reader.push(" ") == []
    assert reader.push("Yes.\n") == [Content(" Yes.\n")]
    assert reader.push("\n") == [Content("\n")]
    assert reader.push("And no.") == [Content("And no.")]


def test_the_template_tells_the_tags() -> None:
    assert think_tags("{{ messages }}") == THINK
    assert think_tags("... [/THINK] ...") == ThinkTags("[THINK]", "[/THINK]")
    assert think_tags("x </think> y") == THINK


def test_a_prompt_may_have_begun_the_thought() -> None:
    assert THINK.is_open_in("<|im_start|>assistant\n<think>\n")
    assert not THINK.is_open_in("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert not THINK.is_open_in("<|im_start|>assistant\n")


def test_a_whole_answer_tells_that_it_began_with_a_thought() -> None:
    assert begins_untold(THINK, "hm</think>Yes.")
    assert not begins_untold(THINK, "<think>hm</think>Yes.")
    assert not begins_untold(THINK, "Yes.")
