"""Chooses the tokens of many sequences at once, by the likeliest that a backend finds in their logits."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rase_core.decoder import Draws, Logits, LogitsRanker, TopLogits
from rase_core.sampling.config import GenerationConfig
from rase_core.sampling.narrowing import Draw, Narrowing
from rase_core.sampling.sampler import Sampler

OPEN = -1
"""In the place of a token: its sampler has to see the row."""
_BREADTH = 64
"""How many of the likeliest are looked at first where a request sets no number."""
_MOST = 512
"""The largest number that a request may set for as many to be looked at."""

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

        That is so where there is no sampler here, where XTC leaves some of very many out, and where a sampler
        would raise something. The logits are as before afterwards, whatever the ranker raises.
        """
        chosen = [OPEN] * len(samplers)
        asked = [
            _Asked.of(row, sampler, positions[row])
            for row, sampler in enumerate(samplers)
            if sampler is not None
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
        """Write to `chosen` what the likeliest tell, and what is drawn from more than these."""
        ranking = self._ranking(asked, logits)
        sound = [one for one in asked if ranking.is_sound(one.row, changes.get(one.row))]
        left = [one for one in ranking.choose(sound, chosen) if one.draw.is_plain]
        if not left:
            return
        tokens = self._ranker.draw(logits, _draws(left, ranking.totals_of(left)))
        for one, token in zip(left, tokens.tolist(), strict=True):
            chosen[one.row] = token

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
    """Return how many of the likeliest are to be looked at first."""
    if config.temperature == 0 or _is_broad(config, vocab_size):
        return 1
    return min(config.top_k or _BREADTH, vocab_size)


def _is_broad(config: GenerationConfig, vocab_size: int) -> bool:
    """Tell whether the likeliest are not even looked at before a token is drawn."""
    return not config.narrows or min(config.top_k, vocab_size) > _MOST


@dataclass(frozen=True, slots=True)
class _Asked:
    row: int
    sampler: Sampler
    draw: Draw

    @classmethod
    def of(cls, row: int, sampler: Sampler, position: int) -> "_Asked":
        config = sampler.config
        numbers = sampler.uniforms(position) if config.temperature else (0.0, 1.0)  # nothing is drawn
        return cls(row, sampler, Draw(config, *numbers))


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

    vocab_size: int
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
        return cls(logits.shape[1], places, top.tokens, likeliest, top.infinite, totals)

    def is_sound(self, row: int, change: _Change | None) -> bool:
        """Tell whether all logits were finite, and some are left that penalties do not forbid."""
        place = self.places[row]
        if change is None:
            return not self.infinite[place]
        is_expected = int(self.infinite[place]) == change.forbidden
        return is_expected and bool(self.logits[place, 0] > -np.inf)

    def choose(self, asked: Sequence[_Asked], chosen: list[int]) -> list[_Asked]:
        """Write the tokens of rows to `chosen`; return those that may draw from more than is ranked."""
        drawing, broad = list[_Asked](), list[_Asked]()
        for one in asked:
            config = one.draw.config
            if config.temperature == 0:
                chosen[one.row] = int(self.tokens[self.places[one.row], 0])
            else:
                (broad if _is_broad(config, self.vocab_size) else drawing).append(one)
        return broad + (self._draw(drawing, chosen) if drawing else [])

    def totals_of(self, asked: Sequence[_Asked]) -> NDArray[np.float64]:
        """Return what the shares of rows add up to."""
        totals: NDArray[np.float64] = self.totals[[self.places[one.row] for one in asked]]
        return totals

    def _draw(self, drawing: Sequence[_Asked], chosen: list[int]) -> list[_Asked]:
        """Draw from the likeliest, and return the rows where more than these may be drawn."""
        places = [self.places[one.row] for one in drawing]
        draws = [one.draw for one in drawing]
        narrowing = Narrowing(self.tokens[places], self.logits[places], self.totals[places], draws)
        is_enough = narrowing.is_enough().tolist()
        for one, token, is_known in zip(drawing, narrowing.tokens(), is_enough, strict=True):
            chosen[one.row] = token if is_known else OPEN
        return [one for one, is_known in zip(drawing, is_enough, strict=True) if not is_known]


def _looks_at_totals(config: GenerationConfig) -> bool:
    return config.temperature != 0 and not config.top_k and config.top_p < 1


def _draws(asked: Sequence[_Asked], totals: NDArray[np.float64]) -> Draws:
    configs = [one.draw.config for one in asked]
    return Draws(
        rows=np.array([one.row for one in asked], np.int64),
        top_k=np.array([config.top_k for config in configs], np.int64),
        top_p=np.array([config.top_p for config in configs], np.float64),
        min_p=np.array([config.min_p for config in configs], np.float64),
        temperature=np.array([config.temperature for config in configs], np.float64),
        uniform=np.array([one.draw.uniform for one in asked], np.float64),
        totals=totals,
    )
