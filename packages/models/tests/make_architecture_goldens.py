"""Write data/architecture_goldens.npz: the logits of sketches of architectures by llama.cpp.

    python make_architecture_goldens.py PYTHON [NAME ...]

PYTHON is an interpreter that has llama-cpp-python. Only the named sketches are made again, all without names;
each is compared with what the reference backend computes.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rase_models.loading import load_decoder
from rase_models.testing_sketches import (
    EXPERTS,
    HEADS,
    INNER,
    KV_HEADS,
    LENGTH,
    RANK,
    VOCAB,
    WIDTH,
    Metadata,
    Tensors,
    full_key,
    sketch,
)

DATA = Path(__file__).with_name("data") / "architecture_goldens.npz"
TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6]
KEPT = 4
"""Of how many of the last positions logits are kept."""

_LATENT = 32
_INDEXED: Metadata = {
    "leading_dense_block_count": 0,
    "expert_feed_forward_length": INNER,
    "expert_gating_func": 2,
    "attention.indexer.head_count": 2,
    "attention.indexer.key_length": WIDTH,
}
_YARN: Metadata = {
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 4.0,
    "rope.scaling.original_context_length": 25,
}
_PACED: Metadata = {
    "rope.freq_base": 500000.0,
    "rope.freq_base_swa": 500.0,
    "expert_feed_forward_length": INNER,
}
_MIXED: Metadata = {"leading_dense_block_count": 0, "expert_feed_forward_length": INNER}
_RWKV6: Metadata = {"time_mix_extra_dim": RANK, "time_decay_extra_dim": RANK, "token_shift_count": 2}
_RWKV7: Metadata = {
    "attention.decay_lora_rank": RANK,
    "attention.iclr_lora_rank": RANK,
    "attention.value_residual_mix_lora_rank": RANK,
    "attention.gate_lora_rank": RANK,
    "token_shift_count": 2,
    "wkv.head_size": 64,  # llama.cpp reads on into other heads where they are shorter
}
METADATA: Mapping[str, Metadata] = {
    "bailingmoe2": {"expert_feed_forward_length": INNER},
    "nemotron_h_moe+latent": {"moe_latent_size": _LATENT},
    "nemotron_h_moe+layers": {
        "expert_used_count": [0, 1, 0, 3],
        "expert_feed_forward_length": [0, INNER, 0, INNER],
    },
    "gemma2": _PACED,
    "minicpm": {"logit_scale": WIDTH / 256},
    "afmoe": {"expert_feed_forward_length": INNER},
    "mimo2": {
        "expert_feed_forward_length": INNER,
        "attention.value_scale": 0.7,
        "rope.dimension_count": LENGTH // 2,
        "rope.freq_base": 500000.0,
    },
    "laguna": {
        **_MIXED,
        "rope.dimension_count": LENGTH // 2,
        "rope.dimension_count_swa": LENGTH,
        "rope.freq_base": 500000.0,
        "rope.freq_base_swa": 5000.0,
        **_YARN,
    },
    "mistral4": {
        **_MIXED,
        **_YARN,
        "attention.temperature_scale": 0.3,
        "attention.temperature_length": 5,
        "rope.scaling.yarn_log_multiplier": 0.1,
    },
    "deepseek32": {**_INDEXED, **_YARN, "rope.scaling.yarn_log_multiplier": 0.1},
    "glm-dsa": _INDEXED,
    "deci+gaps": {
        "attention.head_count": [HEADS, 0, 0, HEADS],
        "attention.head_count_kv": [KV_HEADS, 0, 0, 0],
        "feed_forward_length": [INNER, INNER, 0, INNER],
    },
    "grok": {"final_logit_softcapping": 5.0},
    "minimax-m3": {
        **_MIXED,
        "expert_gating_func": 2,
        "rope.dimension_count": LENGTH // 2,
        "attention.indexer.head_count": KV_HEADS,
        "attention.indexer.key_length": LENGTH,
        "attention.indexer.local_blocks": 1,
    },
    "smallthinker": {"expert_feed_forward_length": INNER, "rope.freq_base_swa": 500.0},
    "olmo+clamped": {"attention.clamp_kqv": 0.6},
    "mpt+clamped": {"attention.clamp_kqv": 0.6},
    "nanbeige": {"skip_loop_final_norm": False},
    "muse-glimmer": {"final_logit_softcapping": 5.0},
    "spark2_5": {"rope.freq_base_swa": 500.0},
    **dict.fromkeys(("bailingmoe", "cohere2moe", "deepseek", "deepseek2-ocr", "exaone-moe", "hy_v3"), _MIXED),
    "mellum": {
        "expert_feed_forward_length": INNER,
        **_YARN,
    },
    "paddleocr": {"rope.dimension_sections": [4, 2, 2, 0]},
    "llama4": {"expert_feed_forward_length": INNER, "interleave_moe_layer_step": 1},
    "llama4+paced": {**_PACED, "interleave_moe_layer_step": 1},
    "qwen3next": {"expert_feed_forward_length": INNER},
    "gemma3n": {"attention.shared_kv_layers": 2},
    "rwkv7": _RWKV7,
    "mamba+normed": {"ssm.dt_b_c_rms": True},
    "bailingmoe3": {"leading_dense_block_count": 1, "expert_feed_forward_length": INNER},
    "kimi-linear": {"leading_dense_block_count": 1, "expert_feed_forward_length": INNER},
    "rwkv6": _RWKV6,
    "rwkv6qwen2": {**_RWKV6, "token_shift_count": 1},
    "arwkv7": {**_RWKV7, "token_shift_count": 1},
    "gemma4": {"attention.shared_kv_layers": 2},
    "gemma4+experts": {
        "expert_count": EXPERTS,
        "expert_used_count": 2,
        "expert_feed_forward_length": INNER,
        "embedding_length_per_layer_input": 0,
    },
}
"""What a file says besides the sketch, by the name of an architecture and perhaps of a variant of it."""

LAYERS: Mapping[str, int] = {
    **dict.fromkeys(
        ("afmoe", "cohere2moe", "exaone-moe", "laguna", "mellum", "muse-glimmer", "plamo3", "smallthinker"), 8
    ),
    "deci+gaps": 4,
    "baichuan": 32,
    "baichuan+13b": 40,
    "gemma3n": 22,
    "gemma4": 6,
    "llama4": 4,
    "llama4+paced": 4,
    "nemotron_h": 4,
    "nemotron_h_moe": 4,
    "nemotron_h_moe+latent": 4,
    "nemotron_h_moe+layers": 4,
}

_PLAIN_BIASED = ("ffn_norm", "attn_qkv", "attn_output", "ffn_up", "ffn_down")
BIASED: Mapping[str, tuple[str, ...]] = {
    "bloom": ("token_embd_norm", "attn_norm", *_PLAIN_BIASED, "output_norm"),
    **dict.fromkeys(("codeshell", "gptneox", "starcoder"), ("attn_norm", *_PLAIN_BIASED, "output_norm")),
    "chatglm": ("attn_qkv",),
    "orion": ("attn_norm", "ffn_norm", "output_norm"),
    "phi2": ("attn_norm", *_PLAIN_BIASED, "output_norm", "output"),
    "qwen": ("attn_qkv",),
    "jais2": ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", *_PLAIN_BIASED, "output_norm"),
    "pangu-embedded": ("attn_q", "attn_k", "attn_v", "attn_output"),
    "jais": ("attn_norm", "ffn_gate", *_PLAIN_BIASED, "output_norm"),
    "nemotron": ("attn_norm", *_PLAIN_BIASED, "output_norm"),
}
"""The weights that have a bias, which sketches leave out."""

_EXPERT_SHAPES = {
    "ffn_gate_inp.weight": (EXPERTS, WIDTH),
    "ffn_gate_inp.scale": (WIDTH,),
    "ffn_gate_up_exps.weight": (EXPERTS, 2 * INNER, WIDTH),
    "ffn_down_exps.weight": (EXPERTS, WIDTH, INNER),
    "ffn_down_exps.scale": (EXPERTS,),
    "post_ffw_norm_1.weight": (WIDTH,),
    "pre_ffw_norm_2.weight": (WIDTH,),
    "post_ffw_norm_2.weight": (WIDTH,),
}
_LATENT_SHAPES = {
    "ffn_latent_down.weight": (_LATENT, WIDTH),
    "ffn_latent_up.weight": (WIDTH, _LATENT),
    "ffn_up_exps.weight": (EXPERTS, INNER, _LATENT),
    "ffn_down_exps.weight": (EXPERTS, _LATENT, INNER),
}
_INDEX_SHAPES = {
    "indexer.k_norm.weight": (WIDTH,),
    "indexer.k_norm.bias": (WIDTH,),
    "indexer.proj.weight": (2, WIDTH),
    "indexer.attn_k.weight": (WIDTH, WIDTH),
    "indexer.attn_q_b.weight": (2 * WIDTH, RANK),
}
ADDED: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys(("deepseek32", "glm-dsa"), _INDEX_SHAPES),
    "minimax-m3": {
        "indexer.q_proj.weight": (KV_HEADS * LENGTH, WIDTH),
        "indexer.k_proj.weight": (LENGTH, WIDTH),
        "indexer.q_norm.weight": (LENGTH,),
        "indexer.k_norm.weight": (LENGTH,),
    },
    "cogvlm": {
        "vis_attn_qkv.weight": (3 * WIDTH, WIDTH),
        "vis_attn_output.weight": (WIDTH, WIDTH),
        "vis_gate.weight": (INNER, WIDTH),
        "vis_up.weight": (INNER, WIDTH),
        "vis_down.weight": (WIDTH, INNER),
    },
    "gemma4+experts": _EXPERT_SHAPES,
    "nemotron_h_moe+latent": _LATENT_SHAPES,
}
"""Tensors that a variant has besides or in place of others, in every layer with a network."""

REMOVED: Mapping[str, tuple[str, ...]] = {
    "deci+gaps": ("blk.1.attn", "blk.2."),
    "gemma4+experts": ("inp_gate", "proj", "post_norm", "per_layer", "attn_v"),
}
"""Parts of names of tensors that a variant has not."""

DAMPED: Mapping[str, tuple[str, ...]] = {"gemma3n": ("post_attention_norm", "post_ffw_norm")}
"""Parts of names of tensors that are a tenth of the sketch's, lest errors grow over many layers."""

