"""The settings of the server as command-line options."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from rase_cli.api_key import VARIABLE, ApiKey, KeyOption
from rase_cli.file_path import FilePath
from rase_cli.number import Number, WholeNumber
from rase_cli.settings import Body, Option
from rase_cli.sizes import size
from rase_cli.system_errors import reason_of

KEYS: Option = click.option(
    "--api-key",
    "api_keys",
    type=ApiKey(),
    multiple=True,
    envvar=VARIABLE,
    cls=KeyOption,
    metavar="KEY",
    help="A key that requests must bring; may be repeated. Others on this machine can read command lines: "
    "better use the variable or a file. [env: RASE_API_KEY, several with spaces between]",
)
KEY_FILE: Option = click.option(
    "--api-key-file",
    type=FilePath(exists=True, dir_okay=False),
    metavar="FILE",
    help="A file of such keys, one a line.",
)
ORIGINS: Option = click.option(
    "--cors-origin",
    "cors_origins",
    multiple=True,
    metavar="ORIGIN",
    help="Web pages of this origin may use the server, as https://page.example; * for all; may be repeated.",
)
HOSTS: Option = click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="A name by which the server is asked, besides localhost and IP addresses, or * for all; may be "
    "repeated. [default: none; all with keys]",
)
TIMEOUT: Option = click.option(
    "--request-timeout",
    type=Number(min=0, min_open=True),
    metavar="SECONDS",
    help="The most time of an answer. [default: none]",
)
BODY: Option = click.option(
    "--max-body-size",
    "max_body_bytes",
    type=size,
    metavar="SIZE",
    help="The longest body of a request that is read. [default: 8.4MB]",
)
LOG: Option = click.option(
    "--json-log",
    is_flag=True,
    help="Log as JSON, one object a line.",
)
LENIENT: Option = click.option(
    "--lenient",
    is_flag=True,
    help="Ignore parameters that are unknown or not supported, with a warning, instead of refusing them.",
)
GRACE: Option = click.option(
    "--grace",
    type=WholeNumber(0, 1_000_000),
    default=5,
    show_default=True,
    metavar="SECONDS",
    help="How long running requests may go on after Ctrl-C or SIGTERM.",
)
CERTIFICATE: Option = click.option(
    "--tls-cert",
    type=FilePath(),
    metavar="FILE",
    help="A certificate in PEM, with those that vouch for it, to serve over HTTPS; needs --tls-key.",
)
PRIVATE_KEY: Option = click.option(
    "--tls-key",
    type=FilePath(),
    metavar="FILE",
    help="The private key of --tls-cert in PEM, without a password.",
)
OPTIONS = (KEYS, KEY_FILE, ORIGINS, HOSTS, TIMEOUT, BODY, LENIENT, LOG, CERTIFICATE, PRIVATE_KEY, GRACE)


def server_options(command: Body) -> Body:
    """Give a command an option for each setting of the server."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def server_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what options said of `rase_api.settings.Settings`; what none did is the server's own affair.

    Raises:
        click.UsageError: the file of keys has none, or cannot be read.
    """
    settings = {name: value for name, value in given.items() if value not in (None, ())}
    file = settings.pop("api_key_file", None)
    if file is not None:
        settings["api_keys"] = (*settings.get("api_keys", ()), *_keys_of(file))
    return settings


def _keys_of(file: Path) -> list[str]:
    try:
        lines = file.read_text("utf-8").splitlines()
    except OSError as error:
        raise click.UsageError(f"the keys of {file} cannot be read: {reason_of(error)}") from error
    except UnicodeError as error:
        raise click.UsageError(f"the keys of {file} cannot be read: {error}") from error
    keys = [line.strip() for line in lines if line.strip()]
    if not keys:
        raise click.UsageError(f"{file} has no key")
    return keys
