"""From a manifest to a session: one pass over the weights that loads and verifies them."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from rase_core.errors import (
    ArchitectureMismatch,
    BackendFailure,
    BackendUnavailable,
    DeviceLost,
    DeviceOutOfMemory,
    IntegrityMismatch,
    InvalidParameter,
    ModelFileError,
    ModelFileNotFound,
    StoreError,
    TemplateError,
    UnsupportedFormat,
)
from rase_core.hashing import hash_file
from rase_core.local_weights import check_size
from rase_core.manifest import ModelFormat, ModelKind, ModelManifest
from rase_core.progress import Progress, ProgressEvent
from rase_core.scheduler import SchedulerLimits

from rase_models.architectures import build_program
from rase_models.backends.base import Threads
from rase_models.byte_hashes import ByteHashes
from rase_models.chat import ChatTemplate, choose_template, given_template
from rase_models.closing import closed_on_error
from rase_models.decoder import ProgramDecoder
from rase_models.file_digests import FileDigests
from rase_models.gguf import GgufFile, OnBytes, open_gguf
from rase_models.gpu_layers import check_gpu_layers, layers_of
from rase_models.kv_type import KvType
from rase_models.loading import load_gguf
from rase_models.lost_devices import CPU, LOST_DEVICES
from rase_models.memory_plan import MemoryPlan, memory_plan
from rase_models.registration import ARCHITECTURE_ALIASES
from rase_models.room import Check, TakeRoom, nothing_against, unlimited
from rase_models.session import Session
from rase_models.standby import Spare
from rase_models.tokenizers import Tokenizer, fitted, load_tokenizer, tokenizer_from_gguf

_CONTEXTS_KEPT, _SHARE_KEPT = 4, 4
_LEAST_CONTEXT = 2048
"""Tokens that a device has room for, or the model is not for it."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SessionLoader:
    """How models are loaded and served.

    Attributes:
        context_length: the most tokens of a sequence, where the model's own limit is not lower.
        progress: hears of loading and compiling.
        kv_memory: the most bytes for a model's keys and values; see `memory_plan`.
        max_memory: the most bytes for all models together.
        kv_type: in which keys and values are kept, None for the backend's own choice.
        gpu_layers: how many layers are to be on a GPU; see `check_gpu_layers`.
        limits: how many requests a model takes on. Unless they or `kv_memory` say more of it, a quarter of
            the memory, and four contexts at most, may keep prefixes for later requests.
        digests: what is known of the hashes of files that could not be loaded.
        loads: how often each model was loaded, by id.
    """

    threads: Threads = None
    context_length: int | None = None
    progress: Progress | None = None
    kv_memory: int | None = None
    max_memory: int | None = None
    kv_type: KvType | str | None = None
    gpu_layers: int | None = None
    limits: SchedulerLimits = field(default_factory=SchedulerLimits)
    digests: FileDigests = field(default_factory=FileDigests)
    loads: Counter[str] = field(default_factory=Counter)

    def load(
        self,
        manifest: ModelManifest,
        device: str,
        *,
        may_fall_back: bool = False,
        room: TakeRoom = unlimited,
        check: Check = nothing_against,
    ) -> Session:
        """Load a model and hash its files in the same pass.

        Where the device fails and the model `may_fall_back`, and where it was lost in the midst of serving or
        of such a load, the CPU has it.
        `room` is asked for the memory of each device before that has the model, also when one is lost later.

        Raises IntegrityMismatch when a file is not the one that was registered, ArchitectureMismatch, and
        what `room`, `load_gguf`, `load_tokenizer`, `tokenizer_from_gguf` and `fitted` raise. Nothing stays
        in memory then.
        """
        reason = LOST_DEVICES.reason(device)
        try:
            if reason is None:
                return self._load(manifest, device, room, check)
        except (BackendUnavailable, BackendFailure) as error:
            if not may_fall_back or self.gpu_layers is not None:
                raise  # without a note of a loss: the next one to ask is to hear of it, too
            named = LOST_DEVICES.add(device, error) if isinstance(error, DeviceLost) else error
            reason = named.message
        logger.warning("the model %s is on the %s: %s", manifest.id, CPU, reason)
        return self._load(manifest, CPU, room, check, reason)

    def _load(
        self, manifest: ModelManifest, device: str, room: TakeRoom, check: Check, fallback: str | None = None
    ) -> Session:
        _check_kind(manifest)
        attached = _attached_tokenizer(manifest)
        with self._explaining(manifest):
            file = open_gguf(manifest.weights_path)
            plan = self._checked_plan(manifest, file, device, is_wanted=fallback is None)
            room(plan, check)
            tokenizer = tokenizer_from_gguf(file) if attached is None else attached
        tokenizer = fitted(tokenizer, file, build_program(file).vocab_size)
        template = _template(manifest, file, tokenizer)
        with self._explaining(manifest):
            decoder = _verified(manifest, file, partial(self._decoder, file, device, plan))
        self.loads[manifest.id] += 1
        with closed_on_error(decoder):
            self._check_room(manifest, plan, decoder, device)
            tokenizer.compile(self.progress)
            return Session(
                manifest,
                device,
                decoder,
                tokenizer,
                template,
                self._limits(decoder),
                plan,
                fallback,
                layers_of(file),
                partial(replace(self, progress=None)._spare, manifest, room),
            )

    def _checked_plan(
        self, manifest: ModelManifest, file: GgufFile, device: str, *, is_wanted: bool
    ) -> MemoryPlan:
        """Plan for a file once it is what was registered, and the device, if wanted, can have its layers."""
        _check_architecture(manifest, file)
        _check_parts(manifest, file)
        if is_wanted:
            check_gpu_layers(self.gpu_layers, layers_of(file), device)
        plan = self._plan(file, device, manifest.context_length)
        self._tell_of_context(manifest, plan)
        return plan

    def _tell_of_context(self, manifest: ModelManifest, plan: MemoryPlan) -> None:
        if self.context_length is not None and self.context_length > plan.context_length:
            logger.warning(
                "the model %s has a context of %d tokens, not the %d that were asked for",
                manifest.id,
                plan.context_length,
                self.context_length,
            )

    def _check_room(
        self, manifest: ModelManifest, plan: MemoryPlan, decoder: ProgramDecoder, device: str
    ) -> None:
        """Tell of a context that a device makes shorter; raises DeviceOutOfMemory for a useless one."""
        length, wanted = decoder.context_length, plan.context_length
        if self.kv_memory is not None or length == wanted:
            return
        if length < min(wanted, _LEAST_CONTEXT):
            detail = f"beside the model there is room for a context of {length} tokens, not {wanted}"
            raise DeviceOutOfMemory(device, detail)
        told = "the model %s has a context of %d tokens, not %d: the device has no more memory"
        logger.warning(told, manifest.id, length, wanted)

    def _spare(self, manifest: ModelManifest, room: TakeRoom, check: Check) -> Spare:
        """Load the weights again, on the CPU; raises what `load` raises for them."""
        loader = replace(self, progress=_hearing(check))
        check()
        with loader._explaining(manifest):
            file = open_gguf(manifest.weights_path)
            _check_parts(manifest, file)
            plan = loader._plan(file, CPU, manifest.context_length)
            room(plan, check)
            return Spare(_verified(manifest, file, partial(loader._decoder, file, CPU, plan)), plan)

    def plan(self, manifest: ModelManifest, device: str) -> MemoryPlan:
        """Return how much memory a model would take, reading no more than its header.

        Raises what `memory_plan` and `open_gguf` raise, UnsupportedFormat, and InvalidParameter for a model
        that generates nothing.
        """
        _check_kind(manifest)
        with self._explaining(manifest):
            file = open_gguf(manifest.weights_path)
            return self._plan(file, LOST_DEVICES.usable(device), manifest.context_length)

    def decoder(self, file: GgufFile, device: str) -> ProgramDecoder:
        """Load the weights of a file that is not registered."""
        check_gpu_layers(self.gpu_layers, layers_of(file), device)
        return self._decoder(file, device, self._plan(file, device))

    def _plan(self, file: GgufFile, device: str, registered: int | None = None) -> MemoryPlan:
        """Plan for the registered context length, else the model's own, or less if limited."""
        own = registered or build_program(file).context_length
        limit = own if self.context_length is None else min(own, self.context_length)
        return memory_plan(
            file,
            device,
            self.threads,
            limit,
            self.limits,
            kv_memory=self.kv_memory,
            max_memory=self.max_memory,
            kv_type=self.kv_type,
        )

    def _decoder(
        self, file: GgufFile, device: str, plan: MemoryPlan, on_bytes: OnBytes | None = None
    ) -> ProgramDecoder:
        return load_gguf(
            file,
            device,
            self.threads,
            context_length=plan.context_length,
            kv_budget=plan.kv_budget,
            kv_type=self.kv_type,
            on_bytes=on_bytes,
            progress=self.progress,
        )

    def bare_decoder(self, manifest: ModelManifest, device: str, context_length: int) -> ProgramDecoder:
        """Load the weights of a registered model alone, for so many tokens, and verify all its files.

        Raises as `load` does, and InvalidParameter for a context that is longer than the model's.
        """
        _check_tokenizer_file(manifest)
        with self._explaining(manifest):
            file = open_gguf(manifest.weights_path)
            _check_parts(manifest, file)
            check_gpu_layers(self.gpu_layers, layers_of(file), device)
            load = partial(
                load_gguf,
                file,
                device,
                self.threads,
                context_length=context_length,
                kv_type=self.kv_type,
                progress=self.progress,
            )
            return _verified(manifest, file, lambda see: load(on_bytes=see))

    @contextmanager
    def _explaining(self, manifest: ModelManifest) -> Iterator[None]:
        """Raise IntegrityMismatch in place of an error that changed weights explain."""
        try:
            yield
        except ModelFileNotFound:
            raise
        except (ModelFileError, InvalidParameter) as error:
            if isinstance(error, InvalidParameter) and error.value != manifest.context_length:
                raise
            digests = [self.digests.digest(file.path, self.progress) for file in manifest.weights]
            try:
                _check_digests(manifest, digests)
            except IntegrityMismatch as mismatch:
                raise mismatch from error
            raise

    def _limits(self, decoder: ProgramDecoder) -> SchedulerLimits:
        capacity = decoder.kv_capacity
        if self.limits.cached_tokens is not None or self.kv_memory is not None or capacity is None:
            return self.limits
        kept = min(_CONTEXTS_KEPT * decoder.context_length, capacity // _SHARE_KEPT)
        return replace(self.limits, cached_tokens=kept)


def _hearing(check: Check) -> Progress:
    def hear(event: ProgressEvent) -> None:
        check()

    return hear


def registered_tokenizer(manifest: ModelManifest) -> Tokenizer:
    """Return a registered model's tokenizer. Raises IntegrityMismatch, and what `load_tokenizer` raises."""
    attached = _attached_tokenizer(manifest)
    return load_tokenizer(manifest.weights_path) if attached is None else attached


def registered_template(manifest: ModelManifest, tokenizer: Tokenizer | None = None) -> ChatTemplate:
    """Return a registered model's template, which is not to be rendered without its tokenizer.

    Raises TemplateError, and what `open_gguf` raises.
    """
    template = _template(manifest, open_gguf(manifest.weights_path), tokenizer)
    if isinstance(template, TemplateError):
        raise template
    return template


def _verified(
    manifest: ModelManifest, file: GgufFile, load: Callable[[OnBytes], ProgramDecoder]
) -> ProgramDecoder:
    """Load the weights, which are shown to the hashes; raises IntegrityMismatch when they are other ones."""
    hashes = ByteHashes(len(file.parts))
    with hashes:
        decoder = load(hashes.see)
    with closed_on_error(decoder):
        _check_digests(manifest, hashes.digests())
        return decoder


def _check_kind(manifest: ModelManifest) -> None:
    if manifest.format is not ModelFormat.GGUF:
        raise UnsupportedFormat(manifest.weights_path, f"a {manifest.format} file")
    if manifest.kind is not ModelKind.GENERATOR:
        raise InvalidParameter("model", manifest.id, f"a generator, not an {manifest.kind} model")


def _check_architecture(manifest: ModelManifest, file: GgufFile) -> None:
    known = {None, file.architecture, *ARCHITECTURE_ALIASES.get(file.architecture, ())}
    if manifest.architecture not in known:
        raise ArchitectureMismatch(file.path, str(manifest.architecture), file.architecture)


def _check_parts(manifest: ModelManifest, file: GgufFile) -> None:
    registered = tuple(weights.path for weights in manifest.weights)
    if registered != file.parts:
        raise StoreError(
            f"model {manifest.id!r}: its manifest {_difference(registered, file.parts)}",
            "import the model again",
        )


def _difference(registered: Sequence[Path], parts: Sequence[Path]) -> str:
    if len(registered) != len(parts):
        return f"has {len(registered)} files, but {parts[0]} is one of {len(parts)}"
    named, found = next((a, b) for a, b in zip(registered, parts, strict=True) if a != b)
    return f"names {named} where the model has {found}"


def _check_digests(manifest: ModelManifest, digests: Sequence[str]) -> None:
    for weights, digest in zip(manifest.weights, digests, strict=True):
        if digest != weights.sha256:
            raise IntegrityMismatch(manifest.id, weights.path, weights.sha256, digest)
        check_size(manifest.id, weights, weights.path.stat().st_size)


def _attached_tokenizer(manifest: ModelManifest) -> Tokenizer | None:
    _check_tokenizer_file(manifest)
    return None if manifest.tokenizer is None else load_tokenizer(manifest.tokenizer)


def _check_tokenizer_file(manifest: ModelManifest) -> None:
    if manifest.tokenizer is None:
        return
    digest, _ = hash_file(manifest.tokenizer)
    if manifest.tokenizer_sha256 not in (None, digest):
        raise IntegrityMismatch(manifest.id, manifest.tokenizer, str(manifest.tokenizer_sha256), digest)


def _template(
    manifest: ModelManifest, file: GgufFile, tokenizer: Tokenizer | None
) -> ChatTemplate | TemplateError:
    """Choose the template; a model without a usable one still completes texts."""
    try:
        given = given_template(manifest.chat_template, manifest.template_file)
        return choose_template(given, file, manifest.architecture or file.architecture, tokenizer)
    except TemplateError as error:
        return error
