"""Which template a model gets, what the built-in ones write, and the one BOS."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rase_core.errors import TemplateError
from rase_models.chat import BUILTIN_TEMPLATES, ChatTemplate, choose_template, encode_chat, given_template
from rase_models.gguf import open_gguf
from rase_models.testing_headers import tokenizer_header
from rase_models.tokenizers import Tokenizer, load_tokenizer, tokenizer_from_gguf

TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi "},
    {"role": "assistant", "content": "Hello."},
    {"role": "user", "content": "Bye"},
]


def _vocabulary(**metadata: Any) -> Tokenizer:
    tokens = ("<unk>", "<s>", "</s>", "▁", "H", "i", *(f"<0x{byte:02X}>" for byte in range(256)))
    kinds = np.array([2, 3, 3, 1, 1, 1] + [6] * 256, np.int32)
    scores = np.zeros(len(tokens), np.float32)
    given = {
        "ggml__model": "llama",
        "ggml__tokens": tokens,
        "ggml__token_type": kinds,
        "ggml__scores": scores,
    }
    return tokenizer_from_gguf(tokenizer_header(**{**given, **metadata}))


def test_the_manifests_template_comes_first() -> None:
    file = tokenizer_header(chat_template="own")
    assert choose_template("{{ 1 }}", file, "llama", None).source == "{{ 1 }}"
    assert choose_template("gemma", file, "llama", None).source == BUILTIN_TEMPLATES["gemma"]


@pytest.mark.parametrize(
    "source", ["  {% if true %}\n a\n{% endif %}\n", "\n{{ tools }}\n\n", "{% set x = 1 %}\n{{ x }}", "a\n  "]
)
def test_a_file_may_have_a_template_for_tools_besides(source: str) -> None:
    file = tokenizer_header(chat_template=source, chat_template__tool_use=f"{source}for tools")
    template = choose_template(None, file, "llama", None)
    tools = [{"name": "clock"}]
    assert template.render(CHAT) == ChatTemplate(source).render(CHAT)
    expected = ChatTemplate(f"{source}for tools").render(CHAT, tools=tools)
    assert template.render(CHAT, tools=tools) == expected
    alone = choose_template(None, tokenizer_header(chat_template__tool_use=source), "llama", None)
    assert alone.source == source


def test_the_files_own_template_comes_next() -> None:
    template = choose_template(None, tokenizer_header(chat_template="own"), "llama", None)
    assert (template.source, template.name) == ("own", "the GGUF's chat template")


BLANK = (
    {"chat_template": ""},
    {"chat_template": " \n"},
    {"chat_template__tool_use": ""},
    {"chat_template": "", "chat_template__tool_use": "\n"},
)


@pytest.mark.parametrize("metadata", BLANK, ids=repr)
def test_an_empty_template_of_a_file_counts_as_none_and_that_is_told(
    metadata: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    template = choose_template(None, tokenizer_header(**metadata), "qwen3", None)
    assert template.name == "the built-in template chatml"
    assert caplog.messages == ["model.gguf: its chat template is empty: the built-in chatml is used"]
    with pytest.raises(TemplateError, match="the file has an empty one, and none is known for 'mamba'"):
        choose_template(None, tokenizer_header(**metadata), "mamba", None)


def test_nothing_is_told_of_a_file_without_a_template_or_with_one_that_is_not_empty(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert choose_template(None, tokenizer_header(), "qwen3", None).name == "the built-in template chatml"
    own = choose_template(
        None, tokenizer_header(chat_template="own", chat_template__tool_use=" "), "qwen3", None
    )
    assert own.source == "own"
    assert choose_template("gemma", tokenizer_header(chat_template=""), "qwen3", None).name.endswith("gemma")
    assert caplog.messages == []


@pytest.mark.parametrize("template", ["", "  \n"])
def test_an_empty_template_that_is_given_is_refused(template: str, tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match="the chat template that was given is empty") as caught:
        choose_template(template, tokenizer_header(chat_template="own"), "llama", None)
    assert "leave it out" in str(caught.value.advice)
    (tmp_path / "chat.jinja").write_text(template)
    with pytest.raises(TemplateError, match=r"chat\.jinja: the chat template is empty"):
        given_template(None, tmp_path / "chat.jinja")


@pytest.mark.parametrize(
    ("architecture", "name"),
    [
        ("llama3", "llama3"),
        ("llama", "mistral"),
        ("llama2", "mistral"),
        ("mistral", "mistral"),
        ("mixtral", "mistral"),
        ("qwen2", "chatml"),
        ("qwen3moe", "chatml"),
        ("gemma", "gemma"),
        ("gemma3", "gemma"),
    ],
)
def test_the_architectures_built_in_comes_last(architecture: str, name: str) -> None:
    for file in (None, tokenizer_header()):
        template = choose_template(None, file, architecture, None)
        assert template.source == BUILTIN_TEMPLATES[name]
        assert name in template.name


def test_chat_without_any_template_is_refused_with_advice() -> None:
    with pytest.raises(TemplateError, match="'mamba'") as caught:
        choose_template(None, tokenizer_header(), "mamba", None)
    assert "chatml" in (caught.value.advice or "")


def test_an_unknown_template_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(TemplateError, match="'klingon'") as caught:
        choose_template("klingon", None, "llama", None)
    assert "chatml, llama3, mistral, llama2, gemma" in (caught.value.advice or "")


def test_a_template_of_the_wrong_type_is_named() -> None:
    with pytest.raises(TemplateError, match=r"tokenizer\.chat_template"):
        choose_template(None, tokenizer_header(chat_template=3), "llama", None)


def test_templates_know_the_special_tokens_of_the_tokenizer() -> None:
    template = choose_template("{{ bos_token }}|{{ eos_token }}", None, "llama", _vocabulary())
    assert template.render(CHAT) == "<s>|</s>"


WRITTEN = {
    "chatml": (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi <|im_end|>\n"
        "<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n"
    ),
    "llama3": (
        "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\nHello.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    ),
    "mistral": "<s>[INST] Be brief.\n\nHi [/INST] Hello.</s>[INST] Bye [/INST]",
    "llama2": ("<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST] Hello. </s><s>[INST] Bye [/INST]"),
    "gemma": (
        "<s><start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\nHello.<end_of_turn>\n"
        "<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n"
    ),
}


@pytest.mark.parametrize("name", BUILTIN_TEMPLATES)
def test_built_in_templates_write_their_models_format(name: str) -> None:
    assert ChatTemplate(BUILTIN_TEMPLATES[name], special_tokens=TOKENS).render(CHAT) == WRITTEN[name]


def test_a_system_text_goes_before_the_next_users() -> None:
    messages = [*CHAT[1:3], CHAT[0], CHAT[3]]
    text = ChatTemplate(BUILTIN_TEMPLATES["mistral"], special_tokens=TOKENS).render(messages)
    assert text == "<s>[INST] Hi [/INST] Hello.</s>[INST] Be brief.\n\nBye [/INST]"


def test_a_system_text_without_a_user_is_a_turn_of_its_own() -> None:
    text = ChatTemplate(BUILTIN_TEMPLATES["mistral"], special_tokens=TOKENS).render(CHAT[:1])
    assert text == "<s>[INST] Be brief. [/INST]"


@pytest.mark.parametrize("source", ["Hi", "<s>Hi", "<s><s>Hi", "{{ bos_token }}Hi"])
def test_a_prompt_has_exactly_one_bos(source: str) -> None:
    tokenizer = _vocabulary()
    template = choose_template("{# #}" + source, None, "llama", tokenizer)
    ids = encode_chat(template, tokenizer, CHAT)
    assert [tokenizer.id_to_token(token) for token in ids] == ["<s>", "▁", "H", "i"]


def test_a_model_that_wants_no_bos_gets_only_the_templates() -> None:
    tokenizer = _vocabulary(ggml__add_bos_token=False, ggml__add_eos_token=True)
    assert encode_chat(ChatTemplate("Hi"), tokenizer, CHAT) == [3, 4, 5]
    assert encode_chat(ChatTemplate("<s><s>Hi"), tokenizer, CHAT) == [1, 3, 4, 5]
    assert encode_chat(ChatTemplate(""), tokenizer, CHAT) == []


def test_the_real_models_chat_is_written_by_its_own_template(smollm2_path: Path) -> None:
    file, tokenizer = open_gguf(smollm2_path), load_tokenizer(smollm2_path)
    template = choose_template(None, file, "llama", tokenizer)
    ids = encode_chat(template, tokenizer, [{"role": "user", "content": "Hi"}])
    text = tokenizer.decode(ids, skip_special_tokens=False)
    assert text.startswith("<|im_start|>system\nYou are a helpful AI assistant named SmolLM")
    assert text.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")


def test_importing_the_packages_loads_neither_jinja_nor_tokenizers() -> None:
    import subprocess
    import sys

    code = (
        "import sys, rase_models.chat, rase_models.tokenizers;"
        "print([name for name in ('jinja2', 'tokenizers', 'transformers', 'gguf') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
