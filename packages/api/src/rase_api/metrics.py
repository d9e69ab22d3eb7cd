"""What a server counts, in the form that Prometheus reads."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from rase_api.record import Record

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)

TOKENS = {
    "prompt_tokens": "Tokens of prompts.",
    "cached_tokens": "Tokens of prompts that were not computed again.",
    "completion_tokens": "Tokens of answers.",
}


class Metrics:
    """The counters of one server. Models are registered ones, so the number of series is bounded."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._running = Gauge("rase_requests_running", "Requests under way.", registry=registry)
        self._requests = Counter(
            "rase_requests", "Requests that have ended.", ("route", "outcome"), registry=registry
        )
        self._seconds = Histogram(
            "rase_request_seconds", "Seconds to the end.", ("route",), registry=registry, buckets=SECONDS
        )
        self._first = Histogram(
            "rase_first_text_seconds",
            "Seconds to the first text of an answer.",
            ("model",),
            registry=registry,
            buckets=SECONDS,
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
        """Write all of it."""
        return generate_latest(self._registry)

    def _count(self, record: Record, model: str) -> None:
        if record.first_text is not None:
            self._first.labels(model).observe(record.first_text)
        for kind, counter in self._tokens.items():
            counter.labels(model).inc(getattr(record, kind))
