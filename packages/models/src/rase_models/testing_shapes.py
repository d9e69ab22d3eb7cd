"""The shapes of the weights of sketches of models."""

from collections.abc import Mapping

from rase_models.testing_sizes import (
    CONTEXT,
    DEPTH,
    EXPERTS,
    GROUPS,
    HEADS,
    INNER,
    KEYS,
    LENGTH,
    QUERIES,
    RANK,
    SPACE,
    STATE,
    TAPS,
    VOCAB,
    WIDTH,
    Shapes,
)

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
    "attn_kv_b": (HEADS * 2 * LENGTH, RANK),
    "attn_q_a": (RANK, WIDTH),
    "attn_q_a_norm": (RANK,),
    "attn_q_b": (2 * QUERIES, RANK),
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
    "cogvlm": {"attn_qkv": (3 * QUERIES, WIDTH)},
    "deepseek2": {"attn_q": (2 * QUERIES, WIDTH)},
    "deepseek2-ocr": {"attn_k": (QUERIES, WIDTH), "attn_v": (QUERIES, WIDTH)},
    "plamo3": {"ffn_up": (2 * INNER, WIDTH)},
    "laguna": {"attn_gate": (HEADS, WIDTH)},
    "spark2_5": {"attn_gate": (HEADS, WIDTH)},
    "mimo2": {"attn_q": (2 * QUERIES, WIDTH), "attn_k": (2 * KEYS, WIDTH)},
    "plm": {"attn_q": (2 * QUERIES, WIDTH)},
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
    "mimo2": {"attn_k": (2 * QUERIES, WIDTH), "attn_v": (QUERIES, WIDTH)},
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
