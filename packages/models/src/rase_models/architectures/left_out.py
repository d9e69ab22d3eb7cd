"""The architectures of GGUF files that rase knows of and does not run, and why."""

from collections.abc import Mapping
from types import MappingProxyType

_EMBEDS = "it makes embeddings of texts, and no text"
_FILLS_IN = "it fills a text in again and again (diffusion), instead of writing from left to right"
_GUESSES = "it guesses tokens for another model, and computes nothing without it"
_SPEAKS = "it makes sound, and no text"
_STREAMS = "its rows are several streams, mixed anew in every part of every layer (hyper-connections)"

LEFT_OUT: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("bert", "eurobert", "gemma-embedding", "llama-embed", "modern-bert"), _EMBEDS),
        **dict.fromkeys(
            ("jina-bert-v2", "jina-bert-v3", "neo-bert", "nomic-bert", "nomic-bert-moe"), _EMBEDS
        ),
        **dict.fromkeys(("dream", "llada", "llada-moe", "rnd1"), _FILLS_IN),
        **dict.fromkeys(("dflash", "eagle3", "gemma4-assistant"), _GUESSES),
        **dict.fromkeys(("pockettts", "qwen3tts", "wavtokenizer-dec"), _SPEAKS),
        "t5": "it has an encoder beside its decoder, and rase runs decoders alone",
        "t5encoder": _EMBEDS,
        **dict.fromkeys(("deepseek4", "glm5-next", "hy_v4", "qwen4exp"), _STREAMS),
        "chameleon": "it writes images among its text, and rase cannot keep it from doing so",
        "clip": "it turns images into what another model reads: give the file of that model",
        "dots3note": "its layers with windows have latents of another size than those that choose positions",
        "gptj": "no file of it is known: the programs that write GGUF files do not write it",
        "graniteswitch": "tokens switch adapters of its matrices on and off",
        "grovemoe": "experts belong to groups, and a group's own expert is chosen by its members",
        "hrm_text": "its two stacks of layers work on rows in turn, each at a pace of its own",
        "hunyuan_vl": "its positions have four parts, the last of which other engines leave at 0 in text",
        "kimi-k3": "what its layers read are sums of the results of earlier blocks, weighed by the row",
        "maple": "its experts clamp their values, at other bounds in each layer",
        "minimax-01": "its recurrent layers have states that fall by a fixed factor for each head",
        "phimoe": "experts are mixed in a way (SparseMixer) that no op computes",
        "step35": "its experts clamp their values, at other bounds in each layer",
        "talkie": "every layer adds the embedding anew, by a share of its own",
    }
)
"""Why an architecture is not run, by the name that a file gives in `general.architecture`."""
