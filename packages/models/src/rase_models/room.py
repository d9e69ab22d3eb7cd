"""The memory that models share: who has how much of it, and who goes when another needs it."""

import threading
import weakref
from collections.abc import Callable
from time import monotonic

from rase_core.errors import MemoryTaken, ModelTooLarge
from rase_core.fork_safe import ForkSafeLock

from rase_models.memory_plan import MemoryPlan
from rase_models.session import Session

PATIENCE_SECONDS = 30.0
"""How long a model waits for those in use to be idle."""

Check = Callable[[], object]
"""Raises why a model is not wanted any more."""

TakeRoom = Callable[[MemoryPlan, Check], object]
"""Takes the memory of a plan, in place of what it took for the same model before, or raises why not."""

_POLL_SECONDS = 0.25
"""How soon a model that waits finds one that was loaded and that nobody uses."""


def nothing_against() -> None:
    """Check nothing."""


def unlimited(plan: MemoryPlan, check: Check) -> None:
    """Let a model have all memory."""


class Place:
    """A model's share of the memory, from before it is loaded until it is gone."""

    def __init__(self, room: "Room", model_id: str) -> None:
        self.model_id, self.nbytes = model_id, 0
        self._room = room
        self._session: weakref.ref[Session] | None = None

    @property
    def session(self) -> Session | None:
        """The session that has it, once it is loaded."""
        return None if self._session is None else self._session()

    @property
    def is_leaving(self) -> bool:
        """Whether it comes back as soon as those who still use the session are done."""
        return self.session is not None and self.session.is_retired

    @property
    def is_idle(self) -> bool:
        """Whether nobody uses the session."""
        return self.session is not None and self.session.is_idle

    @property
    def idle_since(self) -> float:
        """When the session was used last."""
        return monotonic() if self.session is None else self.session.idle_since

    def settle(self, session: Session) -> None:
        """Let a session have it, whose end gives it back."""
        self._session = weakref.ref(session)
        session.on_gone = self.release

    def fit(self, plan: MemoryPlan, check: Check = nothing_against) -> None:
        """Give back what there is and take what a plan needs, as when another device computes.

        Raises what `Room.take` raises; the place is empty then.
        """
        self._room.fit(self, plan, check)

    def release(self) -> None:
        """Give it back."""
        self._room.release(self)


class Room:
    """So many bytes of memory for all models together. Thread-safe.

    Args:
        limit: the most bytes; None for no limit.
        evict: lets go of a session if it is idle, and says whether it was; a method, which is not kept.
        patience: the seconds that a model waits for those in use.
    """

    def __init__(self, limit: int | None, evict: Callable[[Session], bool], patience: float) -> None:
        self.limit = limit
        self._evict, self._patience = weakref.WeakMethod(evict), patience
        self._places: list[Place] = []
        self._change, self._changes = threading.Condition(ForkSafeLock()), 0  # type: ignore[arg-type]  # it locks and unlocks

    def take(self, model_id: str, plan: MemoryPlan, check: Check = nothing_against) -> Place:
        """Take the memory of a model, letting go of those that were idle for longest where it is needed.

        Raises ModelTooLarge when it can never have so much, MemoryTaken when those in use do not let it, and
        what `check` raises, which says whether it is still wanted.
        """
        place = self.place(model_id)
        place.fit(plan, check)
        return place

    def place(self, model_id: str) -> Place:
        """Return a place of no size."""
        return Place(self, model_id)

    def fit(self, place: Place, plan: MemoryPlan, check: Check = nothing_against) -> None:
        """Give a place the size of a plan; see Place."""
        model_id, needed, limit = place.model_id, plan.total, self.limit
        self._empty(place)
        if limit is not None and needed > limit:
            raise ModelTooLarge(model_id, needed, limit, plan.parts())
        end = monotonic() + self._patience
        while True:
            check()
            seen, is_last = self._changes, monotonic() >= end
            if self._resize(place, needed) or limit is None:
                return
            if self._make_way(place, needed, limit):
                continue
            if is_last:
                raise MemoryTaken(model_id, needed, limit, self._users(place))
            self._wait(seen, end)

    def release(self, place: Place) -> None:
        """Give a place back, once."""
        with self._change:
            if place in self._places:
                self._places.remove(place)
        self.look()

    def look(self) -> None:
        """Let those who wait look again, as when a session is idle."""
        with self._change:
            self._changes += 1
            self._change.notify_all()

    def _empty(self, place: Place) -> None:
        """Let others have what a place was given: two that wait for each other would wait in vain."""
        if place.nbytes:
            with self._change:
                place.nbytes = 0
            self.look()

    def _resize(self, place: Place, nbytes: int) -> bool:
        """Give a place so many bytes if there is room for them, and say whether there is."""
        with self._change:
            taken = sum(other.nbytes for other in self._others(place))
            has_room = self.limit is None or taken + nbytes <= self.limit
            if has_room:
                place.nbytes = nbytes
                self._places = [*self._others(place), place]
            return has_room

    def _others(self, place: Place) -> list[Place]:
        return [other for other in self._places if other is not place]

    def _make_way(self, place: Place, needed: int, limit: int) -> bool:
        """Let the session go that was idle for longest, where one must go and that can be enough.

        Not under the lock: the thread of the session, which is waited for, gives its place back.
        """
        evict = self._evict()
        with self._change:
            others = self._others(place)
            idle = sorted((other for other in others if other.is_idle), key=lambda p: p.idle_since)
            staying = sum(other.nbytes for other in others if not other.is_leaving)
        excess = staying + needed - limit
        if evict is None or not 0 < excess <= sum(other.nbytes for other in idle):
            return False
        sessions = (other.session for other in idle)
        return any(session is not None and evict(session) for session in sessions)

    def _wait(self, seen: int, end: float) -> None:
        """Wait until something has changed since, a moment at most."""
        with self._change:
            seconds = min(max(end - monotonic(), 0.0), _POLL_SECONDS)
            self._change.wait_for(lambda: self._changes != seen, seconds)

    def _users(self, place: Place) -> list[str]:
        with self._change:
            return sorted(other.model_id for other in self._others(place) if not other.is_idle)
