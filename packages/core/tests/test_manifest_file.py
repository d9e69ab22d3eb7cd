import os
import time
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st
from rase_core.errors import InvalidManifest
from rase_core.manifest import FileFacts, ModelFormat, ModelKind, ModelManifest, ModelSource, WeightsFile
from rase_core.manifest_file import (
    parse_manifest,
    read_earlier,
    read_manifest,
    render_manifest,
    rewrite_manifest,
)

TOMLKIT = tuple(map(int, version("tomlkit").split(".")[:3]))
SHA = "0123456789abcdef" * 4
PATH = Path("/store/manifests/tiny.toml")
TINY = ModelManifest(id="tiny", weights=(WeightsFile(Path("/models/tiny.gguf"), SHA, 42),))
FULL = ModelManifest(
    id="tiny",
    weights=tuple(WeightsFile(Path(f"/m ü/a-0000{i}-of-00003.gguf"), SHA, i) for i in (1, 2, 3)),
    kind=ModelKind.EMBEDDING,
    format=ModelFormat.SAFETENSORS,
    tokenizer=Path('/m/"quoted"\\tok.json'),
    tokenizer_sha256=SHA[::-1],
    architecture="llama",
    context_length=8192,
    chat_template="{% for m in messages %}\n{{ m['content'] }}\n'''\"\"\"{% endfor %}",
    template_file=Path("/t.jinja"),
    defaults={"temperature": 0.1, "stop": ["</s>"], "logit_bias": {"3": -1.5}},
    source=ModelSource("owner/name", "a.gguf", "abc"),
    from_file=FileFacts("llama"),
)
TEXT = render_manifest(TINY)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tiny.toml"


def rewritten(path: Path, manifest: ModelManifest, previous: str) -> str:
    path.write_text(previous, encoding="utf-8")
    return rewrite_manifest(manifest, path)


@pytest.mark.parametrize("manifest", [TINY, FULL])
def test_a_manifest_survives_the_file(manifest: ModelManifest) -> None:
    assert parse_manifest(render_manifest(manifest), PATH) == manifest


@pytest.mark.parametrize("before", [TINY, FULL])
@pytest.mark.parametrize("after", [TINY, FULL])
def test_a_rewrite_reads_as_the_new_manifest(path: Path, before: ModelManifest, after: ModelManifest) -> None:
    assert parse_manifest(rewritten(path, after, render_manifest(before)), PATH) == after


def test_an_unchanged_manifest_keeps_its_text(path: Path) -> None:
    assert rewritten(path, FULL, render_manifest(FULL)) == render_manifest(FULL)


def test_a_manifest_without_an_earlier_one_is_written_plainly(path: Path) -> None:
    assert rewrite_manifest(FULL, path) == render_manifest(FULL)


def test_a_file_is_parsed_once_as_long_as_it_says_the_same(path: Path) -> None:
    path.write_text(render_manifest(FULL), encoding="utf-8")
    first, second = read_manifest(path), read_manifest(path)
    assert first == second == FULL
    assert first.weights is second.weights
    assert isinstance(first.defaults, dict)
    first.defaults["stop"].append("changed by a caller")
    first.defaults["top_k"] = 1
    assert read_manifest(path) == FULL


def test_a_change_by_hand_is_noticed_at_once_even_within_a_tick_of_the_clock(path: Path) -> None:
    path.write_text(render_manifest(FULL), encoding="utf-8")
    before, status = read_manifest(path), path.stat()
    path.write_text(render_manifest(replace(FULL, context_length=8193)), encoding="utf-8")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    assert (before.context_length, read_manifest(path).context_length) == (8192, 8193)
    path.write_text("broken", encoding="utf-8")
    for _ in range(2):
        with pytest.raises(InvalidManifest):
            read_manifest(path)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        read_manifest(path)


def test_the_same_text_under_another_name_is_checked_again(path: Path) -> None:
    path.write_text(TEXT, encoding="utf-8")
    assert read_manifest(path) == TINY
    with pytest.raises(InvalidManifest, match=r"the file is named 'other\.toml'"):
        read_manifest(path.rename(path.with_name("other.toml")))


