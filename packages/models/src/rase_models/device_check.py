"""Which device to use, and whether it computes what it should."""

import logging
from collections.abc import Iterator, Sequence
from functools import cache, partial

import numpy as np
from rase_core.device import DevicePreference, ProbeReport, device_number, probe
from rase_core.errors import BackendFailure, BackendUnavailable
from rase_core.fork_safe import ForkSafeLock

from rase_models.backends import BACKENDS, BackendPlaces, library_faults, load_backend
from rase_models.backends.base import Backend, Rows
from rase_models.gguf import GgmlType, TensorInfo, Weight
from rase_models.lost_devices import CPU, LOST_DEVICES
from rase_models.machine_memory import machine_memory
from rase_models.program import Embed, Linear, Program, RmsNorm, SelectOutputs

logger = logging.getLogger(__name__)

ACCELERATORS = (DevicePreference.CUDA, DevicePreference.METAL)
"""The devices that are no CPU, whose own descriptions tell of their memory."""

_CHOOSING = ForkSafeLock()
"""One thread tries a device out: in two at once its library may be half imported, or its memory taken."""

_WIDTH = 64
_VOCABULARY = 48
_EPS = 1e-5
_COUNTS = (5, 40)
"""Rows of few and of many, which a GPU multiplies in different ways, by different libraries."""
_TOLERANCE = 2e-3
"""Of the largest value: some GPUs multiply float32 with 11 bits of each factor."""


def choose_device(name: str) -> str:
    """Return the backend for a device's name; for `auto` the first one that computes what it should.

    The last resort is not tried out, which takes a while: loading a model says what is wrong with it.
    Raises BackendUnavailable for an unknown name, and when there is no such backend here.
    """
    with _CHOOSING:
        return _choose(name)


@cache
def _choose(name: str) -> str:
    preference, number = DevicePreference.parse(name), device_number(name)
    if number is not None:
        return f"{preference.value}:{number}"
    return choose_among(preference.candidates(), BACKENDS)


def may_fall_back(name: str) -> bool:
    """Say whether the CPU may compute in place of what `choose_device` returns for a name.

    Raises what `choose_device` raises.
    """
    return DevicePreference.parse(name) is DevicePreference.AUTO and choose_device(name) != CPU


def choose_among(candidates: Sequence[DevicePreference], places: BackendPlaces) -> str:
    """Return the first of these devices whose backend computes what it should, else the last one."""
    *better, last = [device.value for device in candidates if device in places] or [candidates[-1].value]
    for device in better:
        try:
            _check(device, places, accepts_stand_ins=False)
        except (BackendUnavailable, BackendFailure) as error:
            logger.log(_weight_of(error), "the device %s is passed by: %s", device, error.message)
            continue
        return device
    load_backend(last, places)
    return last


class _StandsIn(BackendUnavailable):
    """There is no such device, only what computes in its place for tests."""


def _weight_of(error: BackendUnavailable | BackendFailure) -> int:
    """Return how loudly to tell that a device is passed by: who installed its library expects it."""
    is_expected = isinstance(error, BackendFailure) or (
        error.is_installed and not isinstance(error, _StandsIn)
    )
    return logging.WARNING if is_expected else logging.DEBUG


def probe_devices(name: str, places: BackendPlaces = BACKENDS) -> ProbeReport:
    """Try the devices that a name stands for, best first, each with a real computation.

    Raises BackendUnavailable for an unknown name.
    """
    preference, number = DevicePreference.parse(name), device_number(name)
    suffix = "" if number is None else f":{number}"
    check = partial(_check, places=places, accepts_stand_ins=preference is not DevicePreference.AUTO)
    probers = {d: partial(check, d.value + suffix) for d in DevicePreference if d in places}
    return probe(preference, probers, number)


def accelerator(name: str = DevicePreference.AUTO, places: BackendPlaces = BACKENDS) -> str:
    """Tell which accelerator computes for a device's name: `active: ` and what it is, else why none does.

    That is `fallback: ` where the CPU computes in its place, `inactive: ` where nothing can or no accelerator
    was asked for. Raises BackendUnavailable for an unknown name.
    """
    report = probe_devices(name, places)
    reasons = "; ".join(f"{tried.name}: {tried.reason}" for tried in report.attempts if not tried.usable)
    if report.device in ACCELERATORS:
        return f"active: {report.attempts[-1].name}, {report.attempts[-1].detail}"
    return f"{'fallback' if report.device and reasons else 'inactive'}: {reasons or report.device}"


def _check(device: str, places: BackendPlaces, *, accepts_stand_ins: bool) -> str:
    LOST_DEVICES.check(device)
    backend = load_backend(device, places)
    if backend.is_stand_in and not accepts_stand_ins:
        raise _StandsIn(device, f"there is no such device, {backend.describe()} would stand in for it")
    return check_backend(backend)


def check_backend(backend: Backend) -> str:
    """Compute a few logits on a backend and compare them with numpy's; return what computed them.

    Raises BackendUnavailable, and BackendFailure when the values are wrong.
    """
    with library_faults(backend.name):
        runner = backend.load(_program(), _weights())
        try:
            errors = [_error(runner.run(rows), rows) for rows in map(_rows, _COUNTS)]
        finally:
            runner.close()
        wrong = [error for error in errors if not error <= _TOLERANCE]
        if wrong:
            raise BackendFailure(f"the {backend.name} backend computes wrong values: off by {wrong[0]}")
        memory = f"; {machine_memory() / 1e9:.1f} GB of memory" if backend.name not in ACCELERATORS else ""
        return f"{backend.describe()}{memory}; matrix product checked"


def _program() -> Program:
    ops = (
        Embed("x", "token_embd.weight"),
        RmsNorm("h", "x", "output_norm.weight", _EPS),
        SelectOutputs("s", "h"),
        Linear("logits", "s", "output.weight"),
    )
    buffers = {"x": _WIDTH, "h": _WIDTH, "s": _WIDTH, "logits": _VOCABULARY}
    return Program("check", _VOCABULARY, 64, ops, buffers, ())


def _values() -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    rng = np.random.default_rng(0)
    return {
        "token_embd.weight": rng.normal(size=(_VOCABULARY, _WIDTH)).astype(np.float32),
        "output_norm.weight": rng.normal(size=_WIDTH).astype(np.float32),
        "output.weight": rng.normal(size=(_VOCABULARY, _WIDTH)).astype(np.float32),
    }


def _weights() -> Iterator[Weight]:
    offset = 0
    for name, values in _values().items():
        yield Weight(
            TensorInfo(name, GgmlType.F32, values.shape, offset, values.nbytes),
            values.reshape(-1).view(np.uint8),
        )
        offset += values.nbytes


def _rows(count: int) -> Rows:
    return Rows(
        sequences=np.zeros(count, np.int32),
        positions=np.arange(count, dtype=np.int32),
        tokens=np.arange(count, dtype=np.int32) * 7 % _VOCABULARY,
        outputs=np.arange(count, dtype=np.int32),
        block_tables=np.zeros((0, 1, 0), np.int32),
    )


def _error(found: np.ndarray[tuple[int, ...], np.dtype[np.float32]], rows: Rows) -> float:
    expected = _expected(rows)
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def _expected(rows: Rows) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    values = {name: value.astype(np.float64) for name, value in _values().items()}
    x = values["token_embd.weight"][rows.tokens[rows.outputs]]
    h = x / np.sqrt((x**2).mean(axis=1, keepdims=True) + _EPS) * values["output_norm.weight"]
    expected: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = h @ values["output.weight"].T
    return expected
