"""What an answer must look like, token by token."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Allowed = NDArray[np.bool_]


class Constraint(Protocol):
    """The rules of one answer as it grows. It knows nothing of the tokens that end an answer."""

    def allowed(self) -> Allowed | None:
        """Return which tokens may come next, bool [vocab], end tokens never; None for all, the ends as well.

        Raises ConstraintFailure when the rules cannot be followed any further.
        """

    def forced(self) -> Sequence[int]:
        """Return tokens that must come next, one after the other; `allowed` has no more than the first."""

    def accept(self, token: int) -> None:
        """Count a token, one of those allowed, as part of the answer; raises as `allowed` does."""

    @property
    def may_end(self) -> bool:
        """Whether the answer may end here."""

    @property
    def is_complete(self) -> bool:
        """Whether the answer must end here, since nothing may follow."""
