"""Makes the synthetic models of the benchmarks: random weights in the shapes of Qwen3.

    python benchmarks/synthetic.py FOLDER --vocabulary QWEN2_OR_3.gguf [--sizes 0.6b 1.7b 4b]

Speed depends on shapes and types, not on what the weights are. The vocabulary is copied from any GGUF that
has the one of Qwen2 or Qwen3. Runs in an interpreter with numpy, gguf and llama-cpp-python, which quantises.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from gguf import GGUFReader, GGUFWriter
from numpy.typing import NDArray

SIZES = {  # width, layers, feed-forward width, query heads
    "0.6b": (1024, 28, 3072, 16),
    "1.7b": (2048, 28, 6144, 16),
    "4b": (2560, 36, 9728, 32),
}
KV_HEADS, HEAD = 8, 128
TYPES = {"Q4_K_M": 15, "Q8_0": 7, "Q2_K": 10, "Q3_K_M": 12, "Q5_K_M": 17, "Q6_K": 18, "Q5_0": 8}
TYPES |= {"IQ4_XS": 30, "BF16": 32}
"""llama.cpp's numbers of file types. The other sizes are made in Q4_K_M alone."""


def write(path: Path, size: str, vocabulary: Path) -> None:
    """Write a model in F16 with an embedding that is also the output matrix."""
    writer, rng = GGUFWriter(path, "qwen3"), np.random.default_rng(0)
    tokens = add_vocabulary(writer, vocabulary)
    add_sizes(writer, size)
    for name, shape in shapes(size, tokens):
        writer.add_tensor(f"{name}.weight", random_weight(rng, shape))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_sizes(writer: GGUFWriter, size: str) -> None:
    """Say how large the model is."""
    width, layers, hidden, heads = SIZES[size]
    writer.add_block_count(layers)
    writer.add_context_length(32768)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(heads)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e6)


def shapes(size: str, tokens: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the names of all weights, and how many rows and columns each has."""
    width, layers, hidden, heads = SIZES[size]
    block = {
        "attn_norm": (width,),
        "ffn_norm": (width,),
        "attn_q_norm": (HEAD,),
        "attn_k_norm": (HEAD,),
        "attn_q": (heads * HEAD, width),
        "attn_k": (KV_HEADS * HEAD, width),
        "attn_v": (KV_HEADS * HEAD, width),
        "attn_output": (width, heads * HEAD),
        "ffn_gate": (hidden, width),
        "ffn_up": (hidden, width),
        "ffn_down": (width, hidden),
    }
    yield from {"token_embd": (tokens, width), "output_norm": (width,)}.items()
    for layer in range(layers):
        yield from ((f"blk.{layer}.{name}", shape) for name, shape in block.items())


def random_weight(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.floating]:
    """Return a matrix in F16, or a norm's vector about 1 in F32."""
    if len(shape) == 1:
        return (1 + 0.1 * rng.standard_normal(shape)).astype(np.float32)
    scaled = rng.standard_normal(shape, dtype=np.float32) * np.float32(shape[1] ** -0.5)
    return scaled.astype(np.float16)


def add_vocabulary(writer: GGUFWriter, path: Path) -> int:
    """Copy the vocabulary; returns its size."""
    fields = GGUFReader(path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(fields["tokenizer.ggml.token_type"].contents())
    writer.add_token_merges(fields["tokenizer.ggml.merges"].contents())
    writer.add_eos_token_id(int(fields["tokenizer.ggml.eos_token_id"].contents()))
    return len(tokens)


def quantise(source: Path, target: Path, file_type: int) -> None:
    """Quantise as llama.cpp does."""
    import llama_cpp

    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype = file_type
    if llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), parameters):
        raise SystemExit(f"cannot quantise {source} to {target}")


def main() -> None:
    """Make what is missing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--vocabulary", type=Path, required=True)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=["0.6b"])
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for size in options.sizes:
        source = options.folder / f"qwen3-{size}-f16.gguf"
        if not source.exists():
            write(source, size, options.vocabulary)
        for name in TYPES if size == "0.6b" else ("Q4_K_M",):
            target = options.folder / f"qwen3-{size}-{name.lower()}.gguf"
            if not target.exists():
                quantise(source, target, TYPES[name])


main()
