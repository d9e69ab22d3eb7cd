"""A thread that lost its core in one run must not disturb the next, nor find its memory gone."""

import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from rase_core.errors import BackendFailure
from rase_models.backends.cpu import abi
from rase_models.backends.cpu.runner import CpuRunner
from rase_models.decoder import ProgramDecoder
from rase_models.loading import load_decoder

PROMPT, OTHER = list(range(40)), list(range(100, 170))
Kernel = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)


class Holder:
    """Holds the worker of a decoder of two threads back, on its way into one op."""

    def __init__(self, decoder: ProgramDecoder) -> None:
        runner = decoder._runner
        assert isinstance(runner, CpuRunner)
        self.team, self.watch = runner._team, runner._watch
        start, end = (self.team.words[word // abi.WORD] for word in (abi.PROGRAM, abi.PROGRAM_END))
        self.ops = int(end - start) // abi.OP_BYTES
        words = (ctypes.c_int64 * (int(end - start) // abi.WORD)).from_address(int(start))
        self._table = np.frombuffer(memoryview(words), np.int64).reshape(self.ops, -1)
        self.is_held, self._may_go = threading.Event(), threading.Event()

    def hold_at(self, op: int) -> None:
        """Stop the worker before an op of the next run, once."""
        self.is_held.clear()
        self._may_go.clear()
        original = int(self._table[op, abi.FUNCTION // abi.WORD])
        call = Kernel(original)

        def kernel(thread: int, threads: int, address: int, context: int) -> None:
            if thread == 1 and not self.is_held.is_set():
                self.is_held.set()
                self._may_go.wait(30)
            call(thread, threads, address, context)

        held = Kernel(kernel)
        self.team.hold(f"op {op}", held)  # the op calls it in all later runs
        self.team.settle()
        address = ctypes.cast(held, ctypes.c_void_p).value
        assert address is not None
        self._table[op, abi.FUNCTION // abi.WORD] = address

    def release(self) -> None:
        """Let the worker go on."""
        self._may_go.set()


@pytest.fixture
def decoder(tiny_path: Path) -> Iterator[ProgramDecoder]:
    made = load_decoder(tiny_path, threads=2)
    yield made
    made.close()


def held(decoder: ProgramDecoder, op: int, run: Callable[[], object]) -> Holder:
    """Run until the worker is held before an op; the runs are over without it."""
    holder = Holder(decoder)
    holder.hold_at(op)
    deadline = time.monotonic() + 20
    while not holder.is_held.is_set() and time.monotonic() < deadline:
        holder.watch.limit = holder.watch.most  # whoever else has the cores
        run()
    assert holder.is_held.is_set()
    return holder


def is_kept_waiting(action: Callable[[], object], holder: Holder) -> bool:
    """Say whether an action waits for the held worker, and goes on when that does."""
    done = threading.Event()

    def act() -> None:
        action()
        done.set()

    thread = threading.Thread(target=act)
    thread.start()
    waited = not done.wait(0.1)
    holder.release()
    thread.join(20)
    assert done.is_set()
    return waited


def expected(tiny_path: Path, tokens: list[int]) -> NDArray[np.float32]:
    decoder = load_decoder(tiny_path, threads=1)
    try:
        return decoder.logits(tokens)
    finally:
        decoder.close()


def test_a_worker_that_is_late_does_not_disturb_runs(decoder: ProgramDecoder, tiny_path: Path) -> None:
    first, second = expected(tiny_path, PROMPT), expected(tiny_path, OTHER)
    for op in range(0, Holder(decoder).ops, 3):
        holder = held(decoder, op, lambda: decoder.logits(PROMPT))
        assert np.array_equal(decoder.logits(OTHER), second)
        assert np.array_equal(decoder.logits(PROMPT), first)
        holder.release()
        assert np.array_equal(decoder.logits(OTHER), second)


def test_a_prompt_waits_for_a_worker_that_is_late_from_one_row(
    decoder: ProgramDecoder, tiny_path: Path
) -> None:
    want, got = expected(tiny_path, PROMPT), []
    for op in range(0, Holder(decoder).ops, 3):
        holder = held(decoder, op, lambda: decoder.prefill([1]))
        assert is_kept_waiting(lambda: got.append(decoder.logits(PROMPT)), holder)
        assert np.array_equal(got.pop(), want)


def test_memory_is_not_replaced_under_a_worker_that_is_late(decoder: ProgramDecoder, tiny_path: Path) -> None:
    holder = held(decoder, 3, lambda: decoder.logits(PROMPT))
    assert is_kept_waiting(lambda: decoder._runner.reserve(0, 100_000), holder)
    assert np.array_equal(decoder.logits(PROMPT), expected(tiny_path, PROMPT))


def test_closing_waits_for_a_worker_that_is_late(decoder: ProgramDecoder) -> None:
    holder = held(decoder, 3, lambda: decoder.logits(PROMPT))
    assert is_kept_waiting(decoder.close, holder)


def test_a_closed_decoder_says_so(decoder: ProgramDecoder) -> None:
    decoder.prefill([1])
    decoder.close()
    uses: list[Callable[[], object]] = [
        lambda: decoder.decode(1),
        lambda: decoder.prefill(PROMPT),
        lambda: decoder.logits(OTHER),
        lambda: decoder._runner.reserve(0, 1000),
        lambda: decoder._runner.copy_block(0, 0, 0),
    ]
    for use in uses:
        with pytest.raises(BackendFailure, match="this model was closed"):
            use()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_does_not_wait_for_a_worker_that_it_does_not_have(decoder: ProgramDecoder) -> None:
    holder = held(decoder, 3, lambda: decoder.logits(PROMPT))
    child = os.fork()
    if child == 0:
        try:
            decoder._runner.reserve(0, 100_000)
        except BackendFailure as error:
            os._exit(7 if "fork" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    holder.release()


@pytest.mark.parametrize("bits", [23, 24, 25, 32])
def test_runs_are_told_apart_when_their_numbers_begin_again(bits: int, tiny_path: Path) -> None:
    want = expected(tiny_path, PROMPT)
    decoder = load_decoder(tiny_path, threads=1)
    runner = decoder._runner
    assert isinstance(runner, CpuRunner)
    words = runner._team.words
    try:
        while words[abi.STEP // abi.WORD] < (1 << bits) - 3:
            # numbers are compared over half their range: do not jump further than that
            ahead = int(words[abi.STEP // abi.WORD]) + (1 << 22)
            words[abi.STEP // abi.WORD] = min(ahead, (1 << bits) - 3)
            decoder.prefill([1])
        for _ in range(6):
            assert np.array_equal(decoder.logits(PROMPT), want)
        assert words[abi.STEP // abi.WORD] >= 1 << bits
    finally:
        decoder.close()


def test_a_prompt_after_decoding_is_right_with_more_threads_than_cores(tiny_path: Path) -> None:
    decoder = load_decoder(tiny_path, threads=2 * (os.cpu_count() or 1) + 1)
    want = expected(tiny_path, PROMPT)[-1]
    try:
        for _ in range(40):
            decoder.decode(PROMPT[0])
            assert np.array_equal(decoder.prefill(PROMPT), want)
    finally:
        decoder.close()
