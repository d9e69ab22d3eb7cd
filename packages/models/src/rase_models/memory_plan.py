"""How much memory a model will take, and for what: planned from the header of its file."""

from dataclasses import dataclass

from rase_core.scheduler import SchedulerLimits
from rase_core.sizes import size_text

from rase_models.architectures import build_program
from rase_models.backends import BACKENDS, BackendPlaces, library_faults, load_backend
from rase_models.backends.base import BLOCK_TOKENS, MemoryNeeds, Threads
from rase_models.gguf import GgufFile
from rase_models.kv_budget import KvBudget, kv_budget
from rase_models.kv_cache import capacity_for
from rase_models.kv_type import KvType, choose_kv_type

_WORD_NBYTES = 350
"""Memory for a token or a merge of a vocabulary, in the header, the tokenizer and the template: measured."""
_VOCABULARY = ("tokenizer.ggml.tokens", "tokenizer.ggml.merges")
_KV_SHARE = 4
_STATES_SHARE = 4
_USABLE_SHARE = 7
"""Of eight parts; the last is for what a device loses by rounding, and for a cache while it grows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """Bytes that a model takes at most, but for the memory of the process that it runs in.

    Attributes:
        weights: as the backend keeps them.
        workspace: buffers, tables and compiled code.
        vocabulary: the header of the file and the tokenizer.
        kv: keys and values of all sequences together; only what is used of it is taken.
        states: what recurrent layers keep of sequences.
        kv_tokens: how many tokens `kv` is for, None for a model that keeps none.
        context_length: the most tokens of a sequence.
        kv_budget: what `kv` and `states` are made of.
    """

    weights: int
    workspace: int
    vocabulary: int
    kv: int
    states: int
    kv_tokens: int | None
    context_length: int
    kv_budget: KvBudget

    @property
    def fixed(self) -> int:
        """What is taken by loading alone."""
        return self.weights + self.workspace + self.vocabulary

    @property
    def total(self) -> int:
        """All of it."""
        return self.fixed + self.kv + self.states

    def held(self, kv_used: int) -> int:
        """What is taken while keys and values of so many tokens are kept, with room for all states."""
        kept = 0 if not self.kv_tokens else self.kv * min(kv_used, self.kv_tokens) // self.kv_tokens
        return self.fixed + self.states + kept

    def parts(self) -> str:
        """Say what it is for."""
        kept = f" for {self.kv_tokens:,} tokens" if self.kv_tokens is not None else ""
        sizes = {
            "weights": self.weights,
            f"keys and values{kept}": self.kv,
            "states": self.states,
            "workspace": self.workspace,
            "vocabulary": self.vocabulary,
        }
        return ", ".join(f"{name} {size_text(size)}" for name, size in sizes.items() if size)


def memory_plan(
    file: GgufFile,
    device: str,
    threads: Threads,
    context_length: int,
    limits: SchedulerLimits,
    *,
    kv_memory: int | None = None,
    max_memory: int | None = None,
    kv_type: KvType | str | None = None,
    places: BackendPlaces = BACKENDS,
) -> MemoryPlan:
    """Plan the memory of a model for sequences of at most `context_length` tokens.

    Without `kv_memory`, keys and values get a quarter of `max_memory`, less where the rest of the model
    leaves less, and always one context; without both see `kv_budget`, but of a device with memory of its own
    they get what is left of that. More than such a device has is never planned: the context gives way.

    Raises what `build_program` raises, BackendUnavailable, BackendFailure for weights that the device cannot
    use, and InvalidParameter for a `kv_memory` that is too small and a `kv_type` that the device has not.
    """
    backend, program = load_backend(device, places), build_program(file)
    with library_faults(device):
        needs = backend.memory_needs(program, file.tensors, threads, context_length)
        block_nbytes = backend.block_nbytes(program, choose_kv_type(kv_type, backend.kv_types))
    vocabulary = _vocabulary_nbytes(file)
    workspace = needs.workspace + 4 * program.vocab_size * limits.running
    state_nbytes = 4 * sum(program.state_sizes)
    left = None if max_memory is None else max_memory - needs.weights - workspace - vocabulary
    context_blocks = capacity_for(program.kv_groups, context_length, needs.max_rows)
    own = _left_on_device(needs, has_states=state_nbytes > 0)
    budget = _budget(kv_memory, max_memory, left, own, has_states=state_nbytes > 0)
    budget.check(block_nbytes)
    budget = budget if own is None else budget.within(own, block_nbytes, context_blocks)
    tokens = budget.tokens(block_nbytes, context_blocks)
    return MemoryPlan(
        weights=needs.weights,
        workspace=workspace,
        vocabulary=vocabulary,
        kv=(tokens or 0) // BLOCK_TOKENS * block_nbytes,
        states=2 * (budget.sequences(state_nbytes) or 0) * state_nbytes,
        kv_tokens=tokens,
        context_length=context_length,
        kv_budget=budget,
    )


def _vocabulary_nbytes(file: GgufFile) -> int:
    return _WORD_NBYTES * sum(len(file.strings(key, default=())) for key in _VOCABULARY)


def _left_on_device(needs: MemoryNeeds, *, has_states: bool) -> int | None:
    """Return what a device with memory of its own has for keys and values; None for others."""
    if needs.free is None:
        return None
    left = max(needs.free - needs.weights - needs.workspace, 0) * _USABLE_SHARE // (_USABLE_SHARE + 1)
    return left * _STATES_SHARE // (_STATES_SHARE + has_states)


def _budget(
    kv_memory: int | None, max_memory: int | None, left: int | None, own: int | None, *, has_states: bool
) -> KvBudget:
    if kv_memory is None and max_memory is None and own is not None:
        return KvBudget(own, is_firm=False)
    if kv_memory is not None or max_memory is None or left is None:
        return kv_budget(kv_memory)
    free = max(left, 0) * _STATES_SHARE // (_STATES_SHARE + has_states)
    return KvBudget(min(max_memory // _KV_SHARE, free), is_firm=False)
