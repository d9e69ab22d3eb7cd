"""Variables of chat templates: those that are read are told, and no other is lost without a word."""

import logging

import pytest
from rase_core.errors import InvalidParameter, TemplateError
from rase_models.chat import ChatTemplate
from rase_models.chat.dialect import chat_dialect
from rase_models.chat.options import ChatOptions
from rase_models.chat.prompt import chat_prompt
from rase_models.chat.variables import told_variables
from rase_models.tokenizers import Tokenizer

PLAIN = "{% for m in messages %}{{ m.content }}{% endfor %}"
SWITCHED = PLAIN + "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
ALWAYS = PLAIN + "<think>\n{# ends in </think> #}{{ '' if true else '</think>' }}"
NAMED_OTHERWISE = PLAIN + "{% if thinking %}<think>{% else %}</think>{% endif %}"
BOTH = SWITCHED + "{% if reasoning_effort is defined %}{{ reasoning_effort }}{% endif %}"
OTHER_EFFORT = NAMED_OTHERWISE + "{{ thinking_effort | default('max') }}"
MODE = PLAIN + "{% if thinking_mode == 'disabled' %}</t>{% endif %}"
BUDGET = PLAIN + "{% if not thinking_budget is defined %}{% set thinking_budget = -1 %}{% endif %}"
EFFORT_ALONE = (
    PLAIN + "{# thinks #}{% set reasoning_effort = reasoning_effort if reasoning_effort else 'high' %}"
)
ASKED = [{"role": "user", "content": "Why?"}]


def read_by(source: str) -> frozenset[str]:
    return ChatTemplate(source).variables


def told(source: str, **given: object) -> dict[str, object]:
    thinks = chat_dialect(source).has_thoughts
    return told_variables(given, read_by(source), has_thoughts=thinks)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (PLAIN, set()),
        (SWITCHED, {"enable_thinking"}),
        ("{% if mood is not defined %}{% set mood = 'calm' %}{% endif %}{{ mood }}{{ bos_token }}", {"mood"}),
        ("{% set mood = 'calm' %}{{ mood }}", set()),
        ("{% if messages %}{% set mood = 'calm' %}{% endif %}{{ mood }}", set()),
        ("{% for m in messages %}{% if m %}{% set text = m %}{% endif %}{{ text }}{% endfor %}", set()),
        ("{% set mood = mood | default('calm') %}{{ mood }}", {"mood"}),
        ("{% set mood = mood or 'calm' %}{{ mood }}", {"mood"}),
        ("{% set mood = mood %}{{ mood }}", {"mood"}),
        ("{% macro say(mood) %}{{ mood }}{% endmacro %}{% if mood %}{{ say(mood) }}{% endif %}", {"mood"}),
        ("{% if mood %}{{ mood }}{% else %}{% set mood = 'calm' %}{% endif %}{{ mood }}", {"mood"}),
        ("{% for mood in moods %}{{ mood }}{% endfor %}{% for mood in messages %}{% endfor %}", {"moods"}),
        ("{% macro say(word) %}{{ word }}{{ tone }}{% endmacro %}{{ say(messages) }}", {"tone"}),
        ("{{ raise_exception(range(2) | length) }}{{ tools }}{{ documents }}", {"documents"}),
        ("{% for m in messages %}{{ loop.index }}{{ m.mood }}{% endfor %}", set()),
        ("{% generation %}{{ mood }}{% endgeneration %}", {"mood"}),
    ],
)
def test_a_template_tells_what_it_reads(source: str, names: set[str]) -> None:
    assert read_by(source) == names


@pytest.mark.parametrize("source", ["{{ unclosed", "{{ 1 | no_filter }}", "x" * 70_000])
def test_a_broken_template_is_an_error_that_says_so(source: str) -> None:
    with pytest.raises(TemplateError):
        read_by(source)


