"""An engine without a model, and a server in a thread, for tests of everything that talks HTTP."""

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from rase_core.answer import checked_prompt
from rase_core.decoder import Logits, TokenDecoder
from rase_core.errors import Cancelled, InvalidModelId, InvalidParameter, ModelNotFound
from rase_core.generation import TokenEvent, generate_with
from rase_core.logprobs import Logprobs
from rase_core.manifest import ModelManifest, WeightsFile
from rase_core.sampling import GenerationConfig
from rase_core.scheduler import Ended, Failed, OnEvent, Piece, Snapshot
from rase_core.testing import ScriptedDecoder, ScriptedDetokenizer
from rase_models.chat import ChatTemplate
from rase_models.chat.dialect import chat_dialect
from rase_models.chat.options import ChatOptions
from rase_models.chat.reply import Reading
from rase_models.constraints import ResponseFormat
from rase_models.request import Completion, Conversation, Question
from rase_models.room import Check, nothing_against
from starlette.types import ASGIApp

from rase_api.listening import listen, url_of
from rase_api.patience import SECONDS
from rase_api.server import Server
from rase_api.serving import Messages

BYTES = 256
MOST_CHOICES = 64
END = 256
DETOKENIZER = ScriptedDetokenizer({value: bytes([value]) for value in range(BYTES)})


class ScriptedEngine:
    """A ServingEngine whose models, with one token per byte, all give the same answer.

    `before_token` is called in the worker thread before each decoded token; `requests`, `formats` (which are
    not followed) and `decoder.calls` tell what was asked for and what was computed. Requests run one
    at a time, as on one model.
    """

    device = "scripted"
    kv_type: str | None = None

    def __init__(
        self,
        answer: str = "Paris.",
        *,
        models: Sequence[str] = ("demo",),
        context_length: int = 128,
        defaults: Mapping[str, object] | None = None,
        before_token: Callable[[], object] = lambda: None,
        template: str = "{{ messages }}",
    ) -> None:
        self._template = ChatTemplate(template)
        weights = WeightsFile(Path("/nowhere/demo.gguf"), "0" * 64, 1)
        demo = ModelManifest(id="demo", weights=(weights,), defaults=defaults or {})
        self._manifests = {model_id: replace(demo, id=model_id) for model_id in sorted(models)}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rase-scripted")
        self.decoder = _Decoder([*answer.encode(), END], context_length, before_token)
        self.questions: list[Question] = []
        self.formats: list[ResponseFormat | None] = []
        self.requests: list[tuple[object, GenerationConfig, int]] = []
        self._loaded: dict[str, ScriptedModel] = {}
        self._loads: Counter[str] = Counter()

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

    def load(self, model_id: str, *, check: Check = nothing_against) -> "ScriptedModel":
        """Keep a model in memory."""
        model = ScriptedModel(self.inspect(model_id), self.decoder, template=self._template)
        self._loads[model_id] += model_id not in self._loaded
        return self._loaded.setdefault(model_id, model)

    def keep(self, model_id: str, seconds: float | None) -> None:
        """Note how long a model that is in memory is to stay."""
        if model_id in self._loaded:
            self._loaded[model_id].expires_in = seconds

    def unload(self, model_id: str | None = None) -> None:
        """Forget that a model is in memory."""
        for loaded in [model_id] if model_id is not None else list(self._loaded):
            self._loaded.pop(loaded, None)

    def load_counts(self) -> Mapping[str, int]:
        """Return how often each model was loaded."""
        return dict(self._loads)

    def loaded_models(self) -> "list[ScriptedModel]":
        """Return what `load` was asked for."""
        return [self._loaded[model_id] for model_id in sorted(self._loaded)]

    def chat_template(self, model_id: str) -> str:
        """Return what a loaded one has."""
        return self.load(model_id).template.source

    def render(
        self,
        model_id: str,
        messages: Messages,
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        options: ChatOptions | None = None,
    ) -> str:
        """Write the messages one per line."""
        self.load(model_id)
        lines = [f"{message['role']}: {message['content']}" for message in messages]
        return "\n".join(lines)

    def prompt_tokens(self, model_id: str, conversation: Conversation) -> int:
        """Count the bytes of that."""
        return len(self.render(model_id, conversation.messages).encode())

    def reading(self, model_id: str, conversation: Conversation) -> Reading:
        """Read as the template's models write."""
        return chat_dialect(self.load(model_id).template.source).reading("", conversation.options)

    def submit(self, model_id: str, question: Question, on_event: OnEvent) -> "Answering":
        """Give the answer, to messages as to a text of them one per line."""
        if isinstance(question, Completion):
            prompt = question.prompt
        else:
            prompt = self.render(model_id, question.messages)
        if question.terms.n > MOST_CHOICES:
            raise InvalidParameter("n", question.terms.n, f"a whole number of 1 to {MOST_CHOICES}")
        config = question.terms.config or self.default_config(model_id)
        tokens = self.load(model_id).tokenizer.encode(prompt) if isinstance(prompt, str) else prompt
        checked_prompt(tokens, self.decoder)
        answering = Answering(question.terms.n, on_event)
        self.questions.append(question)
        self.formats.append(question.terms.response_format)
        self.requests.append((prompt, config, question.terms.choice))
        terms = question.terms
        self._thread.submit(self._answer, answering, prompt, tokens, config, terms.choice, terms.logprobs)
        return answering

    def _answer(
        self,
        answering: "Answering",
        prompt: object,
        tokens: Sequence[int],
        config: GenerationConfig,
        first: int,
        logprobs: Logprobs | None,
    ) -> None:
        try:
            for number in range(answering.n):
                if answering.is_cancelled():
                    return answering.end()
                if number:
                    self.requests.append((prompt, config, first + number))
                answering.run(number, self.decoder, tokens, config, first + number, logprobs)
        except Exception as error:  # noqa: BLE001 - as a scheduler does
            answering.hear(Failed(error))


