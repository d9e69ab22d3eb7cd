"""Sketches of models that carry states along a sequence, or several streams of rows through layers."""

from collections.abc import Mapping

from rase_models.testing_layers import LLAMA
from rase_models.testing_sizes import (
    EXPERTS,
    HEADS,
    INNER,
    KEYS,
    KV_HEADS,
    LENGTH,
    QUERIES,
    RANK,
    SPACE,
    STATE,
    TAPS,
    VOCAB,
    WIDTH,
    WINDOW,
    Metadata,
    Shapes,
)

_CHANNELS = (
    *("ssm_in", "ssm_conv1d", "ssm_conv1d.bias", "ssm_x", "ssm_dt", "ssm_dt.bias"),
    *("ssm_a", "ssm_d", "ssm_out"),
)
_RECEPTANCE = ("time_mix_receptance", "time_mix_key", "time_mix_value", "time_mix_output")
_RATES = (
    *("time_mix_w0", "time_mix_w1", "time_mix_w2", "time_mix_a0", "time_mix_a1", "time_mix_a2"),
    *("time_mix_v0", "time_mix_v1", "time_mix_v2"),
    *("time_mix_lerp_fused", "time_mix_k_k", "time_mix_k_a", "time_mix_r_k"),
)
_SHARES = (
    *("time_mix_w1", "time_mix_w2", "time_mix_lerp_x", "time_mix_lerp_fused"),
    *("time_mix_decay", "time_mix_decay_w1", "time_mix_decay_w2", "time_mix_gate"),
)
_RWKV_NORMS = (
    *("attn_norm", "attn_norm.bias", "attn_norm_2", "attn_norm_2.bias"),
    *("time_mix_ln", "time_mix_ln.bias"),
)
_CHANNEL_MIX = ("channel_mix_lerp_k", "channel_mix_key", "channel_mix_value")
_GATED = ("ffn_norm", "ffn_gate", "ffn_up", "ffn_down")
_STREAMS, _LOW, _DEEP = 4, 64, 256

_LATENT = ("attn_q", "attn_kv_a_mqa", "attn_kv_a_norm", "attn_k_b", "attn_v_b", "attn_output")
_KEYED = (
    *("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output"),
    *("ssm_conv1d_q", "ssm_conv1d_k", "ssm_conv1d_v", "ssm_dt.bias", "ssm_a", "ssm_beta", "ssm_norm"),
)
_CHOSEN = (
    *("ffn_norm", "ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"),
    *("ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp", "exp_probs_b.bias"),
)

TENSORS: Mapping[str, tuple[str, ...]] = {
    "bailingmoe3": ("attn_norm", *_LATENT, "attn_gate", *_GATED),
    "gemma3n": (
        *(*LLAMA, "attn_q_norm", "attn_k_norm", "post_attention_norm", "post_ffw_norm"),
        *("inp_gate", "proj", "post_norm", "laurel_l", "laurel_r", "laurel_post_norm"),
        *("altup_correct_coef", "altup_correct_scale", "altup_predict_coef"),
        *("altup_router", "altup_router_norm"),
    ),
    "arwkv7": ("attn_norm", *_RECEPTANCE, *_RATES, *_GATED),
    "jamba": LLAMA,
    "mamba": ("attn_norm", *_CHANNELS),
    "kimi-linear": ("attn_norm", *_LATENT, *_GATED),
    "plamo2": (
        *("attn_norm", "attn_qkv", "attn_q_norm", "attn_k_norm", "attn_output"),
        *("post_attention_norm", "ffn_norm", "ffn_up", "ffn_down", "post_ffw_norm"),
    ),
    "rwkv6": (
        *(*_RWKV_NORMS, *_RECEPTANCE, *_SHARES, "time_mix_first"),
        *(*_CHANNEL_MIX, "channel_mix_lerp_r", "channel_mix_receptance"),
    ),
    "rwkv6qwen2": ("attn_norm", *_RECEPTANCE, *_SHARES, *_GATED),
    "rwkv7": (*_RWKV_NORMS, *_RECEPTANCE, *_RATES, "time_mix_g1", "time_mix_g2", *_CHANNEL_MIX),
}
"""The weights that a layer of an architecture needs."""

ODD_LAYERS: Mapping[str, tuple[str, ...]] = {
    "jamba": (
        *("attn_norm", *_CHANNELS, "ssm_dt_norm", "ssm_b_norm", "ssm_c_norm"),
        *("ffn_norm", "ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"),
    ),
    "bailingmoe3": (*_KEYED, "ssm_f_a", "ssm_g_a", *_CHOSEN),
    "kimi-linear": (*_KEYED, "ssm_f_a", "ssm_f_b", "ssm_g_a", "ssm_g_b", *_CHOSEN),
    "plamo2": (
        *("attn_norm", "ssm_in", "ssm_conv1d", "ssm_x", "ssm_dt", "ssm_dt.bias", "ssm_a", "ssm_d", "ssm_out"),
        *("ssm_dt_norm", "ssm_b_norm", "ssm_c_norm"),
        *("post_attention_norm", "ffn_norm", "ffn_up", "ffn_down", "post_ffw_norm"),
    ),
}
"""The weights of every second layer, where they are others."""

