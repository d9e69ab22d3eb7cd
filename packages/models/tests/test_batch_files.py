"""Files of tasks: what lines mean, what is written of them, and what is kept from one run to the next."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rase_core.sampling import GenerationConfig
from rase_models import Engine
from rase_models.batch import BatchLimits, BatchTask, Summary, run_file
from rase_models.batch.journal import ForeignOutput, Journal, OutputInUse, UnusableOutput
from rase_models.batch.lines import BatchFile, InvalidLine, UnreadableTasks
from rase_models.constraints import ResponseFormat
from rase_models.request import Completion, Conversation

CONFIG = GenerationConfig(max_tokens=8, seed=3, ignore_eos=True)
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


def line(custom_id: object = "a", url: str = CHAT, model: str = "tiny", **body: object) -> str:
    if url == CHAT:
        body = {"messages": [{"role": "user", "content": "Hello"}], **body}
    return json.dumps({"custom_id": custom_id, "url": url, "body": {"model": model, **body}})


def parsed(engine: Engine, tmp_path: Path, *lines: str | bytes) -> list[BatchTask | InvalidLine]:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"\n".join(text.encode() if isinstance(text, str) else text for text in lines))
    return [line.task for line in BatchFile(path, engine.default_config)]


def test_lines_become_tasks(engine: Engine, tmp_path: Path, tiny_path: Path) -> None:
    engine.import_model(tiny_path, "tiny", defaults={"stop": ["END"], "top_k": 7})
    chat, text = parsed(
        engine,
        tmp_path,
        line(n=2, max_completion_tokens=5, stop="now", seed=None, user="me", stream=False),
        line("b", COMPLETIONS, prompt=[1, 2], temperature=0, response_format={"type": "json_object"}),
    )
    assert isinstance(chat, BatchTask) and isinstance(chat.question, Conversation)
    assert (chat.id, chat.model_id, chat.question.terms.n) == ("a", "tiny", 2)
    config = chat.question.terms.config
    assert config == GenerationConfig(max_tokens=5, stop=("END", "now"), top_k=7)
    assert isinstance(text, BatchTask) and isinstance(text.question, Completion)
    assert text.question.prompt == [1, 2]
    assert text.question.terms.response_format == ResponseFormat.json_object()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "no JSON: a key in double quotes is expected, at line"),
        (b"\xff", "no JSON: it is not UTF-8 at byte 0"),
        ('{"custom_id": ' + "9" * 5000 + "}", "no JSON: a whole number has more than 4300 digits"),
        ('{"custom_id": NaN}', "no JSON: NaN is not a number"),
        ("[" * 100_000, "nested too deeply"),
        (line("\ud800"), "no JSON: a text has the lone surrogate"),
        (line(prompt="\udfff"), "no JSON: a text has the lone surrogate"),
        ("[]", "expected an object, found list"),
        (line(7), "custom_id: expected a string"),
        (line(url="/v1/embeddings"), "url: expected /v1/chat/completions or"),
        ('{"custom_id": "a", "url": "/v1/completions"}', "body: expected an object with a model"),
        ('{"custom_id": "a", "priority": 1}', "unknown key 'priority'"),
        (line(method="x"), "unknown parameter 'method'"),
        (line(tools=[1]), "unknown parameter 'tools'"),
        (line(stream=True), "stream: only false is supported"),
        (line(stream=0), "stream: only false is supported"),
        (line(url=COMPLETIONS, prompt="Hello", logprobs=0), "logprobs: only false is supported"),
        (line(max_tokens=3, max_completion_tokens=5), "max_completion_tokens: is max_tokens by another name"),
        (line(seed=-2), "invalid seed: -2"),
        (line(seed=-1.0), "invalid seed: -1.0"),
        (line(temperature=-1), "invalid temperature: -1"),
        (line(response_format={"type": "xml"}), "response_format: expected the type text"),
        (line(n=0), "n: expected a whole number of at least 1"),
        (line(model="big"), "'big' is not registered"),
        (line(messages="Hello"), "body: expected messages"),
        (line(url=COMPLETIONS), "body: expected a prompt"),
    ],
)
def test_bad_lines_are_told_by_number(engine: Engine, tmp_path: Path, text: str | bytes, reason: str) -> None:
    good, bad, last = parsed(engine, tmp_path, line("good"), b"", text, line("last"))
    assert isinstance(bad, InvalidLine)
    assert bad.number == 3 and reason in bad.reason
    assert isinstance(good, BatchTask) and isinstance(last, BatchTask)


@pytest.mark.parametrize(
    "nothing",
    [
        {"seed": None},
        {"seed": -1},
        {"cache_prompt": True},
        {"stream": False},
        {"max_tokens": 256, "max_completion_tokens": 256},
    ],
)
def test_what_asks_for_nothing_leaves_a_task_as_it_is(
    engine: Engine, tmp_path: Path, tiny_path: Path, nothing: dict[str, object]
) -> None:
    engine.import_model(tiny_path, "tiny", defaults={"seed": 7})
    asked, plain = (parsed(engine, tmp_path, line("a", CHAT, "tiny", **body)) for body in (nothing, {}))
    assert asked == plain and isinstance(plain[0], BatchTask)


def test_an_id_that_comes_twice_is_refused(engine: Engine, tmp_path: Path) -> None:
    _, again = parsed(engine, tmp_path, line("a"), line("a"))
    assert isinstance(again, InvalidLine) and "that of line 1" in again.reason


@settings(
    max_examples=60,
    suppress_health_check=[*settings().suppress_health_check, HealthCheck.function_scoped_fixture],
)
@given(
    text=st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["custom_id", "url", "method", "body", "model", "messages", "n", "stop"]),
                inner | st.sampled_from([CHAT, COMPLETIONS, "tiny"]),
            )
        ),
    )
)
def test_any_json_is_a_task_or_told_what_is_wrong(engine: Engine, tmp_path: Path, text: object) -> None:
    for found in parsed(engine, tmp_path, json.dumps(text)):
        assert isinstance(found, BatchTask | InvalidLine)


def write_tasks(path: Path, count: int, **body: object) -> Path:
    body = {"max_tokens": 4, "ignore_eos": True, **body}
    path.write_text("\n".join(line(f"task-{number}", CHAT, "tiny", **body) for number in range(count)))
    return path


def test_a_file_becomes_a_file(engine: Engine, tmp_path: Path) -> None:
    source, results = write_tasks(tmp_path / "in.jsonl", 6, n=2), tmp_path / "out.jsonl"
    with source.open("a") as file:
        file.write("\nnonsense\n\n" + line("text", COMPLETIONS, prompt="Hello", max_tokens=1, seed=1))
    heard: list[Summary] = []
    invalid: list[InvalidLine] = []
    summary = run_file(
        engine,
        source,
        results,
        on_progress=lambda summary, tokens: heard.append(summary),
        on_invalid=invalid.append,
    )
    assert (summary.total, summary.done, summary.answered, summary.invalid) == (8, 8, 7, 1)
    assert summary.tokens == 6 * 2 * 4 + 1
    assert [one.done for one in heard] == sorted(one.done for one in heard) and heard[-1].done == 8
    assert [one.number for one in invalid] == [7]
    records = {record["line"]: record for record in map(json.loads, results.read_text().splitlines())}
    body = records[1]["response"]["body"]
    assert [choice["index"] for choice in body["choices"]] == [0, 1]
    assert body["usage"]["completion_tokens"] == 8
    assert body["choices"][0]["finish_reason"] == "length"
    assert records[1]["started"] <= records[1]["ended"]
    assert records[9]["response"]["body"]["object"] == "text_completion"
    assert records[7]["error"]["code"] == "InvalidLine" and records[7]["custom_id"] is None


@pytest.mark.parametrize("end", ["\x85", "\u2028", "\u2029", "\x1e", "\v", "\r"])
def test_a_result_is_one_line_for_whoever_reads_lines(engine: Engine, tmp_path: Path, end: str) -> None:
    source, results = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text(line(f"ein{end}zwölf", max_tokens=1))
    run_file(engine, source, results)
    (written,) = results.read_text(encoding="utf-8").splitlines()
    assert json.loads(written)["custom_id"] == f"ein{end}zwölf" and "zwölf" in written
    assert run_file(engine, source, results).earlier == 1


@pytest.mark.parametrize("kept", [0, 1, 3, 6])
@pytest.mark.parametrize("cut", ["", '{"custom_id": "ta', "{}"])
def test_nothing_is_done_twice_and_nothing_is_lost(
    engine: Engine, tmp_path: Path, kept: int, cut: str
) -> None:
    source, results = write_tasks(tmp_path / "in.jsonl", 6), tmp_path / "out.jsonl"
    run_file(engine, source, results)
    whole = results.read_bytes().splitlines(keepends=True)
    results.write_bytes(b"".join(whole[:kept]) + cut.encode())
    summary = run_file(engine, source, results)
    assert (summary.earlier, summary.answered) == (kept, 6 - kept)
    again = results.read_bytes().splitlines(keepends=True)
    assert again[:kept] == whole[:kept]
    texts = {record["line"]: record["response"]["body"]["choices"] for record in map(json.loads, again)}
    assert texts == {
        record["line"]: record["response"]["body"]["choices"] for record in map(json.loads, whole)
    }


def test_a_corrected_line_is_done_the_next_time(engine: Engine, tmp_path: Path) -> None:
    source, results = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text(line("a", max_tokens=-1) + "\n" + line("b", max_tokens=2))
    assert run_file(engine, source, results).invalid == 1
    source.write_text(line("a", max_tokens=1) + "\n" + line("b", max_tokens=2))
    summary = run_file(engine, source, results)
    assert (summary.earlier, summary.answered, summary.errors) == (1, 1, 0)
    records = [json.loads(text) for text in results.read_text().splitlines()]
    assert sorted((record["custom_id"], record["error"]) for record in records) == [("a", None), ("b", None)]


def test_errors_that_may_pass_are_tried_again_and_others_are_counted(engine: Engine, tmp_path: Path) -> None:
    source, results = write_tasks(tmp_path / "in.jsonl", 4), tmp_path / "out.jsonl"
    with source.open("a") as file:
        file.write("\n" + line("long", messages=[{"role": "user", "content": "x" * 300}]) + "\nnonsense")
    late = run_file(engine, source, results, BatchLimits(timeout=1e-6, retries=0))
    assert late.failed == late.errors - 1 == 5
    for answered, earlier in ((4, 1), (0, 5)):
        again = run_file(engine, source, results)
        assert (again.answered, again.earlier, again.earlier_failed) == (answered, earlier, 1)
        assert (again.invalid, again.errors, again.done) == (1, 2, 6)
        records = [json.loads(text) for text in results.read_text().splitlines()]
        assert sorted(record["line"] for record in records) == [1, 2, 3, 4, 5, 6]
        assert {record["line"] for record in records if record["error"]} == {5, 6}
    assert sorted(path.name for path in tmp_path.glob("*out*")) == [".out.jsonl.lock", "out.jsonl"]


@pytest.mark.skipif(os.name == "nt", reason="not everybody may make links")
@pytest.mark.parametrize(
    ("code", "is_done"),
    [
        ("RequestTimeout", False),
        ("Cancelled", False),
        ("MemoryTaken", False),
        ("TooManyOpenFiles", False),
        ("DeviceLost", False),
        ("DeviceOutOfMemory", False),
        ("SomethingNew", False),
        ("ContextOverflow", True),
        ("UnenforceableFormat", True),
        ("InvalidLogits", True),
    ],
)
def test_an_error_is_a_final_result_where_it_lies_in_the_task(
    tmp_path: Path, code: str, is_done: bool
) -> None:
    results, target = tmp_path / "out.jsonl", tmp_path / "target.jsonl"
    results.symlink_to(target)
    record = {"custom_id": "a", "line": 1, "tries": 1, "error": {"code": code, "message": ""}}
    kept = json.dumps({"custom_id": "b", "line": 2, "tries": 1, "error": None}) + "\n"
    target.write_text(json.dumps(record) + "\n" + kept)
    with Journal(results) as journal:
        assert journal.done == ({"a", "b"} if is_done else {"b"})
        assert journal.failed == ({"a"} if is_done else set())
    assert target.read_text().endswith(kept) and (target.read_text() == kept) is not is_done
    assert results.is_symlink()


def test_lines_of_others_are_not_written_over(engine: Engine, tmp_path: Path) -> None:
    source, results = write_tasks(tmp_path / "in.jsonl", 1), tmp_path / "out.jsonl"
    results.write_text('{"custom_id": "a", "line": 1, "tries": 1}\n{"mine": 1}\n')
    with pytest.raises(ForeignOutput, match="line 2: no result of a batch"):
        run_file(engine, source, results)
    assert results.read_text().endswith('{"mine": 1}\n')


def test_two_batches_do_not_write_to_one_file(engine: Engine, tmp_path: Path) -> None:
    source, results = write_tasks(tmp_path / "in.jsonl", 1), tmp_path / "out.jsonl"
    with Journal(results), pytest.raises(OutputInUse):
        run_file(engine, source, results)
    assert run_file(engine, source, results).answered == 1


@pytest.mark.skipif(os.name != "posix", reason="a directory that cannot be written to")
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no pipes with names, and no such devices")
def test_a_disk_that_is_full_is_named_and_the_file_left_free(tmp_path: Path) -> None:
    results, resource = tmp_path / "out.jsonl", pytest.importorskip("resource")
    record: dict[str, object] = {"custom_id": "a", "line": 1, "tries": 1}
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))  # what a full disk does, to one process
    try:
        with pytest.raises(OSError) as caught, Journal(results) as journal:
            journal.write(record)
            journal.write({**record, "custom_id": "b" * 5000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.filename == str(results)
    with Journal(results) as journal:
        journal.write({**record, "custom_id": "c"})
    assert [json.loads(text)["custom_id"] for text in results.read_text().splitlines()] == ["a", "c"]


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/null", "pipe", "folder"])
def test_what_is_no_file_takes_no_results(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UnusableOutput, match=name), Journal(tmp_path / name):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "pipe"]


def test_a_folder_that_is_missing_is_named(engine: Engine, tmp_path: Path) -> None:
    source = write_tasks(tmp_path / "in.jsonl", 1)
    with pytest.raises(UnusableOutput, match=r"there is no folder .*none$"):
        run_file(engine, source, tmp_path / "none" / "out.jsonl")


def test_tasks_in_a_pipe_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "tasks")
    with pytest.raises(UnreadableTasks, match="is not a regular file"):
        BatchFile(tmp_path / "tasks", lambda _: CONFIG).count()
