"""Errors as messages and exit codes."""

import click
import pytest
from click.testing import CliRunner
from rase_cli.failures import EXIT_CODES, exit_code
from rase_cli.program import Program
from rase_cli.settings import shared_options
from rase_core import errors

ERRORS: list[tuple[BaseException, int]] = [
    (errors.ModelNotFound("x", ["a"]), 3),
    (errors.InvalidModelId("../x"), 2),
    (errors.InvalidGenerationConfig("top_p", 2, "0 to 1"), 2),
    (errors.InvalidParameter("context_length", 0, "1 or more"), 2),
    (errors.ContextOverflow(200, 128), 1),
    (errors.BackendUnavailable("cuda", "no driver", "install it"), 5),
    (errors.HubError("no network"), 6),
    (errors.InvalidLogits(3, 1), 1),
    (errors.Cancelled(), 130),
    (MemoryError(), 1),
    (KeyboardInterrupt(), 130),
    (ZeroDivisionError("division by zero"), 70),
    (PermissionError(13, "Permission denied"), 1),
    (BrokenPipeError(), 141),
]


class OneCommand(Program):
    """The root group with a single command."""

    def __init__(self, command: click.Command) -> None:
        super().__init__(name="rase", table={})
        self.only = command

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        return self.only


def failing_program(error: BaseException) -> click.Command:
    @shared_options()
    def command() -> None:
        raise error

    return OneCommand(click.command("go")(command))


@pytest.mark.parametrize(("error", "code"), ERRORS)
def test_each_error_has_its_exit_code_and_no_traceback(error: BaseException, code: int) -> None:
    result = CliRunner().invoke(failing_program(error), ["go"])
    assert result.exit_code == code
    assert result.stdout == ""
    assert "Traceback" not in result.stderr


def test_the_message_is_followed_by_the_advice() -> None:
    result = CliRunner().invoke(
        failing_program(errors.BackendUnavailable("cuda", "no driver", "get one")), ["go"]
    )
    assert result.stderr == "Error: the cuda backend is unavailable: no driver\nget one\n"


def test_debug_shows_the_traceback_of_the_cause() -> None:
    result = CliRunner().invoke(failing_program(ZeroDivisionError("division by zero")), ["go", "--debug"])
    assert result.exit_code == 70
    assert "Traceback" in result.stderr
    assert "in command" in result.stderr
    assert "Error: unexpected ZeroDivisionError: division by zero" in result.stderr


def test_an_error_message_cannot_drive_the_terminal() -> None:
    result = CliRunner().invoke(failing_program(errors.HubError("a\x1b[2Jb")), ["go"])
    assert "\x1b" not in result.stderr


def test_every_named_error_has_an_exit_code_of_the_table() -> None:
    named = [
        value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)
    ]
    assert len(named) > 15
    for kind in named:
        assert exit_code(kind.__new__(kind)) in set(EXIT_CODES.values())


def test_a_broken_pipe_is_silent() -> None:
    assert CliRunner().invoke(failing_program(BrokenPipeError()), ["go"]).stderr == ""
