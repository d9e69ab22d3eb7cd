"""From a GGUF file to a decoder, reading the weights once."""

from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict, Unpack

from rase_core.errors import BackendFailure, InvalidParameter
from rase_core.progress import Progress, ProgressEvent, ProgressPhase

from rase_models.architectures import build_program
from rase_models.backends import library_faults, load_backend
from rase_models.backends.base import Backend, Threads
from rase_models.caller_faults import CallerFaults
from rase_models.closing import closed_on_error
from rase_models.decoder import ProgramDecoder
from rase_models.gguf import GgufFile, OnBytes, open_gguf
from rase_models.kv_budget import KvBudget
from rase_models.kv_cache import capacity_for
from rase_models.kv_type import KvType, choose_kv_type
from rase_models.tokenizers.end_of_generation import end_of_generation_tokens


class LoadOptions(TypedDict, total=False):
    """What may be said of how a model is loaded; see `load_decoder`."""

    context_length: int | None
    kv_budget: KvBudget | None
    kv_type: KvType | str | None
    on_bytes: OnBytes | None
    progress: Progress | None


def load_decoder(
    path: Path | str,
    device: str = "cpu",
    threads: Threads = None,
    **options: Unpack[LoadOptions],
) -> ProgramDecoder:
    """Load a model onto a device.

    Args:
        path: a GGUF file, any part of a split one.
        device: the name of a backend.
        threads: how many; None for the backend's own choice.
        context_length: the most tokens of a sequence, None for as many as the model was made for.
        kv_budget: the most memory for keys and values, None for as much as there is.
        kv_type: in which keys and values are kept; None for the backend's own choice.
        on_bytes: sees every byte of every part in order, so that the hash comes of the same pass.
        progress: told about the bytes read, and about compiling.

    Raises BackendUnavailable, ModelFileError, BackendFailure when the weights do not fit into the memory, and
    InvalidParameter for a context length that is longer than the model's, for a budget that is too small and
    for a type of keys and values that the backend does not have.
    """
    return load_gguf(open_gguf(path), device, threads, **options)


def load_gguf(
    file: GgufFile,
    device: str = "cpu",
    threads: Threads = None,
    **options: Unpack[LoadOptions],
) -> ProgramDecoder:
    """Load a model whose header has been read, as `load_decoder` does."""
    return load_on(load_backend(device), file, threads, **options)


def load_on(
    backend: Backend,
    file: GgufFile,
    threads: Threads = None,
    *,
    context_length: int | None = None,
    kv_budget: KvBudget | None = None,
    kv_type: KvType | str | None = None,
    on_bytes: OnBytes | None = None,
    progress: Progress | None = None,
) -> ProgramDecoder:
    """Load a model onto a backend, as `load_decoder` does."""
    program = build_program(file, context_length)
    _check_context_length(context_length, program.context_length)
    eos_tokens = end_of_generation_tokens(file)
    chosen = choose_kv_type(kv_type, backend.kv_types)
    with CallerFaults() as faults, _named_faults(backend, file, faults):
        block_nbytes = backend.block_nbytes(program, chosen)
        if kv_budget is not None:
            kv_budget.check(block_nbytes)
        hear = faults.noting(progress)
        weights = file.weights(_watched(file, faults.noting(on_bytes), hear))
        runner = backend.load(program, weights, threads, hear, chosen)
    with closed_on_error(runner):
        if kv_budget is None:
            return ProgramDecoder(program, runner, eos_tokens, context_length)
        length = context_length or program.context_length
        capacity = kv_budget.tokens(block_nbytes, capacity_for(program.kv_groups, length, runner.max_rows))
        states = kv_budget.sequences(4 * sum(program.state_sizes))
        return ProgramDecoder(program, runner, eos_tokens, context_length, capacity, states)


@contextmanager
def _named_faults(backend: Backend, file: GgufFile, others: Container[BaseException]) -> Iterator[None]:
    """Name the faults of libraries, and want of memory; the errors in `others` are the caller's own."""
    try:
        with library_faults(backend.name, others=others):
            yield
    except MemoryError as error:
        if error in others:
            raise
        what = f"{file.path}: not enough memory for the weights"
        raise BackendFailure(what, "use a smaller model") from error


def _check_context_length(wanted: int | None, limit: int) -> None:
    if wanted is not None and not 1 <= wanted <= limit:
        raise InvalidParameter("context_length", wanted, f"1 to {limit}, the model's own")


def _watched(file: GgufFile, on_bytes: OnBytes | None, progress: Progress | None) -> OnBytes | None:
    """Return what sees the bytes: the caller, a report of progress, both or nobody."""
    if progress is None:
        return on_bytes
    report = _reporter(file, progress)

    def see(part: int, data: memoryview) -> None:
        if on_bytes is not None:
            on_bytes(part, data)
        report(len(data))

    return see


def _reporter(file: GgufFile, progress: Progress) -> Callable[[int], None]:
    total, done = sum(file.sizes), 0

    def report(count: int) -> None:
        nonlocal done
        done += count
        progress(ProgressEvent(ProgressPhase.LOAD, str(file.path), done, total))

    return report