HAND_EDITED = f'''# my favourite
note = "keep me"
id = "tiny" # trailing
kind = "generator"
format   =   "gguf"
weights = "/models/tiny.gguf"
sha256 = "{SHA}"
size = 42
later.maybe = [1, 2]

[source] # from there
repo = "owner/name"
file = "a.gguf"
mirror = "elsewhere"

[defaults]
temperature = 0.1 # calm

[custom]
x = 1 # keep me too
'''


def test_unknown_keys_and_comments_survive_a_rewrite(path: Path) -> None:
    manifest = parse_manifest(HAND_EDITED, PATH)
    changed = replace(
        manifest, context_length=99, source=ModelSource("owner/name", "b.gguf"), architecture="llama"
    )
    text = rewritten(path, changed, HAND_EDITED)
    assert parse_manifest(text, PATH) == changed
    for kept in (
        "# my favourite",
        'note = "keep me"',
        '"tiny" # trailing',
        'format   =   "gguf"',
        "later.maybe = [1, 2]",
        "[source] # from there",
        'mirror = "elsewhere"',
        "temperature = 0.1 # calm",
        "x = 1 # keep me too",
    ):
        assert kept in text, kept
    assert rewritten(path, manifest, HAND_EDITED) == HAND_EDITED


def test_unknown_keys_are_told_with_what_may_be_meant() -> None:
    assert [warning.removeprefix(str(PATH)) for warning in parse_manifest(HAND_EDITED, PATH).warnings] == [
        ", line 2: key 'note': is unknown and has no effect",
        ", line 9: key 'later': is unknown and has no effect",
        ", line 19: key 'custom': is unknown and has no effect",
        ", line 14: key 'source.mirror': is unknown and has no effect",
    ]
    (warning,) = parse_manifest(f"{TEXT}contex_length = 4096\n", PATH).warnings
    assert warning.endswith("key 'contex_length': is unknown and has no effect; is 'context_length' meant?")
    disk, warning = parse_manifest(f"{PARTS}sise = 4096\n", PATH).warnings
    assert "key 'parts.disk'" in disk
    assert warning.endswith("key 'parts.sise': is unknown and has no effect; is 'size' meant?")
    assert parse_manifest(render_manifest(parse_manifest(HAND_EDITED, PATH)), PATH).warnings == ()


PARTS = f'''{TEXT}
[[parts]] # the second
path = "/models/b.gguf"
sha256 = "{SHA}"
size = 1
disk = "slow"

[[parts]]
path = "/models/c.gguf" # the third
sha256 = "{SHA}"
size = 2
'''


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_parts_keep_their_unknown_keys_and_comments(path: Path, count: int) -> None:
    manifest = parse_manifest(PARTS, PATH)
    more = (*manifest.weights, WeightsFile(Path("/models/d.gguf"), SHA, 3))[:count]
    changed = replace(manifest, weights=tuple(replace(file, size=file.size + 5) for file in more))
    text = rewritten(path, changed, PARTS)
    assert parse_manifest(text, PATH) == changed
    kept = ["[[parts]] # the second", 'disk = "slow"', "# the third"]
    assert [words in text for words in kept] == [count > 1, count > 1, count > 2]
    assert rewritten(path, manifest, PARTS) == PARTS


@pytest.mark.parametrize(
    "parts", ["parts = 3", "parts = [1]", f"parts = [{{path='/a', sha256='{SHA}', size=1}}]"]
)
def test_parts_of_another_form_are_replaced(path: Path, parts: str) -> None:
    assert parse_manifest(rewritten(path, FULL, parts), PATH) == FULL


def test_a_broken_earlier_text_is_not_dropped(path: Path) -> None:
    with pytest.raises(InvalidManifest, match=r"tiny\.toml, line 1: is not TOML"):
        rewritten(path, TINY, "= broken [")