_CHANNEL_SHAPES: Shapes = {
    "ssm_in": (2 * SPACE, WIDTH),
    "ssm_conv1d": (SPACE, TAPS),
    "ssm_conv1d.bias": (SPACE,),
    "ssm_x": (RANK + 2 * STATE, SPACE),
    "ssm_dt": (SPACE, RANK),
    "ssm_dt.bias": (SPACE,),
    "ssm_a": (SPACE, STATE),
    "ssm_d": (SPACE,),
    "ssm_dt_norm": (RANK,),
    "ssm_b_norm": (STATE,),
    "ssm_c_norm": (STATE,),
}
_RWKV7_SHAPES: Shapes = {
    **dict.fromkeys(_RECEPTANCE, (WIDTH, WIDTH)),
    **dict.fromkeys([f"time_mix_{kind}1" for kind in "wavg"], (RANK, WIDTH)),
    **dict.fromkeys([f"time_mix_{kind}2" for kind in "wavg"], (WIDTH, RANK)),
    **dict.fromkeys([f"time_mix_{kind}" for kind in ("w0", "a0", "v0", "k_k", "k_a", "r_k")], (WIDTH,)),
    **dict.fromkeys(("time_mix_ln", "time_mix_ln.bias", "attn_norm.bias"), (WIDTH,)),
    **dict.fromkeys(("attn_norm_2", "attn_norm_2.bias"), (WIDTH,)),
    "time_mix_lerp_fused": (6, 1, 1, WIDTH),
    "channel_mix_lerp_k": (1, 1, WIDTH),
    "channel_mix_key": (INNER, WIDTH),
    "channel_mix_value": (WIDTH, INNER),
}
_RWKV6_SHAPES: Shapes = {
    **_RWKV7_SHAPES,
    "time_mix_w1": (5 * RANK, WIDTH),
    "time_mix_w2": (5, WIDTH, RANK),
    "time_mix_lerp_x": (1, 1, WIDTH),
    "time_mix_lerp_fused": (5, 1, 1, WIDTH),
    "time_mix_decay": (WIDTH,),
    "time_mix_decay_w1": (RANK, WIDTH),
    "time_mix_decay_w2": (WIDTH, RANK),
    "time_mix_gate": (WIDTH, WIDTH),
    "time_mix_first": (HEADS, LENGTH),
    "channel_mix_lerp_r": (1, 1, WIDTH),
    "channel_mix_receptance": (WIDTH, WIDTH),
}
_KEYED_SHAPES: Shapes = {
    "attn_q": (2 * QUERIES, WIDTH),
    **dict.fromkeys([f"ssm_conv1d_{kind}" for kind in "qkv"], (1, QUERIES, 1, TAPS)),
    "ssm_dt.bias": (QUERIES,),
    "ssm_norm": (LENGTH,),
}
SHAPES: Mapping[str, Shapes] = {
    "bailingmoe3": {
        **_KEYED_SHAPES,
        "attn_gate": (HEADS, WIDTH),
        "ssm_f_a": (QUERIES, WIDTH),
        "ssm_g_a": (QUERIES, WIDTH),
    },
    "kimi-linear": {
        **_KEYED_SHAPES,
        "ssm_f_a": (LENGTH, WIDTH),
        "ssm_f_b": (QUERIES, LENGTH),
        "ssm_a": (1, 1, HEADS, 1),
        "ssm_g_a": (LENGTH, WIDTH),
        "ssm_g_b": (QUERIES, LENGTH),
    },
    "plamo2": {
        "attn_q_norm": (HEADS, LENGTH),
        "attn_k_norm": (KV_HEADS, LENGTH),
        "ffn_up": (2 * INNER, WIDTH),
        "ssm_in": (2 * SPACE, WIDTH),
        "ssm_conv1d": (SPACE, TAPS),
        "ssm_x": (_LOW + 2 * STATE, SPACE),
        "ssm_dt": (HEADS, _LOW),
        "ssm_a": (HEADS,),
        "ssm_d": (HEADS,),
        "ssm_dt_norm": (_LOW,),
        "ssm_b_norm": (STATE,),
        "ssm_c_norm": (STATE,),
    },
    "arwkv7": {**_RWKV7_SHAPES, "time_mix_lerp_fused": (5, 1, 1, WIDTH)},
    "rwkv6": _RWKV6_SHAPES,
    "rwkv6qwen2": {**_RWKV6_SHAPES, "time_mix_key": (KEYS, WIDTH), "time_mix_value": (KEYS, WIDTH)},
    "rwkv7": _RWKV7_SHAPES,
    **dict.fromkeys(("jamba", "mamba"), _CHANNEL_SHAPES),
    "gemma3n": {
        "inp_gate": (_DEEP, WIDTH),
        "proj": (WIDTH, _DEEP),
        "laurel_l": (_LOW, WIDTH),
        "laurel_r": (WIDTH, _LOW),
        "laurel_post_norm": (WIDTH,),
        "altup_correct_coef": (_STREAMS, _STREAMS),
        "altup_correct_scale": (WIDTH,),
        "altup_predict_coef": (_STREAMS * _STREAMS, _STREAMS),
        "altup_router": (_STREAMS, WIDTH),
        "altup_router_norm": (WIDTH,),
    },
}
"""The shapes of weights that other architectures do not have, or not so."""

