"""Sketches of models that carry states along a sequence, or several streams of rows through layers."""

from collections.abc import Mapping

from rase_models.testing_layers import LLAMA
from rase_models.testing_sizes import VOCAB, WIDTH, WINDOW, Metadata, Shapes

_STREAMS, _LOW, _DEEP = 4, 64, 256

TENSORS: Mapping[str, tuple[str, ...]] = {
    "gemma3n": (
        *(*LLAMA, "attn_q_norm", "attn_k_norm", "post_attention_norm", "post_ffw_norm"),
        *("inp_gate", "proj", "post_norm", "laurel_l", "laurel_r", "laurel_post_norm"),
        *("altup_correct_coef", "altup_correct_scale", "altup_predict_coef"),
        *("altup_router", "altup_router_norm"),
    ),
}
"""The weights that a layer of an architecture needs."""

SHAPES: Mapping[str, Shapes] = {
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

METADATA: Mapping[str, Metadata] = {
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
}
"""Keys with a value for each layer, and what it is for even and for odd ones."""