def test_what_a_model_was_registered_as_can_be_read_beside_other_faults(path: Path) -> None:
    path.write_text("kind = 7\nsize = 'x'\nparts = 3\nchat_template = 'chatml'\n[defaults]\ntop_k = 3\n")
    earlier = read_earlier(path)
    registration, identity = earlier.registration, earlier.weights
    assert (registration.kind, registration.chat_template) == (None, "chatml")
    assert (registration.defaults, identity.paths) == ({"top_k": 3}, ())
    path.write_text("[defaults]\ntop_k = 'x'\n")
    with pytest.raises(InvalidManifest, match=r"line 2: key 'defaults\.top_k'"):
        read_earlier(path)


def test_defaults_become_the_sampling_settings() -> None:
    config = FULL.default_config()
    assert (config.temperature, config.stop, config.logit_bias, config.top_k) == (
        0.1,
        ("</s>",),
        {3: -1.5},
        40,
    )


def edited(old: str, new: str) -> str:
    assert old in TEXT
    return TEXT.replace(old, new)


@pytest.mark.parametrize(
    ("text", "line", "key", "reason"),
    [
        ("", 1, "id", "is missing"),
        ("id = ", 1, None, "is not TOML"),
        (TEXT + "\nx = 'a\n", None, None, "or a text that is not closed on its line"),
        (TEXT + '\nx = "\\q"\n', None, None, "no such escape"),
        ("x y\n" + TEXT, 1, None, "is no key; quote it if it is meant"),
        ("= 1\n" + TEXT, 1, None, "a key is missing before '='"),
        ("x = 2026-99-99\n" + TEXT, 1, None, "no date that there is"),
        pytest.param(
            "x = " + "9" * 5000 + "\n" + TEXT,
            1,
            None,
            "no number that TOML has, or one that is too large",
            marks=pytest.mark.skipif(
                TOMLKIT < (0, 15, 1), reason="an older tomlkit reads such a number as infinity"
            ),
            id="huge",
        ),
        ("x = 1\nx = 2\n" + TEXT, None, None, "is there twice"),
        ("context_length = 0x" + "f" * 5000 + "\n" + TEXT, 1, "context_length", "a very large int"),
        (TEXT + "\nx = [1,", 8, None, "is not TOML"),
        (TEXT + 'id = "again"', None, None, "is not TOML"),
        (edited('id = "tiny"', 'id = "other"'), 1, "id", "is 'other', but the file is named 'tiny.toml'"),
        (edited('id = "tiny"', "id = 3"), 1, "id", "is 3, expected a text"),
        (edited('"generator"', '"painter"'), 2, "kind", "is 'painter', expected generator or embedding"),
        (edited('"gguf"', '""'), 3, "format", "is '', expected a text"),
        (edited("/models/", "models/"), 4, "weights", "is 'models/tiny.gguf', expected an absolute path"),
        (edited(SHA, SHA[1:]), 5, "sha256", f"is '{SHA[1:]}', expected a sha256"),
        (edited(SHA, SHA.upper()), 5, "sha256", "lower-case hex"),
        (edited("size = 42", "size = -1"), 6, "size", "is -1, expected a whole number of 0 to"),
        (edited("size = 42", "size = true"), 6, "size", "is True"),
        (edited("size = 42", "size = 4.2"), 6, "size", "is 4.2"),
        (edited("size = 42\n", ""), 1, "size", "is missing"),
        (TEXT + "context_length = 0", 7, "context_length", "is 0"),
        (TEXT + "tokenizer = 'x.json'", 7, "tokenizer", "expected an absolute path"),
        (TEXT + "tokenizer = '/x.json'", 1, "tokenizer_sha256", "is missing, but there is a tokenizer"),
        (TEXT + "tokenizer_sha256 = 'x'", 7, "tokenizer_sha256", "expected a sha256"),
        (TEXT + "defaults = 3", 7, "defaults", "is 3, expected a table"),
        (
            TEXT + "[defaults]\ntop_k = 1\ntop_q = 1",
            9,
            "defaults.top_q",
            "unknown, expected one of max_tokens",
        ),
        (TEXT + "\n[defaults]\ntop_p = 7", 9, "defaults.top_p", "invalid top_p: 7"),
        (TEXT + "[source]\nfile = 'x'", 7, "source.repo", "is missing"),
        (TEXT + "[source]\nrepo = 'x'\nfile = 1", 9, "source.file", "is 1"),
        (TEXT + "parts = [1]", 7, "parts", "expected tables"),
        (TEXT + f"[[parts]]\npath='/a'\nsha256='{SHA}'\nsize=1\n[[parts]]\npath=1", 12, "parts.path", "is 1"),
        (TEXT + "[[parts]]\nsize=1", 7, "parts.path", "is missing"),
        (TEXT + 'chat_template = """\nsize = 1\n[x]\n"""\narchitecture = 5', 11, "architecture", "is 5"),
    ],
)
def test_what_is_wrong_is_said_with_file_line_and_key(
    text: str, line: int | None, key: str | None, reason: str
) -> None:
    with pytest.raises(InvalidManifest) as caught:
        parse_manifest(text, PATH)
    error = caught.value
    assert (error.path, error.key) == (PATH, key)
    assert reason in error.reason
    assert line is None or error.line == line
    assert str(PATH) in str(error) and (line is None or f"line {line}" in str(error))


