"""Prints docs/tokenizers.md, made from the code: run it with its output sent there."""

import sys
from collections import defaultdict

from rase_models.tokenizers.loading import MODELS
from rase_models.tokenizers.pre_tokenizers import PreTokenizer, known_pre_tokenizers, pre_tokenizer

HEAD = """# Tokenizers

A model's tokenizer is read from its GGUF file alone; a `tokenizer.json` can be attached instead (`rase
model attach-tokenizer`), and is then run by the library `tokenizers`.

Made by `python docs/make_tokenizers.py > docs/tokenizers.md`.

| `tokenizer.ggml.model` | what it is | lossless |
|---|---|---|"""

KINDS = {
    "gpt2": ("byte-level BPE, or BPE over plain characters where the pre-tokenizer says so", "yes"),
    "llama": ("SentencePiece BPE: `▁` for a space, bytes for what has no token", "all but `▁` itself"),
    "gemma4": (
        "BPE over plain characters, `▁` for a space, with BOS whatever the file says",
        "all but `▁` itself",
    ),
    "t5": ("SentencePiece Unigram, with its table of normalisation", "no"),
    "bert": ("WordPiece, in lower case and without accents unless the file says otherwise", "no"),
    "whitespace": ("BPE over the characters of words, white space left out", "no"),
    "plamo2": ("PLaMo 2's: the tokens of the highest score together, bytes for what has no token", "yes"),
    "hybriddna": (
        "byte-level BPE, and six letters a token in `<dna>` and `</dna>`",
        "all but the case of letters there, and what is missing of the last six",
    ),
    "rwkv": ("the longest token at every place, over bytes", "yes"),
}

RULES = """
Of those that llama.cpp knows, only `none` is refused, by an error that lists these.

## Rules

- **Special tokens** (control, unknown, user-defined) are found in a prompt leftmost first, then longest. In
  text that is not a prompt, control tokens are text like any other, also where words are looked up as a
  whole; user-defined ones are found there, too. Prompts are what `generate`, `/v1/completions` and
  `/tokenize` are given, and conversations once a template has rendered them, but for
  [what users and tools write](templates.md#what-users-and-tools-write) in these, which is text.
- **BOS and EOS** are added where the file says so, or else where models of its kind want them; never twice.
- **A space** goes before a text, and after a special token, where `add_space_prefix` says so; decoding
  takes it away.
- **Phi 3** loses the white space after most special tokens, as its own tokenizer has it; a GGUF tells that
  only by name.
- **Normalisation** that a `tokenizer.json` asks for (NFC in Qwen's) is not in a GGUF and not done: text
  reaches the model as it was given, as in llama.cpp. It differs for text with decomposed accents only.
- **A byte or character without token** becomes the unknown token where the vocabulary has one, and is
  otherwise an error that names it. A token that begins or ends texts is not taken for the unknown one.
  Nothing is dropped but by the normalisation of Unigram and WordPiece.
- **PLaMo 2** keeps a byte order mark at the beginning, and writes no tokens that its file calls unused
  (`[PAD1]`); llama.cpp drops the one and writes the others.

## Pre-tokenizers

How byte-level BPE cuts text, by `tokenizer.ggml.pre`; names on one line cut alike. The expressions are
those of the models' own tokenizers. Where llama.cpp only comes near them (it does not tell upper from lower
case in `kimi-k2`, `tiny_aya` and `youtu`), these are followed. A missing name means `default`, an unknown
one is an error.

| names | expressions | a word that is a token is taken whole | BOS by default |
|---|---|---|---|"""

