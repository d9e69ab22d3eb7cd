"""Serves a model to clients that leave at random moments, and watches that nothing is left of them.

    uv run python benchmarks/soak.py --seconds 1800 --store FOLDER --out SOAK.txt

Speed does not matter here, so other programs may run meanwhile. Ends with 1 when a request failed that no
client gave up, an answer was another one than alone, memory or threads grew, KV blocks were not given back,
or something was computed at the end.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from cases import smollm2
from rase_api.app import create_app
from rase_api.testing import served
from rase_core.scheduler import SchedulerLimits
from rase_models.engine import Engine
from rase_models.session import Session

MODEL = "soak"
QUIET_SECONDS = 5.0
MOST_GROWTH = 1.05
SPARE_MB = 8.0
CONTEXT, KV_MEMORY = 2048, 56 * 2**20
"""So little that sequences are preempted."""
LIMITS = SchedulerLimits(waiting=12, running=16)


@dataclass(slots=True)
class Watch:
    """Samples of a process and of its scheduler."""

    engine: Engine
    memory: list[float] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def run(self, pause: float) -> None:
        """Take a sample now and then until it is over, and then."""
        is_over = False
        while not is_over:
            is_over = self.over.wait(pause)
            self.sample()

    def sample(self) -> None:
        """Take a sample."""
        self.memory.append(_resident_mb())
        self.blocks.append(self.engine.load(MODEL).snapshot().kv_used)
        self.threads.append(threading.active_count())

    def growth(self) -> float:
        """Return the memory of the last quarter of the time in parts of the second quarter's."""
        quarter = max(len(self.memory) // 4, 1)
        early, late = self.memory[quarter : 2 * quarter], self.memory[-quarter:]
        return (statistics.median(late) - SPARE_MB) / statistics.median(early)


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, default=smollm2())
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--store", type=Path, required=True, help="a folder for the registered model")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def _serve(options: argparse.Namespace) -> tuple[dict[str, object], Watch, dict[str, object]]:
    """Let the clients come and go; return what they saw, what was watched, and what is left at the end."""
    with Engine(options.store, context_length=CONTEXT, kv_memory=KV_MEMORY, limits=LIMITS) as engine:
        if MODEL not in [manifest.id for manifest in engine.list_models()]:
            engine.import_model(options.model, MODEL)
        watch = Watch(engine)
        watch.sample()
        with served(create_app(engine)) as url:
            watcher = threading.Thread(target=watch.run, args=(max(options.seconds / 180, 0.5),))
            watcher.start()
            program = Path(__file__).with_name("soak_clients.py")
            command = [program, url, MODEL, options.seconds, options.clients]
            done = subprocess.run([sys.executable, *map(str, command)], stdout=subprocess.PIPE, check=True)
            watch.over.set()
            watcher.join()
            return json.loads(done.stdout), watch, _left(engine)


def _left(engine: Engine) -> dict[str, object]:
    """Return what is under way, and what is computed, when nobody has asked for some seconds."""
    session = engine.load(MODEL)
    time.sleep(QUIET_SECONDS)
    before = session.snapshot()
    time.sleep(QUIET_SECONDS)
    after = session.snapshot()
    under_way = after.waiting + after.prefilling + after.decoding + after.preempted
    return {
        "under_way": under_way,
        "steps_when_idle": after.totals.steps - before.totals.steps,
        "kv_used": after.kv_used,
        "cached_sequences": after.cached_sequences,
        "preemptions": after.totals.preemptions,
        "generated_tokens": after.totals.generated_tokens,
        "prefix_hits": after.totals.prefix_hits,
        "ended": dict(after.totals.ended),
        "failed": dict(after.totals.failed),
        "kv_lost": _kv_lost(session),
    }


def _kv_lost(session: Session) -> int:
    """End the session; return the tokens in blocks that nobody holds any more and that are not free."""
    session.finish(0)
    return session.decoder.kv_used


def _faults(seen: dict[str, object], watch: Watch, left: dict[str, object]) -> list[str]:
    growth = watch.growth()
    checks: dict[str, bool] = {
        f"failures that no client caused: {seen['failures']}": bool(seen["failures"]),
        f"memory grew to {growth:.2f} times": growth > MOST_GROWTH,
        f"KV blocks are lost: {left}": bool(left["kv_lost"]),
        f"under way without clients: {left}": bool(left["under_way"] or left["steps_when_idle"]),
        f"threads grew from {watch.threads[1]} to {watch.threads[-1]}": (
            watch.threads[-1] > max(watch.threads[: len(watch.threads) // 2 + 1]) + 2
        ),
    }
    return [what for what, is_so in checks.items() if is_so]


def main() -> None:
    """Soak, say what was seen, and end with 1 when something is wrong."""
    options = parse()
    seen, watch, left = _serve(options)
    faults = _faults(seen, watch, left)
    quarter = max(len(watch.memory) // 4, 1)
    lines = [
        f"{options.seconds:.0f} s, {options.clients} clients: {json.dumps(seen['counts'], sort_keys=True)}",
        f"memory, MB: {[round(value, 1) for value in watch.memory[:: max(quarter // 2, 1)]]}",
        f"tokens in KV blocks: {watch.blocks[:: max(quarter // 2, 1)]}",
        f"threads: {watch.threads[:: max(quarter // 2, 1)]}",
        f"at the end: {json.dumps(left, sort_keys=True)}",
        f"faults: {faults or 'none'}",
    ]
    text = "\n".join(lines) + "\n"
    sys.stdout.write(text)
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")
    raise SystemExit(bool(faults))


main()
