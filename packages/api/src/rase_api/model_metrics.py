"""What the models in memory say of themselves, whenever somebody reads the metrics."""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from rase_core.scheduler import Snapshot

from rase_api.serving import ServingEngine

BATCHES = (1, 2, 4, 8, 16, 32, 64)

GAUGES: Mapping[str, tuple[str, Callable[[Snapshot], float]]] = {
    "queue_length": ("Requests in line.", lambda now: now.waiting),
    "sequences_prefilling": ("Answers whose prompt is computed.", lambda now: now.prefilling),
    "sequences_decoding": ("Answers that are written.", lambda now: now.decoding),
    "sequences_preempted": ("Answers that wait for memory to go on.", lambda now: now.preempted),
    "prefixes_kept": ("Sequences kept for later prompts.", lambda now: now.cached_sequences),
    "kv_tokens_used": ("Tokens that the blocks in use can hold.", lambda now: now.kv_used),
}
COUNTERS: Mapping[str, tuple[str, Callable[[Snapshot], float]]] = {
    "started": ("Requests that have left the line.", lambda now: now.totals.requests),
    "prefix_hits": (
        "Requests that found a part of their prompt computed.",
        lambda now: now.totals.prefix_hits,
    ),
    "generated_tokens": (
        "Tokens, also of answers that nobody waited for.",
        lambda now: now.totals.generated_tokens,
    ),
    "drafted_tokens": ("Tokens that were guessed ahead.", lambda now: now.totals.drafted_tokens),
    "accepted_tokens": ("Guessed tokens that were chosen.", lambda now: now.totals.accepted_tokens),
    "preemptions": ("Answers that gave their memory up.", lambda now: now.totals.preemptions),
    "device_losses": (
        "Devices that were lost, whose answers were computed again on the CPU.",
        lambda now: now.totals.device_losses,
    ),
    "steps": ("Steps of the decoder.", lambda now: now.totals.steps),
    "step_seconds": ("Seconds in steps.", lambda now: now.totals.step_seconds),
    "decoder_seconds": ("Seconds in steps that the decoder took.", lambda now: now.totals.decoder_seconds),
}


class ModelMetrics(Collector):
    """Reads the schedulers of the models in memory; those of a model begin anew when it is loaded again."""

    def __init__(self, engine: ServingEngine) -> None:
        self._engine = engine

    def describe(self) -> list[Metric]:
        """Name nothing beforehand, which would ask the engine."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield what there is now."""
        now = {model.manifest.id: model.snapshot() for model in self._engine.loaded_models()}
        for name, (text, value) in GAUGES.items():
            yield _family(GaugeMetricFamily, name, text, now, value)
        for name, (text, value) in COUNTERS.items():
            yield _family(CounterMetricFamily, name, text, now, value)
        yield _capacity(now)
        yield _batches(now)
        yield self._loads(set(now))

    def _loads(self, loaded: set[str]) -> Metric:
        family = CounterMetricFamily("rase_model_loads", "Times that a model was loaded.", labels=("model",))
        for model, count in {**dict.fromkeys(loaded, 0), **self._engine.load_counts()}.items():
            family.add_metric((model,), count)
        return family


def _family(
    kind: type[GaugeMetricFamily] | type[CounterMetricFamily],
    name: str,
    text: str,
    now: Mapping[str, Snapshot],
    value: Callable[[Snapshot], float],
) -> Metric:
    family = kind(f"rase_{name}", text, labels=("model",))
    for model, snapshot in now.items():
        family.add_metric((model,), value(snapshot))
    return family


def _capacity(now: Mapping[str, Snapshot]) -> Metric:
    family = GaugeMetricFamily(
        "rase_kv_tokens_capacity", "Tokens that all blocks can hold.", labels=("model",)
    )
    for model, snapshot in now.items():
        if snapshot.kv_capacity is not None:
            family.add_metric((model,), snapshot.kv_capacity)
    return family


def _batches(now: Mapping[str, Snapshot]) -> Metric:
    family = HistogramMetricFamily(
        "rase_batch_size", "Answers that got a token in a step.", labels=("model",)
    )
    for model, snapshot in now.items():
        sizes = snapshot.totals.batch_sizes
        buckets = [
            (f"{most}.0", float(sum(count for size, count in sizes.items() if size <= most)))
            for most in BATCHES
        ]
        total = float(sum(sizes.values()))
        summed = float(sum(size * count for size, count in sizes.items()))
        family.add_metric((model,), [*buckets, ("+Inf", total)], summed)
    return family
