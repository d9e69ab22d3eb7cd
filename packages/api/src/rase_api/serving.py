"""What the server asks of an engine; `rase_models.engine.Engine` is one."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from rase_core.generation import Generation
from rase_core.manifest import ModelManifest
from rase_core.sampling import GenerationConfig

OnText = Callable[[str], bool | None]
IsCancelled = Callable[[], bool]


class Encoder(Protocol):
    """Turns text into token ids."""

    def encode(self, text: str, add_special_tokens: bool = True, parse_special: bool = True) -> list[int]:
        """Return the tokens of a text."""


class LoadedModel(Protocol):
    """A model in memory."""

    @property
    def tokenizer(self) -> Encoder:
        """The model's tokenizer."""


class ServingEngine(Protocol):
    """Registered models that generate text. Its methods may block; they are called from many threads."""

    @property
    def device(self) -> str:
        """The name of what computes."""

    def list_models(self) -> list[ModelManifest]:
        """Return the registered models, by id."""

    def inspect(self, model_id: str) -> ModelManifest:
        """Return one registered model."""

    def default_config(self, model_id: str) -> GenerationConfig:
        """Return the sampling settings that a model has when a request says nothing."""

    def load(self, model_id: str) -> LoadedModel:
        """Bring a model into memory, if it is not there."""

    def generate(
        self,
        model_id: str,
        prompt: str | Sequence[int],
        config: GenerationConfig | None = None,
        *,
        on_text: OnText,
        cancelled: IsCancelled | None = None,
        choice: int = 0,
    ) -> Generation:
        """Continue a text, telling each piece; ends when a telling is answered with False, or `cancelled`."""

    def chat(
        self,
        model_id: str,
        messages: Sequence[Mapping[str, object]],
        config: GenerationConfig | None = None,
        *,
        on_text: OnText,
        cancelled: IsCancelled | None = None,
        choice: int = 0,
        continue_final_message: bool = False,
    ) -> Generation:
        """Answer a conversation, telling each piece; ends early as `generate` does."""
