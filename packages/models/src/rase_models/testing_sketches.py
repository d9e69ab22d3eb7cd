"""Small models of every architecture, of random weights, for tests of architectures and backends."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Metadata = dict[str, object]
Tensors = dict[str, NDArray[np.float32]]
Shapes = Mapping[str, tuple[int, ...]]

VOCAB, CONTEXT, WIDTH, INNER = 48, 100, 64, 96
HEADS, KV_HEADS, LENGTH, WINDOW = 4, 2, 16, 8
EXPERTS, RANK, DEPTH = 4, 16, 32
GROUPS, STATE, TAPS, SPACE = 2, 16, 3, 128
QUERIES, KEYS = HEADS * LENGTH, KV_HEADS * LENGTH

SHAPES: Shapes = {
    "attn_norm": (WIDTH,),
    "attn_q": (QUERIES, WIDTH),
    "attn_k": (KEYS, WIDTH),
    "attn_v": (KEYS, WIDTH),
    "attn_qkv": (QUERIES + 2 * KEYS, WIDTH),
    "attn_q_norm": (LENGTH,),
    "attn_k_norm": (LENGTH,),
    "attn_output": (WIDTH, QUERIES),
    "attn_sinks": (HEADS,),
    "attn_kv_a_mqa": (RANK + LENGTH, WIDTH),
    "attn_kv_a_norm": (RANK,),
    "attn_k_b": (HEADS, RANK, LENGTH),
    "attn_v_b": (HEADS, LENGTH, RANK),
    "post_attention_norm": (WIDTH,),
    "ffn_norm": (WIDTH,),
    "ffn_gate": (INNER, WIDTH),
    "ffn_up": (INNER, WIDTH),
    "ffn_down": (WIDTH, INNER),
    "ffn_gate_inp": (EXPERTS, WIDTH),
    "ffn_gate_exps": (EXPERTS, INNER, WIDTH),
    "ffn_up_exps": (EXPERTS, INNER, WIDTH),
    "ffn_down_exps": (EXPERTS, WIDTH, INNER),
    "ffn_gate_shexp": (INNER, WIDTH),
    "ffn_up_shexp": (INNER, WIDTH),
    "ffn_down_shexp": (WIDTH, INNER),
    "ffn_gate_inp_shexp": (WIDTH,),
    "exp_probs_b.bias": (EXPERTS,),
    "post_ffw_norm": (WIDTH,),
    "shortconv.in_proj": (3 * WIDTH, WIDTH),
    "shortconv.conv": (WIDTH, TAPS),
    "shortconv.out_proj": (WIDTH, WIDTH),
    "attn_gate": (QUERIES, WIDTH),
    "ssm_in": (2 * SPACE + 2 * GROUPS * STATE + HEADS, WIDTH),
    "ssm_conv1d": (SPACE + 2 * GROUPS * STATE, TAPS),
    "ssm_conv1d.bias": (SPACE + 2 * GROUPS * STATE,),
    "ssm_dt.bias": (HEADS,),
    "ssm_a": (HEADS, 1),
    "ssm_d": (HEADS, 1),
    "ssm_norm": (GROUPS, SPACE // GROUPS),
    "ssm_out": (WIDTH, SPACE),
    "ssm_alpha": (HEADS, WIDTH),
    "ssm_beta": (HEADS, WIDTH),
    "ssm_ba": (2 * HEADS, WIDTH),
    "layer_output_scale": (1,),
    "inp_gate": (DEPTH, WIDTH),
    "proj": (WIDTH, DEPTH),
    "post_norm": (WIDTH,),
    "ffn_gate_inp.scale": (WIDTH,),
    "post_ffw_norm_1": (WIDTH,),
    "pre_ffw_norm_2": (WIDTH,),
    "post_ffw_norm_2": (WIDTH,),
}
"""Of the weights of a layer, where an architecture does not have others."""

_ATTENTION = ("attn_q", "attn_k", "attn_v", "attn_output")
_MERGED = ("attn_norm", "attn_qkv", "attn_output")
_GATED = ("ffn_gate", "ffn_up", "ffn_down")
_PLAIN = ("ffn_up", "ffn_down")
_LLAMA = ("attn_norm", *_ATTENTION, "ffn_norm", *_GATED)
_HEAD_NORMS = ("attn_q_norm", "attn_k_norm")
_POST_NORMS = ("post_attention_norm", "post_ffw_norm")
_EXPERTS = ("ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps")
_SHARED = ("ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp")
_SPACE = ("ssm_in", "ssm_conv1d", "ssm_conv1d.bias", "ssm_dt.bias", "ssm_a", "ssm_d", "ssm_norm", "ssm_out")
_DELTA = ("attn_qkv", "attn_gate", "ssm_conv1d", "ssm_dt.bias", "ssm_a", "ssm_alpha", "ssm_beta", "ssm_norm")
_LATENT = ("attn_norm", "attn_q", "attn_kv_a_mqa", "attn_kv_a_norm", "attn_k_b", "attn_v_b", "attn_output")

TENSORS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("lfm2", "lfm2moe"), ("attn_norm", *_ATTENTION, *_HEAD_NORMS, "ffn_norm", *_GATED)),
    **dict.fromkeys(("hunyuan-dense", "qwen3", "qwen3vl"), (*_LLAMA, *_HEAD_NORMS)),
    **dict.fromkeys(("cohere2", "command-r"), ("attn_norm", *_ATTENTION, *_GATED)),
    **dict.fromkeys(
        ("olmoe", "qwen3vlmoe", "qwen3moe"), ("attn_norm", *_ATTENTION, *_HEAD_NORMS, "ffn_norm", *_EXPERTS)
    ),
    **dict.fromkeys(
        ("dots1", "hunyuan-moe"), ("attn_norm", *_ATTENTION, *_HEAD_NORMS, "ffn_norm", *_EXPERTS, *_SHARED)
    ),
    **dict.fromkeys(
        ("bailingmoe", "deepseek", "ernie4_5-moe", "granitemoe", "llama4"),
        ("attn_norm", *_ATTENTION, "ffn_norm", *_EXPERTS, *_SHARED),
    ),
    **dict.fromkeys(
        ("bloom", "chatglm", "codeshell", "gpt2", "gptneox", "mpt", "phi3", "starcoder"),
        (*_MERGED, "ffn_norm", *_PLAIN),
    ),
    **dict.fromkeys(("arcee", "nemotron", "starcoder2"), ("attn_norm", *_ATTENTION, "ffn_norm", *_PLAIN)),
    "bailingmoe2": (*_MERGED, *_HEAD_NORMS, "ffn_norm", *_EXPERTS, *_SHARED, "exp_probs_b.bias"),
    "deepseek2": (*_LATENT, "ffn_norm", *_EXPERTS, *_SHARED),
    "exaone4": (*_ATTENTION, *_HEAD_NORMS, *_GATED, *_POST_NORMS),
    "falcon-h1": ("attn_norm", *_ATTENTION, *_SPACE, "ffn_norm", *_GATED),
    "falcon": (*_MERGED, *_PLAIN),
    "gemma2": (*_LLAMA, *_POST_NORMS),
    "gemma3": (*_LLAMA, *_HEAD_NORMS, *_POST_NORMS),
    "gemma4": (*_LLAMA, *_HEAD_NORMS, *_POST_NORMS, "layer_output_scale", "inp_gate", "proj", "post_norm"),
    "glm4": ("attn_norm", *_ATTENTION, "ffn_norm", *_PLAIN, *_POST_NORMS),
    "glm4moe": ("attn_norm", *_ATTENTION, "post_attention_norm", *_EXPERTS, *_SHARED),
    "gpt-oss": ("attn_norm", *_ATTENTION, "attn_sinks", "post_attention_norm", *_EXPERTS),
    "jais": (*_MERGED, "ffn_norm", *_GATED),
    "mamba2": ("attn_norm", *_SPACE),
    "minimax-m2": (
        *("attn_norm", *_ATTENTION, *_HEAD_NORMS),
        *("ffn_norm", *_EXPERTS, "exp_probs_b.bias"),
    ),
    "nemotron_h": ("attn_norm", *_ATTENTION),
    "nemotron_h_moe": ("attn_norm", *_SPACE),
    "olmo": (*_ATTENTION, *_GATED),
    "olmo2": (*_ATTENTION, *_HEAD_NORMS, *_GATED, *_POST_NORMS),
    "phi2": (*_MERGED, *_PLAIN),
    "qwen": (*_MERGED, "ffn_norm", *_GATED),
    "qwen2moe": ("attn_norm", *_ATTENTION, "ffn_norm", *_EXPERTS, *_SHARED, "ffn_gate_inp_shexp"),
    "qwen35": ("attn_norm", *_ATTENTION, *_HEAD_NORMS, "post_attention_norm", *_GATED),
    "qwen35moe": (
        *("attn_norm", *_ATTENTION, *_HEAD_NORMS, "post_attention_norm"),
        *(*_EXPERTS, *_SHARED, "ffn_gate_inp_shexp"),
    ),
    "qwen3next": (
        *("attn_norm", *_ATTENTION, *_HEAD_NORMS, "post_attention_norm"),
        *(*_EXPERTS, *_SHARED, "ffn_gate_inp_shexp"),
    ),
    "seed_oss": ("attn_norm", *_ATTENTION, "post_attention_norm", *_GATED),
}
"""The weights that a layer of an architecture needs, where they are not llama's."""

