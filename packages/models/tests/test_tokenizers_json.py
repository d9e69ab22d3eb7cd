"""Tokenizers built from a tokenizer.json, against the library's own decoding."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rase_core.errors import ModelFileNotFound, TokenizerError, UnencodableText
from rase_models.gguf import open_gguf
from rase_models.tokenizers import Tokenizer, load_tokenizer
from rase_models.tokenizers.prompt_text import PromptText

LLAMA_DECODER = {
    "type": "Sequence",
    "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ],
}
LLAMA_NORMALIZER = {
    "type": "Sequence",
    "normalizers": [
        {"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    ],
}
BOS_FIRST = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
}


SPECIAL = {0, 1, 2, 274, 275}


def _added(token: int, content: str, special: bool = True) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": token, "content": content, "special": special, **flags}


def _llama(**changes: Any) -> dict[str, Any]:
    characters = ["▁", *"abcdehlorwt", "he", "ll", "▁he"]
    tokens = [
        "<unk>",
        "<s>",
        "</s>",
        *(f"<0x{b:02X}>" for b in range(256)),
        *characters,
        "<tool>",
        "<|im_end|>",
    ]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    model = {
        "type": "BPE",
        "vocab": vocabulary,
        "merges": ["h e", "l l", "▁ he"],
        "byte_fallback": True,
        "unk_token": "<unk>",
        "fuse_unk": True,
    }
    special = [_added(vocabulary[name], name) for name in ("<unk>", "<s>", "</s>", "<|im_end|>")]
    document = {
        "version": "1.0",
        "added_tokens": [*special, _added(vocabulary["<tool>"], "<tool>", special=False)],
        "normalizer": LLAMA_NORMALIZER,
        "pre_tokenizer": None,
        "post_processor": BOS_FIRST,
        "decoder": LLAMA_DECODER,
        "model": model,
    }
    return {**document, **changes}


def _write(folder: Path, document: dict[str, Any]) -> Path:
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _write(tmp_path_factory.mktemp("llama"), _llama())


@pytest.fixture(scope="module")
def llama(path: Path) -> Tokenizer:
    return load_tokenizer(path)


def test_it_encodes_as_the_library_does(llama: Tokenizer, path: Path) -> None:
    from tokenizers import Tokenizer as Library

    library = Library.from_file(str(path))
    for text in ("hello world", "", "é 世界", "<tool>he</s>ll", "  a"):
        assert llama.encode(text) == library.encode(text).ids
        assert (
            llama.encode(text, add_special_tokens=False) == library.encode(text, add_special_tokens=False).ids
        )


@pytest.mark.parametrize("text", ["he</s>ll", "<s>", "a <|im_end|> b<tool>", "</s></s>he"])
def test_marked_control_tokens_are_text_and_the_others_tokens(llama: Tokenizer, text: str) -> None:
    assert len(list(llama.controls.places(text))) > 0
    marked = PromptText(f"<s>{text.replace('<', '<*')}</s>", "*")
    middle = llama.encode(text, add_special_tokens=False, parse_special=False)
    assert llama.encode_prompt(marked)[:1] == [1]
    assert llama.encode_prompt(marked)[-1] == 2
    assert [i for i in llama.encode_prompt(marked)[1:-1] if i in (0, 1, 2)] == []
    assert llama.decode(llama.encode_prompt(marked)[1:-1]) == llama.decode(middle)


@pytest.mark.parametrize("flag", ["single_word", "lstrip", "rstrip", "normalized"])
@pytest.mark.parametrize("beside", ["he", " he ", "<tool>", "</s>"])
def test_a_marked_prompt_has_the_tokens_that_the_library_finds(
    tmp_path: Path, flag: str, beside: str
) -> None:
    document = _llama()
    document["added_tokens"] = [{**token, flag: True} for token in document["added_tokens"]]
    tokenizer = load_tokenizer(_write(tmp_path, document))
    text = f"{beside}<|im_end|>{beside}"
    ids, tail = tokenizer.encode_prompt(PromptText(f"{text}w<*s>", "*")), tokenizer.encode(f"{text}w")
    assert flag == "normalized" or ids[: len(tail)] == tail
    assert [i for i in ids if i in SPECIAL] == [i for i in tail if i in SPECIAL]
    written = tokenizer.decode(ids[1:], skip_special_tokens=False)
    assert written.replace(" ", "") == f"{text}w<s>".replace(" ", "")


def test_user_defined_tokens_that_divide_turns_are_text_where_they_are_marked(tmp_path: Path) -> None:
    document = _llama()
    size = len(document["model"]["vocab"])
    document["added_tokens"] += [_added(size, "<｜User｜>", special=False), _added(size + 1, "<｜end｜>")]
    tokenizer = load_tokenizer(_write(tmp_path, document))
    assert list(tokenizer.controls.places("he<｜User｜><｜end｜><tool>")) == [2, 10]
    ids = tokenizer.encode_prompt(PromptText("<｜User｜><*｜User｜><tool><｜end｜>", "*"))
    assert [i for i in ids if i > size - 3] == [size, size - 2, size + 1]
    assert tokenizer.decode(ids) == "<｜User｜><｜User｜><tool>"


@settings(deadline=None)
@given(text=st.text(st.sampled_from("helo wrtabcdé世Ж🦙\n"), max_size=40))
def test_it_decodes_as_the_library_does(path: Path, llama: Tokenizer, text: str) -> None:
    from tokenizers import Tokenizer as Library

    ids = llama.encode(text)
    assert llama.decode(ids) == Library.from_file(str(path)).decode(ids) == text


def test_it_tells_its_special_tokens(llama: Tokenizer) -> None:
    assert (llama.bos_token_id, llama.eos_token_id, llama.add_bos) == (1, 2, True)
    assert {llama.id_to_token(i) for i in llama.eos_token_ids} == {"</s>", "<|im_end|>"}
    assert llama.vocab_size == max(llama.eos_token_ids) + 1
    assert llama.token_to_id("<tool>") == llama.vocab_size - 2
    assert llama.token_to_id("nothing") is None
    assert [llama.id_to_token(i) for i in (-1, 1 << 20, 1 << 40)] == [None, None, None]


def test_special_tokens_are_text_without_parse_special(llama: Tokenizer) -> None:
    assert 2 in llama.encode("</s>")
    ids = llama.encode("</s>", parse_special=False)
    assert 2 not in ids
    assert llama.decode(ids) == "</s>"
    assert 2 in llama.encode("</s>")


LETTERS = ("<unk>", "</s>", "stop", *"</s>top", "##t", "##o", "##p", "st", "op")
SPELLINGS = dict.fromkeys(LETTERS)
WHOLE_WORDS: dict[str, dict[str, Any]] = {
    "Unigram": {"vocab": [(token, -1.0 * (i > 2)) for i, token in enumerate(SPELLINGS)], "unk_id": 0},
    "WordPiece": {
        "vocab": {token: i for i, token in enumerate(SPELLINGS)},
        "unk_token": "<unk>",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
    },
    "WordLevel": {"vocab": {token: i for i, token in enumerate(SPELLINGS)}, "unk_token": "<unk>"},
    "BPE": {
        "vocab": {token: i for i, token in enumerate(SPELLINGS)},
        "merges": [("s", "t"), ("o", "p"), ("st", "op")],
        "unk_token": "<unk>",
        "ignore_merges": True,
    },
}


@pytest.mark.parametrize("model", WHOLE_WORDS)
def test_no_word_of_a_text_is_a_special_token_of_its_model(tmp_path: Path, model: str) -> None:
    document = _llama(model={"type": model, **WHOLE_WORDS[model]}, normalizer=None, post_processor=None)
    document["pre_tokenizer"] = {"type": "WhitespaceSplit"} if model.startswith("Word") else None
    document["added_tokens"] = [_added(i, token) for i, token in enumerate(LETTERS[:3])]
    tokenizer = load_tokenizer(_write(tmp_path, document))
    for text in ("stop", "</s>", "stop </s>", "stopstop"):
        assert {1, 2} & set(tokenizer.encode(text))
        ids = tokenizer.encode(text, parse_special=False)
        assert ids and {1, 2}.isdisjoint(ids)
        marked = PromptText(text.replace("<", "<*").replace("s", "s*"), "*")
        assert tokenizer.encode_prompt(marked) == ids
    assert tokenizer.encode("st", parse_special=False) == [tokenizer.token_to_id("st")]
    assert tokenizer.encode("é", parse_special=False) == [0]


def test_streaming_keeps_bytes_that_end_within_a_character(llama: Tokenizer) -> None:
    ids = llama.encode("he 世")
    stream = llama.detokenizer()
    assert [stream.push(token) for token in ids] == [b"", b"he", b" ", b"\xe4", b"\xb8", b"\x96"]
    assert stream.push(1 << 20) == b""


def test_a_byte_level_file_agrees_with_the_gguf_of_the_same_vocabulary(
    smollm2_path: Path, tmp_path: Path
) -> None:
    from tokenizers import Tokenizer as Library
    from tokenizers import decoders, models, pre_tokenizers

    file = open_gguf(smollm2_path)
    tokens = file.strings("tokenizer.ggml.tokens")
    merges = [(a, b) for a, _, b in (m.partition(" ") for m in file.strings("tokenizer.ggml.merges"))]
    library = Library(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    library.add_special_tokens(list(tokens[:17]))
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    library.decoder = decoders.ByteLevel()
    library.save(str(tmp_path / "tokenizer.json"))
    from_json, from_gguf = load_tokenizer(tmp_path / "tokenizer.json"), load_tokenizer(smollm2_path)
    for text in ("Hello, y'all! 12345 世界 🦙", "<|im_start|>user\nhi<|im_end|>\n", "\n\n \t x"):
        ids = from_json.encode(text)
        assert ids == from_gguf.encode(text)
        assert from_json.decode(ids) == from_gguf.decode(ids)
    assert (from_json.add_bos, from_json.bos_token_id) == (False, None)
    assert from_json.eos_token_ids == from_gguf.eos_token_ids


@pytest.mark.parametrize(
    ("decoder", "text"),
    [
        ({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}, "he"),
        ({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": True}, " he"),
        (LLAMA_DECODER, "he"),
    ],
)
def test_the_leading_space_goes_where_the_decoder_strips_it(
    decoder: dict[str, Any], text: str, tmp_path: Path
) -> None:
    tokenizer = load_tokenizer(_write(tmp_path, _llama(decoder=decoder)))
    assert tokenizer.decode([tokenizer.token_to_id("▁he") or 0]) == text


@pytest.mark.parametrize("decoder", [None, {"type": "WordPiece", "prefix": "##", "cleanup": True}])
def test_a_decoder_that_has_no_bytes_for_a_token_is_named(
    decoder: dict[str, Any] | None, tmp_path: Path
) -> None:
    with pytest.raises(TokenizerError, match="null" if decoder is None else "WordPiece"):
        load_tokenizer(_write(tmp_path, _llama(decoder=decoder)))


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "<html></html>", '{"model": 3}', '{"version": "1.0"}', "\x00"]
)
def test_a_broken_file_is_named(content: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(content)
    with pytest.raises(TokenizerError, match=r"tokenizer\.json: not a tokenizer.json"):
        load_tokenizer(path)


def test_a_bos_that_is_no_token_is_a_named_error(tmp_path: Path) -> None:
    document = _llama(post_processor={**BOS_FIRST, "special_tokens": {}})
    with pytest.raises(TokenizerError, match=r"not a tokenizer\.json"):
        load_tokenizer(_write(tmp_path, document))


def test_a_text_that_begins_with_bos_gets_no_second_one(llama: Tokenizer) -> None:
    assert llama.encode("<s>he") == llama.encode_prompt("<s><s>he") == [1, *llama.encode("<s>he")[1:]]
    assert llama.encode("<s>he").count(1) == 1


@pytest.mark.parametrize(
    "model",
    [
        {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]},
        {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "<0x00>": 3}, "merges": [], "byte_fallback": True},
        {"type": "WordLevel", "vocab": {"ab": 0, "a": 1}, "unk_token": "missing"},
        {"type": "Unigram", "vocab": [["a", -1.0], ["b", -2.0]], "unk_id": None},
    ],
)
def test_a_text_that_no_token_stands_for_is_refused_and_not_dropped(
    model: dict[str, Any], tmp_path: Path
) -> None:
    tokenizer = load_tokenizer(_write(tmp_path, {**_plain(), "model": model}))
    assert tokenizer.decode(tokenizer.encode("ab")) == "ab"
    for parse_special in (True, False):
        with pytest.raises(UnencodableText, match=r"no token for ('x'|a part of the text)"):
            tokenizer.encode("abxab", parse_special=parse_special)
    assert tokenizer.decode(tokenizer.encode("ab")) == "ab"


def test_a_byte_that_no_token_stands_for_is_refused(tmp_path: Path) -> None:
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    model = {"type": "BPE", "vocab": {"c": 0, "d": 1, "Ã": 2}, "merges": []}
    document = {**_plain(), "model": model, "pre_tokenizer": byte_level, "decoder": byte_level}
    tokenizer = load_tokenizer(_write(tmp_path, document))
    assert tokenizer.encode("cd") == [0, 1]
    with pytest.raises(UnencodableText, match="'é'"):
        tokenizer.encode("cédé")


def _plain() -> dict[str, Any]:
    keys = ("added_tokens", "normalizer", "pre_tokenizer", "post_processor")
    return {**_llama(decoder={"type": "Fuse"}), **dict.fromkeys(keys[1:]), "added_tokens": []}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "tokenizer.json")
    with pytest.raises(ModelFileNotFound, match="is not a regular file"):
        load_tokenizer(tmp_path / "tokenizer.json")


def test_a_file_too_long_for_a_tokenizer_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(TokenizerError, match="more than 256 MiB"):
        load_tokenizer(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFileNotFound, match=r"tokenizer\.json"):
        load_tokenizer(tmp_path / "tokenizer.json")
