"""What each op means: one function per op, from the buffers of a run to the buffers of a run."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from rase_models.backends.reference.activations import ACTIVATIONS, gated, sigmoid, softmax
from rase_models.backends.reference.mixing import (
    add_dots,
    blend,
    clamp,
    mix_parts,
    rescale,
    scale,
    sparsify,
    xielu,
)
from rase_models.backends.reference.recurrent import (
    gated_delta,
    keyed_scan,
    selective_scan,
    shift,
    short_conv,
    state_scan,
)
from rase_models.backends.reference.run import Floats, Run
from rase_models.program import (
    Activate,
    Add,
    AddDots,
    Attention,
    Blend,
    Clamp,
    CopyParts,
    Embed,
    GatedActivation,
    GatedDelta,
    HeadLinear,
    KeyedScan,
    LayerNorm,
    Linear,
    MixParts,
    MoeFfn,
    Op,
    Rescale,
    RmsNorm,
    Rope,
    RopePairing,
    Rotate,
    Scale,
    Scoring,
    SelectiveScan,
    SelectOutputs,
    Shift,
    ShortConv,
    SoftCap,
    Sparsify,
    StateScan,
    Xielu,
)


def embed(op: Embed, run: Run) -> None:
    rows = run.rows.positions if op.by_position else run.rows.tokens
    run.buffers[op.out] = run.weights[op.weight][rows] * op.scale


def rms_norm(op: RmsNorm, run: Run) -> None:
    x = run.buffers[op.x]
    parts = _parts(x, op.heads)
    mean_square = np.mean(np.square(parts), axis=-1, keepdims=True)
    normed = _weighed(op, run, parts / np.sqrt(mean_square + op.eps))
    run.buffers[op.out] = normed.reshape(x.shape)


def layer_norm(op: LayerNorm, run: Run) -> None:
    x = run.buffers[op.x]
    parts = _parts(x, op.heads)
    parts = parts - np.mean(parts, axis=-1, keepdims=True)
    variance = np.mean(np.square(parts), axis=-1, keepdims=True)
    normed = _weighed(op, run, parts / np.sqrt(variance + op.eps))
    if op.bias is not None:
        normed += _of_parts(op, run, op.bias)
    run.buffers[op.out] = normed.reshape(x.shape)


def _weighed(op: RmsNorm | LayerNorm, run: Run, normed: Floats) -> Floats:
    return normed if op.weight is None else np.asarray(normed * _of_parts(op, run, op.weight))


def _of_parts(op: RmsNorm | LayerNorm, run: Run, name: str) -> Floats:
    """Return a norm's vector for its parts, float32 [1 or parts, width of a part]."""
    return run.weights[name].reshape(1 if op.shared else op.heads, -1)


