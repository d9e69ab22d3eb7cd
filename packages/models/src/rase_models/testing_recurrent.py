"""Sketches of models that carry states along a sequence, or several streams of rows through layers."""

from collections.abc import Mapping

from rase_models.testing_layers import LLAMA
from rase_models.testing_sizes import (
    EXPERTS,
    KV_HEADS,
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
_STREAMS, _LOW, _DEEP = 4, 64, 256

TENSORS: Mapping[str, tuple[str, ...]] = {
    "gemma3n": (
        *(*LLAMA, "attn_q_norm", "attn_k_norm", "post_attention_norm", "post_ffw_norm"),
        *("inp_gate", "proj", "post_norm", "laurel_l", "laurel_r", "laurel_post_norm"),
        *("altup_correct_coef", "altup_correct_scale", "altup_predict_coef"),
        *("altup_router", "altup_router_norm"),
    ),
    "jamba": LLAMA,
    "mamba": ("attn_norm", *_CHANNELS),
}
"""The weights that a layer of an architecture needs."""

ODD_LAYERS: Mapping[str, tuple[str, ...]] = {
    "jamba": (
        *("attn_norm", *_CHANNELS, "ssm_dt_norm", "ssm_b_norm", "ssm_c_norm"),
        *("ffn_norm", "ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"),
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
SHAPES: Mapping[str, Shapes] = {
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

WHOLE: Mapping[str, Shapes] = {
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
METADATA: Mapping[str, Metadata] = {
    "jamba": {**_CHANNEL_STATES, "expert_count": EXPERTS, "expert_used_count": 2},
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
}
"""Keys with a value for each layer, and what it is for even and for odd ones."""
