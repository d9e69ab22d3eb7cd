"""What the files of sketches of models say of themselves."""

from collections.abc import Mapping

from rase_models.testing_sizes import (
    CONTEXT,
    DEPTH,
    EXPERTS,
    GROUPS,
    HEADS,
    INNER,
    KV_HEADS,
    LENGTH,
    QUERIES,
    RANK,
    SPACE,
    STATE,
    TAPS,
    WINDOW,
    Metadata,
)

_CHOICE: Metadata = {"expert_count": EXPERTS, "expert_used_count": 2}
_STATES: Metadata = {
    "ssm.conv_kernel": TAPS,
    "ssm.state_size": STATE,
    "ssm.time_step_rank": HEADS,
    "ssm.group_count": GROUPS,
}
_LATENT: Metadata = {
    "attention.q_lora_rank": RANK,
    "attention.kv_lora_rank": RANK,
    "attention.key_length": 2 * LENGTH,
    "attention.value_length": LENGTH,
    "attention.head_count_kv": HEADS,
    "rope.dimension_count": LENGTH,
}
_LATENT_EXPERTS: Metadata = {
    **_CHOICE,
    "expert_shared_count": 1,
    "attention.q_lora_rank": RANK,
    "attention.kv_lora_rank": RANK,
    "attention.key_length_mla": 2 * LENGTH,
    "attention.value_length_mla": LENGTH,
    "attention.key_length": RANK + LENGTH,
    "attention.value_length": RANK,
    "attention.head_count_kv": 1,
    "rope.dimension_count": LENGTH,
}
METADATA: Mapping[str, Metadata] = {
    **dict.fromkeys(
        ("hunyuan-moe", "hy_v3", "minimax-m2", "olmoe", "qwen2moe", "qwen3moe", "qwen3vlmoe"), _CHOICE
    ),
    "bailingmoe": {**_CHOICE, "expert_shared_count": 1},
    "bailingmoe2": {
        **_CHOICE,
        "expert_shared_count": 1,
        "expert_gating_func": 2,
        "expert_weights_norm": True,
    },
    "cohere2": {"attention.sliding_window": WINDOW, "logit_scale": 0.5},
    "deepseek": {**_CHOICE, "expert_shared_count": 1},
    "deepseek2": _LATENT_EXPERTS,
    "afmoe": {
        **_CHOICE,
        "attention.sliding_window": WINDOW,
        "expert_shared_count": 1,
        "expert_weights_norm": True,
        "expert_weights_scale": 2.5,
    },
    "cohere2moe": {
        **_CHOICE,
        "attention.sliding_window": WINDOW,
        "logit_scale": 0.5,
        "expert_shared_count": 1,
    },
    "granite_swa": {"logit_scale": 8.0, "residual_scale": 0.3, "attention.sliding_window": WINDOW},
    "laguna": {
        **_CHOICE,
        "attention.sliding_window": WINDOW,
        "expert_shared_feed_forward_length": INNER,
        "expert_weights_norm": True,
    },
    "mimo2": {**_CHOICE, "attention.sliding_window": WINDOW, "attention.key_length": 2 * LENGTH},
    "muse-glimmer": {"attention.sliding_window": WINDOW, "logit_scale": 0.5},
    "spark2_5": {"attention.sliding_window": WINDOW},
    "mistral4": _LATENT_EXPERTS,
    "deepseek32": {**_LATENT_EXPERTS, "attention.indexer.top_k": CONTEXT},
    "glm-dsa": {**_LATENT_EXPERTS, "attention.indexer.top_k": CONTEXT},
    "apertus": {"xielu.beta": 0.5, "xielu.eps": -1e-6},
    **dict.fromkeys(("arctic", "grok"), _CHOICE),
    "dbrx": {**_CHOICE, "attention.clamp_kqv": 0.8},
    "smallthinker": {**_CHOICE, "attention.sliding_window": WINDOW, "expert_gating_func": 2},
    "minimax-m3": {
        **_CHOICE,
        "expert_shared_count": 1,
        "expert_weights_norm": True,
        "attention.indexer.top_k": 16,
        "attention.indexer.block_size": 8,
    },
    "nanbeige": {"num_loops": 2, "skip_loop_final_norm": True},
    "deepseek2-ocr": {**_CHOICE, "expert_shared_count": 1, "attention.head_count_kv": HEADS},
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
    "exaone-moe": {**_CHOICE, "attention.sliding_window": WINDOW, "expert_gating_func": 2},
    "mellum": {**_CHOICE, "attention.sliding_window": WINDOW},
    **dict.fromkeys(("minicpm3", "plm"), _LATENT),
    "plamo3": {"attention.sliding_window": WINDOW},
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
    "cogvlm": {"attention.head_count_kv": HEADS},
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
_EVEN_WINDOWED = {"attention.sliding_window_pattern": (True, False)}
_ODD_RECUR = {"attention.recurrent_layers": (0, 1)}
BY_LAYER: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "apertus": {"xielu.alpha_n": (0.4, 0.9), "xielu.alpha_p": (0.7, -0.3)},
    "deci": _EVEN_ATTEND,
    **dict.fromkeys(("granitehybrid", "lfm2", "lfm2moe"), _EVEN_ATTEND),
    **dict.fromkeys(("qwen3next", "qwen35", "qwen35moe"), _ODD_RECUR),
    **dict.fromkeys(("gemma4", "granite_swa", "spark2_5"), _EVEN_WINDOWED),
    "mimo2": {
        "attention.sliding_window_pattern": (False, True),
        "attention.head_count_kv": (KV_HEADS, HEADS),
    },
    "nemotron_h": {"attention.head_count_kv": (KV_HEADS, 0), "feed_forward_length": (0, INNER)},
    "nemotron_h_moe": {"attention.head_count_kv": (0, 0), "feed_forward_length": (0, INNER)},
}
"""Keys with a value for each layer, and what it is for even and for odd ones."""
