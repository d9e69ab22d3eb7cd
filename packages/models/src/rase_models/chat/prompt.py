"""From a conversation to the ids that the model reads."""

from collections.abc import Mapping, Sequence

from rase_models.chat.dialect import chat_dialect
from rase_models.chat.options import ChatOptions
from rase_models.chat.template import ChatTemplate
from rase_models.chat.variables import told_variables
from rase_models.tokenizers import Tokenizer

Messages = Sequence[Mapping[str, object]]


def chat_prompt(
    template: ChatTemplate,
    tokenizer: Tokenizer,
    messages: Messages,
    options: ChatOptions,
    *,
    add_generation_prompt: bool = True,
    continue_final_message: bool = False,
) -> str:
    """Return the prompt of a conversation, in which users and tools write no control tokens.

    Raises what `ChatTemplate.render` raises, and InvalidParameter for tools that the template teaches no
    calls of and for variables that it does not read.
    """
    chat_dialect(template.source).format_of(options)
    return template.prompt(
        messages,
        {**_variables(template, options), **options.template_tools()},
        tokenizer.controls,
        add_generation_prompt=add_generation_prompt,
        continue_final_message=continue_final_message,
    )


def _variables(template: ChatTemplate, options: ChatOptions) -> dict[str, object]:
    if not options.variables:
        return {}
    has_thoughts = chat_dialect(template.source).has_thoughts
    return told_variables(
        options.variables, template.variables, has_thoughts=has_thoughts, is_lenient=options.is_lenient
    )


def encode_chat(
    template: ChatTemplate,
    tokenizer: Tokenizer,
    messages: Messages,
    *,
    add_generation_prompt: bool = True,
    continue_final_message: bool = False,
    **extra: object,
) -> list[int]:
    """Return the prompt of a conversation as ids, in which users and tools write no control tokens.

    One BOS begins it where the model wants one or the template writes one. The arguments and errors are those
    of `ChatTemplate.render`, and UnencodableText.
    """
    text = template.prompt(
        messages,
        extra,
        tokenizer.controls,
        add_generation_prompt=add_generation_prompt,
        continue_final_message=continue_final_message,
    )
    return tokenizer.encode_prompt(text)