FIRST_LAYER_OF: Mapping[str, str] = {
    "nemotron_h": "nemotron_h_moe",
    "nemotron_h_moe": "nemotron_h",
    "nemotron_h_moe+latent": "nemotron_h",
    "nemotron_h_moe+layers": "nemotron_h",
}
"""Whose first layer an architecture has in its place, so that there are three kinds."""

TIED = ("bitnet", "gemma2", "openelm", "plm")
"""Architectures whose files have no output matrix."""

WITHOUT_ENDING: Mapping[str, tuple[str, ...]] = {
    "falcon-h1": ("ffn_norm.weight",),
    "plamo2": tuple(
        f"{name}_norm.weight" for name in ("ssm_dt", "ssm_b", "ssm_c", "post_attention", "post_ffw")
    ),
    "plamo3": ("post_attention_norm.weight", "post_ffw_norm.weight"),
}
"""Architectures whose files have tensors without the usual ending."""

_RUN = """
import sys, ctypes, numpy as np, llama_cpp as L
quiet = L.llama_log_callback(lambda *a: None)
if "loud" not in sys.argv: L.llama_log_set(quiet, ctypes.c_void_p(0))
L.llama_backend_init()
path, target, tokens = sys.argv[1], sys.argv[2], [int(t) for t in sys.argv[3].split(",")]
model = L.llama_load_model_from_file(path.encode(), L.llama_model_default_params())
if not model: sys.exit("cannot load " + path)
params = L.llama_context_default_params()
params.n_ctx, params.n_threads, params.type_k, params.type_v, params.flash_attn_type = 256, 2, 0, 0, 0
context = L.llama_init_from_model(model, params)
size, rows = L.llama_vocab_n_tokens(L.llama_model_get_vocab(model)), []
for token in tokens:
    one = (L.llama_token * 1)(token)
    assert L.llama_decode(context, L.llama_batch_get_one(one, 1)) == 0
    rows.append(np.ctypeslib.as_array(L.llama_get_logits_ith(context, -1), (size,)).copy())
np.save(target, np.array(rows))
"""


