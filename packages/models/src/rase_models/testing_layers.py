"""The weights that the layers of sketches of models have."""

from collections.abc import Mapping

_ATTENTION = ("attn_q", "attn_k", "attn_v", "attn_output")
_MERGED = ("attn_norm", "attn_qkv", "attn_output")
_GATED = ("ffn_gate", "ffn_up", "ffn_down")
_PLAIN = ("ffn_up", "ffn_down")
LLAMA = ("attn_norm", *_ATTENTION, "ffn_norm", *_GATED)
_HEAD_NORMS = ("attn_q_norm", "attn_k_norm")
_POST_NORMS = ("post_attention_norm", "post_ffw_norm")
_EXPERTS = ("ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps")
_SHARED = ("ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp")
_SPACE = ("ssm_in", "ssm_conv1d", "ssm_conv1d.bias", "ssm_dt.bias", "ssm_a", "ssm_d", "ssm_norm", "ssm_out")
_DELTA = ("attn_qkv", "attn_gate", "ssm_conv1d", "ssm_dt.bias", "ssm_a", "ssm_alpha", "ssm_beta", "ssm_norm")
_LATENT = ("attn_norm", "attn_kv_a_mqa", "attn_kv_a_norm", "attn_k_b", "attn_v_b", "attn_output")
_LATENT_Q = ("attn_q_a", "attn_q_a_norm", "attn_q_b")
_LATENT_KV = ("attn_norm", "attn_kv_a_mqa", "attn_kv_a_norm", "attn_kv_b", "attn_output")

_MIXED = ("attn_norm", *_ATTENTION, *_HEAD_NORMS, "ffn_norm", *_EXPERTS, *_SHARED)

TENSORS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("lfm2", "lfm2moe"), ("attn_norm", *_ATTENTION, *_HEAD_NORMS, "ffn_norm", *_GATED)),
    **dict.fromkeys(("hunyuan-dense", "maincoder", "qwen3", "qwen3vl"), (*LLAMA, *_HEAD_NORMS)),
    **dict.fromkeys(("cohere2", "command-r"), ("attn_norm", *_ATTENTION, *_GATED)),
    **dict.fromkeys(
        ("mellum", "olmoe", "qwen3vlmoe", "qwen3moe"),
        ("attn_norm", *_ATTENTION, *_HEAD_NORMS, "ffn_norm", *_EXPERTS),
    ),
    **dict.fromkeys(("dots1", "exaone-moe", "hunyuan-moe", "hy_v3"), _MIXED),
    **dict.fromkeys(
        ("bailingmoe", "deepseek", "deepseek2-ocr", "ernie4_5-moe", "granitemoe", "llama4"),
        ("attn_norm", *_ATTENTION, "ffn_norm", *_EXPERTS, *_SHARED),
    ),
    **dict.fromkeys(
        ("bloom", "chatglm", "codeshell", "gpt2", "gptneox", "mpt", "phi3", "starcoder"),
        (*_MERGED, "ffn_norm", *_PLAIN),
    ),
    **dict.fromkeys(
        ("arcee", "jais2", "nemotron", "starcoder2"), ("attn_norm", *_ATTENTION, "ffn_norm", *_PLAIN)
    ),
    "dbrx": (*_MERGED, "attn_output_norm", *_EXPERTS),
    "arctic": (*LLAMA, "ffn_norm_exps", *_EXPERTS),
    "smallthinker": ("attn_norm", *_ATTENTION, "ffn_norm", *_EXPERTS),
    "minimax-m3": (*_MIXED, "exp_probs_b.bias"),
    "afmoe": (*_MIXED, "attn_gate", *_POST_NORMS, "exp_probs_b.bias"),
    "cohere2moe": ("attn_norm", *_ATTENTION, *_EXPERTS, *_SHARED),
    "granite_swa": (*LLAMA, "attn_sinks"),
    "laguna": (*_MIXED, "attn_gate", "exp_probs_b.bias"),
    "mimo2": ("attn_norm", *_ATTENTION, "ffn_norm", *_EXPERTS, "exp_probs_b.bias"),
    "muse-glimmer": (*LLAMA, *_HEAD_NORMS, "attn_gate", *_POST_NORMS),
    "spark2_5": (*LLAMA, "attn_gate"),
    "bailingmoe2": (*_MERGED, *_HEAD_NORMS, "ffn_norm", *_EXPERTS, *_SHARED, "exp_probs_b.bias"),
    "deepseek2": ("attn_q", *_LATENT, "ffn_norm", *_EXPERTS, *_SHARED),
    **dict.fromkeys(
        ("deepseek32", "glm-dsa", "mistral4"), (*_LATENT_Q, *_LATENT, "ffn_norm", *_EXPERTS, *_SHARED)
    ),
    "apertus": ("attn_norm", *_ATTENTION, *_HEAD_NORMS, "ffn_norm", *_PLAIN),
    "bitnet": (*LLAMA, "attn_sub_norm", "ffn_sub_norm"),
    "grok": (
        *("attn_norm", *_ATTENTION, "attn_output_norm"),
        *("ffn_norm", *_GATED, *_EXPERTS, "layer_output_norm"),
    ),
    "exaone4": (*_ATTENTION, *_HEAD_NORMS, *_GATED, *_POST_NORMS),
    "falcon-h1": ("attn_norm", *_ATTENTION, *_SPACE, "ffn_norm", *_GATED),
    "falcon": (*_MERGED, *_PLAIN),
    "gemma2": (*LLAMA, *_POST_NORMS),
    "gemma3": (*LLAMA, *_HEAD_NORMS, *_POST_NORMS),
    "gemma4": (*LLAMA, *_HEAD_NORMS, *_POST_NORMS, "layer_output_scale", "inp_gate", "proj", "post_norm"),
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
    "minicpm3": (*_LATENT_Q, *_LATENT_KV, "ffn_norm", *_GATED),
    "openelm": (*_MERGED, *_HEAD_NORMS, "ffn_norm", *_GATED),
    "plamo": ("attn_norm", *_ATTENTION, *_GATED),
    "plamo3": (*_MERGED, *_HEAD_NORMS, *_POST_NORMS, "ffn_norm", *_PLAIN),
    "plm": ("attn_q", *_LATENT_KV, "ffn_norm", *_PLAIN),
    "phi2": (*_MERGED, *_PLAIN),
    **dict.fromkeys(("cogvlm", "qwen"), (*_MERGED, "ffn_norm", *_GATED)),
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
    "deci": ("attn_norm", "attn_output", "ffn_norm", *_GATED),
    "mimo2": ("attn_norm", *_ATTENTION, "attn_sinks", "ffn_norm", *_EXPERTS, "exp_probs_b.bias"),
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