TAIL = """
## Checked against

Lines of text whose ids are the reference's, of 1,247: those that come with llama.cpp's vocabularies, and
English, Chinese, code and arbitrary characters.

| vocabulary | reference | equal |
|---|---|---|
| aquila, baichuan, command-r, deepseek-coder, deepseek-llm, gemma-4, gpt-2, gpt-neox, llama-bpe, llama-spm, \
mpt, nomic-bert-moe, phi-3, qwen2, qwen35, refact, starcoder, gemma-3-270m | llama.cpp | 1,247 each |
| falcon | llama.cpp | 974; the others have a byte without token, which llama.cpp drops and rase names |
| bert-bge | llama.cpp | 1,114; the others have signs that BERT's own normalisation treats otherwise |
| DeepSeek 3, Gemini, Gemma 3, GPT 3.5, GPT 4o, gpt-oss, Llama 3 | tokenizer.json | 1,247 each |
| Claude, Qwen 3 | tokenizer.json, after its normalisation | 1,246; Python's tables of Unicode are older |

- Every pre-tokenizer above: llama.cpp's ids for the same texts.
- PLaMo 2's, on six vocabularies of random pieces of many languages, some of them with equal scores or such as
  are too low to be used: llama.cpp's ids for 2,469 texts each.
- DNA among text: llama.cpp's ids for 1,860 texts, on a vocabulary of all sequences of six letters.
- No control token of any vocabulary in this table is reached from its own spelling in a text that is no
  prompt.
- Their definitions, by hypothesis: merging, Unigram's table, the highest score, the search for special
  tokens, decoding what was encoded, merges in a circle. Set `RASE_TOKENIZERS` and `RASE_VOCABULARIES` to run
  the tests with whole vocabularies.

A vocabulary that has a token twice, one of more than 1,024 characters, scores that are no numbers, or kinds,
scores or ids that do not fit its size, is refused by the key.

## Speed

Byte-level BPE, SentencePiece BPE, Gemma 4's, Unigram and WordPiece are encoded in code that is compiled with
the kernels of the CPU: automata cut texts as the expressions above do, hash tables merge, trees of tokens
find the longest or the likeliest. Where no compiler is installed, and for models that no engine has loaded,
the library `tokenizers` does byte-level BPE, Unigram and WordPiece, as it always does for attached files and
for pre-tokenizers that look far ahead or back (`afmoe`, `deepseek-llm`, `jais-2`, `superbpe`, `tiny_aya`);
the others are merged in plain Python. RWKV's and PLaMo 2's are plain Python, which takes 1 to 3 µs for each
character of PLaMo 2's.

How many times faster than `tokenizers` new text is encoded, one text at a time and with one thread each, for
prompts of 200 bytes, documents of 8 KB and of 1 MB (`benchmarks/tokenizing.py`, on two cores of an AMD EPYC,
Zen 5; the Chinese is words by their frequency, the long line base64):

| vocabulary | English | Chinese | Korean | code | a long line | arbitrary characters |
|---|---|---|---|---|---|---|
| Qwen 3 | 3.6, 11.9, 11.2 | 2.5, 4.2, 4.0 | 5.2, 8.7, 15.4 | 8.3, 30.4, 24.5 | 9.0, 16.8, 11.0 | 7.9, \
17.2, 11.5 |
| gpt-oss | 2.8, 7.4, 13.0 | 2.3, 3.7, 3.0 | 3.9, 12.2, 13.8 | 4.3, 9.0, 17.0 | 7.7, 13.2, 10.1 | 5.5, \
13.2, 13.1 |
| Llama 3 | 2.8, 7.6, 8.7 | 2.2, 4.2, 2.6 | 3.1, 6.4, 12.1 | 3.5, 13.3, 14.1 | 4.5, 10.9, 9.6 | 3.0, 8.9, \
11.3 |
| DeepSeek 3 | 3.6, 6.8, 20.0 | 2.5, 4.2, 5.5 | 2.9, 12.2, 15.1 | 6.7, 22.4, 18.6 | 6.8, 15.9, 13.5 | \
6.8, 15.6, 16.8 |
| nomic-embed-text-v2-moe (Unigram) | 2.1, 3.1, 4.3 | 2.1, 3.6, 4.2 | 2.7, 6.6, 5.3 | 3.1, 7.5, 6.3 | \
3.6, 4.6, 4.7 | 1.9, 3.6, 4.4 |
| bge (WordPiece) | 2.3, 11.3, 11.4 | 2.9, 17.0, 20.1 | 3.9, 15.0, 10.1 | 2.9, 6.3, 12.1 | 9.2, 27.2, \
28.9 | 1.5, 7.7, 1.0 |
| Llama 2 (scores) | 1.7, 3.1, 12.0 | 1.7, 3.5, 11.9 | 7.4, 7.4, 6.6 | 1.9, 3.6, 18.1 | \
0.9, 3.7, 4.4 | 2.5, 2.5, 12.0 |
| gemma-3-270m (scores) | 1.7, 3.5, 3.4 | 1.7, 5.9, 1.9 | 1.5, 2.1, 2.8 | 1.8, 4.1, 3.7 | \
1.9, 6.5, 4.2 | 3.2, 11.1, 3.9 |

The last four, and those of Gemma 3 below, which are older, were measured while other programs ran; another
run of Llama 2's 200 bytes of a long line gave 1.2. Text with two rare marks side by side, which WordPiece's
normalisation sorts, is left to the library as a whole, which is why a whole megabyte of arbitrary characters
takes as long as there.

| vocabulary | English | Chinese | code | arbitrary characters |
|---|---|---|---|---|
| Gemma 3 (merges, as Gemma 4) | 1.7, 2.5, 2.0 | 1.7, 2.6, 8.2 | 2.2, 4.0, 4.0 | 2.5, 8.3, 8.5 |

No text takes more than about linear time: merging is n log n, expressions are bounded where they look
ahead."""


def main() -> None:
    """Print the page."""
    _write(HEAD)
    for model in MODELS:
        what, lossless = KINDS[model]
        _write(f"| `{model}` | {what} | {lossless} |")
    _write(RULES)
    for pre, names in _by_way().items():
        cells = (
            ", ".join(f"`{name}`" for name in names),
            _expressions(pre),
            _yes(pre.ignore_merges),
            _yes(pre.adds_bos),
        )
        _write(f"| {' | '.join(cells)} |")
    _write(TAIL)


def _by_way() -> dict[PreTokenizer, list[str]]:
    found = defaultdict(list)
    for name in known_pre_tokenizers():
        found[pre_tokenizer(name)].append(name)
    return found


def _expressions(pre: PreTokenizer) -> str:
    return "plain characters, not cut" if pre.is_raw else str(len(pre.splits))


def _yes(value: bool) -> str:
    return "yes" if value else ""


def _write(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
