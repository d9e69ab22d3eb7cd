"""Real templates render what is on record for them, which make_template_goldens.py wrote."""

import importlib.util
import json
import os
import re
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rase_core.errors import InvalidConversation, TemplateError
from rase_models.chat import ChatTemplate

FOLDER = os.environ.get("RASE_TEMPLATES")
HERE = Path(__file__).parent
GOLDENS = json.loads((HERE / "data" / "template_goldens.json").read_text(encoding="utf-8"))
RENDERED_ALL_THE_SAME: dict[tuple[str, str | None], str] = {
    ("llama-cpp-deepseek-r1", None): "what a filter gives is a list and no generator",
    ("openai-gpt-oss-120b", "calls"): "thought beside content and calls is left out",
    **dict.fromkeys(
        ((f"Kimi-K2-{name}", turns) for name in ("Instruct", "Thinking") for turns in ("call", "calls")),
        "a template may add to lists of its own",
    ),
}
TOLD = {
    "LFM2-8B-A1B": r"<\|tool_call_start\|>.*?<\|tool_call_end\|>",
    "ibm-granite-granite-3.3-2B-Instruct": r"<\|tool_call\|>\[\{.*?(?=<\|end_of_text\|>)",
}
"""What stands for calls in the prompts of templates that leave them out."""
pytestmark = pytest.mark.skipif(FOLDER is None, reason="RASE_TEMPLATES does not name a folder of templates")


@cache
def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_template_goldens", HERE / "make_template_goldens.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def _template(source: str) -> ChatTemplate:
    return ChatTemplate(source, special_tokens=_script().SPECIAL)


def _render(source: str, messages: list[dict[str, Any]], **options: Any) -> str | None:
    try:
        return _template(source).render(messages, **options)
    except (InvalidConversation, TemplateError) as error:
        assert str(error)
        return None


def _source(name: str) -> str:
    return Path(FOLDER or "", f"{name}.jinja").read_text(encoding="utf-8")


def _without_told_calls(name: str, conversation: str, texts: list[str | None]) -> list[str | None]:
    if name not in TOLD or not conversation.startswith("call"):
        return texts
    assert all(text is not None and re.search(TOLD[name], text) for text in texts)
    return [None if text is None else re.sub(TOLD[name], "", text) for text in texts]


@pytest.mark.parametrize("name", GOLDENS["prompts"])
def test_a_real_template_renders_or_refuses_what_is_on_record(name: str) -> None:
    for conversation, (expected, refused) in GOLDENS["prompts"][name].items():
        texts = list(_script().prompts(_render, _source(name), conversation))
        if (name, None) in RENDERED_ALL_THE_SAME or (name, conversation) in RENDERED_ALL_THE_SAME:
            assert texts.count(None) < refused
        else:
            assert texts.count(None) == refused
            assert _script().digest(_without_told_calls(name, conversation, texts)) == expected, conversation


@pytest.mark.parametrize("name", GOLDENS["whole"])
def test_a_whole_prompt_is_the_one_on_record(name: str) -> None:
    conversation = _script().CASES["whole"][name]
    assert next(_script().prompts(_render, _source(name), conversation)) == GOLDENS["whole"][name]
