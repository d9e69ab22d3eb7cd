"""Larger steps out of ops."""

from rase_models.backends.cpu.fusion import fuse
from rase_models.backends.cpu.steps import AddLinear, GatedLinear, NormAdd, PreparedAttention
from rase_models.program import (
    Activation,
    Add,
    Attention,
    GatedActivation,
    Linear,
    Op,
    RmsNorm,
    Rope,
    RopePairing,
    Rotate,
)

ROPE = Rope(RopePairing.HALVES, 4, (1.0, 0.5))
ATTENTION = Attention("y", "q", "k", "v", 0, 2, 1, 16, 16, 0.25)
GATES: list[Op] = [
    Linear("g", "x", "wg"),
    Linear("u", "x", "wu"),
    GatedActivation("g", "g", "u", Activation.SILU),
]


def names(*ops: Op, gated: bool = True) -> list[str]:
    return [type(step).__name__ for step in fuse(ops, lambda first, second: gated)]


def test_a_product_goes_into_the_residual() -> None:
    (step,) = fuse([Linear("y", "z", "w", "b"), Add("x", "x", "y")], lambda *_: True)
    assert step == AddLinear("x", "z", "w", "b")


def test_a_norm_goes_into_the_residual() -> None:
    (step,) = fuse([RmsNorm("y", "y", "w", 0.1), Add("x", "y", "x")], lambda *_: True)
    assert step == NormAdd("x", "y", "w", 0.1)


def test_a_product_stays_apart_when_something_is_unusual() -> None:
    plain = Linear("y", "z", "w")
    assert len(names(plain, Add("x", "x", "y"), Add("a", "y", "x"))) == 3
    assert len(names(plain, Add("a", "x", "y"))) == 2
    assert len(names(plain, Add("y", "y", "y"))) == 2
    assert len(names(Linear("y", "x", "w"), Add("x", "x", "y"))) == 2
    assert len(names(Linear("y", "z", "w", None, 2.0), Add("x", "x", "y"))) == 2
    assert len(names(RmsNorm("y", "y", "w", 0.1, 2), Add("x", "x", "y"))) == 2


def test_gates_are_multiplied_together() -> None:
    (step,) = fuse(GATES, lambda *_: True)
    assert step == GatedLinear("g", "x", "wg", "wu", Activation.SILU)


def test_gates_stay_apart_when_something_is_unusual() -> None:
    gate, up, gated = GATES
    assert len(names(*GATES, gated=False)) == 3
    assert len(names(*GATES, Add("a", "u", "u"))) == 4
    assert len(names(gate, Linear("u", "z", "wu"), gated)) == 3
    assert len(names(gate, Linear("u", "x", "wu", "b"), gated)) == 3
    assert len(names(up, gate, gated)) == 3


def test_what_is_done_to_heads_goes_into_attention_from_wherever_it_is() -> None:
    norms = {name: RmsNorm(name, name, f"n{name}", 0.1, heads) for name, heads in (("q", 2), ("k", 1))}
    ops: list[Op] = []
    for name in "qk":
        ops += [Linear(name, "x", f"w{name}"), norms[name], Rotate(name, 2, ROPE)]
    steps = fuse([*ops, Linear("v", "x", "wv"), ATTENTION], lambda *_: True)
    assert [type(step) for step in steps] == [Linear, Linear, Linear, PreparedAttention]
    prepared = steps[-1]
    assert isinstance(prepared, PreparedAttention)
    assert (prepared.queries.norm, prepared.keys.norm) == (norms["q"], norms["k"])
    assert prepared.queries.rope == prepared.keys.rope == ROPE


def test_a_norm_after_the_turn_stays_where_it_is() -> None:
    ops: list[Op] = [Rotate("q", 2, ROPE), RmsNorm("q", "q", "n", 0.1, 2), Rotate("k", 1, ROPE), ATTENTION]
    assert names(*ops) == ["Rotate", "RmsNorm", "Rotate", "Attention"]


def test_heads_that_are_read_again_stay_as_the_ops_say() -> None:
    assert names(Rotate("q", 2, ROPE), Rotate("k", 1, ROPE), ATTENTION, Add("z", "q", "q"))[-2] == "Attention"


def test_two_layers_are_both_fused() -> None:
    layer: list[Op] = [Rotate("q", 2, ROPE), Rotate("k", 1, ROPE), ATTENTION]
    layer += [Linear("t", "y", "w"), Add("x", "x", "t")]
    writes: list[Op] = [Linear(name, "x", "w") for name in "qkv"]
    assert names(*writes, *layer, *writes, *layer) == ["Linear"] * 3 + ["PreparedAttention", "AddLinear"] + [
        "Linear"
    ] * 3 + ["PreparedAttention", "AddLinear"]
