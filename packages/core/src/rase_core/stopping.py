"""Stop strings in text that arrives in pieces."""

from collections import deque
from collections.abc import Iterable


class StopMatcher:
    """Cuts a stream of text before the first stop string, holding back only what may become one.

    The first stop string is the one that ends first, and the longest of those that end there; so the result
    does not depend on where the pieces are cut. Takes time linear in the text (Aho and Corasick, 1975).
    """

    def __init__(self, stops: Iterable[str]) -> None:
        self._automaton = _Automaton(stops)
        self._state = 0
        self._held = ""
        self.stop: str | None = None
        """The stop string that was found; nothing more comes out after it."""

    def push(self, text: str) -> str:
        """Return the text, held-back text included, that cannot be part of a stop string any more."""
        if self.stop is not None:
            return ""
        for i, character in enumerate(text):
            self._state = self._automaton.step(self._state, character)
            self.stop = self._automaton.found[self._state]
            if self.stop is not None:
                return self._release(self._held + text[: i + 1], len(self.stop), keep=False)
        return self._release(self._held + text, self._automaton.depth[self._state], keep=True)

    def flush(self) -> str:
        """Return the text that is still held back, at the end of the stream."""
        held, self._held, self._state = self._held, "", 0
        return held

    def _release(self, text: str, held: int, *, keep: bool) -> str:
        end = len(text) - held
        self._held = text[end:] if keep else ""
        return text[:end]


class _Automaton:
    """The states are the prefixes of the stop strings; state 0 is the empty one.

    depth[state]: how long the prefix is; found[state]: the longest stop string that ends with it.
    """

    def __init__(self, stops: Iterable[str]) -> None:
        self.depth = [0]
        self.found: list[str | None] = [None]
        self._next: list[dict[str, int]] = [{}]
        self._shorter = [0]  # the longest other prefix that ends this one
        for stop in stops:
            self.found[self._grow(stop)] = stop
        self._link()

    def step(self, state: int, character: str) -> int:
        """Return the longest prefix that the text ends with after one more character."""
        while state and character not in self._next[state]:
            state = self._shorter[state]
        return self._next[state].get(character, 0)

    def _grow(self, stop: str) -> int:
        state = 0
        for character in stop:
            if character not in self._next[state]:
                self._next[state][character] = len(self.depth)
                self.depth.append(self.depth[state] + 1)
                self.found.append(None)
                self._next.append({})
                self._shorter.append(0)
            state = self._next[state][character]
        return state

    def _link(self) -> None:
        pending = deque(self._next[0].values())
        while pending:
            state = pending.popleft()
            for character, following in self._next[state].items():
                self._shorter[following] = self.step(self._shorter[state], character)
                self.found[following] = self.found[following] or self.found[self._shorter[following]]
                pending.append(following)
