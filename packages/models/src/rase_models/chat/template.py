"""A chat template: jinja text that turns messages into a prompt."""

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from rase_core.errors import InvalidConversation, InvalidParameter, TemplateError

from rase_models.chat.budget import Budget, spending, whole_size
from rase_models.chat.messages import Message, plain, plain_messages
from rase_models.chat.outside import MarkedConversation, prompt_of
from rase_models.chat.tool_calls.told_calls import with_told_calls
from rase_models.tokenizers.special_tokens import SpecialTokens

if TYPE_CHECKING:
    from jinja2 import Template

LONGEST = 1 << 16
"""The most characters of a template; the longest in use have about 20,000."""

T = TypeVar("T")

_EVERYWHERE = frozenset(
    {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token", "pad_token", "unk_token"}
)
_NONE = SpecialTokens({})
_OPEN_END = "\ue000open\ue000 "  # ends in a space, to see whether the template trims the message
_FAULTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    NameError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True)
class ChatTemplate:
    """A template, compiled when it is first needed; safe to use from many threads.

    Attributes:
        source: the jinja text.
        name: what it is called in messages: `the GGUF's chat template`, `the built-in template chatml`.
        special_tokens: texts that the template may write, by the names it knows them by (`bos_token`).
    """

    source: str
    name: str = "the chat template"
    special_tokens: Mapping[str, str] = field(default_factory=dict)

    def render(
        self,
        messages: Sequence[Mapping[str, object]],
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        **extra: object,
    ) -> str:
        """Return the prompt of a conversation, as `apply_chat_template` of transformers does.

        `continue_final_message` leaves the last message open, for the model to go on with it. `extra` are
        further variables of the template, plain JSON values; InvalidParameter names one that is none. Raises
        InvalidConversation when the messages are at fault or the template refuses them, TemplateError when
        the template is broken or does too much.
        """
        return self.prompt(
            messages,
            extra,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
        )

    def prompt(
        self,
        messages: Sequence[Mapping[str, object]],
        extra: Mapping[str, object],
        controls: SpecialTokens | None = None,
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
    ) -> str:
        """Return the prompt of a conversation as `render` does, with the same arguments.

        It is a PromptText where users, tools or documents spell `controls` out, which are text there.
        """
        chat = plain_messages(messages, knows_developer="developer" in self.source)
        chat = with_told_calls(chat, self.source)
        variables = {key: _variable(key, value) for key, value in extra.items()}
        written = (self.source, *self.special_tokens.values())

        def rendered(marked: MarkedConversation) -> str:
            if not continue_final_message:
                return self._run(marked.messages, marked.variables, add_generation_prompt)
            _leave_open(marked.messages)
            return self._cut_open(self._run(marked.messages, marked.variables, False))

        return prompt_of(chat, variables, controls or _NONE, written, rendered)

    def compile(self) -> None:
        """Check the template without rendering it; TemplateError names the line of a fault."""
        _ = self._compiled

    @cached_property
    def variables(self) -> frozenset[str]:
        """The variables that the template reads besides those of every conversation. Raises TemplateError."""
        from rase_models.chat.environment import TemplateEnvironment

        return self._guarded(TemplateEnvironment().variables_of) - _EVERYWHERE - self.special_tokens.keys()

    def _run(self, chat: list[Message], variables: Mapping[str, object], add_generation_prompt: bool) -> str:
        template = self._compiled
        with spending(Budget()):
            given = whole_size(chat, variables)
        try:
            with spending(Budget(given, len(chat))):
                return template.render(
                    **{"tools": None, "documents": None, **self.special_tokens, **variables},
                    messages=chat,
                    add_generation_prompt=add_generation_prompt,
                )
        except _faults() as error:
            raise self._fault(error, _line_of(error)) from error

    @cached_property
    def _compiled(self) -> "Template":
        from rase_models.chat.environment import TemplateEnvironment

        return self._guarded(TemplateEnvironment().compile_bounded)

    def _guarded(self, examine: Callable[[str], T]) -> T:
        """Return what is found in the source; TemplateError names the line of a fault."""
        if len(self.source) > LONGEST:
            raise TemplateError(f"{self.name} has {len(self.source)} characters, more than {LONGEST}")
        try:
            with spending(Budget()):
                return examine(self.source)
        except _faults() as error:
            raise self._fault(error, getattr(error, "lineno", None)) from error

    def _fault(self, error: BaseException, line: int | None) -> TemplateError:
        place = self.name if line is None else f"{self.name}, line {line}"
        return TemplateError(
            f"{place}: {getattr(error, 'message', None) or error or type(error).__name__}",
            "register the model with another: `rase model import PATH --id ID --chat-template TEMPLATE`",
        )

    def _cut_open(self, text: str) -> str:
        at = text.rfind(_OPEN_END.strip())
        if at < 0:
            raise InvalidConversation(
                f"{self.name} does not write the last message, so it cannot be continued"
            )
        kept = text[:at]
        return kept if text.startswith(_OPEN_END, at) else kept.rstrip()


def _variable(name: str, value: object) -> object:
    """Return a variable in the plain types; InvalidParameter names it where it is none."""
    try:
        return plain(value, None)
    except InvalidConversation as error:
        raise InvalidParameter(name, value, f"plain JSON values: {error.reason}") from error


def _leave_open(chat: list[Message]) -> None:
    last = chat[-1]
    if last["role"] != "assistant" or not isinstance(last.get("content"), str):
        raise InvalidConversation(
            "only an assistant's message with content can be continued", index=len(chat) - 1
        )
    last["content"] = f"{last['content']}{_OPEN_END}"


def _faults() -> tuple[type[BaseException], ...]:
    from jinja2 import TemplateError as JinjaError

    return (JinjaError, *_FAULTS)


def _line_of(error: BaseException) -> int | None:
    """Return the line of the template in which an error happened."""
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "<template>"
    ]
    return lines[-1] if lines else None
