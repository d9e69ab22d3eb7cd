"""Chooses the tokens of many sequences at once, by the likeliest that a backend finds in their logits."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rase_core.decoder import Logits, LogitsRanker, TopLogits
from rase_core.sampling.config import GenerationConfig
from rase_core.sampling.narrowing import Draw, Narrowing
from rase_core.sampling.sampler import Sampler

OPEN = -1
"""In the place of a token: its sampler has to see the row."""
_BREADTH, _WIDER = 64, (512, 4096)
"""How many of the likeliest are looked at where a request sets no number: at first, and when too few are."""
_MOST = 512
"""The largest number that a request may set."""

_FEW = 2
"""Rows that are ranked are copied where they are at most one in so many."""
_UNSOUND = -1


class Chooser:
    """Chooses what each sampler itself would choose, to the bit, without looking at whole rows.

    All tokens that samplers name are to be inside the vocabulary.
    """

    def __init__(self, ranker: LogitsRanker) -> None:
        self._ranker = ranker

    def choose(
        self, samplers: Sequence[Sampler | None], positions: Sequence[int], logits: Logits
    ) -> list[int]:
        """Return the token of each row float32 [rows, vocab], OPEN where its sampler has to see the row.

        That is so where there is no sampler here, where one draws from the whole vocabulary, and where it
        would raise something. The logits are as before afterwards, whatever the ranker raises.
        """
        chosen = [OPEN] * len(samplers)
        vocab_size = logits.shape[1]
        asked = [
            _Asked(row, sampler, positions[row])
            for row, sampler in enumerate(samplers)
            if sampler is not None and _breadth(sampler.config, vocab_size)
        ]
        if not asked:
            return chosen
        logits = logits if logits.flags.writeable else logits.copy()
        changes: dict[int, _Change] = {}
        try:
            for one in asked:
                if one.sampler.has_penalties:
                    changes[one.row] = _Change.of(one, logits)
            self._choose_all(asked, changes, logits, chosen)
        finally:
            for change in changes.values():
                change.undo(logits)
        return chosen

    def _choose_all(
        self, asked: "list[_Asked]", changes: "dict[int, _Change]", logits: Logits, chosen: list[int]
    ) -> None:
        """Write to `chosen` what can be told by the likeliest."""
        vocab_size = logits.shape[1]
        ranking = self._ranking(asked, logits)
        sound = [one for one in asked if ranking.is_sound(one.row, changes.get(one.row))]
        asked = ranking.choose(sound, chosen)
        for wider in _WIDER:
            if not asked or vocab_size <= wider:
                return
            rows = [one.row for one in asked]
            top = self._ranker.top_logits(logits[rows], wider)
            totals = ranking.totals[[ranking.places[row] for row in rows]]
            asked = _Ranking.of(rows, top, logits[rows], totals).choose(asked, chosen)

    def _ranking(self, asked: "list[_Asked]", logits: Logits) -> "_Ranking":
        """Rank as many as are looked at first, of the rows that are asked for where these are few."""
        breadth = max(_breadth(one.sampler.config, logits.shape[1]) for one in asked)
        with_totals = any(_looks_at_totals(one.sampler.config) for one in asked)
        rows: Sequence[int] = range(len(logits))
        if len(asked) * _FEW <= len(logits):  # else it takes longer to copy them
            rows = [one.row for one in asked]
            logits = logits[rows]
        top = self._ranker.top_logits(logits, breadth, with_totals=with_totals)
        totals = top.totals if top.totals is not None else np.zeros(len(logits))
        return _Ranking.of(rows, top, logits, totals)


def _breadth(config: GenerationConfig, vocab_size: int) -> int:
    """Return how many of the likeliest are to be looked at first, 0 for all tokens."""
    if config.temperature == 0:
        return 1
    if config.top_k:
        breadth = min(config.top_k, vocab_size)
        return breadth if breadth <= _MOST else 0
    return _BREADTH if (config.top_p < 1 or config.min_p) and vocab_size > _BREADTH else 0


@dataclass(frozen=True, slots=True)
class _Asked:
    row: int
    sampler: Sampler
    position: int

    @property
    def draw(self) -> Draw:
        return Draw(self.sampler.config, *self.sampler.uniforms(self.position))


@dataclass(frozen=True, slots=True)
class _Change:
    """What penalties changed in a row: which tokens, what their logits were, how many are forbidden now."""

    row: int
    tokens: NDArray[np.intp]
    before: NDArray[np.float32]
    forbidden: int

    @classmethod
    def of(cls, asked: _Asked, logits: Logits) -> "_Change":
        """Penalise a row, unless its logits are no finite numbers."""
        row, tokens = logits[asked.row], asked.sampler.penalised_tokens()
        before = row[tokens]
        if not np.isfinite(before).all():
            return cls(asked.row, tokens, before, _UNSOUND)
        asked.sampler.penalise(row)
        return cls(asked.row, tokens, before, int(np.count_nonzero(row[tokens] == -np.inf)))

    def undo(self, logits: Logits) -> None:
        logits[self.row, self.tokens] = self.before


@dataclass(frozen=True, slots=True)
class _Ranking:
    """The likeliest tokens of rows, with their logits float32 [rows, k]; `places` says where each row is."""

    places: dict[int, int]
    tokens: NDArray[np.int32]
    logits: NDArray[np.float32]
    infinite: NDArray[np.int64]
    totals: NDArray[np.float64]

    @classmethod
    def of(
        cls, rows: Sequence[int], top: TopLogits, logits: Logits, totals: NDArray[np.float64]
    ) -> "_Ranking":
        """Return the ranking of logits, float32 [rows, vocab], that belong to these rows."""
        places = {row: place for place, row in enumerate(rows)}
        likeliest = np.take_along_axis(logits, top.tokens, axis=1)
        return cls(places, top.tokens, likeliest, top.infinite, totals)

    def is_sound(self, row: int, change: _Change | None) -> bool:
        """Tell whether all logits were finite, and some are left that penalties do not forbid."""
        place = self.places[row]
        if change is None:
            return not self.infinite[place]
        is_expected = int(self.infinite[place]) == change.forbidden
        return is_expected and bool(self.logits[place, 0] > -np.inf)

    def choose(self, asked: Sequence[_Asked], chosen: list[int]) -> list[_Asked]:
        """Write the tokens of rows to `chosen`; return those that may draw from more than is ranked."""
        drawing = [one for one in asked if one.sampler.config.temperature != 0]
        for one in asked:
            chosen[one.row] = int(self.tokens[self.places[one.row], 0])
        if not drawing:
            return []
        places = [self.places[one.row] for one in drawing]
        draws = [one.draw for one in drawing]
        narrowing = Narrowing(self.tokens[places], self.logits[places], self.totals[places], draws)
        is_enough = narrowing.is_enough().tolist()
        for one, token, is_known in zip(drawing, narrowing.tokens(), is_enough, strict=True):
            chosen[one.row] = token if is_known else OPEN
        return [one for one, is_known in zip(drawing, is_enough, strict=True) if not is_known]


def _looks_at_totals(config: GenerationConfig) -> bool:
    return config.temperature != 0 and not config.top_k and config.top_p < 1
