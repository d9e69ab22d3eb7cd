"""From a conversation to the ids that the model reads."""

from collections.abc import Mapping, Sequence

from rase_models.chat.template import ChatTemplate
from rase_models.tokenizers import Tokenizer


def encode_chat(
    template: ChatTemplate,
    tokenizer: Tokenizer,
    messages: Sequence[Mapping[str, object]],
    *,
    add_generation_prompt: bool = True,
    continue_final_message: bool = False,
    **extra: object,
) -> list[int]:
    """Return the prompt of a conversation as ids.

    One BOS begins it where the model wants one or the template writes one. The arguments and errors are those
    of `ChatTemplate.render`, and UnencodableText.
    """
    text = template.render(
        messages,
        add_generation_prompt=add_generation_prompt,
        continue_final_message=continue_final_message,
        **extra,
    )
    return tokenizer.encode_prompt(text)
