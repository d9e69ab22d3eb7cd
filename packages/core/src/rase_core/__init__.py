"""What rase is made of apart from models: store, hub, sampler, generation loop and contracts.

Every name here is public; its module is imported when the name is first used, so that importing
`rase_core.errors` alone loads neither numpy nor anything else.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rase_core.decoder import Batch, BatchDecoder, Logits, TokenDecoder
    from rase_core.device import DevicePreference, ProbeAttempt, Prober, ProbeReport, probe
    from rase_core.errors import (
        ArchitectureMismatch,
        BackendFailure,
        BackendUnavailable,
        Cancelled,
        ContextOverflow,
        EngineError,
        HubError,
        IntegrityMismatch,
        InvalidConversation,
        InvalidGenerationConfig,
        InvalidGguf,
        InvalidLogits,
        InvalidManifest,
        InvalidModelId,
        InvalidParameter,
        ModelFileError,
        ModelFileNotFound,
        ModelNotFound,
        QueueFull,
        RequestError,
        RequestTimeout,
        ShuttingDown,
        StoreError,
        TemplateError,
        TokenizerError,
        UnencodableText,
        UnsupportedArchitecture,
        UnsupportedFormat,
        UnsupportedTensorType,
    )
    from rase_core.generation import Detokenizer, Generation, StopReason, TokenEvent, generate, generate_with
    from rase_core.hub import Hub, PulledModel, pull
    from rase_core.manifest import ModelFormat, ModelKind, ModelManifest, ModelSource, WeightsFile
    from rase_core.progress import Progress, ProgressEvent, ProgressPhase
    from rase_core.registry import ModelFacts, ModelRegistry, default_store
    from rase_core.sampling import GenerationConfig, Sampler
    from rase_core.scheduler import GenerationRequest, Scheduler, SchedulerLimits
    from rase_core.stopping import StopMatcher
    from rase_core.text import Utf8Assembler

__all__ = [
    "ArchitectureMismatch",
    "BackendFailure",
    "BackendUnavailable",
    "Batch",
    "BatchDecoder",
    "Cancelled",
    "ContextOverflow",
    "Detokenizer",
    "DevicePreference",
    "EngineError",
    "Generation",
    "GenerationConfig",
    "GenerationRequest",
    "Hub",
    "HubError",
    "IntegrityMismatch",
    "InvalidConversation",
    "InvalidGenerationConfig",
    "InvalidGguf",
    "InvalidLogits",
    "InvalidManifest",
    "InvalidModelId",
    "InvalidParameter",
    "Logits",
    "ModelFacts",
    "ModelFileError",
    "ModelFileNotFound",
    "ModelFormat",
    "ModelKind",
    "ModelManifest",
    "ModelNotFound",
    "ModelRegistry",
    "ModelSource",
    "ProbeAttempt",
    "ProbeReport",
    "Prober",
    "Progress",
    "ProgressEvent",
    "ProgressPhase",
    "PulledModel",
    "QueueFull",
    "RequestError",
    "RequestTimeout",
    "Sampler",
    "Scheduler",
    "SchedulerLimits",
    "ShuttingDown",
    "StopMatcher",
    "StopReason",
    "StoreError",
    "TemplateError",
    "TokenDecoder",
    "TokenEvent",
    "TokenizerError",
    "UnencodableText",
    "UnsupportedArchitecture",
    "UnsupportedFormat",
    "UnsupportedTensorType",
    "Utf8Assembler",
    "WeightsFile",
    "default_store",
    "generate",
    "generate_with",
    "probe",
    "pull",
]

_HOMES = {
    "decoder": (
        "Batch",
        "BatchDecoder",
        "Logits",
        "TokenDecoder",
    ),
    "device": (
        "DevicePreference",
        "ProbeAttempt",
        "Prober",
        "ProbeReport",
        "probe",
    ),
    "errors": (
        "ArchitectureMismatch",
        "BackendFailure",
        "BackendUnavailable",
        "Cancelled",
        "ContextOverflow",
        "EngineError",
        "HubError",
        "IntegrityMismatch",
        "InvalidConversation",
        "InvalidGenerationConfig",
        "InvalidGguf",
        "InvalidLogits",
        "InvalidManifest",
        "InvalidModelId",
        "InvalidParameter",
        "ModelFileError",
        "ModelFileNotFound",
        "ModelNotFound",
        "QueueFull",
        "RequestError",
        "RequestTimeout",
        "ShuttingDown",
        "StoreError",
        "TemplateError",
        "TokenizerError",
        "UnencodableText",
        "UnsupportedArchitecture",
        "UnsupportedFormat",
        "UnsupportedTensorType",
    ),
    "generation": (
        "Detokenizer",
        "Generation",
        "StopReason",
        "TokenEvent",
        "generate",
        "generate_with",
    ),
    "hub": (
        "Hub",
        "PulledModel",
        "pull",
    ),
    "manifest": (
        "ModelFormat",
        "ModelKind",
        "ModelManifest",
        "ModelSource",
        "WeightsFile",
    ),
    "progress": (
        "Progress",
        "ProgressEvent",
        "ProgressPhase",
    ),
    "registry": (
        "ModelFacts",
        "ModelRegistry",
        "default_store",
    ),
    "sampling": (
        "GenerationConfig",
        "Sampler",
    ),
    "scheduler": (
        "GenerationRequest",
        "Scheduler",
        "SchedulerLimits",
    ),
    "stopping": ("StopMatcher",),
    "text": ("Utf8Assembler",),
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