def complete(name: str) -> tuple[str, Metadata, Tensors]:
    """Return the architecture, the metadata and the tensors of a file that both engines read."""
    architecture = name.partition("+")[0]
    metadata, tensors = sketch(architecture, LAYERS.get(name, 2))
    metadata = {"rope.dimension_count": LENGTH, "vocab_size": VOCAB, **metadata, **METADATA.get(name, {})}
    if name in FIRST_LAYER_OF:
        _take_first_layer(metadata, tensors, FIRST_LAYER_OF[name])
    rng = np.random.default_rng(5)
    if architecture not in TIED:
        tensors.setdefault("output.weight", _random(rng, (VOCAB, WIDTH)))
    for tensor in list(tensors):
        base = tensor.removesuffix(".weight")
        if base.rpartition(".")[2] in BIASED.get(name, ()):
            tensors[f"{base}.bias"] = _random(rng, tensors[tensor].shape[:1])
        if any(part in tensor for part in DAMPED.get(name, ())):
            tensors[tensor] = tensors[tensor] * np.float32(0.1)
        if any(part in tensor for part in REMOVED.get(name, ())):
            del tensors[tensor]
    for added, shape in ADDED.get(name, {}).items():
        for layer in range(LAYERS.get(name, 2)):
            if any(tensor.startswith(f"blk.{layer}.ffn_") for tensor in tensors):
                tensors[f"blk.{layer}.{added}"] = _random(rng, shape)
    return architecture, metadata, dict(_named(architecture, tensors))


