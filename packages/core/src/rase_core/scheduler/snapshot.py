"""What a scheduler is doing and has done, for metrics."""

from collections import Counter
from dataclasses import dataclass, field, replace

from rase_core.answer import Generation


@dataclass(slots=True)
class Totals:
    """Sums since the scheduler started.

    Attributes:
        requests, queued_seconds: those that were started, and how long they waited.
        prompt_tokens, cached_tokens: of these; the latter were there from earlier requests.
        prefix_hits: requests with cached tokens.
        generated_tokens: of all answers.
        drafted_tokens, accepted_tokens: those that were guessed, and of these the ones that were chosen.
        preemptions: how often a sequence gave its memory up, to be computed again.
        device_losses: how often another decoder went on because a device was lost.
        step_seconds, decoder_seconds: of all steps, and the decoder's part of them.
        batch_sizes: steps by the number of sequences that got a token.
        ended: choices by stop reason.
        failed: requests by the name of the error's class.
    """

    requests: int = 0
    queued_seconds: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    prefix_hits: int = 0
    generated_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    preemptions: int = 0
    device_losses: int = 0
    steps: int = 0
    step_seconds: float = 0.0
    decoder_seconds: float = 0.0
    batch_sizes: Counter[int] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)

    def count_start(self, beginning: Generation) -> None:
        """Count a request that has waited, by its answer that is still empty."""
        self.requests += 1
        self.queued_seconds += beginning.queued_seconds
        self.prompt_tokens += beginning.prompt_tokens
        self.cached_tokens += beginning.cached_tokens
        self.prefix_hits += beginning.cached_tokens > 0

    def copy(self) -> "Totals":
        """Return the sums as they are now."""
        batch_sizes, ended, failed = self.batch_sizes.copy(), self.ended.copy(), self.failed.copy()
        return replace(self, batch_sizes=batch_sizes, ended=ended, failed=failed)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A scheduler between two steps.

    Attributes:
        waiting: requests in line.
        prefilling, decoding, preempted: sequences that compute their prompt, that are in their answer, and
            that wait for memory to go on.
        cached_sequences: those kept as prefixes of later ones.
        kv_used, kv_capacity: the tokens that the decoder's blocks in use, and all, can hold.
    """

    waiting: int = 0
    prefilling: int = 0
    decoding: int = 0
    preempted: int = 0
    cached_sequences: int = 0
    kv_used: int = 0
    kv_capacity: int | None = None
    totals: Totals = field(default_factory=Totals)
