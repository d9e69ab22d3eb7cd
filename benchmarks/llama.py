"""Speed of llama.cpp, through llama-cpp-python's low-level interface. Runs in an interpreter that has it.

usage: python llama.py MODEL THREADS PROMPT_TOKENS GENERATED_TOKENS DEPTH REPEATS

Prints one JSON object with the medians of prefill_tok_s and decode_tok_s, as `rase bench` means them, for the
better of flash attention on and off where tokens are in the cache, else for llama.cpp's own choice.
"""

import json
import statistics
import sys
import time
from collections.abc import Sequence
from ctypes import c_void_p

import llama_cpp as llama

MODEL, (THREADS, PROMPT, GENERATED, DEPTH, REPEATS) = sys.argv[1], map(int, sys.argv[2:7])
BATCH = 512


def load_model() -> c_void_p:
    """Load the model for the CPU, without a log."""
    llama.llama_backend_init()
    parameters = llama.llama_model_default_params()
    parameters.n_gpu_layers = 0
    model: c_void_p = llama.llama_model_load_from_file(MODEL.encode(), parameters)
    return model


def new_context(model: c_void_p, flash_attention: int) -> c_void_p:
    """Return a context for one round; flash attention is -1 (its own choice), 0 or 1."""
    parameters = llama.llama_context_default_params()
    parameters.n_ctx = DEPTH + PROMPT + GENERATED + 16
    parameters.n_batch = parameters.n_ubatch = BATCH
    parameters.n_threads = parameters.n_threads_batch = THREADS
    parameters.flash_attn_type = flash_attention
    context: c_void_p = llama.llama_init_from_model(model, parameters)
    return context


def append(context: c_void_p, tokens: Sequence[int]) -> None:
    """Compute tokens and the logits of the last one."""
    for start in range(0, len(tokens), BATCH):
        piece = tokens[start : start + BATCH]
        array = (llama.llama_token * len(piece))(*piece)
        llama.llama_decode(context, llama.llama_batch_get_one(array, len(piece)))
    llama.llama_get_logits_ith(context, -1)[0]


def one_round(context: c_void_p, tokens: Sequence[int]) -> tuple[float, float]:
    """Return the seconds of prefill and of decoding."""
    llama.llama_memory_clear(llama.llama_get_memory(context), True)
    if DEPTH:
        append(context, tokens[:DEPTH])
    before = time.perf_counter()
    if PROMPT:
        append(context, tokens[DEPTH : DEPTH + PROMPT])
    between = time.perf_counter()
    for step in range(GENERATED):
        append(context, [tokens[step % len(tokens)]])
    return between - before, time.perf_counter() - between


def measure(model: c_void_p, flash_attention: int) -> tuple[float, float]:
    """Return the speeds of rounds after one to warm up."""
    context = new_context(model, flash_attention)
    tokens = [100 + 7919 * step % 29000 for step in range(max(DEPTH + PROMPT, 16))]
    one_round(context, tokens)
    seconds = [one_round(context, tokens) for _ in range(REPEATS)]
    llama.llama_free(context)
    prefill, decode = (statistics.median(part) for part in zip(*seconds, strict=True))
    return PROMPT / prefill, GENERATED / decode


def main() -> None:
    """Measure and print."""
    quiet = llama.llama_log_callback(lambda *arguments: None)
    llama.llama_log_set(quiet, None)
    model = load_model()
    kinds = (0, 1) if DEPTH or PROMPT > BATCH else (-1,)
    speeds = [measure(model, kind) for kind in kinds]
    prefill, decode = (max(part) for part in zip(*speeds, strict=True))
    figures = {"prefill_tok_s": round(prefill, 2), "decode_tok_s": round(decode, 2)}
    sys.stdout.write(json.dumps(figures) + "\n")


main()
