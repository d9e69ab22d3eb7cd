"""How much a scheduler takes on."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SchedulerLimits:
    """How much a scheduler takes on.

    waiting: the most requests in line while no place to run is free.
    running: the most sequences at once; a request of n choices is n of them.
    cached_tokens: see SequencePool; None for as many as the decoder has room for, or four contexts where its
        room has no limit.
    gap_steps, idle_seconds: see PrefillPace.
    draft_tokens: the most tokens that are guessed of an answer and computed with the one that is known, where
        the decoder has rows to spare. Guesses change how soon tokens come, never which.
    """

    waiting: int = 64
    running: int = 64
    cached_tokens: int | None = None
    gap_steps: float = 2.1
    idle_seconds: float = 0.2
    draft_tokens: int = 3
