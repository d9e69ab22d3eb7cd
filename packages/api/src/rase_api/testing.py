"""An engine without a model, and a server in a thread, for tests of everything that talks HTTP."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rase_core.decoder import Logits
from rase_core.errors import InvalidModelId, ModelNotFound
from rase_core.generation import Generation, TokenEvent, generate_with
from rase_core.manifest import ModelManifest, WeightsFile
from rase_core.sampling import GenerationConfig
from rase_core.testing import ScriptedDecoder, ScriptedDetokenizer
from starlette.types import ASGIApp

from rase_api.server import Server, listen, url_of
from rase_api.serving import IsCancelled, OnText

BYTES = 256
END = 256
DETOKENIZER = ScriptedDetokenizer({value: bytes([value]) for value in range(BYTES)})


class ScriptedEngine:
    """A ServingEngine whose models, with one token per byte, all give the same answer.

    `before_token` is called in the worker thread before each decoded token; `requests` and `decoder.calls`
    tell what was asked for and what was computed. Requests run one at a time, as on one model.
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
        self.requests: list[tuple[object, GenerationConfig, int]] = []
        self.tokenizer = _Bytes()

    def list_models(self) -> list[ModelManifest]:
        """Return the models."""
        return list(self._manifests.values())

    def inspect(self, model_id: str) -> ModelManifest:
        """Return one model."""
        if "/" in model_id:
            raise InvalidModelId(model_id)
        if model_id not in self._manifests:
            raise ModelNotFound(model_id, self._manifests)
        return self._manifests[model_id]

    def default_config(self, model_id: str) -> GenerationConfig:
        """Return a model's settings."""
        return self.inspect(model_id).default_config()

    def load(self, model_id: str) -> "ScriptedEngine":
        """Return what has the tokenizer."""
        self.inspect(model_id)
        return self

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
        """Give the answer."""
        config = config or self.default_config(model_id)
        self.requests.append((prompt, config, choice))
        tokens = self.tokenizer.encode(prompt) if isinstance(prompt, str) else prompt

        def tell(event: TokenEvent) -> bool | None:
            return on_text(event.text) if event.text else None

        with self._lock:
            return generate_with(
                self.decoder, tokens, config, cancelled, on_token=tell, detokenizer=DETOKENIZER, choice=choice
            )

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
        """Give the answer to the messages written one per line."""
        prompt = "\n".join(f"{message['role']}: {message['content']}" for message in messages)
        return self.generate(model_id, prompt, config, on_text=on_text, cancelled=cancelled, choice=choice)


class _Bytes:
    def encode(self, text: str, add_special_tokens: bool = True, parse_special: bool = True) -> list[int]:
        return list(text.encode())


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
