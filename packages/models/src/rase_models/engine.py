"""The engine: registered models that answer. The door of rase for programs."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path
from typing import Self, overload

from rase_core.device import ProbeReport
from rase_core.generation import Generation
from rase_core.progress import Progress
from rase_core.sampling import GenerationConfig

from rase_models.chat import encode_chat
from rase_models.device_check import choose_device, probe_devices
from rase_models.gguf import open_gguf
from rase_models.model_store import ModelStore
from rase_models.request import Messages, OnText, Prompt, Request, completion, conversation
from rase_models.session import GivenUp, IsCancelled, Session
from rase_models.session_cache import SessionCache
from rase_models.session_loader import SessionLoader
from rase_models.text_stream import TextStream
from rase_models.tokenizers import load_tokenizer, tokenizer_from_gguf

Prepare = Callable[[Session], Request]


class Engine(ModelStore):
    """Models of one store on one device. Thread-safe; requests to one model run one after another.

    Args:
        store: the folder of the registered models; None for `default_store()`.
        device: auto, cpu, cuda, metal or reference.
        threads: of the CPU backend; None for its own choice.
        context_length: the most tokens of any model's sequence, where the model's own limit is not lower.
        progress: told about hashing, downloading, loading and compiling, in the thread that does it.
        cache: the models in memory, to share them; what loads them is then the cache's own affair.

    Nothing is read before it is needed. A model is verified and loaded when it is first used, and stays in
    memory until `unload`, `remove` or `close`.
    """

    def __init__(
        self,
        store: Path | str | None = None,
        device: str = "auto",
        threads: int | None = None,
        *,
        context_length: int | None = None,
        progress: Progress | None = None,
        cache: SessionCache | None = None,
    ) -> None:
        super().__init__(store, progress=progress)
        self._preference = device
        self._loader = SessionLoader(threads, context_length, progress)
        self._cache = cache if cache is not None else SessionCache(self._loader)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def device(self) -> str:
        """The backend that computes. Raises BackendUnavailable."""
        return choose_device(self._preference)

    def remove(self, model_id: str) -> None:
        """Forget a model and let go of its memory; its files stay. Raises ModelNotFound."""
        super().remove(model_id)
        self.unload(model_id)

    def load(self, model_id: str) -> Session:
        """Bring a model into memory; see SessionCache.get_or_load for what it raises."""
        return self._cache.get_or_load(self._registry, model_id, self.device)

    def loaded_models(self) -> list[Session]:
        """Return the models of this store that are in memory, by id."""
        sessions = self._cache.sessions(self.store)
        return sorted(sessions, key=lambda session: session.manifest.id)

    def unload(self, model_id: str | None = None) -> None:
        """Let go of a model's memory, or all models'; one that is in use goes when its last user is done."""
        self._cache.clear(self.store, model_id)

    def close(self) -> None:
        """Let go of all memory; the engine can be used again."""
        self.unload()

    def count_tokens(self, model_id: str, text: str) -> int:
        """Return the number of tokens of a text as a prompt of `generate`."""
        return len(self.load(model_id).tokenizer.encode(text))

    def render(
        self,
        model_id: str,
        messages: Messages,
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
    ) -> str:
        """Return the prompt that a conversation becomes. Raises TemplateError, InvalidConversation."""
        return self.load(model_id).template.render(
            messages,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
        )

    def encode_chat(
        self, model_id: str, messages: Messages, *, continue_final_message: bool = False
    ) -> list[int]:
        """Return the tokens of the prompt that a conversation becomes; raises what `render` raises."""
        session = self.load(model_id)
        return encode_chat(
            session.template, session.tokenizer, messages, continue_final_message=continue_final_message
        )

    def generate(
        self,
        model_id: str,
        prompt: Prompt,
        config: GenerationConfig | None = None,
        *,
        on_text: OnText | None = None,
        cancelled: IsCancelled | None = None,
        choice: int = 0,
    ) -> Generation:
        """Continue a text or tokens; `config` None means `default_config`.

        `on_text` hears each piece of text and ends the generation by returning False; `cancelled` is asked
        while waiting for other requests, between chunks of the prompt and before every token. `choice` sets
        apart the answers of one seed.

        Raises what `load` raises, ContextOverflow before anything is computed, InvalidGenerationConfig,
        InvalidLogits.
        """
        return self._answer(model_id, _completion(prompt, config, choice), on_text, cancelled)

    def stream_generate(
        self,
        model_id: str,
        prompt: Prompt,
        config: GenerationConfig | None = None,
        *,
        cancelled: IsCancelled | None = None,
        choice: int = 0,
    ) -> TextStream:
        """Continue a text as `generate` does, as an iterator of the pieces."""
        return self._stream(model_id, _completion(prompt, config, choice), cancelled)

    def chat(
        self,
        model_id: str,
        messages: Messages,
        config: GenerationConfig | None = None,
        *,
        on_text: OnText | None = None,
        cancelled: IsCancelled | None = None,
        choice: int = 0,
        continue_final_message: bool = False,
    ) -> Generation:
        """Answer a conversation, or go on with its last message; otherwise as `generate`.

        Raises, besides what `generate` raises, TemplateError for a model without template,
        InvalidConversation.
        """
        prepare = _conversation(messages, config, choice, continue_final_message)
        return self._answer(model_id, prepare, on_text, cancelled)

    @overload
    def stream_chat(
        self,
        model_id: str,
        messages: Messages,
        config: GenerationConfig | None = None,
        *,
        on_text: None = None,
        cancelled: IsCancelled | None = None,
        choice: int = 0,
        continue_final_message: bool = False,
    ) -> TextStream: ...

    @overload
    def stream_chat(
        self,
        model_id: str,
        messages: Messages,
        config: GenerationConfig | None = None,
        *,
        on_text: OnText,
        cancelled: IsCancelled | None = None,
        choice: int = 0,
        continue_final_message: bool = False,
    ) -> Generation: ...

    def stream_chat(
        self,
        model_id: str,
        messages: Messages,
        config: GenerationConfig | None = None,
        *,
        on_text: OnText | None = None,
        cancelled: IsCancelled | None = None,
        choice: int = 0,
        continue_final_message: bool = False,
    ) -> TextStream | Generation:
        """Answer a conversation as `chat` does: as an iterator of the pieces, or to `on_text`.

        A call with `on_text` returns the answer at its end, as far as it came when `on_text` returned False.
        """
        prepare = _conversation(messages, config, choice, continue_final_message)
        if on_text is None:
            return self._stream(model_id, prepare, cancelled)
        return self._answer(model_id, prepare, on_text, cancelled)

    def generate_file(
        self,
        weights: Path | str,
        tokenizer: Path | str | None,
        prompt: Prompt,
        config: GenerationConfig | None = None,
    ) -> Generation:
        """Continue a text with a file that is not registered; its own vocabulary counts without a tokenizer.

        Nothing is verified, and nothing stays in memory.
        """
        file = open_gguf(weights)
        words = tokenizer_from_gguf(file) if tokenizer is None else load_tokenizer(tokenizer)
        request = completion(words, prompt, config or GenerationConfig())
        with closing(self._loader.decoder(file, self.device)) as decoder:
            return request.run(decoder, None, None)

    def probe(self, device: str = "auto") -> ProbeReport:
        """Try the devices that a name stands for, best first, with a real computation each."""
        return probe_devices(device)

    def profile(self, reset: bool = False) -> dict[str, int]:
        """Return where the time went since the start or the last reset; all zero unless RASE_PROFILE is 1."""
        return self._cache.profile.snapshot(reset=reset)

    def _lease(self, model_id: str) -> AbstractContextManager[Session]:
        return self._cache.lease(self._registry, model_id, self.device)

    def _answer(
        self, model_id: str, prepare: Prepare, on_text: OnText | None, cancelled: IsCancelled | None
    ) -> Generation:
        with self._lease(model_id) as session:
            return self._run(session, _prepared(session, prepare), on_text, cancelled)

    def _stream(self, model_id: str, prepare: Prepare, cancelled: IsCancelled | None) -> TextStream:
        """Prepare here, so that a faulty request is refused at once, and generate in a thread."""
        with ExitStack() as stack:
            session = stack.enter_context(self._lease(model_id))
            request = _prepared(session, prepare)
            lease = stack.pop_all()

        def generate(on_text: OnText, is_stopped: IsCancelled) -> Generation:
            with lease:
                return self._run(session, request, on_text, _either(is_stopped, cancelled))

        return TextStream(generate)

    def _run(
        self, session: Session, request: Request, on_text: OnText | None, cancelled: IsCancelled | None
    ) -> Generation:
        try:
            with session.turn(cancelled) as decoder:
                generation = request.run(decoder, on_text, cancelled)
        except GivenUp:
            return request.given_up()
        self._cache.profile.count(generation)
        return generation


def _completion(prompt: Prompt, config: GenerationConfig | None, choice: int) -> Prepare:
    return lambda session: completion(session.tokenizer, prompt, _config(session, config), choice)


def _conversation(
    messages: Messages, config: GenerationConfig | None, choice: int, continue_final_message: bool
) -> Prepare:
    return lambda session: conversation(
        session.tokenizer,
        session.template,
        messages,
        _config(session, config),
        choice,
        continue_final_message=continue_final_message,
    )


def _config(session: Session, config: GenerationConfig | None) -> GenerationConfig:
    return session.manifest.default_config() if config is None else config


def _prepared(session: Session, prepare: Prepare) -> Request:
    request = prepare(session)
    request.check_fits(session.decoder.context_length)
    return request


def _either(first: IsCancelled, second: IsCancelled | None) -> IsCancelled:
    return first if second is None else lambda: first() or second()
