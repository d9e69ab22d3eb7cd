"""What models make of texts and conversations before they answer."""

from rase_core.arguments import TEXT, Kinds, check_arguments

from rase_models.chat.options import ChatOptions, check_options
from rase_models.chat.prompt import chat_prompt
from rase_models.chat.reply import Reading
from rase_models.model_host import ModelHost
from rase_models.request import Conversation, Messages

_KINDS: Kinds = {"text": TEXT}


class ModelPrompts(ModelHost):
    """The prompts of models that are loaded for that; see `load` for what everything here raises besides."""

    def count_tokens(self, model_id: str, text: str) -> int:
        """Return the number of tokens of a text as a prompt of `generate`."""
        check_arguments(_KINDS, text=text)
        return len(self.load(model_id).tokenizer.encode(text))

    def render(
        self,
        model_id: str,
        messages: Messages,
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        options: ChatOptions | None = None,
    ) -> str:
        """Return the prompt that a conversation becomes.

        It is a PromptText where a user or a tool spells control tokens out, which `encode_prompt` of the
        model's tokenizer then takes for text. Raises TemplateError, InvalidConversation, and InvalidParameter
        for tools that the model's template teaches no calls of.
        """
        check_options(options)
        model = self.load(model_id)
        return chat_prompt(
            model.template,
            model.tokenizer,
            messages,
            options or ChatOptions(),
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
        )

    def encode_chat(
        self,
        model_id: str,
        messages: Messages,
        *,
        continue_final_message: bool = False,
        options: ChatOptions | None = None,
    ) -> list[int]:
        """Return the tokens of the prompt that a conversation becomes; raises what `render` raises."""
        text = self.render(model_id, messages, continue_final_message=continue_final_message, options=options)
        return self.load(model_id).tokenizer.encode_prompt(text)

    def prompt_tokens(self, model_id: str, conversation: Conversation) -> int:
        """Return how many tokens the prompt of a conversation has; raises what `submit` raises for it."""
        return len(conversation.tokens(self.load(model_id)))

    def reading(self, model_id: str, conversation: Conversation) -> Reading:
        """Return what tells thought, content and calls of tools apart in the answers to a conversation.

        They must have been asked for with `is_read`. Raises what `render` raises, and InvalidParameter for
        tools that the model's template teaches no calls of.
        """
        return conversation.reading(self.load(model_id))
