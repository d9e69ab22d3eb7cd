"""Every failure that rase reports by name.

    EngineError
    ├── StoreError                  the model store
    │   ├── InvalidModelId
    │   ├── InvalidAlias
    │   ├── ModelNotFound
    │   ├── ModelExists
    │   ├── InvalidManifest
    │   ├── IntegrityMismatch
    │   └── NeighbourError
    ├── ModelFileError              a file of a model
    │   ├── ModelFileNotFound
    │   ├── UnsupportedFormat
    │   ├── InvalidGguf
    │   ├── UnsupportedTensorType
    │   ├── UnsupportedArchitecture
    │   ├── ArchitectureMismatch
    │   ├── TokenizerError
    │   └── TemplateError
    ├── HubError                    Hugging Face
    ├── RequestError                what was asked for
    │   ├── InvalidParameter
    │   │   └── InvalidGenerationConfig
    │   ├── InvalidConversation
    │   ├── UnenforceableFormat
    │   ├── UnencodableText
    │   └── ContextOverflow
    ├── Cancelled                   a request under way
    ├── RequestTimeout
    ├── QueueFull                   the scheduler
    ├── ShuttingDown
    ├── BackendUnavailable          the machine
    ├── ModelTooLarge
    ├── MemoryTaken
    ├── TooManyOpenFiles
    ├── ConstraintFailure           an answer under way
    └── BackendFailure
        ├── DeviceOutOfMemory
        ├── DeviceLost
        └── InvalidLogits

The message says what happened and with which file, key or value; `advice` says what to do about it.
"""

from rase_core.errors.engine_error import EngineError, shown
from rase_core.errors.machine import (
    BackendFailure,
    BackendUnavailable,
    DeviceLost,
    DeviceOutOfMemory,
    InvalidLogits,
    MemoryTaken,
    ModelTooLarge,
    TooManyOpenFiles,
)
from rase_core.errors.model_file import (
    ArchitectureMismatch,
    HubError,
    InvalidGguf,
    ModelFileError,
    ModelFileNotFound,
    TemplateError,
    TokenizerError,
    UnsupportedArchitecture,
    UnsupportedFormat,
    UnsupportedTensorType,
)
from rase_core.errors.request import (
    Cancelled,
    ConstraintFailure,
    ContextOverflow,
    InvalidConversation,
    InvalidGenerationConfig,
    InvalidParameter,
    QueueFull,
    RequestError,
    RequestTimeout,
    ShuttingDown,
    UnencodableText,
    UnenforceableFormat,
)
from rase_core.errors.store import (
    IntegrityMismatch,
    InvalidAlias,
    InvalidManifest,
    InvalidModelId,
    ModelExists,
    ModelNotFound,
    NeighbourError,
    StoreError,
)

__all__ = [
    "ArchitectureMismatch",
    "BackendFailure",
    "BackendUnavailable",
    "Cancelled",
    "ConstraintFailure",
    "ContextOverflow",
    "DeviceLost",
    "DeviceOutOfMemory",
    "EngineError",
    "HubError",
    "IntegrityMismatch",
    "InvalidAlias",
    "InvalidConversation",
    "InvalidGenerationConfig",
    "InvalidGguf",
    "InvalidLogits",
    "InvalidManifest",
    "InvalidModelId",
    "InvalidParameter",
    "MemoryTaken",
    "ModelExists",
    "ModelFileError",
    "ModelFileNotFound",
    "ModelNotFound",
    "ModelTooLarge",
    "NeighbourError",
    "QueueFull",
    "RequestError",
    "RequestTimeout",
    "ShuttingDown",
    "StoreError",
    "TemplateError",
    "TokenizerError",
    "TooManyOpenFiles",
    "UnencodableText",
    "UnenforceableFormat",
    "UnsupportedArchitecture",
    "UnsupportedFormat",
    "UnsupportedTensorType",
    "shown",
]
