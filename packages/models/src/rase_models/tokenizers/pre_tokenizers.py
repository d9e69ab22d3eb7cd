r"""How byte-level BPE cuts a text into words before it merges, by the names of `tokenizer.ggml.pre`.

Each split is a regular expression applied to the parts that the one before left; matches and the text
between them are parts alike. The expressions are those of the models' own tokenizer.json files, the names
llama.cpp's.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from rase_core.errors import TokenizerError

_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_TAIL = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_SIGNS}|{_TAIL}"
_QWEN2 = rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_SIGNS}|{_TAIL}"
_QWEN35 = (
    rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_TAIL}"
)
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CASED_SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n/]*"
_TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
    rf"|\p{{N}}|{_CASED_SIGNS}|{_TAIL}"
)
_GPT4O = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTION}?"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTION}?|\p{{N}}{{1,3}}|{_CASED_SIGNS}|{_TAIL}"
)
_DEEPSEEK_LETTERS = (
    r"\s?["
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af"
    "\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5"
    "\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba"
    "\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45"
    "\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe"
    "\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102"
    "\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139"
    "\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3"
    "\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06"
    "\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3"
    "\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df"
    "\U0001e900-\U0001e943"
    "]+"
)
_DEEPSEEK_HAN = r"[一-龥ࠀ-一가-퟿]+"
_DEEPSEEK3 = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_TAIL}"
)
_BAILING = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
)
_HAN_FREE_UPPER = r"[[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]&&[^\p{Han}]]"
_HAN_FREE_LOWER = r"[[\p{Ll}\p{Lm}\p{Lo}\p{M}]&&[^\p{Han}]]"
_KIMI = (
    rf"[\p{{Han}}]+|[^\r\n\p{{L}}\p{{N}}]?{_HAN_FREE_UPPER}*{_HAN_FREE_LOWER}+{_CONTRACTION}?"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{_HAN_FREE_UPPER}+{_HAN_FREE_LOWER}*{_CONTRACTION}?"
    rf"|\p{{N}}{{1,3}}|{_SIGNS}|{_TAIL}"
)
_EXAONE_MOE = (
    rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|\p{{N}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
)
_SPACES_BY_HALVES = (
    "".join(rf"|\s{{{n}}}(?!\S)" for n in (512, 256, 128, 64, 32, 16, 8, 4)) + r"|\s{1,2}(?!\S)|\s"
)
_JAIS2 = (
    rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_SIGNS}|\s*[\r\n]+{_SPACES_BY_HALVES}"
)
_MINICPM5 = rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}+|{_SIGNS}|{_TAIL}"
_UFAKZEKA = rf"[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_SIGNS}|{_TAIL}"
_BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"
_LINES = r"[^\n]+|\n+"
# Groups of three from the right; the number is bounded, since looking ahead without end takes quadratic time.
_DIGIT_GROUPS = r"\p{N}{1,3}(?=(?:\p{N}{3}){0,100}(?!\p{N}))"
_WORD_DIGIT_GROUPS = r"\d{1,3}(?=(?:\d{3}){0,100}\b)"
_KANA_AND_HAN = r"[一-龥぀-ゟ゠-ヿ]+"
_ASIAN = (
    "[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf"
    "\u0e00-\u0e7f\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+"
)
_YOUTU_SCRIPTS = (
    "[\uac00-\ud7a3\u3131-\u318e]+|[！…“”‘’—：；，\u3001-\u303f\ufe30-\ufe4f]+|[\u3105-\u312f]+|"
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
)
_YOUTU = _GPT4O.replace(r"\p{N}{1,3}", r"\p{N}")
_SPARK = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+"
)
_SEED_CODER = rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_TAIL}"


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """One way to cut text into words.

    Attributes:
        splits: regular expressions (Oniguruma), applied one after the other.
        ignore_merges: whether a word that is a token is that token, whatever the merges say.
        adds_bos: whether the models of this kind want BOS when their file does not say.
        is_raw: whether text is not cut, and tokens are spelt as SentencePiece does and not as bytes.
    """

    splits: tuple[str, ...]
    ignore_merges: bool = False
    adds_bos: bool = False
    is_raw: bool = False


_TABLE: Mapping[str, PreTokenizer] = {
    "default": PreTokenizer((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]")),
    "gpt-2": PreTokenizer((_GPT2,)),
    "llama-bpe": PreTokenizer((_LLAMA3,), ignore_merges=True, adds_bos=True),
    "dbrx": PreTokenizer((_LLAMA3,)),
    "glm4": PreTokenizer((_LLAMA3,), ignore_merges=True),
    "qwen2": PreTokenizer((_QWEN2,)),
    "qwen35": PreTokenizer((_QWEN35,)),
    "smollm": PreTokenizer((r"\p{N}", _GPT2)),
    "falcon": PreTokenizer((r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, r"[0-9][0-9][0-9]")),
    "tekken": PreTokenizer((_TEKKEN,), ignore_merges=True, adds_bos=True),
    "gpt-4o": PreTokenizer((_GPT4O,)),
    "deepseek-llm": PreTokenizer(
        (
            r"[\r\n]",
            _DEEPSEEK_LETTERS,
            r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
            r"(?<!\s)\s+$",
            _DEEPSEEK_HAN,
            r"\p{N}+",
        )
    ),
    "deepseek-coder": PreTokenizer((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _DEEPSEEK_HAN, r"\p{N}")),
    "deepseek-v3": PreTokenizer((r"\p{N}{1,3}", _KANA_AND_HAN, _DEEPSEEK3)),
    "bailingmoe": PreTokenizer((_BAILING,)),
    "seed-coder": PreTokenizer((_SEED_CODER,)),
    "granite-embed-multi-97m": PreTokenizer((_GPT4O,), ignore_merges=True),
    "jais-2": PreTokenizer((_JAIS2,)),
    "minicpm5": PreTokenizer((r"\p{N}{1,3}", _MINICPM5), ignore_merges=True),
    "spark2_5": PreTokenizer((r"\p{N}{1,3}", _KANA_AND_HAN, _SPARK, r"\p{N}")),
    "youtu": PreTokenizer((_YOUTU_SCRIPTS, _YOUTU), ignore_merges=True),
    "bloom": PreTokenizer((_BLOOM,)),
    "viking": PreTokenizer((_BLOOM, r"\p{N}")),
    "exaone-moe": PreTokenizer((_EXAONE_MOE,)),
    "chameleon": PreTokenizer(
        (
            "<sentinel:[0-9]+>",
            "IMGIMG[A-I]{1,4}Z",
            r"[\t\n]|    |  ",
            r"\p{N}",
            r"[\p{P}!-/:-@\[-`{-~]",
            _GPT2,
        ),
        adds_bos=True,
    ),
    "tiny_aya": PreTokenizer((_WORD_DIGIT_GROUPS, _GPT4O)),
    "superbpe": PreTokenizer((r"\p{N}+", r"(?=(?:\d{3}){1,100}(?!\d))")),
    "kimi-k2": PreTokenizer((_KIMI,)),
    "ufakzeka": PreTokenizer((_UFAKZEKA,)),
    "afmoe": PreTokenizer((_DIGIT_GROUPS, _ASIAN, _DEEPSEEK3)),
    "laguna": PreTokenizer((_LINES, _QWEN2)),
    "gemma4": PreTokenizer((), adds_bos=True, is_raw=True),
    "sarvam-moe": PreTokenizer((), is_raw=True),
}

_ALIASES: Mapping[str, str] = {
    alias: name
    for name, aliases in {
        "gpt-2": "phi-2 mpt olmo jais exaone4 gigachat mellum a.x-4.0 modern-bert trillion granite-docling "
        "jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code roberta-bpe",
        "llama-bpe": "llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
        "dbrx": "smaug-bpe chatglm-bpe",
        "glm4": "glm5",
        "qwen2": "deepseek-r1-qwen kormo f2llmv2 stablelm2 hunyuan solar-open megrez grok-2",
        "smollm": "starcoder refact command-r codeshell exaone minerva-7b mellum2",
        "gpt-4o": "llama4 kanana2 talkie minimax-m2",
        "deepseek-v3": "hunyuan-dense joyai-llm hy_v4",
        "bailingmoe": "bailingmoe2 llada-moe",
        "bloom": "poro-chat gpt3-finnish",
        "tiny_aya": "cohere2moe",
        "gemma4": "granite-embed-multi-311m",
    }.items()
    for alias in aliases.split()
}


def known_pre_tokenizers() -> tuple[str, ...]:
    """Return all names that `pre_tokenizer` takes, sorted."""
    return tuple(sorted((*_TABLE, *_ALIASES)))


def pre_tokenizer(name: str) -> PreTokenizer:
    """Return the pre-tokenizer of this name; TokenizerError naming the known ones when there is none."""
    found = _TABLE.get(_ALIASES.get(name, name))
    if found is None:
        raise TokenizerError(
            f"unknown pre-tokenizer {name!r} (tokenizer.ggml.pre); "
            f"known: {', '.join(known_pre_tokenizers())}",
            "attach the model's tokenizer.json instead",
        )
    return found