def _parts(x: Floats, parts: int) -> Floats:
    """Return the equal parts of every row, float32 [rows, parts, width / parts]."""
    return x.reshape(len(x), parts, x.shape[1] // parts)


def linear(op: Linear, run: Run) -> None:
    out = run.buffers[op.x] @ np.atleast_2d(run.weights[op.weight]).T * op.scale
    if op.bias is not None:
        out += run.weights[op.bias].reshape(-1) * op.bias_scale
    run.buffers[op.out] = out


def head_linear(op: HeadLinear, run: Run) -> None:
    x, weight = _parts(run.buffers[op.x], op.heads), run.weights[op.weight]
    weight = weight.reshape(op.heads, -1, x.shape[-1])
    out = np.einsum("rhi,hoi->rho", x, weight, optimize=True)
    run.buffers[op.out] = out.reshape(len(x), op.heads * weight.shape[1])


def copy_parts(op: CopyParts, run: Run) -> None:
    x = _parts(run.buffers[op.x], 1 if op.shared else op.parts)
    whole = (len(x), op.parts * op.length)
    out = run.buffers.get(op.out, np.zeros(0, np.float32)).copy()
    if out.shape != whole:  # nothing yet, or what another layer made of other rows
        out = np.zeros(whole, np.float32)
    part = slice(op.out_first, op.out_first + op.width)
    _parts(out, op.parts)[..., part] = x[..., op.first : op.first + op.width]
    run.buffers[op.out] = out


def rotate(op: Rotate, run: Run) -> None:
    x = run.buffers[op.x]
    heads = _parts(x, op.heads).copy()
    first, second = _pairs(op.rope)
    angles = run.rows.positions[:, None, None] * np.array(op.rope.frequencies)  # float64 [rows, 1, pairs]
    magnitude = _magnitude(op.rope, run.rows.positions)[:, None, None]
    cosine = (np.cos(angles) * magnitude).astype(np.float32)
    sine = (np.sin(angles) * magnitude).astype(np.float32)
    a, b = heads[..., first], heads[..., second]
    heads[..., first], heads[..., second] = a * cosine - b * sine, a * sine + b * cosine
    run.buffers[op.x] = heads.reshape(x.shape)


def _magnitude(rope: Rope, positions: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return what heads are multiplied by at positions."""
    steps = np.log1p((positions + rope.growth_first) // rope.growth_length)
    return np.asarray(rope.magnitude * (1 + rope.growth * steps), np.float64)


def _pairs(rope: Rope) -> tuple[slice, slice]:
    """Return the elements of a head that are first and second of a pair."""
    half, end = rope.dimensions // 2, rope.dimensions
    if rope.pairing is RopePairing.ADJACENT:
        return slice(0, end, 2), slice(1, end, 2)
    return slice(0, half), slice(half, end)


def attention(op: Attention, run: Run) -> None:
    cache, rows = run.caches[op.layer], run.rows
    q = _parts(run.buffers[op.q], op.head_count)
    out = np.empty((len(q), op.head_count, op.value_length), np.float32)
    for sequence in np.unique(rows.sequences):
        own = np.flatnonzero(rows.sequences == sequence)
        table, positions = rows.block_tables[cache.group, sequence], rows.positions[own]
        if op.k is not None and op.v is not None:
            cache.write(table, positions, run.buffers[op.k][own], run.buffers[op.v][own])
        first = _first_seen(op, int(positions[0]))
        keys, values = cache.read(table, first, int(positions[-1]) + 1)
        sinks = None if op.sinks is None else run.weights[op.sinks]
        out[own] = _attend(op, q[own], positions, first, keys, values, sinks)
    run.buffers[op.out] = out.reshape(len(q), -1)


def _first_seen(op: Attention, position: int) -> int:
    """Return the first position that a row sees."""
    if op.window is None:
        return 0
    return position // op.window * op.window if op.chunked else max(position + 1 - op.window, 0)


def _attend(
    op: Attention,
    q: Floats,
    positions: NDArray[np.int32],
    first: int,
    keys: Floats,
    values: Floats,
    sinks: Floats | None,
) -> Floats:
    """Return float32 [rows, head_count, value_length] for rows of one sequence, given keys from `first`."""
    group = op.head_count // op.head_count_kv
    keys, values = np.repeat(keys, group, axis=1), np.repeat(values, group, axis=1)
    scores = np.einsum("rhd,phd->hrp", q, keys, optimize=True) * op.scale
    if op.soft_cap is not None:
        scores = _soft_capped(scores, op.soft_cap)
    distance = positions[:, None] - np.arange(first, first + len(keys))
    seen = positions - [_first_seen(op, int(position)) for position in positions]
    if op.slopes:
        scores = scores - np.array(op.slopes, np.float32)[:, None, None] * distance.astype(np.float32)
    visible = (distance >= 0) & (distance <= seen[:, None])
    weights = _attention_weights(np.where(visible, scores, -np.inf), sinks)
    out: Floats = np.einsum("hrp,phd->rhd", weights, values, optimize=True)
    return out


def _attention_weights(scores: Floats, sinks: Floats | None) -> Floats:
    """Return the softmax of [heads, rows, positions], with one more score a head that gets no weight."""
    if sinks is None:
        return softmax(scores)
    extra = np.broadcast_to(sinks.reshape(-1, 1, 1), (*scores.shape[:2], 1))
    return softmax(np.concatenate([scores, extra], axis=-1))[..., :-1]


def _soft_capped(x: Floats, cap: float) -> Floats:
    return np.asarray(cap * np.tanh(x / cap), np.float32)


def soft_cap(op: SoftCap, run: Run) -> None:
    run.buffers[op.x] = _soft_capped(run.buffers[op.x], op.cap)


def activate(op: Activate, run: Run) -> None:
    x = run.buffers[op.x]
    run.buffers[op.out] = ACTIVATIONS[op.activation](x if op.bias is None else x + run.weights[op.bias])


def gated_activation(op: GatedActivation, run: Run) -> None:
    gate, up = run.buffers[op.gate], run.buffers[op.up]
    spread = np.repeat(gate, up.shape[1] // gate.shape[1], axis=1)
    run.buffers[op.out] = gated(op.activation, spread, up)


def add(op: Add, run: Run) -> None:
    run.buffers[op.out] = (run.buffers[op.x] + run.buffers[op.y]) * np.float32(op.scale)


def moe_ffn(op: MoeFfn, run: Run) -> None:
    x = run.buffers[op.x]
    logits = run.buffers[op.router_x or op.x] @ run.weights[op.router].T
    if op.router_bias is not None:
        logits = logits + run.weights[op.router_bias]
    shares = _expert_shares(op, logits, None if op.selection_bias is None else run.weights[op.selection_bias])
    out = np.zeros_like(x)
    for expert in range(op.experts):
        rows = np.flatnonzero(shares[:, expert])
        share = shares[rows, expert, None]
        if op.weighs_inputs:
            out[rows] += _expert(op, run, expert, x[rows] * share)
        else:
            out[rows] += share * _expert(op, run, expert, x[rows])
    run.buffers[op.out] = out


def _expert_shares(op: MoeFfn, logits: Floats, selection_bias: Floats | None) -> Floats:
    """Return the weight of each expert for each row, 0 for those not chosen, float32 [rows, experts]."""
    scores = softmax(logits) if op.scoring is Scoring.SOFTMAX else sigmoid(logits)
    rank = scores if selection_bias is None else scores + selection_bias
    if op.groups > 1:
        rank = _within_best_groups(op, rank)
    chosen = np.argsort(-rank, axis=1, kind="stable")[:, : op.experts_used]
    kept = np.zeros_like(scores)
    np.put_along_axis(kept, chosen, np.take_along_axis(scores, chosen, axis=1), axis=1)
    if op.normalise:
        kept /= kept.sum(axis=1, keepdims=True)
    return kept * op.scale


def _within_best_groups(op: MoeFfn, rank: Floats) -> Floats:
    """Return the ranks with minus infinity for the experts of groups that are not among the best."""
    groups = rank.reshape(len(rank), op.groups, -1)
    best_two = np.sort(groups, axis=2)[..., -2:].sum(axis=2)
    used = np.argsort(-best_two, axis=1, kind="stable")[:, : op.groups_used]
    kept = np.full_like(groups, -np.inf)
    np.put_along_axis(kept, used[..., None], np.take_along_axis(groups, used[..., None], axis=1), axis=1)
    return kept.reshape(rank.shape)


def _expert(op: MoeFfn, run: Run, expert: int, x: Floats) -> Floats:
    gate = _expert_linear(run, op.gate, op.gate_scales, op.gate_bias, expert, x)
    up = gate
    if not op.multiplies_once:
        up = _expert_linear(run, op.up, op.up_scales, op.up_bias, expert, x)
    hidden = gated(op.activation, gate, up)
    return _expert_linear(run, op.down, op.down_scales, op.down_bias, expert, hidden)


def _expert_linear(
    run: Run, weight: str, scales: tuple[float, ...], bias: str | None, expert: int, x: Floats
) -> Floats:
    out: Floats = x @ run.weights[weight][expert].T
    if scales:
        out = out * scales[expert]
    return out if bias is None else out + run.weights[bias][expert]


def select_outputs(op: SelectOutputs, run: Run) -> None:
    run.buffers[op.out] = run.buffers[op.x][run.rows.outputs]


_OPS: Mapping[type[Op], Callable[..., None]] = MappingProxyType(
    {
        Activate: activate,
        Add: add,
        AddDots: add_dots,
        Attention: attention,
        Blend: blend,
        Clamp: clamp,
        CopyParts: copy_parts,
        Embed: embed,
        GatedActivation: gated_activation,
        GatedDelta: gated_delta,
        HeadLinear: head_linear,
        KeyedScan: keyed_scan,
        LayerNorm: layer_norm,
        Linear: linear,
        MixParts: mix_parts,
        MoeFfn: moe_ffn,
        Rescale: rescale,
        RmsNorm: rms_norm,
        Rotate: rotate,
        Scale: scale,
        SelectOutputs: select_outputs,
        SelectiveScan: selective_scan,
        Shift: shift,
        ShortConv: short_conv,
        SoftCap: soft_cap,
        Sparsify: sparsify,
        StateScan: state_scan,
        Xielu: xielu,
    }
)


def execute(op: Op, run: Run) -> None:
    """Execute one op on the buffers of a run."""
    _OPS[type(op)](op, run)
