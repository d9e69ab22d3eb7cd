"""`rase model`: the store from the command line."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


def succeed(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout


def fail(done: subprocess.CompletedProcess[str], code: int) -> str:
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith(("Error: ", "Usage: "))
    return done.stderr


def test_an_empty_store_lists_nothing_and_says_what_to_do(rase: Run) -> None:
    done = rase("model", "list")
    assert succeed(done) == ""
    assert "rase model import" in done.stderr


def test_an_imported_model_is_listed_inspected_verified_and_removed(
    rase: Run, smol: str, smollm2_path: Path
) -> None:
    size = smollm2_path.stat().st_size
    assert succeed(rase("model", "list")) == f"smol\tllama\t8192\t{size}\t{smollm2_path}\t\n"
    facts = dict(line.split("\t") for line in succeed(rase("model", "inspect", smol)).splitlines())
    assert (facts["id"], facts["architecture"], facts["size"]) == (smol, "llama", str(size))
    assert succeed(rase("model", "verify")) == "smol\tok\t\n"
    done = rase("model", "remove", smol)
    assert succeed(done) == ""
    assert smol in done.stderr
    assert smollm2_path.stat().st_size == size
    assert succeed(rase("model", "list")) == ""


def test_models_can_be_listed_and_removed_by_the_names_that_other_programs_have_for_it(
    rase: Run, smol: str
) -> None:
    assert succeed(rase("model", "ls")) == succeed(rase("model", "list")) != ""
    assert smol in rase("model", "rm", smol).stderr
    assert succeed(rase("model", "ls")) == ""
    told = succeed(rase("model", "--help"))
    assert "`rase model rm`" in told and "`rase model ls`" in told
    assert not re.search(r"^ +(rm|ls) ", told, re.MULTILINE)
    assert "No such command 'rn'" in fail(rase("model", "rn", smol), 2)


def test_keys_by_hand_that_have_no_effect_are_told(rase: Run, smol: str, home: dict[str, str]) -> None:
    path = Path(home["RASE_STORE"]) / "manifests" / f"{smol}.toml"
    path.write_text(f"contex_length = 5\naliases = ['{smol}']\n{path.read_text()}")
    for command in (["inspect", smol], ["verify"], ["verify", smol]):
        done = rase("model", *command)
        assert succeed(done)
        assert "'contex_length': is unknown and has no effect; is 'context_length' meant?" in done.stderr
    [warning] = json.loads(succeed(rase("model", "inspect", smol, "--json")))["warnings"]
    assert warning in done.stderr


def test_aliases_by_hand_that_name_another_model_are_told(
    rase: Run, smol: str, smollm2_path: Path, home: dict[str, str]
) -> None:
    succeed(rase("model", "import", str(smollm2_path), "--id", "other"))
    path = Path(home["RASE_STORE"]) / "manifests" / f"{smol}.toml"
    path.write_text(f"aliases = ['other']\n{path.read_text()}")
    fault = "alias 'other' is the id of 'other'"
    for command in (["inspect", smol], ["verify", smol], ["list"]):
        done = rase("model", *command)
        assert succeed(done) and done.stderr.count(fault) == 1
    assert fault in rase("model", "verify").stdout
    assert fault not in rase("model", "inspect", "other").stderr


def test_json_has_all_facts(rase: Run, smol: str, smollm2_path: Path) -> None:
    [model] = json.loads(succeed(rase("model", "list", "--json")))["models"]
    assert model == json.loads(succeed(rase("model", "inspect", smol, "--json")))
    assert model["weights"][0]["path"] == str(smollm2_path)
    assert len(model["weights"][0]["sha256"]) == 64
    results = json.loads(succeed(rase("model", "verify", smol, "--json")))
    assert results == [{"id": smol, "result": "ok", "problem": None}]
    assert json.loads(succeed(rase("model", "remove", smol, "--json"))) == {"removed": smol}


def test_a_store_option_may_stand_before_or_after_the_command(
    rase: Run, smollm2_path: Path, tmp_path: Path
) -> None:
    store = str(tmp_path / "a store, ünïcode")
    succeed(rase("--store", store, "model", "import", str(smollm2_path), "--id", "smol"))
    assert succeed(rase("model", "list", "--store", store)).startswith("smol\t")
    assert succeed(rase("model", "list", RASE_STORE=store)).startswith("smol\t")
    assert succeed(rase("model", "list")) == ""


def test_a_store_that_is_not_there_is_named(rase: Run, tmp_path: Path) -> None:
    store = tmp_path / "nowhere"
    commands = (["model", "inspect"], ["model", "remove"], ["generate"], ["chat"], ["bench"], ["render"])
    for command in commands:
        prompt = ["hi"] if command[0] in ("generate", "chat", "render") else []
        error = fail(rase("--store", str(store), *command, "smol", *prompt), 3)
        assert f"model 'smol' is not registered and there is no store at {store}\n" in error
        assert "--store or RASE_STORE" in error
    error = fail(rase("chat", "smol", RASE_STORE=str(store)), 3)
    assert f"there is no store at {store}\n" in error and "for a prompt of one word" in error
    for listing in ("list", "verify"):
        done = rase("model", listing, "--store", str(store))
        assert succeed(done) == ""
        assert f"no model is registered yet, there is no store at {store}: " in done.stderr
    assert not store.exists()


def test_an_unknown_model_is_named_with_the_known_ones(rase: Run, smol: str) -> None:
    for command in ("inspect", "remove"):
        error = fail(rase("model", command, "nobody"), 3)
        assert "'nobody' is not registered (registered: smol)" in error
    done = rase("model", "verify", "nobody", smol)
    assert done.returncode == 3
    assert [line.split("\t")[:2] for line in done.stdout.splitlines()] == [
        ["nobody", "failed"],
        [smol, "ok"],
    ]


@pytest.mark.parametrize(
    "model_id", ["", ".hidden", "../escape", "a/b", "a b", "a\nb", "ä", "x" * 200, "\x1b[2J"]
)
def test_a_hostile_id_is_wrong_usage(rase: Run, smollm2_path: Path, model_id: str) -> None:
    error = fail(rase("model", "import", str(smollm2_path), "--id", model_id), 2)
    assert "invalid model id" in error
    assert "\x1b" not in error


HOSTILE_FILES = {
    "text.gguf": b"this is not a model\n" * 100,
    "page.gguf": b"<!DOCTYPE html><html><body>404 Not Found</body></html>",
    "empty.gguf": b"",
    "short.gguf": b"GGUF\x03\x00\x00\x00",
    "huge.gguf": b"GGUF\x03\x00\x00\x00" + b"\xff" * 16,
}


@pytest.mark.parametrize("name", HOSTILE_FILES)
def test_a_file_that_is_no_model_is_a_named_error(rase: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(HOSTILE_FILES[name])
    error = fail(rase("model", "import", str(tmp_path / name), "--id", "x"), 4)
    assert name in error
    assert succeed(rase("model", "list")) == ""


def test_a_directory_and_a_missing_file_are_named_errors(rase: Run, tmp_path: Path) -> None:
    assert str(tmp_path) in fail(rase("model", "import", str(tmp_path), "--id", "x"), 3)
    assert "missing.gguf" in fail(rase("model", "import", str(tmp_path / "missing.gguf"), "--id", "x"), 3)


def test_an_architecture_that_contradicts_the_file_is_refused(rase: Run, smollm2_path: Path) -> None:
    error = fail(rase("model", "import", str(smollm2_path), "--id", "x", "--architecture", "qwen3"), 1)
    assert "llama" in error


def test_changed_weights_fail_verification(rase: Run, smollm2_path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.gguf"
    shutil.copyfile(smollm2_path, copy)
    succeed(rase("model", "import", str(copy), "--id", "copy"))
    with copy.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last[0] ^ 1]))
    done = rase("model", "verify")
    assert done.returncode == 4
    assert done.stdout.startswith("copy\tfailed\t")
    assert "sha256" in done.stdout


def test_a_broken_manifest_is_reported_and_hides_nothing(rase: Run, smol: str, home: dict[str, str]) -> None:
    (Path(home["RASE_STORE"]) / "manifests" / "broken.toml").write_text('id = "broken', encoding="utf-8")
    done = rase("model", "list")
    assert succeed(done).startswith("smol\t")
    assert "broken.toml" in done.stderr
    listing = json.loads(succeed(rase("model", "list", "--json")))
    assert [record["line"] for record in listing["broken"]] == [1]
    assert rase("model", "verify").returncode == 4
    rase("model", "remove", smol)
    assert "no model is registered" not in rase("model", "list").stderr


def test_a_store_that_cannot_be_written_is_a_named_error(
    rase: Run, smollm2_path: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    for store in [tmp_path / "file", Path("/proc/rase")] if sys.platform == "linux" else [tmp_path / "file"]:
        error = fail(rase("model", "import", str(smollm2_path), "--id", "x", "--store", str(store)), 1)
        assert str(store) in error


@pytest.mark.parametrize(
    "command",
    [
        ("--store", "", "model", "list"),
        ("model", "list", "--store", ""),
        ("model", "attach-tokenizer", "x", "--tokenizer", ""),
        ("model", "import", "x.gguf", "--id", "x", "--tokenizer", ""),
        ("generate", "x", "--prompt-file", ""),
        ("render", "x", "--messages", ""),
        ("render", "x", "hi", "--tools", ""),
        ("perplexity", "x", ""),
        ("batch", "", "out.jsonl"),
        ("serve", "--tls-cert", ""),
        ("serve", "--api-key-file", ""),
    ],
    ids=" ".join,
)
def test_an_empty_path_is_wrong_usage_and_not_this_folder(rase: Run, command: tuple[str, ...]) -> None:
    assert "an empty text is no path" in fail(rase(*command), 2)


@pytest.mark.parametrize(
    "command",
    [
        ("model", "import", "", "--id", "x"),
        ("model", "import", "--from", "ollama", ""),
        ("model", "pull", "--repo", "a/b", "--file", "", "--id", "x"),
        ("model", "pull", "--repo", "", "--id", "x"),
        ("model", "pull", "--repo", "a/b", "--id", "x", "--revision", ""),
        ("model", "pull", "--repo", "a/b", "--id", "x", "--tokenizer-repo", ""),
        ("model", "pull", "--repo", "a/b", "--id", "x", "--tokenizer-file", ""),
        ("model", "verify", ""),
        ("ps", "--url", ""),
        ("stop", "x", "--url", ""),
    ],
    ids=" ".join,
)
def test_an_empty_text_is_not_taken_for_one_that_is_missing(rase: Run, command: tuple[str, ...]) -> None:
    assert "an empty text is no value" in fail(rase(*command), 2)


def test_a_missing_option_is_wrong_usage(rase: Run, smollm2_path: Path) -> None:
    assert "--id" in fail(rase("model", "import", str(smollm2_path)), 2)
    assert "argument PATH" in fail(rase("model", "import", "--id", "x"), 2)
    assert "--repo" in fail(rase("model", "pull", "--id", "x"), 2)
    assert "--tokenizer" in fail(rase("model", "attach-tokenizer", "x"), 2)


def test_a_reader_that_goes_away_ends_the_program_quietly(rase: Run, smol: str, home: dict[str, str]) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "rase_cli", "model", "list"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=home,
    )
    assert child.stdout is not None
    assert child.stderr is not None
    with child.stderr as errors:
        child.stdout.close()
        assert child.wait(60) == 141
        assert errors.read() == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device")
def test_a_full_disk_behind_standard_output_is_an_error(rase: Run, smol: str, home: dict[str, str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "rase_cli", "model", "list"],
            stdout=full,
            stderr=subprocess.PIPE,
            env=home,
            encoding="utf-8",
            check=False,
        )
    assert fail(done, 1) == "Error: standard output cannot be written: No space left on device\n"


def test_a_terminal_without_unicode_gets_question_marks(
    rase_process: Run, smollm2_path: Path, tmp_path: Path
) -> None:
    link = tmp_path / "mödel ☃.gguf"
    link.symlink_to(smollm2_path)
    succeed(rase_process("model", "import", str(link), "--id", "x"))
    listed = succeed(rase_process("model", "list", PYTHONIOENCODING="ascii"))
    assert listed.endswith("m?del ?.gguf\t\n")


def test_metadata_cannot_drive_the_terminal(rase: Run, smol: str, home: dict[str, str]) -> None:
    manifest = Path(home["RASE_STORE"]) / "manifests" / "smol.toml"
    text = manifest.read_text(encoding="utf-8").replace('"chatml"', '"\\u001b[2J\\nchatml"')
    manifest.write_text(text, encoding="utf-8")
    shown = succeed(rase("model", "inspect", smol))
    assert "chat_template\t␛[2J␊chatml\n" in shown


def test_a_download_without_network_is_a_named_error(rase_process: Run) -> None:
    pull = ("model", "pull", "--repo", "nobody/nothing", "--file", "x.gguf", "--id", "x")
    assert "nobody/nothing" in fail(rase_process(*pull, HF_HUB_OFFLINE="1"), 6)


def test_a_tokenizer_is_attached_and_a_broken_one_is_not(
    rase: Run, smol: str, smollm2_path: Path, tmp_path: Path
) -> None:
    from rase_models.gguf import open_gguf
    from tokenizers import Tokenizer, decoders
    from tokenizers.models import BPE

    good, broken = tmp_path / "tokenizer.json", tmp_path / "broken.json"
    own = open_gguf(smollm2_path).strings("tokenizer.ggml.tokens")
    tokenizer = Tokenizer(BPE({token: i for i, token in enumerate(own)}, []))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(good))
    broken.write_text("{}", encoding="utf-8")
    model = json.loads(succeed(rase("model", "attach-tokenizer", smol, "--tokenizer", str(good), "--json")))
    assert model["tokenizer"] == str(good)
    attach = ("model", "attach-tokenizer", smol, "--tokenizer", str(broken))
    assert "broken.json: not a tokenizer.json: " in (error := fail(rase(*attach), 1))
    assert "Cannot instantiate" not in error
    broken.write_text("{'no': 1}", encoding="utf-8")
    assert "broken.json: not a tokenizer.json: " in (error := fail(rase(*attach), 1))
    assert "at line 1, column 2" in error
    assert json.loads(succeed(rase("model", "inspect", smol, "--json")))["tokenizer"] == str(good)


def test_a_template_can_come_from_a_file(rase: Run, smollm2_path: Path, tmp_path: Path) -> None:
    (file := tmp_path / "chat.jinja").write_text("{% for m in messages %}[{{ m.content }}]{% endfor %}")
    register = ("model", "import", str(smollm2_path), "--id", "filed", "--chat-template-file", str(file))
    assert rase(*register).returncode == 0
    assert rase("render", "filed", "Hi").stdout == "[Hi]"
    both = rase(*register, "--chat-template", "chatml")
    assert both.returncode == 2 and "cannot both be given" in both.stderr
    missing = rase(*register[:-1], str(tmp_path / "none.jinja"), "--replace")
    assert missing.returncode == 3 and "none.jinja: No such file" in missing.stderr


def test_an_empty_chat_template_is_refused_where_it_is_given(
    rase: Run, smollm2_path: Path, smol: str, home: dict[str, str]
) -> None:
    again = ("model", "import", str(smollm2_path), "--id", smol, "--chat-template", "")
    assert "the chat template that was given is empty" in fail(rase(*again), 1)
    manifest = Path(home["RASE_STORE"]) / "manifests" / "smol.toml"
    manifest.write_text(manifest.read_text().replace('"chatml"', '""'))
    error = fail(rase("render", smol, "Hi"), 4)
    assert "key 'chat_template': is '', expected a text" in error


def test_importing_the_same_file_again_keeps_what_was_set_and_says_so(
    rase: Run, smol: str, smollm2_path: Path
) -> None:
    succeed(rase("model", "alias", smol, "gpt-4o"))
    before = succeed(rase("model", "inspect", smol, "--json"))
    done = rase("model", "import", str(smollm2_path), "--id", smol)
    assert succeed(done) == ""
    assert "kept from before: chat_template, aliases\n" in done.stderr
    assert "in place of" not in done.stderr
    assert succeed(rase("model", "inspect", smol, "--json")) == before


def test_importing_again_tells_of_a_kind_only_where_it_was_set(rase: Run, smollm2_path: Path) -> None:
    again = ("model", "import", str(smollm2_path), "--id")
    for _ in range(2):
        done = rase(*again, "plain")
        assert succeed(done) == "" and "kept" not in done.stderr
    succeed(rase(*again, "vectors", "--kind", "embedding"))
    assert "kept from before: kind\n" in rase(*again, "vectors").stderr
    assert "changed or gone: kind\n" in rase(*again, "vectors", "--kind", "generator").stderr


def test_importing_a_file_that_has_changed_says_so(rase: Run, smollm2_path: Path, tmp_path: Path) -> None:
    path = tmp_path / "copy.gguf"
    path.write_bytes(smollm2_path.read_bytes())
    succeed(rase("model", "import", str(path), "--id", "copy"))
    path.write_bytes(smollm2_path.read_bytes() + bytes(32))
    done = rase("model", "import", str(path), "--id", "copy")
    assert "the file has changed since it was registered\n" in done.stderr
    assert "kept from before" not in done.stderr
    assert "in place of" not in done.stderr


def test_importing_another_file_under_a_known_id_is_refused_until_it_is_to_replace(
    rase: Run, smol: str, smollm2_path: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(smollm2_path.read_bytes() + bytes(32))
    again = ("model", "import", str(other), "--id", smol)
    before = succeed(rase("model", "inspect", smol, "--json"))
    error = fail(rase(*again), 2)
    assert f"model 'smol' is registered already, with another file: {smollm2_path}" in error
    assert "rase model remove smol" in error and "--replace" in error
    assert succeed(rase("model", "inspect", smol, "--json")) == before
    done = rase(*again, "--replace")
    assert succeed(done) == ""
    assert f"in place of {smollm2_path}\n" in done.stderr
    assert "changed or gone: chat_template\n" in done.stderr and "kept" not in done.stderr
    assert json.loads(succeed(rase("model", "inspect", smol, "--json")))["chat_template"] is None
