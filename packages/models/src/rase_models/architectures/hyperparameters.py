"""The sizes of a model, read from its metadata and checked against each other."""

from collections.abc import Sequence
from dataclasses import dataclass

from rase_models.architectures.keys import ArchitectureKeys

MAX_POSITION = (1 << 31) - 1
"""Positions are int32; a longer context, which stands for one without end, is cut to this."""

MAX_HEAD_LENGTH = 1 << 16


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """The sizes of a model; a tuple has one entry per layer, which is 0 where the layer has no such thing.

    Attributes:
        predicting_blocks: how many more there are, which guess tokens ahead and do not count here.
        key_length, value_length: of one head.
        feed_forward_lengths: the inner width of the dense feed-forward networks.
        expert_lengths: the inner width of an expert.
        expert_count: 0 for a model without experts.
        experts_used: how many of them each row goes to; without experts there is no entry.
        attention_scale: what q·k is multiplied by, None when the metadata does not say.
    """

    context_length: int
    embedding_length: int
    block_count: int
    predicting_blocks: int
    head_counts: tuple[int, ...]
    head_counts_kv: tuple[int, ...]
    key_length: int
    value_length: int
    feed_forward_lengths: tuple[int, ...]
    expert_lengths: tuple[int, ...]
    expert_count: int
    experts_used: tuple[int, ...]
    attention_scale: float | None

    @property
    def expert_length(self) -> int:
        """The inner width of an expert in the first layer that has some, 0 where none has."""
        return next(filter(None, self.expert_lengths), 0)


def read_hyperparameters(keys: ArchitectureKeys, max_blocks: int) -> Hyperparameters:
    """Read the sizes of a model of at most `max_blocks` layers; InvalidGguf names the key that cannot be."""
    if not keys.boolean("attention.causal", True):
        raise keys.error("attention.causal", "true, a model that generates", "false")
    total = keys.count("block_count", most=max_blocks)
    blocks = total - _predicting_blocks(keys, total)
    embedding = keys.count("embedding_length")
    none = (0,) * total
    heads = keys.counts("attention.head_count", total, none)
    heads_kv = keys.counts("attention.head_count_kv", total, heads)
    _check_groups(keys, heads, heads_kv)
    feed_forward = keys.counts("feed_forward_length", total, none)
    experts = keys.count("expert_count", 0)
    expert_lengths = keys.counts("expert_feed_forward_length", total, feed_forward[:1] * total)
    return Hyperparameters(
        context_length=min(keys.stated_count("context_length", most=(1 << 64) - 1), MAX_POSITION),
        embedding_length=embedding,
        block_count=blocks,
        predicting_blocks=total - blocks,
        head_counts=heads[:blocks],
        head_counts_kv=heads_kv[:blocks],
        key_length=_head_length(keys, "attention.key_length", embedding, max(heads)),
        value_length=_head_length(keys, "attention.value_length", embedding, max(heads)),
        feed_forward_lengths=feed_forward[:blocks],
        expert_lengths=expert_lengths[:blocks],
        expert_count=experts,
        experts_used=keys.counts("expert_used_count", total, most=experts)[:blocks] if experts else (),
        attention_scale=keys.number("attention.scale", 0.0) or None,
    )


def _predicting_blocks(keys: ArchitectureKeys, total: int) -> int:
    predicting = keys.count("nextn_predict_layers", 0)
    if predicting >= total:
        raise keys.error("nextn_predict_layers", f"fewer than the {total} layers", predicting)
    return predicting


def _check_groups(keys: ArchitectureKeys, heads: Sequence[int], heads_kv: Sequence[int]) -> None:
    for head_count, head_count_kv in zip(heads, heads_kv, strict=True):
        if head_count_kv and head_count % head_count_kv:
            raise keys.error("attention.head_count_kv", f"a divisor of the {head_count} heads", head_count_kv)


def _head_length(keys: ArchitectureKeys, key: str, embedding: int, heads: int) -> int:
    given = keys.count(key, 0, most=MAX_HEAD_LENGTH)
    if given or not heads:
        return given
    if embedding % heads:
        raise keys.error("attention.head_count", f"a divisor of the embedding length {embedding}", heads)
    return embedding // heads
