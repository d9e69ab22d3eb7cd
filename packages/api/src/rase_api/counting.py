"""Texts that are tokenised to be counted or shown: none beyond any use, and one long one at a time."""

from functools import partial

from rase_models.tokenizers.tokenizer import LONG

from rase_api.errors import InvalidValue
from rase_api.faults import Names, in_words_of
from rase_api.plans import Conversation
from rase_api.schemas.tokens import MOST_TOKENS
from rase_api.serving import LoadedModel
from rase_api.state import ServerState


async def count_prompt(
    state: ServerState, model_id: str | None, conversation: Conversation, names: Names
) -> int:
    """Return the number of tokens of the prompt that a conversation becomes, `names` as the request has them.

    Raises InvalidValue for what the template does not read, and for a prompt of more than MOST_TOKENS and
    more than the context holds, where that can be told without tokenising it; QueueFull.
    """
    with in_words_of(names):
        model, prompt = await state.asked(conversation.prompt, model_id)
    return await state.tokenising(prompt, partial(_count, model, prompt, names.get("prompt", "prompt")))


def refuse_endless(text: str, model: LoadedModel, most: int, name: str) -> None:
    """Raise InvalidValue for a text of more tokens than `most`, where that takes no tokenising to tell."""
    if len(text) <= LONG:
        return
    least = model.tokenizer.least_tokens(text)
    if least > most:
        raise InvalidValue(
            f"Invalid value for '{name}': its tokens, at least {least}, are more than the {most} that are "
            "counted.",
            name,
        )


def _count(model: LoadedModel, prompt: str, name: str) -> int:
    refuse_endless(prompt, model, max(MOST_TOKENS, model.decoder.context_length), name)
    return len(model.tokenizer.encode_prompt(prompt))
