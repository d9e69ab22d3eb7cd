"""`rase batch`"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from rase_cli.sizes import size

Run = Callable[..., subprocess.CompletedProcess[str]]


def task(number: int, max_tokens: int = 6, **body: object) -> str:
    return json.dumps(
        {
            "custom_id": f"task-{number}",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {
                "model": "smol",
                "messages": [{"role": "user", "content": f"Say {number}"}],
                "max_tokens": max_tokens,
                **body,
            },
        }
    )


def records_of(path: Path) -> dict[str | None, dict[str, object]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    assert len({record["line"] for record in records}) == len(lines)
    return {record["custom_id"]: record for record in records}


def test_a_file_is_worked_off_and_summed_up(rase: Run, smol: str, tmp_path: Path) -> None:
    source, results = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("\n".join([*(task(number) for number in range(5)), "{broken", task(9, top_p=7)]))
    done = rase("batch", str(source), str(results))
    assert done.returncode == 1
    assert "line 6: no JSON" in done.stderr and "line 7: invalid top_p" in done.stderr
    assert "5 answered, 2 invalid; " in done.stderr
    records = records_of(results)
    assert sorted(str(custom_id) for custom_id in records) == [
        "None",
        *(f"task-{i}" for i in (0, 1, 2, 3, 4, 9)),
    ]
    again = rase("batch", str(source), str(results), "--json")
    summary = json.loads(again.stdout)
    assert (summary["earlier"], summary["answered"], summary["invalid"]) == (5, 0, 2)
    assert again.returncode == 1
    assert records_of(results) == records


@pytest.mark.skipif(sys.platform == "win32", reason="kills a child")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT] if os.name == "posix" else [])
def test_a_batch_goes_on_where_it_was_ended(
    rase: Run, smol: str, home: dict[str, str], tmp_path: Path, how: signal.Signals
) -> None:
    source, results = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("\n".join(task(number, 30) for number in range(30)))
    command = [sys.executable, "-m", "rase_cli", "batch", str(source), str(results), "--concurrency", "4"]
    child = subprocess.Popen(command, env=home, stderr=subprocess.PIPE, encoding="utf-8")
    deadline = time.monotonic() + 240
    while not (results.exists() and results.read_bytes().count(b"\n") > 5):
        assert time.monotonic() < deadline and child.poll() is None
        time.sleep(0.01)
    child.send_signal(how)
    _, errors = child.communicate(timeout=120)
    if how is signal.SIGINT:
        assert child.returncode == 130
        assert "goes on where" in errors
    before = results.read_bytes()
    whole = before[: before.rindex(b"\n") + 1]
    results.write_bytes(whole + b'{"custom_id": "task-5')  # as if killed in the middle of a line
    done = rase("batch", str(source), str(results))
    assert done.returncode == 0, done.stderr
    assert results.read_bytes().startswith(whole)
    assert len(records_of(results)) == 30
    assert f"{len(whole.splitlines())} done earlier" in done.stderr


def test_limits_are_given_as_options(rase: Run, smol: str, tmp_path: Path) -> None:
    source, results = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text(task(1, 500, ignore_eos=True))
    assert rase("batch", str(source), str(results), "--max-tokens", "3").returncode == 0
    response = records_of(results)["task-1"]["response"]
    assert isinstance(response, dict)
    assert response["body"]["usage"]["completion_tokens"] == 3
    results.unlink()
    late = rase("batch", str(source), str(results), "--timeout", "0.000001", "--retries", "1")
    assert late.returncode == 1
    record = records_of(results)["task-1"]
    assert isinstance(record["error"], dict)
    assert (record["error"]["code"], record["tries"]) == ("RequestTimeout", 2)
    again = rase("batch", str(source), str(results), "--max-tokens", "3")
    assert again.returncode == 0 and "1 answered; " in again.stderr
    assert records_of(results)["task-1"]["error"] is None


def test_errors_of_an_earlier_run_count(rase: Run, smol: str, tmp_path: Path) -> None:
    source, results = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text(task(1) + "\n" + task(2, messages=[{"role": "user", "content": "word " * 9000}]))
    assert rase("batch", str(source), str(results)).returncode == 1
    again = rase("batch", str(source), str(results))
    assert again.returncode == 1
    assert "1 done earlier, 1 failed earlier; " in again.stderr


def test_a_missing_folder_for_the_results_is_named(rase: Run, smol: str, tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text(task(1))
    done = rase("batch", str(source), str(tmp_path / "nope" / "out.jsonl"))
    assert done.returncode == 1
    assert f"there is no folder {tmp_path / 'nope'}" in done.stderr


def test_a_file_with_other_lines_is_left_alone(rase: Run, smol: str, tmp_path: Path) -> None:
    source, results = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text(task(1))
    results.write_text("my notes\n")
    done = rase("batch", str(source), str(results))
    assert done.returncode == 1
    assert "line 1: no result of a batch" in done.stderr
    assert results.read_text() == "my notes\n"


@pytest.mark.parametrize(
    ("text", "nbytes"), [("4GB", 4 * 10**9), ("512 mb", 512 * 10**6), ("1.5g", 15 * 10**8), ("1000", 1000)]
)
def test_amounts_of_memory(text: str, nbytes: int) -> None:
    assert size(text) == nbytes


@pytest.mark.parametrize("text", ["", "0", "GB", "-1GB", "4GiB", "much", "inf", "٤GB", "9" * 400])
def test_what_is_no_amount_of_memory(text: str) -> None:
    with pytest.raises(click.BadParameter, match="no amount of memory"):
        size(text)
