"""The commands and programs that the documentation shows are ones that rase takes."""

import ast
import importlib
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from rase_cli.program import program

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("packages/*/README.md")])
CODE = re.compile(r"^```sh\n(.*?)^```|((?:^    .*\n)+)", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(?:    )?(?:uv run )?rase (?=[a-z-])(.*)$", re.MULTILINE)
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[str]:
    """Return the lines of fenced or indented code that call rase."""
    return [line for fenced, indented in CODE.findall(text) for line in COMMAND.findall(fenced or indented)]


def shown(find: Callable[[str], list[str]]) -> list[object]:
    """Return what is found in all pages, as parameters of a test."""
    return [
        pytest.param(found, id=f"{page.relative_to(ROOT).as_posix()}-{number}")
        for page in PAGES
        for number, found in enumerate(find(page.read_text(encoding="utf-8")))
    ]


def check(command: click.Command, arguments: list[str]) -> None:
    """Let a command parse its arguments, and not run."""
    if not isinstance(command, click.Group):
        command.make_context(command.name, arguments).close()
        return
    context = click.Context(command)
    _, rest, _ = command.make_parser(context).parse_args(arguments)
    _, inner, others = command.resolve_command(context, rest)
    assert inner is not None
    check(inner, others)


@pytest.mark.parametrize("line", shown(commands))
def test_a_command_that_is_shown_is_understood(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("TEXT", "text.txt", "tasks.jsonl", "IN.jsonl", "keys.txt"):
        (tmp_path / name).write_text("key", encoding="utf-8")
    check(program, shlex.split(line, comments=True))


def test_the_reference_of_the_commands_has_them_all() -> None:
    text = (ROOT / "packages" / "cli" / "README.md").read_text(encoding="utf-8")
    assert {name for name in program.commands if f"`rase {name}" not in text} == set()


@pytest.mark.parametrize("code", shown(PYTHON.findall))
def test_a_program_that_is_shown_is_python_and_imports_what_there_is(code: str) -> None:
    tree = ast.parse(code)
    compile(code, "shown", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("rase_"):
            module = importlib.import_module(str(node.module))
            assert all(hasattr(module, name.name) for name in node.names)
