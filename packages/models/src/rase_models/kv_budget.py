"""How much memory the keys and values of a model may take."""

from dataclasses import dataclass

from rase_core.errors import InvalidParameter

from rase_models.backends.base import BLOCK_TOKENS
from rase_models.machine_memory import machine_memory

_SHARE_OF_MACHINE = 4
_STATES_SHARE = 4
_LEAST_SEQUENCES = 4


@dataclass(frozen=True, slots=True)
class KvBudget:
    """A number of bytes, of which only those in use are taken.

    Unless it `is_firm`, one sequence may always be as long as the context; otherwise the context gives way.
    """

    nbytes: int
    is_firm: bool = True

    def check(self, block_nbytes: int) -> None:
        """Raise InvalidParameter when it is firm and not even one block fits."""
        if self.is_firm and self.nbytes < block_nbytes:
            raise InvalidParameter("kv_memory", self.nbytes, f"at least {block_nbytes} bytes")

    def tokens(self, block_nbytes: int, context_blocks: int) -> int | None:
        """Return how many tokens fit, in whole blocks; None when they take no memory.

        `context_blocks` is the memory of one sequence as long as the context.
        """
        if not block_nbytes:
            return None
        blocks = self.nbytes // block_nbytes
        return (blocks if self.is_firm else max(blocks, context_blocks)) * BLOCK_TOKENS

    def within(self, nbytes: int, block_nbytes: int, context_blocks: int) -> "KvBudget":
        """Return what is left of it where there are so many bytes, a block at least; the context gives way.

        `context_blocks` as in `tokens`.
        """
        wanted = self.nbytes if self.is_firm else max(self.nbytes, context_blocks * block_nbytes)
        return self if wanted <= nbytes else KvBudget(max(nbytes, block_nbytes))

    def sequences(self, state_nbytes: int) -> int | None:
        """Return how many sequences may have a state of so many bytes; None when they have none.

        States and the copies of them get a share besides what the tokens take.
        """
        if not state_nbytes:
            return None
        return max(self.nbytes // (_STATES_SHARE * 2 * state_nbytes), _LEAST_SEQUENCES)


def kv_budget(nbytes: int | None) -> KvBudget:
    """Return the budget of so many bytes; None stands for a quarter of the machine's memory, not firm."""
    if nbytes is None:
        return KvBudget(machine_memory() // _SHARE_OF_MACHINE, is_firm=False)
    return KvBudget(nbytes)
