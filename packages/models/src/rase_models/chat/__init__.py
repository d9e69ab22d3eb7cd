"""Conversations to prompts: templates, their sandbox, and the choice among them."""

from rase_models.chat.builtin import BUILTIN_TEMPLATES
from rase_models.chat.choice import choose_template
from rase_models.chat.given import check_given_template, given_template
from rase_models.chat.prompt import encode_chat
from rase_models.chat.template import ChatTemplate

__all__ = [
    "BUILTIN_TEMPLATES",
    "ChatTemplate",
    "check_given_template",
    "choose_template",
    "encode_chat",
    "given_template",
]
