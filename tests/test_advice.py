"""The commands and options that messages name are there, and the command that was run has them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from rase_cli.program import program

PACKAGES = Path(__file__).parents[1] / "packages"
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
COMMAND = re.compile(r"`(rase [^`]*)`")

COMPUTING = ("chat", "generate", "serve", "batch", "bench", "perplexity", "model inspect")
STORING = (*COMPUTING, "render", "model import", "model pull", "model list", "model verify", "model remove")
LIMITED = ("serve", "model inspect")
"""Where the memory of all models can be limited, without which no model is refused for it."""

BARE: dict[tuple[str, str], tuple[str, ...]] = {
    ("store.py", "--store"): STORING,
    ("store.py", "--replace"): ("model import", "model pull"),
    ("machine.py", "--max-memory"): LIMITED,
    ("machine.py", "--context-length"): LIMITED,
    ("machine.py", "--device"): COMPUTING,
    ("store_errors.py", "--store"): STORING,
    ("store_folder.py", "--store"): STORING,
    ("faults.py", "--device"): COMPUTING,
    ("compiler.py", "--device"): COMPUTING,
    ("attention.py", "--device"): COMPUTING,
    ("experts.py", "--device"): COMPUTING,
    ("recurrent.py", "--device"): COMPUTING,
    ("hosts.py", "--allowed-host"): ("serve",),
    ("format_options.py", "--json-schema"): ("chat", "generate"),
    ("chat_input.py", "--messages"): ("render",),
    ("chat_input.py", "--system"): ("render",),
    ("chat_input.py", "--kwargs"): ("render",),
    ("prompts.py", "--prompt-file"): ("generate",),
    ("failures.py", "--debug"): (*STORING, "ps", "stop", "runtime probe"),
    ("model_choice.py", "--model"): ("chat",),
    ("running_server.py", "--url"): ("ps", "stop"),
    ("running_server.py", "--api-key"): ("ps", "stop"),
    ("conversation.py", "--max-tokens"): ("chat", "generate"),
}
"""Options that messages name without their command, and the commands that can show the message."""

OTHERS = {"--force-reinstall", "--gpu-architecture", "--std"}
"""Options of other programs."""


def commands(command: click.Command, name: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield all commands by the words that are typed after `rase`."""
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for word in command.list_commands(context):
            inner = command.get_command(context, word)
            assert inner is not None
            yield from commands(inner, f"{name} {word}".strip())


def options(command: click.Command) -> set[str]:
    return {text for parameter in command.params for text in (*parameter.opts, *parameter.secondary_opts)}


OPTIONS = {name: options(command) for name, command in commands(program)}


def messages(path: Path) -> Iterator[str]:
    """Yield the texts of a module that are no docstrings and no declarations of options."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    declared = {
        id(inner)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and ast.unparse(call.func) in ("click.option", "click.command")
        for inner in ast.walk(call)
    }
    within = {
        id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in bare | declared:
            continue
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in within:
            yield node.value


SOURCES = [path for path in sorted(PACKAGES.glob("*/src/**/*.py")) if not path.name.startswith("testing")]
TOLD = [(path, text) for path in SOURCES for text in messages(path) if "--" in text or "`rase " in text]


@pytest.mark.parametrize(
    "text", sorted({text for _, message in TOLD for text in COMMAND.findall(message)}), ids=str
)
def test_a_command_that_is_named_is_there_with_its_options(text: str) -> None:
    words = text.split()[1:]
    name = next(" ".join(words[:count]) for count in (2, 1) if " ".join(words[:count]) in OPTIONS)
    assert set(OPTION.findall(text)) <= OPTIONS[name]


def test_an_option_that_is_named_alone_is_one_of_every_command_that_may_say_so() -> None:
    found = {
        (path.name, option)
        for path, text in TOLD
        if path.parent.name != "commands"
        for option in OPTION.findall(COMMAND.sub("", text))
        if option not in OTHERS and text != option
    }
    found -= {("demo.py", option) for option in ("--repo", "--file", "--id")}  # within a command
    assert found == set(BARE)
    lacking = {
        (module, option, command)
        for (module, option), names in BARE.items()
        for command in names
        if option not in OPTIONS[command]
    }
    assert lacking == set()


@pytest.mark.parametrize(
    "path", sorted((PACKAGES / "cli/src/rase_cli/commands").glob("*.py")), ids=lambda p: p.stem
)
def test_a_command_names_its_own_options(path: Path) -> None:
    own = set().union(*(found for name, found in OPTIONS.items() if name.split(" ")[0] == path.stem), set())
    named = {option for text in messages(path) for option in OPTION.findall(COMMAND.sub("", text))}
    assert named <= own
