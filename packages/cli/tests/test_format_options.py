"""What an answer must look like, said on the command line."""

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from rase_cli.format_options import format_options, taken_format
from rase_models.constraints import ResponseFormat
from rase_models.testing import write_tiny_model

SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


def taken(*arguments: str) -> ResponseFormat | None:
    found: list[ResponseFormat | None] = []

    @click.command()
    @format_options
    def command(**given: object) -> None:
        found.append(taken_format(given))
        assert not given

    CliRunner().invoke(command, arguments, catch_exceptions=False, standalone_mode=False)
    return found[0]


def test_each_option_is_a_format(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(SCHEMA), encoding="utf-8")
    assert taken() is None
    assert taken("--json-object") == ResponseFormat.json_object()
    assert taken("--json-schema", json.dumps(SCHEMA)) == ResponseFormat.json_schema(SCHEMA)
    assert taken("--json-schema", f"@{file}") == ResponseFormat.json_schema(SCHEMA)
    assert taken("--regex", "a+") == ResponseFormat.regex("a+")
    assert taken("--grammar", 'root ::= "a"') == ResponseFormat.grammar('root ::= "a"')
    assert taken("--choice", "a", "--choice", "b") == ResponseFormat.choice(["a", "b"])


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--json-object", "--regex", "a"), "cannot be combined"),
        (("--json-schema", "{"), "not valid JSON: a key in double quotes is expected"),
        (("--json-schema", '{"minimum": ' + "9" * 5000 + "}"), "a whole number has more than 4300 digits$"),
        (("--json-schema", '{"minimum": NaN}'), "NaN is not a number that JSON has"),
        (("--json-schema", "[]"), "expected an object"),
        (("--json-schema", ""), "not valid JSON: a value is expected"),
        (("--regex", "", "--json-object"), "cannot be combined"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(arguments: tuple[str, ...], word: str) -> None:
    with pytest.raises(click.UsageError, match=word):
        taken(*arguments)


@pytest.mark.parametrize("option", ["--json-schema", "--grammar"])
def test_a_file_that_cannot_be_read_is_named(option: str, tmp_path: Path) -> None:
    with pytest.raises(click.FileError, match="No such file") as caught:
        taken(option, f"@{tmp_path / 'nowhere'}")
    assert caught.value.filename == str(tmp_path / "nowhere")
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff")
    with pytest.raises(click.UsageError, match="not UTF-8"):
        taken(option, f"@{binary}")


def test_an_empty_text_does_not_leave_an_answer_free() -> None:
    assert taken("--regex", "") == ResponseFormat.regex("")
    assert taken("--choice", "") == ResponseFormat.choice([""])


def test_an_answer_keeps_to_it(rase, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    pytest.importorskip("numba", reason="needs rase-models[cpu]")
    weights = write_tiny_model(tmp_path / "tiny.gguf")
    assert rase("model", "import", str(weights), "--id", "m").returncode == 0
    for arguments, texts in (
        (("--choice", "red", "--choice", "green"), ("red", "green")),
        (("--regex", "[ab]c"), ("ac", "bc")),
        (("--json-schema", '{"const": {"a": 1}}'), ('{"a":1}', '{"a": 1}', '{ "a": 1 }')),
    ):
        done = rase("generate", "m", "Say:", *arguments)
        assert done.returncode == 0, done.stderr
        assert "".join(done.stdout.split()) in {"".join(text.split()) for text in texts}
    refused = rase(
        "generate", "m", "Say:", "--json-schema", '{"items": {"type": "array", "uniqueItems": true}}'
    )
    assert refused.returncode != 0 and "'uniqueItems' at #/items" in refused.stderr
