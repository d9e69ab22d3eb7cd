"""What a server counts, in the form that Prometheus reads.

Requests are counted as they end; what the schedulers of the models know is asked of them when it is read.
"""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.registry import Collector

from rase_api.model_metrics import ModelMetrics
from rase_api.record import Record
from rase_api.serving import ServingEngine

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
TOKEN_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)

TOKENS = {
    "prompt_tokens": "Tokens of prompts.",
    "cached_tokens": "Tokens of prompts that were not computed again.",
    "completion_tokens": "Tokens of answers.",
}


class Metrics:
    """The counters of one server. Models are registered ones, so the number of series is bounded."""

    def __init__(self, engine: ServingEngine) -> None:
        self._registry = registry = CollectorRegistry()
        models: Collector = ModelMetrics(engine)
        registry.register(models)
        self._running = Gauge("rase_requests_running", "Requests under way.", registry=registry)
        self._requests = Counter(
            "rase_requests", "Requests that have ended.", ("route", "outcome"), registry=registry
        )
        self._seconds = Histogram(
            "rase_request_seconds", "Seconds to the end.", ("route",), registry=registry, buckets=SECONDS
        )
        self._first = self._of_models("first_text_seconds", "Seconds to the first text of an answer.")
        self._queued = self._of_models(
            "queue_seconds", "Seconds in line before anything was computed, where something was."
        )
        self._between = self._of_models(
            "inter_token_seconds", "Seconds between two pieces of text of an answer.", TOKEN_SECONDS
        )
        self._tokens = {
            kind: Counter(f"rase_{kind}", text, ("model",), registry=registry)
            for kind, text in TOKENS.items()
        }

    def begin(self) -> None:
        """Count a request in."""
        self._running.inc()

    def end(self, record: Record) -> None:
        """Count a request out."""
        self._running.dec()
        self._requests.labels(record.route, record.outcome.value).inc()
        self._seconds.labels(record.route).observe(record.seconds)
        if record.model is not None:
            self._count(record, record.model)

    def text(self) -> bytes:
        """Write all of it; may wait for the engine."""
        return generate_latest(self._registry)

    def _of_models(self, name: str, text: str, buckets: tuple[float, ...] = SECONDS) -> Histogram:
        return Histogram(f"rase_{name}", text, ("model",), registry=self._registry, buckets=buckets)

    def _count(self, record: Record, model: str) -> None:
        for histogram, values in self._times(record):
            observe = histogram.labels(model).observe
            for value in values:
                observe(value)
        for kind, counter in self._tokens.items():
            counter.labels(model).inc(getattr(record, kind))

    def _times(self, record: Record) -> Iterator[tuple[Histogram, list[float]]]:
        yield self._first, [] if record.first_text is None else [record.first_text]
        yield self._queued, record.queued
        yield self._between, record.gaps
