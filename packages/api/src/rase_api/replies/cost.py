"""What an answer cost: tokens and times."""

from collections.abc import Sequence

from rase_core.generation import Generation

from rase_api.dialects import Json


def usage(generations: Sequence[Generation], per_prompt: int) -> Json:
    """Count the tokens of an answer in OpenAI's form: each prompt once, however many choices it has."""
    first = generations[::per_prompt]
    prompt = sum(generation.prompt_tokens for generation in first)
    completion = sum(len(generation.tokens) for generation in generations)
    thought = sum(generation.thought_tokens for generation in generations)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": sum(generation.cached_tokens for generation in first)},
        **({"completion_tokens_details": {"reasoning_tokens": thought}} if thought else {}),
    }


def timings(generations: Sequence[Generation], per_prompt: int = 1) -> Json:
    """Tell where the time went, as llama-server does: all choices together, milliseconds and tokens/s.

    `prompt_n` are the tokens of prompts that were computed, `cache_n` those that were not; together they are
    the prompt tokens of `usage`, since the choices of one prompt compute it once. `draft_n` and
    `draft_n_accepted` are there where tokens were guessed ahead.
    """
    first = generations[::per_prompt]
    cached = sum(generation.cached_tokens for generation in first)
    prompt = sum(generation.prompt_tokens for generation in first) - cached
    predicted = sum(len(generation.tokens) for generation in generations)
    prompt_seconds = sum(generation.prefill_seconds for generation in first)
    predicted_seconds = sum(generation.decode_seconds for generation in generations)
    drafted = sum(generation.drafted_tokens for generation in generations)
    accepted = sum(generation.accepted_tokens for generation in generations)
    return {
        "cache_n": cached,
        "prompt_n": prompt,
        "prompt_ms": prompt_seconds * 1000,
        "prompt_per_token_ms": _each(prompt_seconds * 1000, prompt),
        "prompt_per_second": _rate(prompt, prompt_seconds),
        "predicted_n": predicted,
        "predicted_ms": predicted_seconds * 1000,
        "predicted_per_token_ms": _each(predicted_seconds * 1000, predicted),
        "predicted_per_second": _rate(predicted, predicted_seconds),
        **({"draft_n": drafted, "draft_n_accepted": accepted} if drafted else {}),
    }


def _each(milliseconds: float, count: int) -> float:
    return milliseconds / count if count else 0.0


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0
