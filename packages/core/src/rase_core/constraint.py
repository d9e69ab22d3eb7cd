"""What an answer must look like, token by token."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Allowed = NDArray[np.bool_]


class Constraint(Protocol):
    """The rules of one answer as it grows. It knows nothing of the tokens that end an answer."""

    def allowed(self) -> Allowed:
        """Return which tokens may come next, bool [vocab]; end tokens never.

        Raises ConstraintFailure when the rules cannot be followed any further.
        """

    def accept(self, token: int) -> None:
        """Count a token, one of those allowed, as part of the answer; raises as `allowed` does."""

    @property
    def may_end(self) -> bool:
        """Whether the answer may end here."""

    @property
    def is_complete(self) -> bool:
        """Whether the answer must end here, since nothing may follow."""
