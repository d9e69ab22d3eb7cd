"""The template that a person gives to a model, as text, as the name of a built-in one or as a file."""

from pathlib import Path

from rase_core.errors import TemplateError
from rase_core.model_file import open_file

from rase_models.chat.choice import choose_template
from rase_models.chat.template import LONGEST

_MOST_BYTES = 4 * LONGEST  # as many as the longest template may have in UTF-8


def given_template(chat_template: str | None, template_file: Path | None) -> str | None:
    """Return the text or the name of the template that was given, None when none was; a file comes first.

    Raises ModelFileNotFound, TemplateError for a file that is empty, too long or not UTF-8.
    """
    if template_file is None:
        return chat_template
    with open_file(template_file) as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise TemplateError(f"{template_file}: more than {_MOST_BYTES} bytes, too long for a template")
    if not data.strip():
        raise TemplateError(
            f"{template_file}: the chat template is empty", "leave it out for the model's own"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TemplateError(f"{template_file}: not UTF-8", "save the template as UTF-8") from error


def check_given_template(chat_template: str | None, template_file: Path | None) -> None:
    """Check that what was given can be used, before a model is registered with it.

    Raises ModelFileNotFound; TemplateError for a name that is not known and for text that is no template.
    """
    files = [file for file in (None, template_file) if file is not None or chat_template is not None]
    for file in files:
        choose_template(given_template(chat_template, file), None, "", None).compile()