ODD_LAYERS: Mapping[str, tuple[str, ...]] = {
    "granitehybrid": ("attn_norm", *_SPACE, "ffn_norm", *_GATED),
    "lfm2": (
        *("attn_norm", "shortconv.in_proj", "shortconv.conv", "shortconv.out_proj"),
        *("ffn_norm", *_GATED),
    ),
    "lfm2moe": (
        *("attn_norm", "shortconv.in_proj", "shortconv.conv", "shortconv.out_proj"),
        *("ffn_norm", *_EXPERTS, "exp_probs_b.bias"),
    ),
    "nemotron_h": ("attn_norm", *_PLAIN),
    "nemotron_h_moe": (
        *("attn_norm", "ffn_gate_inp", "exp_probs_b.bias", "ffn_up_exps", "ffn_down_exps"),
        *("ffn_up_shexp", "ffn_down_shexp"),
    ),
    "qwen3next": (
        *("attn_norm", "attn_qkv", "attn_gate", "ssm_conv1d", "ssm_dt.bias", "ssm_a", "ssm_ba", "ssm_norm"),
        *("ssm_out", "post_attention_norm", *_EXPERTS, *_SHARED, "ffn_gate_inp_shexp"),
    ),
    "qwen35": ("attn_norm", *_DELTA, "ssm_out", "post_attention_norm", *_GATED),
    "qwen35moe": (
        *("attn_norm", *_DELTA, "ssm_out", "post_attention_norm"),
        *(*_EXPERTS, *_SHARED, "ffn_gate_inp_shexp"),
    ),
}
"""The weights of every second layer, where they are others."""

