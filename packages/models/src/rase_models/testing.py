"""A complete model of a few hundred kilobytes, for tests of everything that needs one."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rase_models.tokenizers.byte_level import CHARACTER_OF_BYTE
from rase_models.tokenizers.kinds import TokenKind

if TYPE_CHECKING:
    from gguf import GGUFWriter

BYTES = 256
SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
END = BYTES + 2
VOCABULARY = (*(CHARACTER_OF_BYTE[byte] for byte in range(BYTES)), *SPECIAL_TOKENS, "he")
WIDTH, HEADS, KV_HEADS, FEED_FORWARD, BLOCKS = 64, 4, 2, 128, 2


def write_tiny_model(
    path: Path, *, seed: int = 0, context_length: int = 128, tensors_per_file: int = 0
) -> Path:
    """Write a llama of random weights that knows one token per byte, and return its path.

    It answers any prompt with text that means nothing, the same every time. It has ChatML's special tokens,
    of which `<|im_end|>` (END) ends an answer, and no chat template. `tensors_per_file` splits it, and the
    path is that of the first part.
    """
    from gguf import GGUFWriter

    writer = GGUFWriter(path, "llama", split_max_tensors=tensors_per_file)
    _add_metadata(writer, context_length)
    for name, values in _tensors(np.random.default_rng(seed)):
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return min(path.parent.glob(f"{path.stem}-00001-of-*{path.suffix}"), default=path)


def _add_metadata(writer: "GGUFWriter", context_length: int) -> None:
    writer.add_context_length(context_length)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(BLOCKS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(list(VOCABULARY))
    kinds = [TokenKind.CONTROL if token in SPECIAL_TOKENS else TokenKind.NORMAL for token in VOCABULARY]
    writer.add_token_types([int(kind) for kind in kinds])
    writer.add_token_merges(["h e"])
    writer.add_eos_token_id(END)


def _tensors(rng: np.random.Generator) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Yield weights large enough that the prompt decides the answer."""

    def matrix(rows: int, columns: int) -> NDArray[np.float32]:
        values: NDArray[np.float64] = rng.normal(size=(rows, columns)) * 2 / np.sqrt(columns)
        return values.astype(np.float32)

    kv_width = WIDTH // HEADS * KV_HEADS
    yield "token_embd.weight", matrix(len(VOCABULARY), WIDTH)
    for block in range(BLOCKS):
        yield f"blk.{block}.attn_norm.weight", np.ones(WIDTH, np.float32)
        yield f"blk.{block}.attn_q.weight", matrix(WIDTH, WIDTH)
        yield f"blk.{block}.attn_k.weight", matrix(kv_width, WIDTH)
        yield f"blk.{block}.attn_v.weight", matrix(kv_width, WIDTH)
        yield f"blk.{block}.attn_output.weight", matrix(WIDTH, WIDTH)
        yield f"blk.{block}.ffn_norm.weight", np.ones(WIDTH, np.float32)
        yield f"blk.{block}.ffn_gate.weight", matrix(FEED_FORWARD, WIDTH)
        yield f"blk.{block}.ffn_up.weight", matrix(FEED_FORWARD, WIDTH)
        yield f"blk.{block}.ffn_down.weight", matrix(WIDTH, FEED_FORWARD)
    yield "output_norm.weight", np.ones(WIDTH, np.float32)
    yield "output.weight", matrix(len(VOCABULARY), WIDTH) * 4
