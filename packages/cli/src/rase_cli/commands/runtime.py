"""`rase runtime ...`: the machine."""

import click

from rase_cli.failures import UNAVAILABLE
from rase_cli.output import emit_json, emit_table
from rase_cli.records import probe_record
from rase_cli.settings import ONLY_DEVICE, Settings, open_engine, pass_settings, shared_options


@click.group()
def runtime() -> None:
    """Look at what this machine can run on."""


@runtime.command()
@click.option("--json", "as_json", is_flag=True, help="Write JSON to standard output.")
@shared_options(ONLY_DEVICE)
@pass_settings
def probe(settings: Settings, as_json: bool) -> None:
    """Try the devices, best first, with a real computation, and say which one works and why others do not.

    In a pipe: one line for each, tab-separated: device, "usable" or "unusable", reason, detail. The exit code
    is 5 when none is usable.
    """
    with open_engine(settings) as engine:
        report = engine.probe(settings.device)
    if as_json:
        emit_json(probe_record(report))
    else:
        emit_table(
            ("device", "result", "reason", "detail"),
            [(a.name, "usable" if a.usable else "unusable", a.reason, a.detail) for a in report.attempts],
        )
    if report.device is None:
        raise click.exceptions.Exit(UNAVAILABLE)