_QWEN35: Shapes = {
    "attn_q": (2 * QUERIES, WIDTH),
    "attn_qkv": (2 * GROUPS * STATE + QUERIES, WIDTH),
    "ssm_conv1d": (2 * GROUPS * STATE + QUERIES, TAPS),
    "ssm_a": (HEADS,),
    "ssm_norm": (LENGTH,),
    "ssm_out": (WIDTH, QUERIES),
}
OTHER_SHAPES: Mapping[str, Shapes] = {
    "chatglm": {"ffn_up": (2 * INNER, WIDTH)},
    "deepseek2": {"attn_q": (2 * QUERIES, WIDTH)},
    "glm4": {"ffn_up": (2 * INNER, WIDTH)},
    "olmo2": {"attn_q_norm": (QUERIES,), "attn_k_norm": (KEYS,)},
    "phi3": {"ffn_up": (2 * INNER, WIDTH)},
    "minimax-m2": {"attn_q_norm": (QUERIES,), "attn_k_norm": (KEYS,)},
    "olmoe": {"attn_q_norm": (QUERIES,), "attn_k_norm": (KEYS,)},
    "qwen": {"attn_qkv": (3 * QUERIES, WIDTH)},
    "qwen3next": _QWEN35,
    "qwen35": _QWEN35,
    "qwen35moe": _QWEN35,
}

ODD_SHAPES: Mapping[str, Shapes] = {
    "gemma4": {
        "attn_q": (2 * QUERIES, WIDTH),
        "attn_k": (2 * KEYS, WIDTH),
        "attn_v": (2 * KEYS, WIDTH),
        "attn_q_norm": (2 * LENGTH,),
        "attn_k_norm": (2 * LENGTH,),
        "attn_output": (WIDTH, 2 * QUERIES),
    },
}
"""Shapes that only every second layer has."""