def _take_first_layer(metadata: Metadata, tensors: Tensors, other: str) -> None:
    its_metadata, its_tensors = sketch(other, 4)
    for tensor in [tensor for tensor in tensors if tensor.startswith("blk.0.")]:
        del tensors[tensor]
    tensors |= {tensor: values for tensor, values in its_tensors.items() if tensor.startswith("blk.0.")}
    for key, values in metadata.items():
        its_values = its_metadata.get(key)
        if isinstance(values, list) and isinstance(its_values, list):
            values[0] = its_values[0]


def _named(architecture: str, tensors: Tensors) -> Iterator[tuple[str, NDArray[np.float32]]]:
    for tensor, values in tensors.items():
        ends = tensor.endswith(WITHOUT_ENDING.get(architecture, ()))
        yield tensor.removesuffix(".weight") if ends else tensor, values


def _random(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float32]:
    values = rng.normal(size=shape) * 0.3
    return (values + 1 if len(shape) == 1 else values).astype(np.float32)


def write(path: Path, name: str) -> Path:
    """Write the file; returns its path."""
    from gguf import GGUFWriter

    architecture, metadata, tensors = complete(name)
    writer = GGUFWriter(path, architecture)
    adders: Mapping[type, Callable[..., None]] = {
        bool: writer.add_bool,
        int: writer.add_uint32,
        float: writer.add_float32,
        str: writer.add_string,
        list: writer.add_array,
    }
    for key, value in metadata.items():
        adders[type(value)](full_key(architecture, key), value)
    writer.add_tokenizer_model("none")
    for tensor, values in tensors.items():
        writer.add_tensor(tensor, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def nmse(found: NDArray[np.float32], wanted: NDArray[np.float32]) -> float:
    """Return the mean squared error, normalised."""
    error = np.square(found.astype(np.float64) - wanted).sum()
    return float(error / np.square(wanted.astype(np.float64)).sum())


def _logits(python: str, folder: Path, name: str, devices: tuple[str, ...]) -> NDArray[np.float32]:
    path, target = write(folder / f"{name}.gguf", name), folder / f"{name}.npy"
    arguments = [python, "-c", _RUN, str(path), str(target), ",".join(map(str, TOKENS))]
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode:
        loud = subprocess.run([*arguments, "loud"], capture_output=True, text=True)
        sys.exit(f"{name}: " + "\n".join(loud.stderr.splitlines()[-5:]))
    wanted: NDArray[np.float32] = np.load(target)
    errors = {device: nmse(load_decoder(path, device).logits(TOKENS), wanted) for device in devices}
    sys.stdout.write(f"{name} {errors}\n")
    return wanted[-KEPT:]


def main(python: str, *names: str) -> None:
    """Make the logits, keeping those of sketches that are not named."""
    known = dict(np.load(DATA)) if DATA.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        for name in names or sorted(known):
            known[name] = _logits(python, Path(folder), name, ("reference", "cpu", "metal"))
    np.savez_compressed(DATA, **known)


if __name__ == "__main__":
    main(*sys.argv[1:])
