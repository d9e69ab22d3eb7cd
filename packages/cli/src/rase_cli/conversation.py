"""A chat on the terminal: what was said, the answers as they come, and the commands in between."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rase_core.errors import EngineError

from rase_cli.failures import report
from rase_cli.interrupts import stop_on_interrupt
from rase_cli.output import answer, note
from rase_cli.terminal import is_terminal

if TYPE_CHECKING:
    from rase_core.generation import Generation
    from rase_core.sampling import GenerationConfig
    from rase_models.constraints import ResponseFormat
    from rase_models.engine import Engine

Message = dict[str, object]

HELP = """\
/clear    forget the conversation
/help     show this
/exit     leave (also Ctrl-D)
Ctrl-C stops an answer."""


@dataclass(slots=True)
class Conversation:
    """The messages so far, and the model that answers."""

    engine: "Engine"
    model_id: str
    config: "GenerationConfig"
    system: str | None = None
    statistics: bool = False
    form: "ResponseFormat | None" = None
    turns: list[Message] = field(default_factory=list)

    @property
    def messages(self) -> list[Message]:
        """All messages, the system prompt first."""
        head: list[Message] = [] if self.system is None else [{"role": "system", "content": self.system}]
        return head + self.turns

    def ask(self, prompt: str) -> "Generation":
        """Stream the answer to stdout and remember the turn.

        A stopped answer is remembered as far as it went; a failed or empty one is not.
        """
        question: Message = {"role": "user", "content": prompt}
        with stop_on_interrupt() as stop:
            generation = self.engine.stream_chat(
                self.model_id,
                [*self.messages, question],
                self.config,
                on_text=answer,
                cancelled=stop.is_set,
                response_format=self.form,
            )
        answer("\n")
        if generation.text:
            self.turns += [question, {"role": "assistant", "content": generation.text}]
        describe_end(generation, statistics=self.statistics)
        return generation

    def clear(self) -> None:
        """Forget everything but the system prompt."""
        self.turns.clear()
        note("the conversation is forgotten")


def describe_end(generation: "Generation", *, statistics: bool) -> None:
    """Say on stderr why an answer ended early, and how fast it was when asked."""
    reason = _EARLY.get(generation.stop_reason.value)
    if reason is not None:
        note(f"[{reason.format(tokens=len(generation.tokens))}]")
    if statistics:
        note(f"[{_speed(generation)}]")


_EARLY: Mapping[str, str] = {
    "max_tokens": "stopped after {tokens} tokens; --max-tokens sets the limit",
    "context_full": "stopped: the context is full",
    "cancelled": "stopped",
}


def _speed(generation: "Generation") -> str:
    tokens = len(generation.tokens)
    prefill = generation.prompt_tokens / max(generation.prefill_seconds, 1e-9)
    decode = tokens / max(generation.decode_seconds, 1e-9)
    return (
        f"prompt {generation.prompt_tokens} tokens, {prefill:.0f}/s; answer {tokens} tokens, {decode:.1f}/s"
    )


def talk(conversation: Conversation) -> None:
    """Read prompts from the terminal and answer them until Ctrl-D or /exit."""
    _enable_line_editing()
    note(f"{conversation.model_id}: /help for the commands, Ctrl-D to leave")
    while (line := _next_line()) is not None:
        prompt = line.strip()
        if prompt.startswith("/"):
            if prompt == "/exit":
                return
            _COMMANDS.get(prompt, _unknown)(conversation)
        elif prompt:
            _turn(conversation, prompt)


def _turn(conversation: Conversation, prompt: str) -> None:
    try:
        conversation.ask(prompt)
    except EngineError as error:
        report(error)
    except KeyboardInterrupt:
        note("\n[stopped]")


def _next_line() -> str | None:
    """Return the next line typed; "" after a Ctrl-C, None at the end."""
    try:
        if is_terminal(sys.stdout):
            return input("> ")
        print("> ", end="", file=sys.stderr, flush=True)  # noqa: T201 - stdout belongs to the answers
        return input()
    except KeyboardInterrupt:
        note("\n[Ctrl-D or /exit to leave]")
        return ""
    except EOFError:
        note("")
        return None


def _enable_line_editing() -> None:
    """Let `input` edit lines and recall them, where Python was built with readline."""
    try:
        import readline  # noqa: F401 - importing it is what does it
    except ImportError:
        return


def _unknown(conversation: Conversation) -> None:
    note("unknown command")
    note(HELP)


_COMMANDS: Mapping[str, Callable[[Conversation], None]] = {
    "/clear": Conversation.clear,
    "/help": lambda conversation: note(HELP),
}
