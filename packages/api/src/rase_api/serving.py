"""What the server asks of an engine; `rase_models.engine.Engine` is one."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from rase_core.manifest import ModelManifest
from rase_core.sampling import GenerationConfig
from rase_core.scheduler import OnEvent, Snapshot
from rase_models.chat.options import ChatOptions
from rase_models.chat.reply import Reading
from rase_models.request import Conversation, Question
from rase_models.room import Check, nothing_against

Messages = Sequence[Mapping[str, object]]


class Words(Protocol):
    """Turns text into token ids and back."""

    @property
    def vocab_size(self) -> int:
        """The number of tokens."""

    def encode(self, text: str, add_special_tokens: bool = True, parse_special: bool = True) -> list[int]:
        """Return the tokens of a text."""

    def encode_prompt(self, text: str) -> list[int]:
        """Return the tokens of a rendered conversation."""

    def least_tokens(self, text: str) -> int:
        """Return a number of tokens that a text has at least, soon."""

    def piece(self, token: int) -> bytes:
        """Return the bytes that a token is spelt with."""

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = True) -> str:
        """Return the text of tokens."""


class Template(Protocol):
    """What turns a conversation into a prompt."""

    @property
    def source(self) -> str:
        """Its text."""


class Limits(Protocol):
    """What computes."""

    @property
    def context_length(self) -> int:
        """The most tokens that prompt and answer may have together."""


class Memory(Protocol):
    """What a model takes of the memory."""

    @property
    def total(self) -> int:
        """The most bytes."""

    def held(self, kv_used: int) -> int:
        """The bytes while keys and values of so many tokens are kept."""


class LoadedModel(Protocol):
    """A model in memory."""

    @property
    def memory(self) -> Memory | None:
        """What it takes; None where that is not known."""

    @property
    def expires_in(self) -> float | None:
        """The seconds until it is let go of if nobody uses it any more; None for never."""

    @property
    def device(self) -> str:
        """Where it is computed."""

    @property
    def layers(self) -> int:
        """How many layers it has."""

    @property
    def fallback(self) -> str | None:
        """Why that is not the device that was asked for; None if it is."""

    @property
    def manifest(self) -> ModelManifest:
        """What is registered of it."""

    @property
    def tokenizer(self) -> Words:
        """The model's tokenizer."""

    @property
    def template(self) -> Template:
        """The chat template; raises TemplateError when there is none."""

    @property
    def decoder(self) -> Limits:
        """What computes."""

    def snapshot(self) -> Snapshot:
        """Return what its scheduler is doing and has done."""


class Submitted(Protocol):
    """A question that is being answered."""

    def cancel(self) -> None:
        """End the answers soon."""


class ServingEngine(Protocol):
    """Registered models that generate text. Its methods may block; they are called from many threads."""

    @property
    def device(self) -> str:
        """The name of what computes."""

    @property
    def kv_type(self) -> str | None:
        """In which keys and values are kept; None for what the device does by itself."""

    def list_models(self) -> list[ModelManifest]:
        """Return the registered models, by id."""

    def inspect(self, model_id: str) -> ModelManifest:
        """Return one registered model."""

    def default_config(self, model_id: str) -> GenerationConfig:
        """Return the sampling settings that a model has when a request says nothing."""

    def chat_template(self, model_id: str) -> str:
        """Return the text of a model's chat template, without loading it. Raises TemplateError."""

    def load(self, model_id: str, *, check: Check = nothing_against) -> LoadedModel:
        """Bring a model into memory, if it is not there; `check` raises when nobody waits for it any more."""

    def unload(self, model_id: str | None = None) -> None:
        """Let go of a model's memory."""

    def keep(self, model_id: str, seconds: float | None) -> None:
        """Let a model that is in memory stay for so long after it was used last; None for ever."""

    def loaded_models(self) -> Sequence[LoadedModel]:
        """Return the models in memory, by id."""

    def load_counts(self) -> Mapping[str, int]:
        """Return how often each model was loaded, by id."""

    def render(
        self,
        model_id: str,
        messages: Messages,
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        options: ChatOptions | None = None,
    ) -> str:
        """Return the prompt that a conversation becomes."""

    def prompt_tokens(self, model_id: str, conversation: Conversation) -> int:
        """Return how many tokens its prompt has."""

    def reading(self, model_id: str, conversation: Conversation) -> Reading:
        """Return what tells the parts of its answers apart."""

    def submit(self, model_id: str, question: Question, on_event: OnEvent) -> Submitted:
        """Ask; `on_event` hears in any thread of every piece and end of the answers, or that they failed.

        It ends them by returning False.
        """
