"""A prompt that knows which spellings of control tokens in it are text."""

from typing import Self


class PromptText(str):
    """The text of a prompt.

    Attributes:
        marked: the same text with `mark` within those spellings, which are no tokens.
        mark: a character that the text does not have.
    """

    marked: str
    mark: str

    def __new__(cls, marked: str, mark: str) -> Self:
        """Return the text without its marks."""
        text = super().__new__(cls, marked.replace(mark, ""))
        text.marked, text.mark = marked, mark
        return text

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        """Return what a copy is made of."""
        return type(self), (self.marked, self.mark)
