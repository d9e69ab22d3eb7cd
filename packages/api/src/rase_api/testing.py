"""An engine without a model, and a server in a thread, for tests of everything that talks HTTP."""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rase_core.decoder import Logits
from rase_core.errors import InvalidModelId, ModelNotFound
from rase_core.generation import Generation, TokenEvent, generate_with
from rase_core.manifest import ModelManifest, WeightsFile
from rase_core.sampling import GenerationConfig
from rase_core.testing import ScriptedDecoder, ScriptedDetokenizer
from rase_models.chat import ChatTemplate
from rase_models.constraints import ResponseFormat
from starlette.types import ASGIApp

from rase_api.server import Server, listen, url_of
from rase_api.serving import IsCancelled, Messages, OnText

BYTES = 256
END = 256
DETOKENIZER = ScriptedDetokenizer({value: bytes([value]) for value in range(BYTES)})


class ScriptedEngine:
    """A ServingEngine whose models, with one token per byte, all give the same answer.

    `before_token` is called in the worker thread before each decoded token; `requests`, `formats` (which are
    not followed) and `decoder.calls` tell what was asked for and what was computed. Requests run one
    at a time, as on one model.
    """

    device = "scripted"

    def __init__(
        self,
        answer: str = "Paris.",
        *,
        models: Sequence[str] = ("demo",),
        context_length: int = 128,
        defaults: Mapping[str, object] | None = None,
        before_token: Callable[[], None] = lambda: None,
    ) -> None:
        weights = WeightsFile(Path("/nowhere/demo.gguf"), "0" * 64, 1)
        demo = ModelManifest(id="demo", weights=(weights,), defaults=defaults or {})
        self._manifests = {model_id: replace(demo, id=model_id) for model_id in sorted(models)}
        self._lock = threading.Lock()
        self.decoder = _Decoder([*answer.encode(), END], context_length, before_token)
        self.formats: list[ResponseFormat | None] = []
        self.requests: list[tuple[object, GenerationConfig, int]] = []
        self._loaded: dict[str, ScriptedModel] = {}

    def list_models(self) -> list[ModelManifest]:
        """Return the models."""
        return list(self._manifests.values())

    def inspect(self, model_id: str) -> ModelManifest:
        """Return one model."""
        if set(model_id) & {"/", ":"}:
            raise InvalidModelId(model_id)
        if model_id not in self._manifests:
            raise ModelNotFound(model_id, self._manifests)
        return self._manifests[model_id]

    def default_config(self, model_id: str) -> GenerationConfig:
        """Return a model's settings."""
        return self.inspect(model_id).default_config()

    def load(self, model_id: str) -> "ScriptedModel":
        """Keep a model in memory."""
        model = ScriptedModel(self.inspect(model_id), self.decoder)
        return self._loaded.setdefault(model_id, model)

    def unload(self, model_id: str | None = None) -> None:
        """Forget that a model is in memory."""
        for loaded in [model_id] if model_id is not None else list(self._loaded):
            self._loaded.pop(loaded, None)

    def loaded_models(self) -> "list[ScriptedModel]":
        """Return what `load` was asked for."""
        return [self._loaded[model_id] for model_id in sorted(self._loaded)]

    def render(
        self,
        model_id: str,
        messages: Messages,
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
    ) -> str:
        """Write the messages one per line."""
        self.load(model_id)
        lines = [f"{message['role']}: {message['content']}" for message in messages]
        return "\n".join(lines)

    def encode_chat(
        self, model_id: str, messages: Messages, *, continue_final_message: bool = False
    ) -> list[int]:
        """Return the bytes of that."""
        return list(self.render(model_id, messages).encode())

    def generate(
        self,
        model_id: str,
        prompt: str | Sequence[int],
        config: GenerationConfig | None = None,
        *,
        on_text: OnText,
        cancelled: IsCancelled | None = None,
        choice: int = 0,
        response_format: ResponseFormat | None = None,
    ) -> Generation:
        """Give the answer."""
        config = config or self.default_config(model_id)
        self.requests.append((prompt, config, choice))
        self.formats.append(response_format)
        tokens = self.load(model_id).tokenizer.encode(prompt) if isinstance(prompt, str) else prompt

        def tell(event: TokenEvent) -> bool | None:
            return on_text(event.text) if event.text else None

        with self._lock:
            return generate_with(
                self.decoder, tokens, config, cancelled, on_token=tell, detokenizer=DETOKENIZER, choice=choice
            )

    def chat(
        self,
        model_id: str,
        messages: Messages,
        config: GenerationConfig | None = None,
        *,
        on_text: OnText,
        cancelled: IsCancelled | None = None,
        choice: int = 0,
        continue_final_message: bool = False,
        response_format: ResponseFormat | None = None,
    ) -> Generation:
        """Give the answer to the messages written one per line."""
        prompt = self.render(model_id, messages)
        return self.generate(
            model_id,
            prompt,
            config,
            on_text=on_text,
            cancelled=cancelled,
            choice=choice,
            response_format=response_format,
        )


class ByteWords:
    """A tokenizer whose tokens are bytes."""

    vocab_size = BYTES + 1

    def encode(self, text: str, add_special_tokens: bool = True, parse_special: bool = True) -> list[int]:
        """Return the bytes of a text; there are no special tokens."""
        return list(text.encode())

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = True) -> str:
        """Return the text of bytes; the last token ends an answer."""
        end = "" if skip_special_tokens else "<end>"
        return "".join(end if token == END else chr(token) for token in ids)


@dataclass(frozen=True)
class ScriptedModel:
    """A model that is in memory."""

    manifest: ModelManifest
    decoder: "_Decoder"
    tokenizer: ByteWords = field(default_factory=ByteWords)
    template: ChatTemplate = field(default_factory=lambda: ChatTemplate("{{ messages }}"))


class _Decoder(ScriptedDecoder):
    def __init__(self, script: Sequence[int], context_length: int, before_token: Callable[[], None]) -> None:
        super().__init__(
            script, vocab_size=END + 1, context_length=context_length, eos_tokens=frozenset({END})
        )
        self._before_token = before_token

    def decode(self, token: int) -> Logits:
        self._before_token()
        return super().decode(token)


@contextlib.contextmanager
def served(app: ASGIApp) -> Iterator[str]:
    """Run a server for an application on a free local port, in a thread; give its URL."""
    ready = threading.Event()
    listener = listen("127.0.0.1", 0)
    server = Server(app, on_ready=lambda url: ready.set(), grace=1)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="rase-served")
    thread.start()
    try:
        if not ready.wait(30):
            raise TimeoutError("the server did not start")
        yield url_of(listener)
    finally:
        server.should_exit = True
        thread.join()
