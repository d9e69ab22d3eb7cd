"""What the routes share: the engine, the threads that wait for it, and the limits."""

import asyncio
import hashlib
from concurrent.futures import Executor
from dataclasses import dataclass
from importlib.metadata import version

from rase_core.errors import InvalidModelId, ModelNotFound
from rase_core.manifest import ModelManifest
from rase_core.sampling import GenerationConfig

from rase_api.serving import ServingEngine

MAX_BODY_BYTES = 8 * 1024 * 1024
WORKERS = 64


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What an answer needs to know of its model before it is loaded."""

    id: str
    defaults: GenerationConfig
    fingerprint: str


@dataclass(frozen=True, slots=True)
class ServerState:
    """The engine, the pool in which its calls wait and run, and how long a body may be."""

    engine: ServingEngine
    pool: Executor
    max_body_bytes: int = MAX_BODY_BYTES

    async def served(self, model_id: str) -> ServedModel:
        """Look a model up; raises ModelNotFound, naming those that are there, or InvalidManifest."""
        return await asyncio.to_thread(self._served, model_id)

    def find(self, model_id: str) -> ModelManifest:
        """Return a model's manifest; an impossible id is only one more that is not registered."""
        try:
            return self.engine.inspect(model_id)
        except InvalidModelId:
            known = (manifest.id for manifest in self.engine.list_models())
            raise ModelNotFound(model_id, known) from None

    def _served(self, model_id: str) -> ServedModel:
        manifest = self.find(model_id)
        return ServedModel(manifest.id, self.engine.default_config(manifest.id), self._fingerprint(manifest))

    def _fingerprint(self, manifest: ModelManifest) -> str:
        """Name everything that decides a seeded answer: the code, the model's files, the backend."""
        parts = (
            version("rase-api"),
            version("rase-models"),
            *(weights.sha256 for weights in manifest.weights),
            manifest.tokenizer_sha256,
            manifest.chat_template,
            self.engine.device,
        )
        return f"fp_{hashlib.sha256(repr(parts).encode()).hexdigest()[:12]}"
