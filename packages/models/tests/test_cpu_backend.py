"""The door of the CPU backend."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rase_core.errors import BackendUnavailable
from rase_models.architectures import build_program
from rase_models.backends import load_backend
from rase_models.backends.cpu.instruction_set import Architecture, target_architecture
from rase_models.backends.cpu.memory_needs import memory_needs
from rase_models.backends.cpu.run_memory import GROWTH
from rase_models.backends.cpu.shapes import SPAN, partials_nbytes
from rase_models.gguf import open_gguf
from rase_models.program import Attention, Rotate

MODEL = Path(__file__).parent / "data" / "llama-Q2_K.gguf"


@pytest.mark.parametrize("module", ["numba", "llvmlite"])
def test_without_a_compiler_it_says_what_to_install(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(BackendUnavailable, match=module) as caught:
        load_backend("cpu")
    assert caught.value.advice == "pip install 'rase-models[cpu]'"


def test_finding_the_backend_imports_no_compiler() -> None:
    code = """
import sys
from rase_models.backends import load_backend
load_backend("cpu")
print(*{"numba", "llvmlite"} & set(sys.modules))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == ""


def digest(**environment: str) -> str:
    """Return hashes of a model's logits for each type of keys and values, computed by another process."""
    code = """
import hashlib, sys
from rase_models.loading import load_decoder
for kv_type in ("f16", "f32", "q8_0"):
    decoder = load_decoder(sys.argv[1], threads=2, kv_type=kv_type)
    logits = decoder.logits(list(range(100)))
    print(hashlib.sha256(logits.tobytes() + decoder.decode(7).tobytes()).hexdigest())
    decoder.close()
"""
    command = [sys.executable, "-c", code, str(MODEL)]
    environment = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


@pytest.mark.skipif(target_architecture() is not Architecture.X86, reason="names x86 processors")
def test_a_processor_with_narrower_vectors_computes_the_same_bits() -> None:
    narrow = digest(NUMBA_CPU_NAME="haswell", NUMBA_CPU_FEATURES="+avx2,+fma,+f16c")
    assert len(narrow.split()) == 3
    assert narrow == digest()


@pytest.mark.slow
@pytest.mark.skipif(target_architecture() is not Architecture.X86, reason="names an x86 processor")
def test_a_processor_without_any_of_it_computes_the_same_bits() -> None:
    assert digest(NUMBA_CPU_NAME="x86-64", NUMBA_CPU_FEATURES="") == digest()


@pytest.mark.parametrize(("threads", "more"), [(1, 0), (3, 1), (6, 2)])
def test_what_threads_leave_each_other_of_a_long_context_is_planned(threads: int, more: int) -> None:
    file = open_gguf(MODEL)
    program, context = build_program(file), 64 * SPAN

    def needs(positions: int) -> int:
        flat = replace(program, ops=tuple(op for op in program.ops if not isinstance(op, Rotate)))
        return memory_needs(flat, file.tensors, threads, positions).workspace

    lengths = [op.value_length for op in program.ops if isinstance(op, Attention)]
    assert needs(context) - needs(1) == more * GROWTH * partials_nbytes(3, context, max(lengths))
