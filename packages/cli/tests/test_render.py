"""`rase render`"""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

CALL = {"id": "c1", "type": "function", "function": {"name": "now", "arguments": '{"zone": "UTC"}'}}
MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "The time?"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "noon"},
]


def _write(folder: Path, name: str, value: object) -> str:
    path = folder / name
    path.write_text(json.dumps(value), encoding="utf-8")
    return str(path)


def test_it_shows_the_prompt_of_a_registered_model(rase: Run, smol: str) -> None:
    done = rase("render", smol, "Hi", "--system", "Be brief.")
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_it_shows_the_prompt_of_a_file_that_is_not_registered(rase: Run, smollm2_path: Path) -> None:
    done = rase("render", str(smollm2_path), input="Hi\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")


def test_it_shows_the_tokens(rase: Run, smol: str) -> None:
    done = rase("render", smol, "Hi", "--tokens", "--no-generation-prompt")
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert lines[0] == ["1", "'<|im_start|>'"]
    assert [piece for _, piece in lines[1:]] == ["'user'", r"'\n'", "'Hi'", "'<|im_end|>'", r"'\n'"]
    whole = json.loads(rase("render", smol, "Hi", "--json", "--no-generation-prompt").stdout)
    assert whole["prompt"] == "<|im_start|>user\nHi<|im_end|>\n"
    assert whole["tokens"] == [int(token) for token, _ in lines]


def test_messages_tools_and_variables_reach_the_template(
    rase: Run, smol_written: str, tmp_path: Path
) -> None:
    tools = [{"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}]
    arguments = (
        *("--messages", "@" + str(_write(tmp_path, "messages.json", {"messages": MESSAGES}))),
        *("--tools", _write(tmp_path, "tools.json", tools)),
        *("--kwargs", '{"enable_thinking": false}'),
    )
    done = rase("render", smol_written, *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "now UTC False noon"


def test_tools_that_the_template_does_not_teach_are_refused(rase: Run, smol: str, tmp_path: Path) -> None:
    tools = _write(tmp_path, "tools.json", [{"type": "function", "function": {"name": "now"}}])
    done = rase("render", smol, "The time?", "--tools", tools)
    assert done.returncode == 2
    assert "invalid tools: ['now'], expected none: the chat template teaches no known calls" in done.stderr


def test_control_tokens_of_a_user_are_text(rase: Run, smol: str) -> None:
    told = json.loads(rase("render", smol, "<|im_end|>", "--json", "--no-generation-prompt").stdout)
    assert told["prompt"] == "<|im_start|>user\n<|im_end|><|im_end|>\n"
    assert told["tokens"].count(2) == 1


@pytest.fixture
def smol_written(rase: Run, smollm2_path: Path) -> str:
    template = (
        "{{ tools[0].function.name }} {{ messages[1].tool_calls[0].function.arguments.zone }} "
        "{{ enable_thinking }} {{ messages[-1].content }}"
        '{# <tool_call></tool_call> "name" "arguments" #}'
    )
    done = rase("model", "import", str(smollm2_path), "--id", "written", "--chat-template", template)
    assert done.returncode == 0, done.stderr
    return "written"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--kwargs", "[1]", "Hi"), "expected a JSON object"),
        (
            ("--kwargs", "{", "Hi"),
            "--kwargs: not JSON: a key in double quotes is expected, at line 1, column 2",
        ),
        (("--kwargs", '{"a": NaN}', "Hi"), "--kwargs: not JSON: NaN is not a number that JSON has"),
        (("--kwargs", f'{{"a": {"9" * 5000}}}', "Hi"), "a whole number has more than 4300 digits; expected"),
        (("--kwargs", '{"messages": []}', "Hi"), "'messages' is not a variable"),
        (("--messages", "nowhere.json"), "nowhere.json"),
        ((), "standard input is empty"),
        (("Hi", "--continue"), "only an assistant's message"),
    ],
)
def test_what_is_wrong_is_named(rase: Run, smol: str, arguments: tuple[str, ...], message: str) -> None:
    done = rase("render", smol, *arguments)
    assert done.returncode != 0
    assert message in done.stderr


@pytest.mark.parametrize("form", [(), ("--tokens",), ("--json",)])
def test_half_of_a_surrogate_pair_is_named(
    rase: Run, smol: str, tmp_path: Path, form: tuple[str, ...]
) -> None:
    file = _write(tmp_path, "messages.json", [{"role": "user", "content": "a\ud800b"}])
    for arguments in (("--messages", file), ("Hi", "--system", "\udcff"), ("Hi", "--system", "a\ud800")):
        done = rase("render", smol, *arguments, *form)
        assert (done.returncode, done.stdout) == (1, "")
        assert "the lone surrogate '\\ud" in done.stderr


def test_a_file_that_is_no_model_is_named_for_what_it_is(rase: Run, tmp_path: Path) -> None:
    (tmp_path / "passwd").write_text("root:x:0:0\n")
    done = rase("render", str(tmp_path / "passwd"), "Hi")
    assert done.returncode == 4
    assert "unsupported format: text that begins with 'root:x:0:0'" in done.stderr


@pytest.mark.parametrize(
    ("content", "found"), [("", "empty"), ("\n", "empty"), ("{", "not JSON"), ("root:x", "not JSON")]
)
@pytest.mark.parametrize(
    ("option", "expected"), [("--messages", "a list of messages"), ("--tools", 'a list of {"type"')]
)
def test_a_file_that_is_no_json_is_named_with_what_is_expected(
    rase: Run, smol: str, tmp_path: Path, content: str, found: str, option: str, expected: str
) -> None:
    (tmp_path / "file").write_text(content)
    done = rase("render", smol, option, str(tmp_path / "file"), *(["Hi"] if option == "--tools" else []))
    assert done.returncode == 2
    assert f"file: {found}" in done.stderr and f"; expected {expected}" in done.stderr


def test_calls_that_are_no_list_are_named(rase: Run, smol: str, tmp_path: Path) -> None:
    file = _write(tmp_path, "calls.json", [{"role": "assistant", "content": "", "tool_calls": 5}])
    done = rase("render", smol, "--messages", file)
    assert done.returncode == 2 and "expected a list as tool_calls, found 5" in done.stderr


@pytest.mark.parametrize("value", [{}, 3, ["x"], {"messages": 1}])
def test_a_file_of_other_things_is_named(rase: Run, smol: str, tmp_path: Path, value: object) -> None:
    file = _write(tmp_path, "other.json", value)
    assert "expected a list of messages" in rase("render", smol, "--messages", file).stderr
    assert "expected a list of {" in rase("render", smol, "Hi", "--tools", file).stderr
