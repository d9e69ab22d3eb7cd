"""Log probabilities as each API writes them."""

from collections.abc import Iterable, Sequence

from rase_core.logprobs import Likely, TokenLogprobs

from rase_api.dialects import Json


def chat_logprobs(told: Iterable[TokenLogprobs]) -> list[Json]:
    """Write those of chat, responses and Ollama: a token, its bytes, and the likeliest in its place."""
    return [_entry(one) | {"top_logprobs": [_entry(likely) for likely in one.top]} for one in told]


def completion_logprobs(told: Sequence[TokenLogprobs]) -> Json:
    """Write those of completions in columns."""
    return {
        "tokens": [_name(one) for one in told],
        "token_logprobs": [one.logprob for one in told],
        "top_logprobs": [_named(one) for one in told],
        "text_offset": [one.offset for one in told],
    }


def sglang_logprobs(told: Iterable[TokenLogprobs], *, with_text: bool) -> list[list[object]]:
    """Write tokens as SGLang does: log probability, id, and the text or null."""
    return [_triple(one, with_text=with_text) for one in told]


def sglang_top_logprobs(told: Iterable[TokenLogprobs], *, with_text: bool) -> list[list[object] | None]:
    """Write the likeliest in the place of each token; null where nothing comes before it."""
    return [
        None if one.logprob is None else [_triple(likely, with_text=with_text) for likely in one.top]
        for one in told
    ]


def text_of(piece: bytes) -> str:
    """Write the bytes of a token as text, with U+FFFD for what is no whole character."""
    return piece.decode("utf-8", "replace")


def _entry(one: Likely | TokenLogprobs) -> Json:
    return {"token": text_of(one.piece), "logprob": one.logprob, "bytes": list(one.piece)}


def _triple(one: Likely | TokenLogprobs, *, with_text: bool) -> list[object]:
    return [one.logprob, one.token, text_of(one.piece) if with_text else None]


def _named(one: TokenLogprobs) -> Json | None:
    """Write the likeliest by name, and the token itself, which may be none of them."""
    if one.logprob is None:
        return None
    named: Json = {_name(likely): likely.logprob for likely in one.top}
    return named | {_name(one): one.logprob}


def _name(one: Likely | TokenLogprobs) -> str:
    """Write a token that is no text so that no two are the same, as OpenAI did."""
    try:
        return one.piece.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{value:02x}" for value in one.piece)
