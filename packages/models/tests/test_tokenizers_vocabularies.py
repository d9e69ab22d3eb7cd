"""Whole vocabularies of real models: the ids that llama.cpp gives, control tokens that no text becomes."""

import os
from pathlib import Path

import numpy as np
import pytest
from rase_models.gguf import open_gguf
from rase_models.tokenizers import load_tokenizer, tokenizer_from_gguf


def _vocabularies() -> list[Path]:
    folder = os.environ.get("RASE_VOCABULARIES")
    found = sorted(Path(folder).glob("ggml-vocab-*.gguf.inp")) if folder else []
    return [path.with_suffix("") for path in found]


LOSSY = ("bert-bge",)
_BETWEEN = "\n__ggml_vocab_test__\n"
WAYS = pytest.mark.parametrize("is_compiled", [False, True], ids=["plain", "compiled"])


@pytest.mark.skipif(not _vocabularies(), reason="RASE_VOCABULARIES does not name a folder of vocabularies")
@pytest.mark.parametrize("path", _vocabularies(), ids=lambda path: path.stem)
@WAYS
def test_whole_vocabularies_give_the_expected_ids(path: Path, is_compiled: bool) -> None:
    tokenizer = load_tokenizer(path)
    if is_compiled:
        tokenizer.compile()
    raw = path.with_name(path.name + ".inp").read_bytes().decode()
    texts = raw.removesuffix(_BETWEEN).split(_BETWEEN)
    lines = path.with_name(path.name + ".out").read_text().splitlines()
    for text, line in zip(texts, lines, strict=True):
        ids = [int(token) for token in line.split()]
        assert tokenizer.encode(text, add_special_tokens=False, parse_special=False) == ids, text
        assert path.stem.removeprefix("ggml-vocab-") in LOSSY or tokenizer.decode(ids) == text


def _check_no_control_token_is_text(path: Path, is_compiled: bool) -> None:
    file = open_gguf(path)
    tokens, kinds = file.strings("tokenizer.ggml.tokens"), file.integers("tokenizer.ggml.token_type")
    tokenizer, control = tokenizer_from_gguf(file), set(np.flatnonzero(np.array(kinds) == 3).tolist())
    if is_compiled:
        tokenizer.compile()
    control -= {file.integer("tokenizer.ggml.unknown_token_id", 100)}  # BERT's is one of them
    for token in control:
        text = tokens[token]
        for written in (text, f" {text}", f"a {text} b", text.strip("▁"), text.replace("Ġ", " ")):
            ids = tokenizer.encode(written, add_special_tokens=False, parse_special=False)
            assert control.isdisjoint(ids), written


@WAYS
def test_no_control_token_of_the_real_model_is_text(smollm2_path: Path, is_compiled: bool) -> None:
    _check_no_control_token_is_text(smollm2_path, is_compiled)


@pytest.mark.skipif(not _vocabularies(), reason="RASE_VOCABULARIES does not name a folder of vocabularies")
@pytest.mark.parametrize("path", _vocabularies(), ids=lambda path: path.stem)
@WAYS
def test_no_control_token_of_a_whole_vocabulary_is_text(path: Path, is_compiled: bool) -> None:
    _check_no_control_token_is_text(path, is_compiled)
