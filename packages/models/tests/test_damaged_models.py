"""Models whose files or manifests are not what they were: each a named error, and nobody else is harmed."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from rase_core.errors import (
    ArchitectureMismatch,
    IntegrityMismatch,
    InvalidGguf,
    InvalidParameter,
    ModelFileNotFound,
    StoreError,
    TemplateError,
    TokenizerError,
)
from rase_core.manifest import ModelKind
from rase_core.progress import ProgressEvent, ProgressPhase
from rase_core.registry import ModelRegistry
from rase_core.sampling import GenerationConfig
from rase_models import Engine
from rase_models.gguf import open_gguf
from rase_models.testing import BYTES, SPECIAL_TOKENS, VOCABULARY, write_tiny_model
from rase_models.tokenizers import load_tokenizer

CONFIG = GenerationConfig(max_tokens=5, ignore_eos=True)


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    return write_tiny_model(tmp_path / "tiny.gguf")


@pytest.fixture
def engine(tmp_path: Path, weights: Path, tiny_path: Path) -> Iterator[Engine]:
    """An engine with the model `tiny`, whose file a test may damage, and the sound one `sound`."""
    with Engine(tmp_path / "store", "reference") as engine:
        engine.import_model(weights, "tiny")
        engine.import_model(tiny_path, "sound")
        yield engine
        assert len(engine.generate("sound", "Hello", CONFIG).tokens) == 5  # whatever happened before


def change_byte(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def edit_manifest(engine: Engine, old: str, new: str) -> None:
    path = engine.store / "manifests" / "tiny.toml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_a_context_that_a_model_does_not_have_is_told_of(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    with Engine(engine.store, "reference", context_length=10**9) as other:
        other.load("tiny")
    assert "tiny has a context of 128 tokens, not the 1000000000 that were asked for" in caplog.text


def test_a_size_that_is_not_the_files_is_refused_by_a_load_as_by_verify(engine: Engine) -> None:
    size = engine.inspect("tiny").size
    edit_manifest(engine, f"size = {size}", "size = 5")
    for call in (engine.verify, engine.load):
        with pytest.raises(IntegrityMismatch, match=f"has size {size}, its manifest says 5"):
            call("tiny")


def test_weights_with_one_byte_changed_are_refused(engine: Engine, weights: Path) -> None:
    registered = engine.inspect("tiny").weights[0].sha256
    change_byte(weights, weights.stat().st_size - 100)
    with pytest.raises(IntegrityMismatch) as caught:
        engine.generate("tiny", "Hello", CONFIG)
    error = caught.value
    assert (error.model_id, error.path, error.expected) == ("tiny", weights, registered)
    assert error.actual != registered


@pytest.mark.parametrize("offset", [0, 4, 30, 500])
def test_a_header_with_one_byte_changed_is_a_change_before_it_is_a_broken_file(
    engine: Engine, weights: Path, offset: int
) -> None:
    change_byte(weights, offset)
    with pytest.raises(IntegrityMismatch):
        engine.load("tiny")


def test_sound_weights_are_hashed_once_to_explain_why_they_cannot_be_loaded(
    tmp_path: Path, weights: Path
) -> None:
    events: list[ProgressEvent] = []
    with Engine(tmp_path / "store", "reference", progress=events.append) as engine:
        engine.import_model(weights, "tiny")
        edit_manifest(engine, 'architecture = "llama"', 'architecture = "qwen2"')
        events.clear()
        for _ in range(3):
            with pytest.raises(ArchitectureMismatch):
                engine.load("tiny")
        assert [event.phase for event in events if event.done == event.total] == [ProgressPhase.HASH]
        os.utime(weights, ns=(1, 1))
        with pytest.raises(ArchitectureMismatch):
            engine.load("tiny")
        assert [event.phase for event in events if event.done == event.total] == [ProgressPhase.HASH] * 2
        change_byte(weights, weights.stat().st_size - 1)
        with pytest.raises(IntegrityMismatch):
            engine.load("tiny")


def test_weights_are_not_hashed_for_a_tokenizer_that_is_broken(
    tmp_path: Path, weights: Path, tokenizer_json: Path
) -> None:
    events: list[ProgressEvent] = []
    with Engine(tmp_path / "store", "reference", progress=events.append) as engine:
        engine.import_model(weights, "tiny")
        tokenizer_json.write_text("{}")
        ModelRegistry(engine.store).attach_tokenizer("tiny", tokenizer_json)
        events.clear()
        with pytest.raises(TokenizerError):
            engine.load("tiny")
        assert events == []


def test_a_context_that_became_shorter_is_a_change_before_it_is_a_wrong_setting(
    engine: Engine, weights: Path
) -> None:
    size = weights.stat().st_size
    write_tiny_model(weights, context_length=64)
    assert weights.stat().st_size == size
    with pytest.raises(IntegrityMismatch):
        engine.load("tiny")
    engine.import_model(weights, "tiny")
    edit_manifest(engine, "context_length = 64\n", "context_length = 128\n")
    with pytest.raises(InvalidParameter, match="128, expected 1 to 64, the model's own"):
        engine.load("tiny")


def test_weights_that_were_cut_off_are_refused(engine: Engine, weights: Path) -> None:
    weights.write_bytes(weights.read_bytes()[:-1000])
    with pytest.raises(IntegrityMismatch):
        engine.load("tiny")


def test_a_manifest_with_a_wrong_hash_is_refused(engine: Engine) -> None:
    registered = engine.inspect("tiny").weights[0].sha256
    edit_manifest(engine, registered, "0" * 64)
    with pytest.raises(IntegrityMismatch) as caught:
        engine.load("tiny")
    assert (caught.value.expected, caught.value.actual) == ("0" * 64, registered)


def test_weights_that_are_gone_are_named(engine: Engine, weights: Path) -> None:
    weights.unlink()
    with pytest.raises(ModelFileNotFound) as caught:
        engine.load("tiny")
    assert caught.value.path == weights


def test_a_manifest_with_another_architecture_is_refused(engine: Engine) -> None:
    edit_manifest(engine, 'architecture = "llama"', 'architecture = "qwen2"')
    with pytest.raises(ArchitectureMismatch):
        engine.load("tiny")


def test_a_manifest_that_lost_its_parts_is_refused(engine: Engine, tmp_path: Path) -> None:
    split = write_tiny_model(tmp_path / "split.gguf", tensors_per_file=7)
    engine.import_model(split, "split")
    path = engine.store / "manifests" / "split.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text[: text.index("[[parts]]")], encoding="utf-8")
    with pytest.raises(StoreError, match="its manifest has 1 files"):
        engine.load("split")


def test_a_manifest_whose_parts_are_in_another_order_is_refused(engine: Engine, tmp_path: Path) -> None:
    split = write_tiny_model(tmp_path / "split.gguf", tensors_per_file=7)
    parts = [file.path.name for file in engine.import_model(split, "split").weights]
    path = engine.store / "manifests" / "split.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(parts[1], "other.gguf"), encoding="utf-8")
    with pytest.raises(StoreError, match=f"names .*other.gguf where the model has .*{parts[1]}"):
        engine.load("split")


def test_a_part_with_one_byte_changed_is_named(engine: Engine, tmp_path: Path) -> None:
    split = write_tiny_model(tmp_path / "split.gguf", tensors_per_file=7)
    part = engine.import_model(split, "split").weights[2].path
    change_byte(part, part.stat().st_size - 1)
    with pytest.raises(IntegrityMismatch) as caught:
        engine.load("split")
    assert caught.value.path == part


def test_an_embedding_model_does_not_generate(engine: Engine, weights: Path) -> None:
    engine.import_model(weights, "tiny", kind=ModelKind.EMBEDDING)
    with pytest.raises(InvalidParameter, match="'tiny', expected a generator, not an embedding model"):
        engine.generate("tiny", "Hello")


def test_a_sound_file_that_cannot_be_run_says_why(engine: Engine, weights: Path) -> None:
    file = open_gguf(weights)
    data = bytearray(weights.read_bytes())
    name = b"blk.1.ffn_up.weight"
    at = data.index(name)
    data[at : at + len(name)] = b"blk.1.ffn_UP.weight"
    weights.write_bytes(data)
    with pytest.raises(InvalidGguf, match=r"blk\.1\.ffn_up\.weight"):
        engine.import_model(weights, "tiny")
    assert file.parts == (weights,)


def test_a_vocabulary_that_cannot_be_used_does_not_matter_beside_a_tokenizer_file(
    engine: Engine, weights: Path, tokenizer_json: Path
) -> None:
    length = (3).to_bytes(8, "little")
    weights.write_bytes(weights.read_bytes().replace(length + b"h e", length + b"h \x01"))
    with pytest.raises(TokenizerError):
        engine.import_model(weights, "given")
    manifest = engine.import_model(weights, "given", tokenizer=tokenizer_json)
    assert engine.verify("given") == manifest
    assert engine.generate("given", "Hello", CONFIG).tokens


@pytest.fixture
def tokenizer_json(tmp_path: Path) -> Path:
    """A tokenizer of the same vocabulary with one token per byte, except that it spells in capitals."""
    return write_tokenizer(tmp_path / "tokenizer.json", VOCABULARY[:BYTES])


def write_tokenizer(path: Path, tokens: Sequence[str], *added: str) -> Path:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from tokenizers.normalizers import Lowercase

    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, []))
    tokenizer.normalizer = Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in (*SPECIAL_TOKENS, *added)])
    tokenizer.save(str(path))
    return path


def test_an_attached_tokenizer_takes_the_place_of_the_file_s(engine: Engine, tokenizer_json: Path) -> None:
    own = engine.load("tiny").tokenizer
    engine.attach_tokenizer("tiny", tokenizer_json)
    attached = engine.load("tiny").tokenizer
    assert attached.encode("HELLO") == attached.encode("hello")
    assert own.encode("HELLO") != own.encode("hello")
    assert len(engine.generate("tiny", "Hello", CONFIG).tokens) == 5


@pytest.mark.parametrize(
    ("tokens", "reason"),
    [
        (VOCABULARY[:BYTES][::-1], "256 of 259 tokens differ, token 0 is 'ÿ' and not 'Ā'"),
        ((*VOCABULARY[:BYTES], *"一二"), "the tokenizer has 261 tokens, but .*tiny.gguf knows only 260"),
    ],
)
def test_a_tokenizer_of_another_model_is_refused(
    engine: Engine, weights: Path, tmp_path: Path, tokens: Sequence[str], reason: str
) -> None:
    before, foreign = engine.inspect("tiny"), write_tokenizer(tmp_path / "foreign.json", tokens)
    uses: list[Callable[[], object]] = [
        lambda: engine.attach_tokenizer("tiny", foreign),
        lambda: engine.import_model(weights, "tiny", tokenizer=foreign),
        lambda: engine.generate_file(weights, foreign, "Hello", CONFIG),
    ]
    for use in uses:
        with pytest.raises(TokenizerError, match=reason):
            use()
    assert engine.inspect("tiny") == before
    ModelRegistry(engine.store).attach_tokenizer("tiny", foreign)
    with pytest.raises(TokenizerError, match=reason):
        engine.load("tiny")


def test_tokens_added_for_other_models_of_the_family_are_text(engine: Engine, tmp_path: Path) -> None:
    path = write_tokenizer(tmp_path / "tokenizer.json", VOCABULARY, "<image_soft_token>", "<|eot_id|>")
    assert load_tokenizer(path).vocab_size == len(VOCABULARY) + 2
    engine.attach_tokenizer("tiny", path)
    tokenizer = engine.load("tiny").tokenizer
    assert tokenizer.vocab_size == len(VOCABULARY)
    text = "<image_soft_token>"
    assert tokenizer.encode(text) == tokenizer.encode(text, parse_special=False)
    assert tokenizer.decode(tokenizer.encode("a <|eot_id|> b")) == "a <|eot_id|> b"
    assert max(tokenizer.eos_token_ids) < len(VOCABULARY)
    engine.generate("tiny", text, GenerationConfig(max_tokens=2))


def test_a_tokenizer_may_spell_some_tokens_differently_or_lack_some(engine: Engine, tmp_path: Path) -> None:
    tokens = [f"word{i}" if i < 50 else token for i, token in enumerate(VOCABULARY[: BYTES - 9])]
    engine.attach_tokenizer("tiny", write_tokenizer(tmp_path / "tokenizer.json", tokens))
    assert engine.load("tiny").tokenizer.vocab_size < BYTES


def test_a_tokenizer_with_one_byte_changed_is_refused(engine: Engine, tokenizer_json: Path) -> None:
    engine.attach_tokenizer("tiny", tokenizer_json)
    tokenizer_json.write_text(tokenizer_json.read_text(encoding="utf-8") + " ", encoding="utf-8")
    with pytest.raises(IntegrityMismatch) as caught:
        engine.load("tiny")
    assert caught.value.path == tokenizer_json


def test_a_broken_tokenizer_is_refused_when_it_is_attached(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(TokenizerError):
        engine.attach_tokenizer("tiny", path)
    assert engine.inspect("tiny").tokenizer is None


def test_a_template_file_that_is_gone_or_no_text_is_named(
    engine: Engine, weights: Path, tmp_path: Path
) -> None:
    template = tmp_path / "chat.jinja"
    template.write_text("{{ messages }}", encoding="utf-8")
    engine.import_model(weights, "tiny", template_file=template)
    template.write_bytes(b"\xff")
    with pytest.raises(TemplateError, match=r"chat\.jinja: not UTF-8"):
        engine.render("tiny", [{"role": "user", "content": "Hello"}])
    engine.unload()
    template.unlink()
    with pytest.raises(ModelFileNotFound, match=r"chat\.jinja"):
        engine.load("tiny")