WHOLE: Mapping[str, Shapes] = {
    "gemma4": {
        "output_norm": (WIDTH,),
        "rope_freqs": (LENGTH,),
        "per_layer_token_embd": (VOCAB, -DEPTH),
        "per_layer_model_proj": (-DEPTH, WIDTH),
        "per_layer_proj_norm": (DEPTH,),
    },
    "gpt2": {"position_embd": (CONTEXT, WIDTH), "output_norm": (WIDTH,)},
    "olmo": {},
    "starcoder": {"position_embd": (CONTEXT, WIDTH), "output_norm": (WIDTH,)},
    "bloom": {"token_embd_norm": (WIDTH,), "output_norm": (WIDTH,)},
    "lfm2": {"token_embd_norm": (WIDTH,)},
    "lfm2moe": {"token_embd_norm": (WIDTH,)},
}
"""Weights that belong to no layer, besides the embedding, where they are not the last norm alone.

A size is negative where there are so many for each layer.
"""

_CHOICE: Metadata = {"expert_count": EXPERTS, "expert_used_count": 2}
_STATES: Metadata = {
    "ssm.conv_kernel": TAPS,
    "ssm.state_size": STATE,
    "ssm.time_step_rank": HEADS,
    "ssm.group_count": GROUPS,
}
METADATA: Mapping[str, Metadata] = {
    **dict.fromkeys(("hunyuan-moe", "minimax-m2", "olmoe", "qwen2moe", "qwen3moe", "qwen3vlmoe"), _CHOICE),
    "bailingmoe": {**_CHOICE, "expert_shared_count": 1},
    "bailingmoe2": {
        **_CHOICE,
        "expert_shared_count": 1,
        "expert_gating_func": 2,
        "expert_weights_norm": True,
    },
    "cohere2": {"attention.sliding_window": WINDOW, "logit_scale": 0.5},
    "deepseek": {**_CHOICE, "expert_shared_count": 1},
    "deepseek2": {
        **_CHOICE,
        "expert_shared_count": 1,
        "attention.kv_lora_rank": RANK,
        "attention.key_length_mla": 2 * LENGTH,
        "attention.value_length_mla": LENGTH,
        "attention.key_length": RANK + LENGTH,
        "attention.value_length": RANK,
        "attention.head_count_kv": 1,
        "rope.dimension_count": LENGTH,
    },
    "dots1": {**_CHOICE, "expert_shared_count": 1},
    "ernie4_5-moe": {**_CHOICE, "expert_shared_feed_forward_length": INNER},
    "gemma4": {
        "attention.sliding_window": WINDOW,
        "attention.key_length": 2 * LENGTH,
        "attention.value_length": 2 * LENGTH,
        "attention.key_length_swa": LENGTH,
        "attention.value_length_swa": LENGTH,
        "embedding_length_per_layer_input": DEPTH,
        "rope.dimension_count_swa": LENGTH,
        "rope.dimension_count": 2 * LENGTH,
        "rope.freq_base": 1000000.0,
        "rope.freq_base_swa": 10000.0,
        "final_logit_softcapping": 30.0,
    },
    "glm4moe": {**_CHOICE, "expert_shared_count": 1},
    "falcon-h1": {**_STATES, "ssm.inner_size": SPACE},
    "gpt-oss": {**_CHOICE, "attention.sliding_window": WINDOW},
    "gptneox": {"use_parallel_residual": True},
    "granite": {"logit_scale": 8.0},
    "granitemoe": {**_CHOICE, "logit_scale": 8.0, "expert_shared_feed_forward_length": INNER},
    "granitehybrid": {**_STATES, "ssm.inner_size": SPACE},
    "llama4": {**_CHOICE, "expert_used_count": 1},
    "lfm2": {"shortconv.l_cache": TAPS},
    "lfm2moe": {**_CHOICE, "shortconv.l_cache": TAPS},
    "mamba2": {**_STATES, "ssm.inner_size": SPACE, "attention.head_count": 0, "feed_forward_length": 0},
    "jais": {"attention.max_alibi_bias": 8.0},
    "mpt": {"attention.max_alibi_bias": 8.0},
    "nemotron_h": {**_STATES, "ssm.inner_size": SPACE},
    "nemotron_h_moe": {
        **_CHOICE,
        **_STATES,
        "ssm.inner_size": SPACE,
        "expert_shared_count": 1,
        "expert_feed_forward_length": INNER,
        "expert_shared_feed_forward_length": INNER,
        "expert_weights_norm": True,
        "expert_weights_scale": 2.5,
    },
    "qwen": {"feed_forward_length": 2 * INNER, "attention.head_count_kv": HEADS},
    "qwen35": {**_STATES, "ssm.inner_size": QUERIES},
    "qwen35moe": {
        **_CHOICE,
        **_STATES,
        "ssm.inner_size": QUERIES,
        "expert_shared_feed_forward_length": INNER,
    },
    "qwen3next": {
        **_CHOICE,
        **_STATES,
        "ssm.inner_size": QUERIES,
        "expert_shared_feed_forward_length": INNER,
    },
}
"""What an architecture's file says besides the usual, without the prefix of its keys."""

