"""The engine: registered models that answer. The door of rase for programs."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, closing
from functools import cached_property
from pathlib import Path
from typing import Self, overload

from rase_core.device import ProbeReport
from rase_core.errors import InvalidGenerationConfig, InvalidManifest
from rase_core.generation import Generation
from rase_core.manifest import ModelKind, ModelManifest
from rase_core.progress import Progress
from rase_core.registry import ModelFacts, ModelRegistry, default_store
from rase_core.sampling import GenerationConfig

from rase_models.device_check import choose_device, probe_devices
from rase_models.gguf import open_gguf
from rase_models.registration import describe_gguf
from rase_models.request import Messages, OnText, Prompt, Request, completion, conversation
from rase_models.session import GivenUp, IsCancelled, Session
from rase_models.session_cache import SessionCache
from rase_models.session_loader import SessionLoader
from rase_models.text_stream import TextStream
from rase_models.tokenizers import load_tokenizer, tokenizer_from_gguf

Prepare = Callable[[Session], Request]


class Engine:
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
        self._registry = ModelRegistry(default_store() if store is None else Path(store))
        self._preference = device
        self._progress = progress
        self._loader = SessionLoader(threads, context_length, progress)
        self._cache = cache if cache is not None else SessionCache(self._loader)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def store(self) -> Path:
        """The folder of the registered models."""
        return self._registry.store

    @cached_property
    def device(self) -> str:
        """The backend that computes. Raises BackendUnavailable."""
        return choose_device(self._preference)

    def pull(
        self,
        repo: str,
        file: str | None,
        model_id: str,
        *,
        kind: ModelKind = ModelKind.GENERATOR,
        architecture: str | None = None,
        context_length: int | None = None,
        chat_template: str | None = None,
        tokenizer_repo: str | None = None,
        tokenizer_file: str | None = None,
        revision: str | None = None,
    ) -> ModelManifest:
        """Download a model from Hugging Face, with a tokenizer.json when one is named, and register it.

        Raises HubError, and what `import_model` raises.
        """
        from rase_core import hub

        pulled = hub.pull(repo, file, revision=revision, progress=self._progress)
        sha256, tokenizer = dict(pulled.sha256), None
        if tokenizer_repo is not None or tokenizer_file is not None:
            source, revision = (tokenizer_repo, None) if tokenizer_repo else (pulled.source.repo, revision)
            name = tokenizer_file or "tokenizer.json"
            found = hub.pull(source, name, revision=revision, progress=self._progress)
            tokenizer = found.paths[0]
            sha256 |= found.sha256
        _check_tokenizer(tokenizer)
        return self._registry.import_local(
            pulled.paths[0],
            model_id,
            kind=kind,
            architecture=architecture,
            context_length=context_length,
            chat_template=chat_template,
            tokenizer=tokenizer,
            source=pulled.source,
            known_sha256=sha256,
            describe=_describer(context_length),
            progress=self._progress,
        )

    def import_model(
        self,
        path: Path | str,
        model_id: str,
        *,
        kind: ModelKind = ModelKind.GENERATOR,
        architecture: str | None = None,
        context_length: int | None = None,
        chat_template: str | None = None,
        template_file: Path | str | None = None,
        tokenizer: Path | str | None = None,
        defaults: Mapping[str, object] | None = None,
    ) -> ModelManifest:
        """Register a GGUF file in place, with all parts when it is split; see ModelRegistry.import_local.

        Raises, besides what that raises, UnsupportedArchitecture, InvalidGguf and UnsupportedTensorType for a
        file that could not be run, InvalidGenerationConfig for a context longer than the model's, and
        TokenizerError.
        """
        _check_tokenizer(tokenizer)
        return self._registry.import_local(
            Path(path),
            model_id,
            kind=kind,
            architecture=architecture,
            context_length=context_length,
            chat_template=chat_template,
            template_file=None if template_file is None else Path(template_file),
            tokenizer=None if tokenizer is None else Path(tokenizer),
            defaults=defaults,
            describe=_describer(context_length),
            progress=self._progress,
        )

    def attach_tokenizer(self, model_id: str, path: Path | str) -> ModelManifest:
        """Let a model use a tokenizer.json. Raises ModelNotFound, ModelFileNotFound, TokenizerError."""
        self._registry.get(model_id)
        _check_tokenizer(path)
        return self._registry.attach_tokenizer(model_id, Path(path))

    def list_models(self) -> list[ModelManifest]:
        """Return the manifests that can be read, by id."""
        return list(self._registry.list())

    def broken_manifests(self) -> list[InvalidManifest]:
        """Return what is wrong with the manifests that cannot be read."""
        return list(self._registry.broken())

    def inspect(self, model_id: str) -> ModelManifest:
        """Return a model's manifest. Raises ModelNotFound, InvalidManifest."""
        return self._registry.get(model_id)

    def verify(self, model_id: str) -> ModelManifest:
        """Hash a model's files. Raises ModelNotFound, ModelFileNotFound, IntegrityMismatch."""
        return self._registry.verify(model_id, self._progress)

    def remove(self, model_id: str) -> None:
        """Forget a model and let go of its memory; its files stay. Raises ModelNotFound."""
        self._registry.remove(model_id)
        self.unload(model_id)

    def default_config(self, model_id: str) -> GenerationConfig:
        """Return a model's sampling settings: the `[defaults]` of its manifest over the general ones."""
        return self._registry.get(model_id).default_config()

    def load(self, model_id: str) -> Session:
        """Bring a model into memory; see SessionCache.get_or_load for what it raises."""
        return self._cache.get_or_load(self._registry, model_id, self.device)

    def unload(self, model_id: str | None = None) -> None:
        """Let go of a model's memory, or all models'; one that is in use goes when its last user is done."""
        self._cache.clear(self.store, model_id)

    def close(self) -> None:
        """Let go of all memory; the engine can be used again."""
        self.unload()

    def count_tokens(self, model_id: str, text: str) -> int:
        """Return the number of tokens of a text as a prompt of `generate`."""
        return len(self.load(model_id).tokenizer.encode(text))

    def render(self, model_id: str, messages: Messages) -> str:
        """Return the prompt that a conversation becomes. Raises TemplateError, InvalidConversation."""
        return self.load(model_id).template.render(messages)

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

    def _lease(self, model_id: str) -> AbstractContextManager[Session]:
        return self._cache.lease(self._registry, model_id, self.device)

    def _answer(
        self, model_id: str, prepare: Prepare, on_text: OnText | None, cancelled: IsCancelled | None
    ) -> Generation:
        with self._lease(model_id) as session:
            return _run(session, _prepared(session, prepare), on_text, cancelled)

    def _stream(self, model_id: str, prepare: Prepare, cancelled: IsCancelled | None) -> TextStream:
        """Prepare here, so that a faulty request is refused at once, and generate in a thread."""
        with ExitStack() as stack:
            session = stack.enter_context(self._lease(model_id))
            request = _prepared(session, prepare)
            lease = stack.pop_all()

        def generate(on_text: OnText, is_stopped: IsCancelled) -> Generation:
            with lease:
                return _run(session, request, on_text, _either(is_stopped, cancelled))

        return TextStream(generate)


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


def _run(
    session: Session, request: Request, on_text: OnText | None, cancelled: IsCancelled | None
) -> Generation:
    try:
        with session.turn(cancelled) as decoder:
            return request.run(decoder, on_text, cancelled)
    except GivenUp:
        return request.given_up()


def _either(first: IsCancelled, second: IsCancelled | None) -> IsCancelled:
    return first if second is None else lambda: first() or second()


def _check_tokenizer(path: Path | str | None) -> None:
    if path is not None:
        load_tokenizer(path)


def _describer(context_length: int | None) -> Callable[[Path], ModelFacts]:
    """Return what reads a file's facts and checks that its context is as long as asked for."""

    def describe(path: Path) -> ModelFacts:
        facts = describe_gguf(path)
        own = facts.context_length
        if context_length is not None and own is not None and context_length > own:
            raise InvalidGenerationConfig("context_length", context_length, f"1 to {own}, the model's own")
        return facts

    return describe