_BOTH_NORMS: Shapes = dict.fromkeys(
    ("token_embd_norm", "token_embd_norm.bias", "output_norm", "output_norm.bias"), (WIDTH,)
)
_ALIKE: Shapes = dict.fromkeys(("attn_q", "attn_k", "attn_v"), (QUERIES, WIDTH))
ODD_SHAPES: Mapping[str, Shapes] = {"bailingmoe3": _ALIKE, "kimi-linear": _ALIKE}
"""Shapes that only every second layer has."""

WHOLE: Mapping[str, Shapes] = {
    **dict.fromkeys(("rwkv6", "rwkv7"), _BOTH_NORMS),
    "gemma3n": {
        "output_norm": (WIDTH,),
        "per_layer_token_embd": (VOCAB, -_DEEP),
        "per_layer_model_proj": (-_DEEP, WIDTH),
        "per_layer_proj_norm": (_DEEP,),
        "altup_proj": (_STREAMS - 1, WIDTH, WIDTH),
        "altup_unembd_proj": (_STREAMS - 1, WIDTH, WIDTH),
    },
}
"""Weights that belong to no layer, as in `testing_shapes`."""

_CHANNEL_STATES: Metadata = {
    "ssm.conv_kernel": TAPS,
    "ssm.inner_size": SPACE,
    "ssm.state_size": STATE,
    "ssm.time_step_rank": RANK,
}
_RWKV: Metadata = {"wkv.head_size": LENGTH, "attention.head_count": 0, "attention.head_count_kv": 0}
_KEYED_STATES: Metadata = {
    "expert_count": EXPERTS,
    "expert_used_count": 2,
    "expert_shared_count": 1,
    "expert_gating_func": 2,
    "attention.kv_lora_rank": RANK,
    "attention.key_length_mla": 2 * LENGTH,
    "attention.value_length_mla": LENGTH,
    "attention.key_length": RANK + LENGTH,
    "attention.value_length": RANK,
    "rope.dimension_count": LENGTH,
    "ssm.conv_kernel": TAPS,
    "kda.head_dim": LENGTH,
}
METADATA: Mapping[str, Metadata] = {
    **dict.fromkeys(("arwkv7", "rwkv6", "rwkv7"), _RWKV),
    "rwkv6qwen2": {**_RWKV, "attention.head_count_kv": KV_HEADS},
    "jamba": {**_CHANNEL_STATES, "expert_count": EXPERTS, "expert_used_count": 2},
    "bailingmoe3": {**_KEYED_STATES, "kda.gate_lower_bound": -5.0, "expert_weights_norm": True},
    "kimi-linear": _KEYED_STATES,
    "plamo2": {**_CHANNEL_STATES, "ssm.time_step_rank": HEADS, "ssm.group_count": 0},
    "mamba": {**_CHANNEL_STATES, "attention.head_count": 0, "feed_forward_length": 0},
    "gemma3n": {
        "attention.sliding_window": WINDOW,
        "embedding_length_per_layer_input": _DEEP,
        "altup.num_inputs": _STREAMS,
        "rope.freq_base": 1000000.0,
        "rope.freq_base_swa": 10000.0,
    },
}
"""What an architecture's file says besides the usual, without the prefix of its keys."""

BY_LAYER: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "gemma3n": {"attention.sliding_window_pattern": (True, False)},
    "jamba": {"attention.head_count_kv": (KV_HEADS, 0)},
    "plamo2": {"attention.head_count_kv": (KV_HEADS, 0)},
    "bailingmoe3": {"attention.head_count_kv": (1, 0)},
    "kimi-linear": {"attention.head_count_kv": (1, 0)},
}
"""Keys with a value for each layer, and what it is for even and for odd ones."""