_EVEN_ATTEND = {"attention.head_count_kv": (KV_HEADS, 0)}
_ODD_RECUR = {"attention.recurrent_layers": (0, 1)}
_BY_LAYER: Mapping[str, Mapping[str, tuple[int, int]]] = {
    **dict.fromkeys(("granitehybrid", "lfm2", "lfm2moe"), _EVEN_ATTEND),
    **dict.fromkeys(("qwen3next", "qwen35", "qwen35moe"), _ODD_RECUR),
    "gemma4": {"attention.sliding_window_pattern": (True, False)},
    "nemotron_h": {"attention.head_count_kv": (KV_HEADS, 0), "feed_forward_length": (0, INNER)},
    "nemotron_h_moe": {"attention.head_count_kv": (0, 0), "feed_forward_length": (0, INNER)},
}
"""Keys with a value for each layer, and what it is for even and for odd ones."""


def sketch(architecture: str, layers: int = 2, seed: int = 0) -> tuple[Metadata, Tensors]:
    """Return the metadata, without the prefix of its keys, and the tensors of a small model.

    Only what the architecture needs is there. The weights are large enough that all of the context counts.
    """
    metadata: Metadata = {
        "context_length": CONTEXT,
        "embedding_length": WIDTH,
        "block_count": layers,
        "feed_forward_length": INNER,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "attention.layer_norm_epsilon": 1e-6,
    } | METADATA.get(architecture, {})
    for key, values in _BY_LAYER.get(architecture, {}).items():
        metadata[key] = [values[layer % 2] for layer in range(layers)]
    rng = np.random.default_rng(seed)
    shapes = _shapes(architecture, layers)
    return metadata, {_full(name): _weight(rng, name, shape) for name, shape in shapes.items()}


_NEAR_ONE = ("norm", "norm_1", "norm_2", "rope_freqs", "layer_output_scale")


def _full(name: str) -> str:
    return name if name.endswith((".bias", ".scale", "ssm_a", "ssm_d")) else f"{name}.weight"


def _shapes(architecture: str, layers: int) -> dict[str, tuple[int, ...]]:
    whole = {"token_embd": (VOCAB, WIDTH), **WHOLE.get(architecture, {"output_norm": (WIDTH,)})}
    shapes = {name: tuple(max(n, -n * layers) for n in shape) for name, shape in whole.items()}
    known = {**SHAPES, **OTHER_SHAPES.get(architecture, {})}
    known_odd = {**known, **ODD_SHAPES.get(architecture, {})}
    even = TENSORS.get(architecture, _LLAMA)
    odd = ODD_LAYERS.get(architecture, even)
    for layer in range(layers):
        names, of_layer = (odd, known_odd) if layer % 2 else (even, known)
        shapes |= {f"blk.{layer}.{name}": of_layer[name] for name in names}
    return shapes


def _weight(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    values = rng.normal(size=shape)
    if name.endswith("ssm_a"):  # the logarithm of what is left of a state
        return -np.abs(values * 0.3).astype(np.float32)
    scaled = 1 + 0.1 * values if name.endswith(_NEAR_ONE) else values * 1.5 / np.sqrt(shape[-1])
    return scaled.astype(np.float32)


_ADDERS: Mapping[type, str] = {
    bool: "add_bool",
    int: "add_uint64",
    float: "add_float32",
    str: "add_string",
    list: "add_array",
}


def write_gguf(
    path: Path, architecture: str, metadata: Mapping[str, object], tensors: Mapping[str, NDArray[np.generic]]
) -> Path:
    """Write a file of metadata, without the prefix of its keys, and tensors; return its path."""
    from gguf import GGUFWriter

    writer = GGUFWriter(path, architecture)
    for key, value in metadata.items():
        negative = type(value) is int and value < 0
        add: Callable[[str, object], None] = getattr(
            writer, "add_int32" if negative else _ADDERS[type(value)]
        )
        add(f"{architecture}.{key}", value)
    for name, values in tensors.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
