"""How much of the waiting prompts a step takes."""

from collections import deque
from statistics import median

_SAMPLES, _ENOUGH = 5, 3
"""Steps that count, and how many of one number of streams are enough to tell what is normal for it."""
_FRESH = 16
"""After so many steps with a prompt comes one without."""
_ROUND_TO = 8
_FIRST = 8
_DEEPER, _SHALLOW = 2, 256
"""A prompt that begins after more than so many times the depth of the latest and so many tokens is deep."""


class PrefillPace:
    """Sizes the prompt chunks by how long earlier steps took.

    While streams run, a step is to take at most `gap_steps` times as long as one without a prompt;
    `idle_seconds` otherwise. A number of streams that is new gets one step without a prompt, to learn what is
    normal for it, and a long prompt leaves such steps now and then: what makes all steps slow is not its
    doing. The first chunks are small, since nothing is known of them; so are those of a prompt that goes on
    much deeper in a context than the latest, where attention makes tokens dearer.
    """

    def __init__(self, gap_steps: float = 2.1, idle_seconds: float = 0.2) -> None:
        self._gap_steps, self._idle_seconds = gap_steps, idle_seconds
        self._normal: dict[int, deque[float]] = {}
        self._beside_streams = _Chunk(_FIRST)
        self._alone = _Chunk(2 * _FIRST)
        self._depth = 0
        self._since_normal = 0

    def tokens(self, streams: int) -> int:
        """Return how many prompt tokens to add to the next step of so many streams."""
        if not streams:
            return self._alone.size(self._idle_seconds)
        if streams not in self._normal or self._since_normal >= _FRESH:
            return 0
        return self._beside_streams.size((self._gap_steps - 1) * self._normal_seconds(streams))

    def tokens_at(self, depth: int, streams: int, tokens: int) -> int:
        """Return how many of so many tokens to add of a prompt that begins after `depth` others."""
        if not streams or depth <= _DEEPER * self._depth + _SHALLOW:
            return tokens
        self._beside_streams = _Chunk(_FIRST // 4)
        return min(tokens, _FIRST // 4)

    def measured(self, streams: int, prefilled: int, seconds: float, depth: int = 0) -> None:
        """Learn what a step of so many streams and prompt tokens, the deepest at this position, took."""
        self._since_normal = self._since_normal + 1 if prefilled and streams else 0
        if prefilled:
            self._depth = depth
        if not prefilled:
            self._normal.setdefault(streams, deque(maxlen=_SAMPLES)).append(seconds)
        elif not streams:
            self._alone.measured(prefilled, seconds)
        elif streams in self._normal:
            self._beside_streams.measured(prefilled, max(seconds - self._normal_seconds(streams), 0.0))

    def _normal_seconds(self, streams: int) -> float:
        own = self._normal[streams]
        if len(own) >= _ENOUGH:
            return min(own)  # where others compute, too, some take longer
        # A step of more streams takes no less: the least of theirs is safe from one slow sample.
        return min(min(samples) for number, samples in self._normal.items() if number >= streams)


class _Chunk:
    """The size of chunks, from the time that one token of the latest took; a chunk at most doubles it.

    Steps without a chunk leave it as it is: they tell nothing of one.
    """

    def __init__(self, first: int) -> None:
        self._size = self._most = first
        self._token_seconds: deque[float] = deque(maxlen=_SAMPLES)

    def size(self, seconds: float) -> int:
        if self._token_seconds:
            self._size = min(self._most, max(self._affordable(seconds), 1))
        return self._size

    def measured(self, tokens: int, seconds: float) -> None:
        # The rest of a prompt is too short to tell what a token costs in a whole chunk.
        if 2 * tokens >= self._size or not self._token_seconds:
            self._token_seconds.append(seconds / tokens)
            self._most = 2 * self._size

    def _affordable(self, seconds: float) -> int:
        # The median: where others compute, too, single steps take long, which says nothing of tokens.
        cost = median(self._token_seconds)
        # Rounded: what one token more seems to cost may be what a step had to wait.
        tokens = round(seconds / cost) if cost * self._most > seconds else self._most
        return tokens - tokens % _ROUND_TO if tokens > 2 * _ROUND_TO else tokens
