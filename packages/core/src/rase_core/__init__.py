"""What rase is made of apart from models: store, hub, sampler, generation loop and contracts.

Every name here is public; its module is imported when the name is first used, so that importing
`rase_core.errors` alone loads neither numpy nor anything else.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rase_core.decoder import Batch, BatchDecoder, Logits, ModelLimits, TokenDecoder
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
    from rase_core.registration import ModelFacts, Registration
    from rase_core.registry import ModelRegistry, default_store
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
    "ModelLimits",
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
    "Registration",
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

_MODULES = {
    "ArchitectureMismatch": "rase_core.errors",
    "BackendFailure": "rase_core.errors",
    "BackendUnavailable": "rase_core.errors",
    "Batch": "rase_core.decoder",
    "BatchDecoder": "rase_core.decoder",
    "Cancelled": "rase_core.errors",
    "ContextOverflow": "rase_core.errors",
    "Detokenizer": "rase_core.generation",
    "DevicePreference": "rase_core.device",
    "EngineError": "rase_core.errors",
    "Generation": "rase_core.generation",
    "GenerationConfig": "rase_core.sampling",
    "GenerationRequest": "rase_core.scheduler",
    "Hub": "rase_core.hub",
    "HubError": "rase_core.errors",
    "IntegrityMismatch": "rase_core.errors",
    "InvalidConversation": "rase_core.errors",
    "InvalidGenerationConfig": "rase_core.errors",
    "InvalidGguf": "rase_core.errors",
    "InvalidLogits": "rase_core.errors",
    "InvalidManifest": "rase_core.errors",
    "InvalidModelId": "rase_core.errors",
    "InvalidParameter": "rase_core.errors",
    "Logits": "rase_core.decoder",
    "ModelFacts": "rase_core.registration",
    "ModelFileError": "rase_core.errors",
    "ModelFileNotFound": "rase_core.errors",
    "ModelFormat": "rase_core.manifest",
    "ModelKind": "rase_core.manifest",
    "ModelLimits": "rase_core.decoder",
    "ModelManifest": "rase_core.manifest",
    "ModelNotFound": "rase_core.errors",
    "ModelRegistry": "rase_core.registry",
    "ModelSource": "rase_core.manifest",
    "ProbeAttempt": "rase_core.device",
    "ProbeReport": "rase_core.device",
    "Prober": "rase_core.device",
    "Progress": "rase_core.progress",
    "ProgressEvent": "rase_core.progress",
    "ProgressPhase": "rase_core.progress",
    "PulledModel": "rase_core.hub",
    "QueueFull": "rase_core.errors",
    "Registration": "rase_core.registration",
    "RequestError": "rase_core.errors",
    "RequestTimeout": "rase_core.errors",
    "Sampler": "rase_core.sampling",
    "Scheduler": "rase_core.scheduler",
    "SchedulerLimits": "rase_core.scheduler",
    "ShuttingDown": "rase_core.errors",
    "StopMatcher": "rase_core.stopping",
    "StopReason": "rase_core.generation",
    "StoreError": "rase_core.errors",
    "TemplateError": "rase_core.errors",
    "TokenDecoder": "rase_core.decoder",
    "TokenEvent": "rase_core.generation",
    "TokenizerError": "rase_core.errors",
    "UnencodableText": "rase_core.errors",
    "UnsupportedArchitecture": "rase_core.errors",
    "UnsupportedFormat": "rase_core.errors",
    "UnsupportedTensorType": "rase_core.errors",
    "Utf8Assembler": "rase_core.text",
    "WeightsFile": "rase_core.manifest",
    "default_store": "rase_core.registry",
    "generate": "rase_core.generation",
    "generate_with": "rase_core.generation",
    "probe": "rase_core.device",
    "pull": "rase_core.hub",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
