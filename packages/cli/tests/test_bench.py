"""`rase bench`"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rase_cli.measure import Workload, measure
from rase_cli.process import peak_memory_mb, process_age
from rase_models.engine import Engine

Run = Callable[..., subprocess.CompletedProcess[str]]

SMALL = ("--prompt-tokens", "8", "--gen-tokens", "4", "--repeat", "1")


def test_one_json_object_has_all_figures(rase_process: Run, smollm2_path: Path) -> None:
    done = rase_process("bench", str(smollm2_path), *SMALL, "--threads", "2", "--json")
    assert done.returncode == 0, done.stderr
    [line] = done.stdout.splitlines()
    figures = json.loads(line)
    assert list(figures) == [
        "prefill_tok_s",
        "decode_tok_s",
        "load_s",
        "first_token_s",
        "peak_rss_mb",
        "threads",
        "backend",
    ]
    assert (figures["backend"], figures["threads"]) == ("cpu", 2)
    assert figures["prefill_tok_s"] > 0
    assert figures["decode_tok_s"] > 0
    assert 0 < figures["load_s"] < figures["first_token_s"] < 120
    assert 50 < figures["peak_rss_mb"] < 4000


def test_a_registered_model_is_measured_with_tokens_in_the_cache(rase: Run, smol: str) -> None:
    done = rase("bench", smol, "--prompt-tokens", "0", "--gen-tokens", "2", "--depth", "20", "--repeat", "1")
    assert done.returncode == 0, done.stderr
    figures = dict(line.split("\t") for line in done.stdout.splitlines())
    assert "prefill_tok_s" not in figures
    assert float(figures["decode_tok_s"]) > 0


def test_sequences_decode_together(smol_manifest: Path) -> None:
    with Engine(smol_manifest.parent.parent) as engine:
        decoder = engine.load("smol").decoder
        speeds = measure(lambda: decoder, Workload(70, 3, repeats=1, sequences=4))
        assert decoder.kv_used == 0
        assert (speeds.decode_tok_s or 0) > 0
        assert speeds.threads is not None


def test_layers_are_on_a_gpu_all_or_none(rase: Run, smol: str, smollm2_path: Path) -> None:
    for model in (smol, str(smollm2_path)):
        done = rase("bench", model, *SMALL, "--device", "cpu", "--gpu-layers", "3")
        assert done.returncode != 0 and "not split" in done.stderr
    done = rase("bench", smol, *SMALL, "--device", "cpu", "--gpu-layers", "all")
    assert done.returncode != 0 and "no GPU" in done.stderr
    done = rase("bench", smol, *SMALL, "--gpu-layers", "some")
    assert done.returncode == 2 and "0 for none, all or -1 for all" in done.stderr
    assert rase("bench", smol, *SMALL, "--device", "cuda", "--gpu-layers", "0").returncode == 0


def test_no_tokens_at_all_are_nothing_to_measure(rase: Run, smol: str) -> None:
    done = rase("bench", smol, "--prompt-tokens", "0", "--gen-tokens", "0", "--depth", "5")
    assert done.returncode == 2 and "nothing to measure" in done.stderr


def test_more_tokens_than_the_context_are_refused(rase: Run, smol: str) -> None:
    done = rase("bench", smol, "--depth", "100000")
    assert done.returncode == 2
    assert "100640 tokens are asked for at once, but the context holds 1 to 8192" in done.stderr


@pytest.mark.parametrize("command", [("bench", *SMALL), ("perplexity", "--window", "8")])
def test_a_registered_model_is_verified(
    rase: Run, smol: str, home: dict[str, str], tmp_path: Path, command: tuple[str, ...]
) -> None:
    manifest = Path(home["RASE_STORE"]) / "manifests" / f"{smol}.toml"
    [digest] = re.findall(r'^sha256 = "(.*)"$', manifest.read_text(), re.MULTILINE)
    manifest.write_text(manifest.read_text().replace(digest, "0" * 64))
    (tmp_path / "text.txt").write_text("The river runs to the sea. " * 9)
    text = (str(tmp_path / "text.txt"),) if command[0] == "perplexity" else ()
    done = rase(command[0], smol, *text, *command[1:])
    assert done.returncode == 4, done.stderr
    assert digest in done.stderr


@pytest.mark.usefixtures("smol")
def test_an_unknown_model_is_named(rase: Run) -> None:
    done = rase("bench", "nobody")
    assert done.returncode == 3
    assert "registered: smol" in done.stderr


@pytest.mark.parametrize("command", [("bench", *SMALL), ("perplexity",)])
def test_a_registered_model_needs_its_tokenizer_file(
    rase: Run, smol: str, home: dict[str, str], tmp_path: Path, command: tuple[str, ...]
) -> None:
    gone = tmp_path / "tokenizer.json"
    with (Path(home["RASE_STORE"]) / "manifests" / f"{smol}.toml").open("a") as manifest:
        manifest.write(f'tokenizer = {json.dumps(str(gone))}\ntokenizer_sha256 = "{"0" * 64}"\n')
    (tmp_path / "text.txt").write_text("The river runs to the sea. " * 9)
    text = (str(tmp_path / "text.txt"),) if command[0] == "perplexity" else ()
    done = rase(command[0], smol, *text, *command[1:])
    assert done.returncode == 3, done.stderr
    assert f"{gone}: No such file or directory" in done.stderr
    assert "weights" not in done.stderr


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("folder", "is a folder"),
        ("pipe", "is not a regular file"),
        ("dangling", "No such file or directory"),
        ("nothing.gguf", "No such file or directory"),
    ],
)
@pytest.mark.skipif(os.name != "posix", reason="Windows has no such files")
def test_a_path_to_no_file_is_told_for_what_it_is(rase: Run, tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    done = rase("bench", str(tmp_path / name))
    assert done.returncode == 3, done.stderr
    assert f"{tmp_path / name}: {reason}" in done.stderr
    assert "registered" not in done.stderr


@pytest.mark.usefixtures("smol")
def test_an_id_comes_before_a_folder_of_its_name(
    rase: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "smol").mkdir()
    assert "100640 tokens" in rase("bench", "smol", "--depth", "100000").stderr


def test_every_round_starts_with_an_empty_cache(smol_manifest: Path) -> None:
    with Engine(smol_manifest.parent.parent) as engine:
        decoder = engine.load("smol").decoder
        measure(lambda: decoder, Workload(70, 2, depth=3, repeats=2))
        assert decoder.kv_used == 0


def test_the_system_tells_age_and_memory() -> None:
    first = process_age()
    assert 0 <= first <= process_age() < 100_000
    memory = peak_memory_mb()
    assert memory is None or memory > 10


def test_a_profile_tells_where_the_time_went(rase_process: Run, smollm2_path: Path) -> None:
    done = rase_process("bench", str(smollm2_path), *SMALL, "--profile")
    assert done.returncode == 0, done.stderr
    times = {line.split("\t")[0].strip(): line.split("\t") for line in done.stdout.splitlines()}
    assert times["prefill"][2] == times["decode"][2] == "100.0 %"
    assert float(times["matrices"][1]) > 0
    assert times["matrices"][3].endswith("GB/s")


def test_a_profile_counts_the_timed_rounds_alone(rase_process: Run, smollm2_path: Path) -> None:
    done = rase_process("bench", str(smollm2_path), *SMALL, "--profile", "--json")
    counts = json.loads(done.stdout)["profile"]
    assert (counts["prefill_tokens"], counts["decode_steps"]) == (8, 4)


STARTER = """
import subprocess, sys
large = b"x" * 400_000_000
code = "from rase_cli.process import peak_memory_mb; print(peak_memory_mb())"
print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="others do not tell the peak of a program alone")
def test_the_memory_of_whoever_started_the_program_does_not_count() -> None:
    done = subprocess.run([sys.executable, "-c", STARTER], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 200
