"""What the routes share: the engine, the threads that wait for it, the settings, and who watches."""

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar
from weakref import WeakSet

from rase_core.errors import InvalidManifest, InvalidModelId, ModelFileNotFound, ModelNotFound, ShuttingDown
from rase_core.hashing import hash_file
from rase_core.manifest import ModelManifest
from rase_core.sampling import GenerationConfig
from rase_models.tokenizers.tokenizer import LONG

from rase_api.dialects import Json
from rase_api.errors import MissingParameter, NotReady
from rase_api.hosts import AllowedHosts
from rase_api.keys import ApiKeys
from rase_api.observer import Observer
from rase_api.pools import BoundedPool
from rase_api.preloading import Preloading
from rase_api.serving import ServingEngine
from rase_api.settings import Settings

if TYPE_CHECKING:
    from rase_api.work import Work

logger = logging.getLogger(__name__)

MOST_ANSWERS = 256  # more than a model runs and lets wait, so that it is the model that refuses the rest
MOST_QUESTIONS = 256
MOST_LOOKUPS = 4096
MOST_LONG_TEXTS = 64
LATEST = ":latest"  # what Ollama's clients add to a name that has no tag

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What an answer needs to know of its model before it is loaded."""

    id: str
    defaults: GenerationConfig
    fingerprint: str


class ServerState:
    """One server. Answers are asked for in `pool`; other questions, which may load a model, and what is only
    looked up have threads of their own, so that none of these keeps another waiting. Long texts that are only
    to be counted wait for each other, and an answer to a long prompt for one of them at most.
    """

    def __init__(
        self, engine: ServingEngine, settings: Settings, preloading: Preloading | None = None
    ) -> None:
        self.engine = engine
        self._preloading = preloading
        self.settings = settings
        self.keys = ApiKeys(settings.api_keys)
        self.hosts = AllowedHosts(settings.allowed_hosts, has_keys=bool(settings.api_keys))
        self.observer = Observer(engine, json_log=settings.json_log)
        self.pool = BoundedPool("answers", MOST_ANSWERS, MOST_ANSWERS)
        self._works: WeakSet[Work] = WeakSet()
        self._handled: set[asyncio.Timeout] = set()
        self._is_ending = False
        self._questions = BoundedPool("questions", 32, MOST_QUESTIONS)
        self._lookups = BoundedPool("lookups", 4, MOST_LOOKUPS)
        self._long_texts = BoundedPool("long-texts", 1, MOST_LONG_TEXTS)

    def ready_models(self) -> list[str]:
        """Return the models in memory. Raises NotReady when none has ever been, or some are still to come."""
        if self._preloading is not None and not self._preloading.is_done:
            raise NotReady("models are being loaded")
        models = [model.manifest.id for model in self.engine.loaded_models()]
        if not models and not any(self.engine.load_counts().values()):
            raise NotReady
        return models

    def add_work(self, work: "Work") -> None:
        """Let `end_answers` know of an answer."""
        self._works.add(work)
        if self._is_ending:
            work.end(ShuttingDown())

    @asynccontextmanager
    async def handling(self) -> AsyncIterator[None]:
        """Let what is awaited meanwhile fail with ShuttingDown when `end_answers` is called."""
        now = asyncio.get_running_loop().time()
        limit = asyncio.timeout_at(now if self._is_ending else None)
        try:
            async with limit:
                if not self._is_ending:
                    self._handled.add(limit)
                yield
        except TimeoutError:
            if limit.expired():
                raise ShuttingDown from None
            raise
        finally:
            self._handled.discard(limit)

    def end_answers(self) -> None:
        """Let what is asked, now and from now on, fail with ShuttingDown; in the loop's thread."""
        works = [work for work in self._works if not work.is_over]
        if works and not self._is_ending:
            logger.warning("the server ends, and cuts answers short: %d", len(works))
        self._is_ending = True
        for work in works:
            work.end(ShuttingDown())
        handled, self._handled = self._handled, set()  # one that is over cannot be ended again
        for limit in handled:
            limit.reschedule(asyncio.get_running_loop().time())

    def close(self) -> None:
        """Let go of the threads; what waits for one is dropped."""
        for pool in (self.pool, self._questions, self._lookups, self._long_texts):
            pool.shutdown(wait=False, cancel_futures=True)

    async def served(self, model_id: str | None) -> ServedModel:
        """Look a model up; raises ModelNotFound, naming those that are there, or InvalidManifest."""
        return await self.looked_up(self._served, model_id)

    async def looked_up(self, question: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Ask what neither loads nor computes, in a thread. Raises QueueFull."""
        return await asyncio.wrap_future(self._lookups.submit(question, *args, **kwargs))

    async def asked(self, question: Callable[[ServingEngine, str], T], model_id: str | None) -> T:
        """Ask what may load a model, in a thread; raises what `find` and the question do, and QueueFull."""
        manifest = await self.looked_up(self.find, model_id)
        return await asyncio.wrap_future(self._questions.submit(question, self.engine, manifest.id))

    async def unload(self, model_id: str | None) -> None:
        """Let go of a model's memory, in a thread. Raises as `find` for one that is not there."""
        known = await self.looked_up(self._known, model_id)
        await asyncio.wrap_future(self._questions.submit(self.engine.unload, known))

    async def tokenising(self, text: str, question: Callable[[], T]) -> T:
        """Ask what tokenises a text, in a thread. Raises QueueFull."""
        pool = self._questions if len(text) <= LONG else self._long_texts
        return await asyncio.wrap_future(pool.submit(question))

    async def with_model(self, body: Json) -> Json:
        """Put the only model there is into a body that names none; raises MissingParameter."""
        if body.get("model") is not None:
            return body
        return body | {"model": (await self.looked_up(self._only)).id}

    def find(self, model_id: str | None) -> ModelManifest:
        """Return a model's manifest; None means the only one there is.

        An impossible id is only one more that is not registered.
        """
        if model_id is None:
            return self._only()
        try:
            return self._inspect(model_id)
        except InvalidModelId:
            known = (manifest.id for manifest in self.engine.list_models())
            raise ModelNotFound(model_id, known) from None

    def _known(self, model_id: str | None) -> str:
        """Return the id of a model that is registered, or that was when it was loaded."""
        try:
            return self.find(model_id).id
        except (ModelNotFound, InvalidManifest):
            name = (model_id or "").removesuffix(LATEST)
            if name not in [model.manifest.id for model in self.engine.loaded_models()]:
                raise
            return name

    def _inspect(self, model_id: str) -> ModelManifest:
        try:
            return self.engine.inspect(model_id)
        except InvalidModelId:  # no id has a colon
            if not model_id.endswith(LATEST):
                raise
            return self.engine.inspect(model_id.removesuffix(LATEST))

    def _only(self) -> ModelManifest:
        models = self.engine.list_models()
        if len(models) != 1:
            names = ", ".join(manifest.id for manifest in models) or "none"
            raise MissingParameter(f"Missing required parameter: 'model' (registered: {names}).", "model")
        return models[0]

    def _served(self, model_id: str | None) -> ServedModel:
        manifest = self.find(model_id)
        return ServedModel(manifest.id, self.engine.default_config(manifest.id), self._fingerprint(manifest))

    def _fingerprint(self, manifest: ModelManifest) -> str:
        """Name all that decides a seeded answer: the code, the model's files and defaults, the backend."""
        parts = (
            version("rase-api"),
            version("rase-models"),
            *(weights.sha256 for weights in manifest.weights),
            manifest.tokenizer_sha256,
            manifest.chat_template,
            _content_hash(manifest.template_file),
            sorted(manifest.defaults.items(), key=str),
            self._device_of(manifest.id),
            self.engine.kv_type,
        )
        return f"fp_{hashlib.sha256(repr(parts).encode()).hexdigest()[:12]}"

    def _device_of(self, model_id: str) -> str:
        """Return where a model is computed, or will be."""
        loaded = (model.device for model in self.engine.loaded_models() if model.manifest.id == model_id)
        return next(loaded, self.engine.device)


def _content_hash(path: Path | None) -> str | None:
    """Return the sha256 of a file; None for none, and for one that cannot be read, which the load tells."""
    if path is None:
        return None
    try:
        return hash_file(path)[0]
    except ModelFileNotFound:
        return None
