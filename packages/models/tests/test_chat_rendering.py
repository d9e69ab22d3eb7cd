"""Templates render what transformers' `apply_chat_template` renders."""

import os
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rase_core.errors import InvalidConversation, TemplateError
from rase_models.chat import BUILTIN_TEMPLATES, ChatTemplate
from rase_models.chat.budget import Budget
from rase_models.gguf import open_gguf

TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}

LLAMA3_STYLE = """\
{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + \
message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' %}\
{% if loop.index0 == 0 %}\
{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}\
{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"""

MISTRAL_STYLE = """\
{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if (message["role"] == "user") != (loop.index0 % 2 == 0) %}
        {{- raise_exception("roles must alternate user/assistant/user/assistant/...") }}
    {%- endif %}
    {%- if message["role"] == "user" %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- else %}
        {{- " " + message["content"] + eos_token }}
    {%- endif %}
{%- endfor %}
"""

GEMMA_STYLE = """\
{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}\
{% endif %}\
{% for message in messages %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}\
{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + \
'<end_of_turn>\\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\\n'}}{% endif %}"""

QWEN_STYLE = """\
{%- macro part(content) %}
    {%- if content is string %}{{- content }}{%- else %}{{- content | tojson }}{%- endif %}
{%- endmacro %}
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson(indent=2) }}
    {%- endfor %}
    {{- "<|im_end|>\\n" }}
{%- endif %}
{%- set ns = namespace(last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if message.role == "user" %}{%- set ns.last = index %}{%- break %}{%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = part(message.content) %}
    {%- if message.role == "assistant" and '</think>' in content %}
        {%- set content = content.split('</think>', 1)[-1].lstrip('\\n') %}
    {%- endif %}
    {% generation %}
    {{- '<|im_start|>' ~ message.role ~ '\\n' ~ content ~ '<|im_end|>' ~ '\\n' }}
    {%- endgeneration %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""

ODDITIES = """\
{% set d = dict(a=1, b='<é>') %}{{ d | tojson }}{{ d.items() | list }}{{ '%s-%05d' % ('x', 7) }}
{{ '{}|{:>4}'.format(1, 'ab') }}{{ [3, 1, 2] | sort | join(', ') }}
{{ ', '.join(messages | map(attribute='role')) }}
{{ messages | selectattr('role', 'equalto', 'user') | list | length }}{{ 'a' in 'cat' }}
{{ [1, 2] + [3] }}{{ 2 ** 5 }}
{{ 'x' * 3 }}{{ none }}{{ missing }}{{ missing | default('d') }}
{{ messages[-1].content[:3] | upper | indent(2) }}
{% for k, v in d | dictsort if v is string %}{{ loop.index }}{{ k }}{{ v | replace('é', 'e') }}
{% else %}no{% endfor %}
{% for c in 'abc' %}{% if c == 'b' %}{% continue %}{% endif %}{{ c }}{{ loop.length }}{% endfor %}
{{ range(3) | list }}
{{ {('a', 1): 2}[('a', 1)] }}{{ messages | length > 0 and 1 < 2 <= 2 }}
{{ 'a,b'.split(',') }}{{ 1.5 | round | int }}
{% set block %}<{{ 'b' }}>{% endset %}{{ block }}{% macro m(x, y=2) %}{{ x }}{{ y }}
{{ caller() }}{% endmacro %}
{% call m(1) %}in{% endcall %}{% filter upper %}shout{% endfilter %}{{ "it's" | safe }}
{{ '<' | e }}{{ [[1, 'a']] }}
"""

TEMPLATES = {
    "llama3": LLAMA3_STYLE,
    "mistral": MISTRAL_STYLE,
    "gemma": GEMMA_STYLE,
    "qwen": QWEN_STYLE,
    "oddities": ODDITIES,
    **{f"built-in {name}": source for name, source in BUILTIN_TEMPLATES.items()},
}

USER = {"role": "user", "content": "  Hello <b> & \"you\"\n'é' 你好 "}
SYSTEM = {"role": "system", "content": " Be brief. "}
ASSISTANT = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHi."}
CONVERSATIONS: dict[str, list[dict[str, Any]]] = {
    "user": [USER],
    "system": [SYSTEM, USER],
    "multi-turn": [SYSTEM, USER, ASSISTANT, {"role": "user", "content": "Bye"}],
    "system alone": [SYSTEM],
    "assistant last": [USER, ASSISTANT],
    "not alternating": [USER, USER],
}
TOOLS = [
    {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "é": [1, 2.5, None]}}}
]


def _expected(source: str, messages: list[dict[str, Any]], **options: Any) -> str | None:
    """Return what transformers renders, or None where it refuses."""
    from jinja2 import TemplateError as JinjaError
    from transformers.utils.chat_template_utils import render_jinja_template

    try:
        given: dict[str, Any] = {**TOKENS, **options}
        texts = list(render_jinja_template([messages], chat_template=source, **given)[0])
    except (JinjaError, TypeError):
        return None
    return texts[0]


@cache
def _template(source: str) -> ChatTemplate:
    return ChatTemplate(source, special_tokens=TOKENS)


def _rendered(source: str, messages: list[dict[str, Any]], **options: Any) -> str | None:
    try:
        return _template(source).render(messages, **options)
    except (InvalidConversation, TemplateError):
        return None


@pytest.mark.parametrize("options", [{}, {"tools": TOOLS}, {"enable_thinking": False}], ids=str)
@pytest.mark.parametrize("prompt", [True, False], ids=["prompt", "no prompt"])
@pytest.mark.parametrize("conversation", CONVERSATIONS)
@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_render_as_transformers_does(
    name: str, conversation: str, prompt: bool, options: dict[str, Any]
) -> None:
    source, messages = TEMPLATES[name], CONVERSATIONS[conversation]
    expected = _expected(source, messages, add_generation_prompt=prompt, **options)
    assert _rendered(source, messages, add_generation_prompt=prompt, **options) == expected


@pytest.mark.parametrize("conversation", CONVERSATIONS)
def test_the_real_models_own_template_renders_as_transformers_does(
    conversation: str, smollm2_path: Path
) -> None:
    source = open_gguf(smollm2_path).string("tokenizer.chat_template")
    messages = CONVERSATIONS[conversation]
    expected = _expected(source, messages, add_generation_prompt=True)
    assert expected is not None
    assert _rendered(source, messages, add_generation_prompt=True) == expected


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["system", "user", "assistant"]), st.text()), min_size=1, max_size=6)
)
def test_any_text_renders_as_transformers_does(turns: list[tuple[str, str]]) -> None:
    messages = [{"role": role, "content": text} for role, text in turns]
    for source in (QWEN_STYLE, LLAMA3_STYLE, GEMMA_STYLE):
        assert _rendered(source, messages) == _expected(source, messages, add_generation_prompt=True)


@pytest.mark.parametrize("name", ["llama3", "qwen", "gemma", "built-in chatml", "built-in mistral"])
@pytest.mark.parametrize("content", ["The capital", "ends in a space ", "1"])
def test_a_continued_answer_stays_open(name: str, content: str) -> None:
    messages = [USER, {"role": "assistant", "content": content}]
    expected = _expected(TEMPLATES[name], messages, continue_final_message=True)
    assert _rendered(TEMPLATES[name], messages, continue_final_message=True) == expected
    assert expected is not None
    assert expected.rstrip().endswith(content.rstrip())


def test_an_empty_answer_can_be_continued() -> None:
    messages = [USER, {"role": "assistant", "content": ""}]
    text = ChatTemplate(BUILTIN_TEMPLATES["chatml"]).render(messages, continue_final_message=True)
    assert text.endswith("<|im_start|>assistant\n")


def test_only_an_answer_can_be_continued() -> None:
    with pytest.raises(InvalidConversation, match=r"messages\[0\]: only an assistant's"):
        ChatTemplate(BUILTIN_TEMPLATES["chatml"]).render([USER], continue_final_message=True)


def test_an_answer_that_the_template_drops_cannot_be_continued() -> None:
    with pytest.raises(InvalidConversation, match="does not write the last message"):
        ChatTemplate("nothing").render([USER, ASSISTANT], continue_final_message=True)


def test_strftime_now_gives_the_date() -> None:
    from datetime import datetime

    text = ChatTemplate("{{ strftime_now('%Y-%m') }}").render([USER])
    assert text in {moment.strftime("%Y-%m") for moment in (datetime.now(),)}


def test_rendering_twice_gives_the_same_text() -> None:
    template = ChatTemplate(QWEN_STYLE, special_tokens=TOKENS)
    assert template.render([SYSTEM, USER]) == template.render([SYSTEM, USER])


QUEUE = (
    "{% set ns = namespace(ids=[]) %}{% for m in messages %}{% set _ = ns.ids.append(m.role) %}{% endfor %}"
    "{{ ns.ids.pop(0) }} {{ ns.ids }}"
)


def test_a_template_may_add_to_lists_that_it_has_written_itself() -> None:
    template = ChatTemplate(QUEUE)
    for _ in range(2):
        assert template.render([SYSTEM, USER, ASSISTANT]) == "system ['user', 'assistant']"


def test_rendering_does_not_change_the_messages() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "developer", "content": [{"type": "text", "text": "a"}]},
        dict(ASSISTANT),
    ]
    before = repr(messages)
    ChatTemplate(QWEN_STYLE).render(messages, continue_final_message=True)
    assert repr(messages) == before


def test_many_threads_may_render_at_once() -> None:
    from concurrent.futures import ThreadPoolExecutor

    template = ChatTemplate(QWEN_STYLE, special_tokens=TOKENS)
    with ThreadPoolExecutor(4) as pool:
        texts = set(pool.map(lambda _: template.render([SYSTEM, USER]), range(40)))
    assert len(texts) == 1


def test_a_long_conversation_has_more_time() -> None:
    short, long = Budget(), Budget(given=1_000_000)
    start = time.thread_time()
    while time.thread_time() - start < 0.8:
        pass
    long.charge()
    with pytest.raises(TemplateError, match="takes too long"):
        short.charge()


def test_a_long_conversation_is_no_attack() -> None:
    messages = [USER, ASSISTANT] * 1000 + [{"role": "user", "content": "long " * 400_000}]
    growing = (
        "{% set ns = namespace(t='') %}{% for m in messages %}{% set ns.t = ns.t + m.content %}{% endfor %}"
        "{{ ns.t }}"
    )
    for source in (QWEN_STYLE, growing):
        assert len(ChatTemplate(source).render(messages)) > 2_000_000


def _real_templates() -> list[Path]:
    folder = os.environ.get("RASE_TEMPLATES")
    return sorted(Path(folder).glob("*.jinja")) if folder else []


@pytest.mark.skipif(not _real_templates(), reason="RASE_TEMPLATES does not name a folder of templates")
@pytest.mark.parametrize("path", _real_templates(), ids=lambda path: path.stem)
def test_real_templates_render_as_transformers_does(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    for messages in CONVERSATIONS.values():
        for options in ({}, {"tools": TOOLS}, {"enable_thinking": False}):
            expected = _expected(source, messages, add_generation_prompt=True, **options)
            if expected is not None:
                assert _rendered(source, messages, add_generation_prompt=True, **options) == expected


def test_a_template_may_add_each_message_of_a_long_conversation_to_a_list() -> None:
    source = "{% set l = [] %}{% for m in messages %}{% set _ = l.append(m) %}{% endfor %}{{ l | length }}"
    chat = [{"role": ("user", "assistant")[i % 2], "content": "hello there, " * 8} for i in range(3000)]
    assert ChatTemplate(source).render(chat) == "3000"