@pytest.mark.parametrize(
    ("source", "given", "expected"),
    [
        (SWITCHED, {"enable_thinking": False}, {"enable_thinking": False}),
        (SWITCHED, {"enable_thinking": True}, {"enable_thinking": True}),
        (SWITCHED, {"reasoning_effort": "none", "enable_thinking": False}, {"enable_thinking": False}),
        (SWITCHED, {"reasoning_effort": "none"}, {"enable_thinking": False}),
        (BOTH, {"reasoning_effort": "low"}, {"reasoning_effort": "low", "enable_thinking": True}),
        (BOTH, {"reasoning_effort": "none"}, {"reasoning_effort": "none", "enable_thinking": False}),
        (OTHER_EFFORT, {"reasoning_effort": "low"}, {"thinking_effort": "low", "thinking": True}),
        (OTHER_EFFORT, {"reasoning_effort": "none"}, {"thinking": False}),
        (MODE, {"enable_thinking": True}, {"thinking_mode": "enabled"}),
        (MODE, {"enable_thinking": False}, {"thinking_mode": "disabled"}),
        (BUDGET, {"enable_thinking": False}, {"thinking_budget": 0}),
        (EFFORT_ALONE, {"reasoning_effort": "low"}, {"reasoning_effort": "low"}),
        (NAMED_OTHERWISE, {"enable_thinking": True}, {"thinking": True}),
        (NAMED_OTHERWISE, {"thinking": False}, {"thinking": False}),
        (PLAIN, {"enable_thinking": False}, {}),
        (PLAIN, {"reasoning_effort": "none", "enable_thinking": False}, {}),
        (PLAIN, {"anything": None}, {}),
        (SWITCHED, {"enable_thinking": None}, {}),
        (MODE, {"enable_thinking": False, "thinking_mode": "disabled"}, {"thinking_mode": "disabled"}),
        (ALWAYS, {"enable_thinking": True}, {}),
    ],
)
def test_what_happens_anyway_may_be_asked_for(
    source: str, given: dict[str, object], expected: dict[str, object]
) -> None:
    assert told(source, **given) == expected


@pytest.mark.parametrize(
    ("source", "given", "name", "words"),
    [
        (PLAIN, {"enable_thinking": True}, "enable_thinking", "knows of none"),
        (ALWAYS, {"enable_thinking": False}, "enable_thinking", "no switch against it"),
        (ALWAYS, {"reasoning_effort": "none"}, "reasoning_effort", "no switch against it"),
        (EFFORT_ALONE, {"reasoning_effort": "none"}, "reasoning_effort", "no switch against it"),
        (EFFORT_ALONE, {"enable_thinking": True}, "enable_thinking", "no switch for it"),
        (EFFORT_ALONE, {"enable_thinking": False}, "enable_thinking", "no switch against it"),
        (
            BOTH,
            {"reasoning_effort": "none", "enable_thinking": True},
            "reasoning_effort",
            "contradicts enable_thinking",
        ),
        (
            BOTH,
            {"reasoning_effort": "low", "enable_thinking": False},
            "reasoning_effort",
            "contradicts enable_thinking",
        ),
        (MODE, {"enable_thinking": True, "thinking_mode": "x"}, "enable_thinking", "no switch"),
        (MODE, {"enable_thinking": True, "thinking_mode": "disabled"}, "enable_thinking", "thinking_mode"),
        (BUDGET, {"thinking_budget": 0, "enable_thinking": True}, "enable_thinking", "thinking_budget"),
        (OTHER_EFFORT, {"thinking": False, "reasoning_effort": "low"}, "reasoning_effort", "thinking"),
        (
            OTHER_EFFORT,
            {"thinking_effort": "low", "reasoning_effort": "high"},
            "reasoning_effort",
            "thinking_effort",
        ),
        (SWITCHED, {"mood": False}, "mood", "reads no such variable"),
        (NAMED_OTHERWISE, {"enable_thinking": "no"}, "enable_thinking", "no switch for it"),
        (SWITCHED, {"content": "x"}, "content", "it reads enable_thinking"),
        (SWITCHED, {"enable_thinkng": False}, "enable_thinkng", "it reads enable_thinking"),
        (SWITCHED, {"reasoning_effort": "low"}, "reasoning_effort", "it reads enable_thinking"),
        (PLAIN, {"mood": "calm"}, "mood", "it reads none"),
    ],
)
def test_a_setting_that_would_be_lost_is_refused(
    source: str, given: dict[str, object], name: str, words: str
) -> None:
    with pytest.raises(InvalidParameter, match=words) as caught:
        told(source, **given)
    assert caught.value.parameter == f"variables.{name}"


def test_a_lenient_request_loses_it_with_a_warning(
    tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture
) -> None:
    options = ChatOptions(variables={"mood": "calm"}, is_lenient=True)
    with caplog.at_level(logging.WARNING):
        assert chat_prompt(ChatTemplate(PLAIN), tokenizer, ASKED, options) == "Why?"
    assert "left out: ['mood']" in caplog.text
    with pytest.raises(InvalidParameter):
        chat_prompt(ChatTemplate(PLAIN), tokenizer, ASKED, ChatOptions(variables={"mood": "calm"}))


def test_many_strange_variables_make_one_short_warning(caplog: pytest.LogCaptureFixture) -> None:
    given: dict[str, object] = {f"name\n{number}" * 100: number for number in range(1000)}
    with caplog.at_level(logging.WARNING):
        assert told_variables(given, frozenset(), has_thoughts=False, is_lenient=True) == {}
    (record,) = caplog.records
    assert len(record.getMessage()) < 300 and "\n" not in record.getMessage()
