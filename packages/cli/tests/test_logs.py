"""Warnings of the libraries."""

import logging

import pytest
from rase_cli.logs import NoteHandler


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
