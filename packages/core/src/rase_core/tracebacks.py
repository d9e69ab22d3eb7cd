"""What an error keeps alive: by its traceback, all that the frames had that it went through."""

import traceback
from typing import TypeVar

E = TypeVar("E", bound=BaseException)


def caught(error: E) -> E:
    """Take the frame that catches an error out of its traceback.

    To be used where the error goes to something that the frame has: each would keep the other.
    """
    frames = error.__traceback__
    return error.with_traceback(None if frames is None else frames.tb_next)


def without_locals(error: E) -> E:
    """Let go of what the frames had that an error went through, and its causes, as far as they have ended."""
    found: BaseException | None = error
    seen: set[int] = set()  # causes may go in a circle
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        traceback.clear_frames(found.__traceback__)
        found = found.__cause__ or found.__context__
    return error
