"""A GGUF made from a real model's tokenizer.json encodes as that file does.

RASE_TOKENIZERS names a folder with a folder for each model, somewhere below which its tokenizer.json lies.
"""

import json
import os
import time
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from rase_models.chat import ChatTemplate, encode_chat
from rase_models.gguf import MetadataValue
from rase_models.testing_headers import tokenizer_of
from rase_models.tokenizers import Tokenizer, load_tokenizer

MODELS = {
    "claude": ("gpt2", "gpt-2"),
    "deepseek_v3": ("gpt2", "deepseek-v3"),
    "gemini": ("gemma4", "gemma4"),
    "gemma3": ("gemma4", "gemma4"),
    "gpt35turbo": ("gpt2", "dbrx"),
    "gpt4o": ("gpt2", "gpt-4o"),
    "gptoss": ("gpt2", "gpt-4o"),
    "llama3": ("gpt2", "llama-bpe"),
    "llama3_1": ("gpt2", "llama-bpe"),
    "qwen3": ("gpt2", "qwen2"),
}
FOLDER = os.environ.get("RASE_TOKENIZERS")
NORMAL_FORMS: dict[str, Literal["NFC", "NFKC"]] = {"NFC": "NFC", "NFKC": "NFKC"}
TEXTS = json.loads((Path(__file__).parent / "data" / "pre_tokenizer_ids.json").read_text("utf-8"))["texts"]


def _document(name: str) -> dict[str, Any]:
    (path,) = Path(FOLDER or "", name).rglob("tokenizer.json")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _from_gguf(document: dict[str, Any], model: str, pre: str) -> Tokenizer:
    added = {token["id"]: token for token in document["added_tokens"]}
    known = {i: token for token, i in document["model"]["vocab"].items()}
    known |= {i: token["content"] for i, token in added.items()}
    tokens = tuple(known.get(i, f"[PAD{i}]") for i in range(max(known) + 1))
    kinds = [
        (3 if added[i]["special"] else 4) if i in added else 6 if token.startswith("<0x") else 1
        for i, token in enumerate(tokens)
    ]
    merges = document["model"]["merges"]
    metadata: dict[str, MetadataValue] = {
        "model": model,
        "pre": pre,
        "tokens": tokens,
        "token_type": np.array(kinds, np.int32),
        "merges": tuple(merge if isinstance(merge, str) else " ".join(merge) for merge in merges),
        "bos_token_id": 0,
    }
    return tokenizer_of(metadata)


@cache
def _texts() -> tuple[str, ...]:
    folder = Path(__file__).parent.parent
    code = "".join(path.read_text("utf-8") for path in sorted(folder.rglob("*.py"))[:40])
    return (*TEXTS, *(code[at : at + 2000] for at in range(0, len(code), 2000)))


@pytest.mark.skipif(FOLDER is None, reason="RASE_TOKENIZERS does not name a folder of tokenizers")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("is_compiled", [False, True], ids=["plain", "compiled"])
def test_a_gguf_encodes_as_the_tokenizer_json_that_it_comes_from(name: str, is_compiled: bool) -> None:
    from tokenizers import Tokenizer as Library

    document = _document(name)
    library = Library.from_str(json.dumps(document))
    tokenizer = _from_gguf(document, *MODELS[name])
    if is_compiled:
        tokenizer.compile()
    # A GGUF does not tell of these, so that its tokenizer leaves text as it is.
    form = NORMAL_FORMS.get(str((document["normalizer"] or {}).get("type")))
    for text in _texts():
        given = unicodedata.normalize(form, text) if form else text
        expected = library.encode(text, add_special_tokens=False).ids
        assert tokenizer.encode(given, add_special_tokens=False) == expected, text


def _control(tokenizer: Tokenizer, token: int) -> str | None:
    """Return the spelling of a control token, None of another one."""
    text = tokenizer.id_to_token(token) or ""
    return text if list(tokenizer.controls.split(text)) == [token] else None


@pytest.mark.skipif(FOLDER is None, reason="RASE_TOKENIZERS does not name a folder of tokenizers")
@pytest.mark.parametrize("name", MODELS)
def test_no_control_token_that_a_user_spells_is_one_and_that_takes_no_second_load(name: str) -> None:
    (path,) = Path(FOLDER or "", name).rglob("tokenizer.json")
    started = time.process_time()
    tokenizer = load_tokenizer(path)
    loading = time.process_time() - started
    named = {text: i for i in range(tokenizer.vocab_size) if (text := _control(tokenizer, i))}
    content = "\n".join(named)
    template = ChatTemplate(max(named) + "{{ messages[0].content }}" + min(named))
    started = time.process_time()
    ids = encode_chat(template, tokenizer, [{"role": "user", "content": content}])
    assert time.process_time() - started < loading + 1
    controls = [i for i in ids if i in named.values()]
    assert controls[-2:] == [named[max(named)], named[min(named)]] and len(controls) <= 3
    assert tokenizer.decode([i for i in ids if i not in named.values()]) == content
