"""The options that every command understands, and the engine that they describe."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from rase_cli.file_path import FilePath
from rase_cli.number import WholeNumber

if TYPE_CHECKING:
    from rase_core.scheduler import SchedulerLimits
    from rase_models.backends.base import ThreadCounts
    from rase_models.engine import Engine

Body = Callable[..., object]
"""The function behind a command."""

Option = Callable[[Body], Body]

_MOST_DIGITS = 10

KV_TYPES = ("f16", "f32", "q8_0")
"""The values of `rase_models.kv_type`."""

DEVICES = ("auto", "cpu", "cuda", "metal", "reference")
"""The devices of `rase_core.device`, and the plain numpy backend that the others are tested against."""


def device_name(text: str) -> str:
    """Parse a device of DEVICES, or one of several GPUs by its number. Raises click.BadParameter."""
    from rase_core.device import DevicePreference
    from rase_core.errors import BackendUnavailable

    try:
        DevicePreference.parse(text)
    except BackendUnavailable as error:
        raise click.BadParameter(f"{text!r} is no device: {error.advice}.") from error
    return text.strip().lower()


def gpu_layers(text: str) -> int:
    """Return a number of layers, -1 for all of them; BadParameter for what is none."""
    number = "-1" if text.strip().lower() == "all" else text.strip()
    if number == "-1" or (number.isdecimal() and number.isascii() and len(number) < _MOST_DIGITS):
        return int(number)
    raise click.BadParameter(f"{text!r} is no number of layers: 0 for none, all or -1 for all.")


@dataclass(slots=True)
class Settings:
    """Where models are and what runs them; the options fill it in as they are parsed."""

    store: Path | None = None
    device: str = "auto"
    threads: int | None = None
    threads_prefill: int | None = None
    kv_type: str | None = None
    gpu_layers: int | None = None
    debug: bool = False

    def thread_counts(self) -> "ThreadCounts":
        """Return how many threads the backend is to use."""
        from rase_models.backends.base import ThreadCounts

        return ThreadCounts(self.threads, self.threads_prefill)


pass_settings = click.make_pass_decorator(Settings, ensure=True)


def _keep(ctx: click.Context, param: click.Parameter, value: object) -> None:
    if value is not None and param.name is not None:
        setattr(ctx.ensure_object(Settings), param.name, value)


def _keep_threads(ctx: click.Context, param: click.Parameter, value: int | None) -> None:
    if value is not None:
        from rase_models.backends.cpu.thread_count import most_threads

        if value > most_threads():
            raise click.BadParameter(f"{value} is more than {most_threads()}, the most that are of use here")
    _keep(ctx, param, value)


STORE: Option = click.option(
    "--store",
    type=FilePath(),
    callback=_keep,
    expose_value=False,
    help="Folder of the registered models. [default: $RASE_STORE, else a folder of the user]",
)
ONLY_DEVICE: Option = click.option(
    "--device",
    type=device_name,
    metavar=f"[{'|'.join(DEVICES)}|cuda:N]",
    callback=_keep,
    expose_value=False,
    help="What computes; cuda:1 is the second GPU. [default: auto]",
)
_GPU_LAYERS: Option = click.option(
    "--gpu-layers",
    type=gpu_layers,
    metavar="[N|all]",
    callback=_keep,
    expose_value=False,
    help="Layers on a GPU: 0 or all (-1); models are not split. [default: by --device]",
)


def _device_options(command: Body) -> Body:
    return ONLY_DEVICE(_GPU_LAYERS(command))


DEVICE: Option = _device_options
_THREADS_DECODE: Option = click.option(
    "--threads",
    type=WholeNumber(min=1),
    callback=_keep_threads,
    expose_value=False,
    help="Threads of the CPU backend. [default: $RASE_NUM_THREADS, else chosen]",
)
_THREADS_PREFILL: Option = click.option(
    "--threads-prefill",
    type=WholeNumber(min=1),
    callback=_keep_threads,
    expose_value=False,
    help="Threads that read prompts. [default: as --threads, else all physical cores]",
)


def _thread_options(command: Body) -> Body:
    return _THREADS_DECODE(_THREADS_PREFILL(command))


THREADS: Option = _thread_options
KV_TYPE: Option = click.option(
    "--kv-type",
    type=click.Choice(KV_TYPES),
    callback=_keep,
    expose_value=False,
    help="How keys and values are kept. [default: f16; f32 on the reference device and on MLX without a GPU]",
)
DEBUG: Option = click.option(
    "--debug",
    is_flag=True,
    default=None,
    callback=_keep,
    expose_value=False,
    help="Show the traceback of an error.",
)


def shared_options(*options: Option) -> Option:
    """Give a command these shared options, which may also stand before the command's name."""

    def decorate(command: Body) -> Body:
        for option in reversed((*options, DEBUG)):
            command = option(command)
        return command

    return decorate


class EngineOptions(TypedDict, total=False):
    """What only some commands say of an engine; the names are those of Engine's arguments."""

    context_length: int | None
    kv_memory: int | None
    keep_alive: float | None
    max_memory: int | None
    limits: "SchedulerLimits | None"


@contextmanager
def open_engine(
    settings: Settings, *, stop: Event | None = None, **options: Unpack[EngineOptions]
) -> Iterator["Engine"]:
    """Open the engine that the settings describe, with progress on stderr, and close it afterwards.

    `stop` ends what shows progress.
    """
    from rase_models.engine import Engine

    from rase_cli.logs import show_logs
    from rase_cli.progress import Progress

    show_logs()
    with Progress(stop) as progress:
        engine = Engine(
            settings.store,
            settings.device,
            settings.thread_counts(),
            kv_type=settings.kv_type,
            gpu_layers=settings.gpu_layers,
            progress=progress,
            **options,
        )
        try:
            yield engine
        finally:
            engine.close(grace=0)  # a load that goes on would keep the process
