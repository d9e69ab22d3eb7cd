"""Warnings of the libraries."""

import json
import logging

import pytest
from rase_cli.logs import NoteHandler, ServerHandler


@pytest.fixture
def logger() -> logging.Logger:
    logger = logging.Logger("some.library")
    logger.addHandler(NoteHandler())
    return logger


def test_the_same_warning_is_shown_once(logger: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    for number in (1, 1, 2):
        logger.warning("cannot keep %d", number)
    logger.info("nothing")
    assert capsys.readouterr().err == "warning: cannot keep 1\nwarning: cannot keep 2\n"


def test_an_error_has_its_traceback_and_no_control_characters(
    logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        raise ValueError("a\x1b[2J")
    except ValueError:
        logger.exception("it failed")
    shown = capsys.readouterr().err
    assert shown.startswith("error: it failed\nTraceback")
    assert "\x1b" not in shown


@pytest.mark.parametrize("as_json", [False, True])
def test_a_server_logs_every_line_and_requests_as_they_are(
    as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = logging.Logger("rase_api.access")
    logger.addHandler(ServerHandler(as_json=as_json))
    for _ in range(2):
        logger.info("{}", extra={"request": {}})
    try:
        raise ValueError("a\x1b[2J")
    except ValueError:
        logger.exception("it failed")
    shown = capsys.readouterr().err
    assert shown.startswith("{}\n{}\n")
    assert "\x1b" not in shown
    rest = shown.removeprefix("{}\n{}\n")
    if as_json:
        told = json.loads(rest)
        assert (told["level"], told["logger"]) == ("error", "rase_api.access")
        assert told["message"].startswith("it failed\nTraceback")
    else:
        assert rest.startswith("error: it failed\nTraceback")
