"""Which template a model is used with."""

import logging

from rase_core.errors import InvalidGguf, TemplateError

from rase_models.chat.builtin import BUILTIN_TEMPLATES, builtin_name
from rase_models.chat.template import ChatTemplate
from rase_models.gguf import GgufFile
from rase_models.tokenizers import Tokenizer

logger = logging.getLogger(__name__)

TEMPLATE_KEY = "tokenizer.chat_template"
_WAYS = f"give jinja text, or one of {', '.join(BUILTIN_TEMPLATES)}"
_WITH_ONE = f"`rase model import PATH --id ID --chat-template TEMPLATE`: {_WAYS}"
_TOOLS_KEY = f"{TEMPLATE_KEY}.tool_use"
"""What a file that has several templates, as Hermes 2 and 3 do, has for conversations with tools."""


def choose_template(
    manifest_template: str | None,
    file: GgufFile | None,
    architecture: str,
    tokenizer: Tokenizer | None,
) -> ChatTemplate:
    """Return the template of a model: the manifest's, else the GGUF's own, else its architecture's built-in.

    `manifest_template` is jinja text or the name of a built-in. The tokenizer tells the texts of BOS and EOS.
    A file's own that is empty counts as none, with a warning. Raises TemplateError when there is none, or
    when the manifest names one that does not exist.
    """
    tokens = _special_tokens(tokenizer)
    if manifest_template is not None:
        return _named(manifest_template, tokens)
    own = _own_template(file)
    if own:
        return ChatTemplate(own, "the GGUF's chat template", tokens)
    name = builtin_name(architecture)
    if name is None:
        file_has = "has none" if own is None else "has an empty one"
        raise TemplateError(
            f"no chat template: the manifest has none, the file {file_has}, and none is known for "
            f"{architecture!r}",
            f"register the model again with one, {_WITH_ONE}",
        )
    if own is not None and file is not None:
        logger.warning("%s: its chat template is empty: the built-in %s is used", file.path, name)
    return _named(name, tokens)


def _named(template: str, tokens: dict[str, str]) -> ChatTemplate:
    if not template.strip():
        raise TemplateError(
            "the chat template that was given is empty", f"leave it out for the model's own, or {_WAYS}"
        )
    if template in BUILTIN_TEMPLATES:
        return ChatTemplate(BUILTIN_TEMPLATES[template], f"the built-in template {template}", tokens)
    if "{" not in template:
        raise TemplateError(
            f"unknown chat template {template[:80]!r}",
            _WAYS,
        )
    return ChatTemplate(template, "the manifest's chat template", tokens)


def _own_template(file: GgufFile | None) -> str | None:
    """Return a file's own template, "" for nothing but white space, None for none."""
    try:
        if file is None:
            return None
        return _joined(file.string(TEMPLATE_KEY, None), file.string(_TOOLS_KEY, None))
    except InvalidGguf as error:
        raise TemplateError(error.message, error.advice) from error


def _joined(plain: str | None, for_tools: str | None) -> str | None:
    """Return one template that is the one for tools where there are tools, and else the plain one.

    Both begin at the beginning of a line.
    """
    plain, for_tools = _stripped(plain), _stripped(for_tools)
    if not plain or not for_tools:
        return plain or for_tools or ("" if "" in (plain, for_tools) else None)
    ways = (text.removesuffix("\n") for text in (for_tools, plain))  # as jinja does at the end of a text
    return "{% if tools %}\n" + "{%+ else %}\n".join(ways) + "{%+ endif %}"


def _stripped(text: str | None) -> str | None:
    return "" if text is not None and not text.strip() else text


def _special_tokens(tokenizer: Tokenizer | None) -> dict[str, str]:
    if tokenizer is None:
        return {}
    ids = {"bos_token": tokenizer.bos_token_id, "eos_token": tokenizer.eos_token_id}
    found = {name: tokenizer.id_to_token(token) for name, token in ids.items() if token is not None}
    return {name: token for name, token in found.items() if token is not None}
