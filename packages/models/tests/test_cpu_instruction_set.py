"""The choice of vector instructions, and code for a machine that is not this one."""

import pytest
from llvmlite import binding, ir
from rase_models.backends.cpu import tiles
from rase_models.backends.cpu.compiler import target
from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.types import I64, VOID
from rase_models.backends.cpu.formats.iq4 import IQ4_NL
from rase_models.backends.cpu.formats.packed_format import PackedFormat
from rase_models.backends.cpu.formats.q4 import Q4_0
from rase_models.backends.cpu.instruction_set import (
    INSTRUCTION_SETS,
    Architecture,
    choose,
    instruction_set,
    target_features,
)
from rase_models.backends.cpu.packing import PACKED_FORMATS

AVX2 = frozenset({"avx2", "fma", "f16c"})
AVX512 = frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl"})


@pytest.mark.parametrize(
    ("features", "architecture", "name"),
    [
        (AVX2 | AVX512 | {"avx512vnni", "avxvnni"}, Architecture.X86, "avx512_vnni"),
        (AVX2 | AVX512, Architecture.X86, "avx2"),
        (AVX2 | {"avxvnni"}, Architecture.X86, "avx_vnni"),
        (AVX2, Architecture.X86, "avx2"),
        (AVX2 - {"fma"}, Architecture.X86, "portable"),
        (frozenset({"neon", "dotprod"}), Architecture.ARM, "neon_dotprod"),
        (frozenset({"neon"}), Architecture.ARM, "portable"),
        (frozenset(), Architecture.OTHER, "portable"),
    ],
)
def test_the_best_instruction_set_is_chosen(
    features: frozenset[str], architecture: Architecture, name: str
) -> None:
    assert choose(features, architecture).name == name


def test_portable_code_still_uses_what_there_is() -> None:
    assert choose(frozenset({"neon"}), Architecture.ARM).has_fma
    assert not choose(frozenset(), Architecture.X86).has_fma
    assert choose(frozenset({"f16c"}), Architecture.X86).has_half


def test_only_processors_of_amd_take_weights_past_the_second_level() -> None:
    assert choose(AVX2 | {"sse4a"}, Architecture.X86).weights_hint == 1
    assert choose(AVX2, Architecture.X86).weights_hint == 2


def test_the_environment_names_another_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CPU_NAME", "haswell")
    monkeypatch.setenv("NUMBA_CPU_FEATURES", "")
    assert target_features() == AVX2
    monkeypatch.setenv("NUMBA_CPU_FEATURES", "+avxvnni, -fma")
    assert target_features() == (AVX2 | {"avxvnni"}) - {"fma"}
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
    monkeypatch.delenv("NUMBA_CPU_FEATURES")
    assert target_features() == frozenset()


def test_empty_variables_name_no_other_target(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"):
        monkeypatch.delenv(name, raising=False)
    own = target(), target_features()
    for name in ("NUMBA_CPU_FEATURES", "NUMBA_CPU_NAME"):
        monkeypatch.setenv(name, "")
        assert (target(), target_features()) == own


def test_the_hosts_own_instruction_set_is_one_of_the_table() -> None:
    assert instruction_set().name in INSTRUCTION_SETS


def assembly_for_arm(form: PackedFormat, name: str) -> str:
    """Emit a tile of 4 rows and compile it for an ARM processor."""
    chosen = INSTRUCTION_SETS[name]
    module = ir.Module()
    module.triple = "aarch64-unknown-linux-gnu"
    function = ir.Function(module, ir.FunctionType(VOID, [I64] * 7), "tile")
    builder = ir.IRBuilder(function.append_basic_block())
    tiles.quantised_tile(form, 4, 8)(Code(builder, chosen), *function.args)
    builder.ret_void()
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    target = binding.Target.from_triple(module.triple)
    machine = target.create_target_machine(cpu="neoverse-n1", opt=2)
    parsed = binding.parse_assembly(str(module))
    parsed.verify()
    return str(machine.emit_assembly(parsed))


QUANTISED = [forms[0] for forms in PACKED_FORMATS.values() if isinstance(forms[0], PackedFormat)]


@pytest.mark.parametrize("form", QUANTISED, ids=lambda form: form.name)
def test_tiles_for_arm_hold_dot_products(form: PackedFormat) -> None:
    assert "sdot" in assembly_for_arm(form, "neon_dotprod")


def test_tiles_for_arm_look_tables_up_and_call_nothing() -> None:
    text = assembly_for_arm(IQ4_NL(2), "neon_dotprod")
    assert "tbl" in text
    calls = [line for line in text.splitlines() if line.split()[:1] == ["bl"]]
    assert not calls


def test_portable_tiles_compile_for_arm() -> None:
    assert "sdot" not in assembly_for_arm(Q4_0(2), "portable")
