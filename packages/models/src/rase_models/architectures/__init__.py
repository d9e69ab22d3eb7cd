"""The architectures that rase runs, by the name that a file gives in `general.architecture`."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from rase_core.errors import UnsupportedArchitecture

from rase_models.architectures import gemma3, llama, qwen2, qwen3
from rase_models.architectures.builder import ProgramBuilder
from rase_models.gguf import GgufFile
from rase_models.program import Program

ARCHITECTURES: Mapping[str, Callable[[ProgramBuilder], Program]] = MappingProxyType(
    {
        "gemma3": gemma3.build,
        "llama": llama.build,
        "qwen2": qwen2.build,
        "qwen3": qwen3.build,
    }
)


def supported_architectures() -> tuple[str, ...]:
    """Return the names, sorted."""
    return tuple(sorted(ARCHITECTURES))


def build_program(file: GgufFile) -> Program:
    """Build the Program of a model from its metadata and tensor table.

    Raises UnsupportedArchitecture; InvalidGguf and UnsupportedTensorType where the file is not what its
    architecture needs. Nothing is allocated from a size in the metadata that the tensors do not bear out.
    """
    name = file.architecture
    if name not in ARCHITECTURES:
        raise UnsupportedArchitecture(name, supported_architectures(), file.path)
    return ARCHITECTURES[name](ProgramBuilder(file))