class Answering:
    """A question that is being answered, in `n` ways one after another."""

    def __init__(self, n: int, on_event: OnEvent) -> None:
        self.n, self.hear = n, on_event
        self._stop = threading.Event()

    def cancel(self) -> None:
        """End the answers at the next token."""
        self._stop.set()

    def is_cancelled(self) -> bool:
        """Whether they are to end."""
        return self._stop.is_set()

    def run(
        self,
        number: int,
        decoder: TokenDecoder,
        tokens: Sequence[int],
        config: GenerationConfig,
        choice: int,
        logprobs: Logprobs | None = None,
    ) -> None:
        """Give one of the answers."""

        def tell(event: TokenEvent) -> bool:
            return self.hear(Piece(number, event.token, event.text, event.logprobs)) is not False

        generation = generate_with(
            decoder,
            tokens,
            config,
            self.is_cancelled,
            on_token=tell,
            detokenizer=DETOKENIZER,
            choice=choice,
            logprobs=logprobs,
        )
        self.hear(Ended(number, generation))

    def end(self) -> None:
        """Tell that they have been cancelled before they began."""
        self.hear(Failed(Cancelled()))


class ByteWords:
    """A tokenizer whose tokens are bytes."""

    vocab_size = BYTES + 1

    def encode(self, text: str, add_special_tokens: bool = True, parse_special: bool = True) -> list[int]:
        """Return the bytes of a text; there are no special tokens."""
        return list(text.encode())

    def encode_prompt(self, text: str) -> list[int]:
        """Return the bytes of a text."""
        return self.encode(text)

    def least_tokens(self, text: str) -> int:
        """Return the number of characters."""
        return len(text)

    def piece(self, token: int) -> bytes:
        """Return the byte; the last token ends an answer."""
        return b"<end>" if token == END else bytes([token])

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = True) -> str:
        """Return the text of bytes; the last token ends an answer."""
        end = "" if skip_special_tokens else "<end>"
        return "".join(end if token == END else chr(token) for token in ids)


@dataclass
class ScriptedModel:
    """A model that is in memory; nothing lets go of it when its time is over."""

    manifest: ModelManifest
    decoder: "_Decoder"
    tokenizer: ByteWords = field(default_factory=ByteWords)
    template: ChatTemplate = field(default_factory=lambda: ChatTemplate("{{ messages }}"))
    memory: None = None
    device: str = "scripted"
    layers: int = 2
    fallback: str | None = None
    expires_in: float | None = None

    def snapshot(self) -> Snapshot:
        """Return that nothing is under way."""
        return Snapshot()


class _Decoder(ScriptedDecoder):
    def __init__(
        self, script: Sequence[int], context_length: int, before_token: Callable[[], object]
    ) -> None:
        super().__init__(
            script, vocab_size=END + 1, context_length=context_length, eos_tokens=frozenset({END})
        )
        self._before_token = before_token

    def decode(self, token: int) -> Logits:
        self._before_token()
        return super().decode(token)


@contextlib.contextmanager
def served(app: ASGIApp, patience: float = SECONDS) -> Iterator[str]:
    """Run a server for an application on a free local port, in a thread; give its URL."""
    ready = threading.Event()
    (listener,) = listen("127.0.0.1", 0)
    server = Server(app, on_ready=lambda url: ready.set(), grace=1, patience=patience)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="rase-served")
    thread.start()
    try:
        if not ready.wait(30):
            raise TimeoutError("the server did not start")
        yield url_of(listener)
    finally:
        server.should_exit = True
        thread.join()