@given(st.integers(0, len(TEXT)), st.text(max_size=6))
def test_any_edit_gives_a_manifest_or_a_named_error(place: int, inserted: str) -> None:
    try:
        parse_manifest(TEXT[:place] + inserted + TEXT[place + len(inserted) // 2 :], PATH)
    except InvalidManifest as error:
        assert error.path == PATH


@given(st.integers(0, len(HAND_EDITED)))
def test_half_a_manifest_is_a_manifest_or_a_named_error(length: int) -> None:
    try:
        parse_manifest(HAND_EDITED[:length], PATH)
    except InvalidManifest as error:
        assert error.path == PATH


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0/"), min_size=1, max_size=20)


@given(NAMES, st.none() | NAMES, st.none() | st.text(min_size=1, max_size=30), st.integers(0, 2**63 - 1))
def test_any_text_survives_the_file(
    name: str, architecture: str | None, template: str | None, size: int
) -> None:
    if template is not None:
        template = template.encode("utf-8", "ignore").decode() or "x"
    weights = (WeightsFile(Path("/") / name, SHA, size),)
    manifest = replace(TINY, weights=weights, architecture=architecture, chat_template=template)
    with TemporaryDirectory() as folder:
        text = rewritten(Path(folder) / "tiny.toml", manifest, HAND_EDITED)
    assert parse_manifest(text, PATH) == manifest
    assert tomlkit.parse(render_manifest(manifest))["id"] == "tiny"


def test_a_file_that_is_not_text_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "tiny.toml"
    path.write_bytes(b'id = "tiny"\nkind = "\xff"')
    with pytest.raises(InvalidManifest, match="line 2: is not UTF-8"):
        read_manifest(path)


def test_a_file_that_is_far_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "tiny.toml"
    path.write_bytes(b" " * ((4 << 20) + 1))
    with pytest.raises(InvalidManifest, match="larger than"):
        read_manifest(path)


def test_a_folder_in_place_of_a_manifest_is_named(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").mkdir()
    with pytest.raises(InvalidManifest, match="is a folder"):
        read_manifest(tmp_path / "tiny.toml")


def test_nesting_without_end_is_a_named_error() -> None:
    with pytest.raises(InvalidManifest):
        parse_manifest(TEXT + "x = " + "[" * 20_000, PATH)


def test_a_link_to_nothing_in_place_of_a_manifest_is_named(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").symlink_to(tmp_path / "gone")
    with pytest.raises(InvalidManifest, match=r"tiny\.toml: is a link to a file that is not there"):
        read_manifest(tmp_path / "tiny.toml")


def test_a_long_line_of_spaces_does_not_delay_the_place_of_a_fault() -> None:
    text = f"x = [\n[{' ' * 20_000}\n]]\nid = 1\n"
    started = time.thread_time()
    with pytest.raises(InvalidManifest, match="line 4: key 'id'"):
        parse_manifest(text, PATH)
    assert time.thread_time() - started < 2
