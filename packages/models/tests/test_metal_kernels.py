"""The Metal backend's own kernels, compiled for the CPU by a C++ compiler, against the reading of files."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray
from rase_models.backends import load_backend
from rase_models.backends.base import Rows
from rase_models.gguf import TYPE_LAYOUTS, GgmlType, TensorInfo, Weight
from rase_models.gguf.quants import dequantize
from rase_models.program import Activation, Embed, Linear, MoeFfn, Op, Program, SelectOutputs
from rase_models.testing_blocks import random_blocks

mx = pytest.importorskip("mlx.core", reason="MLX is not installed: pip install 'rase-models[metal]'")

from rase_models.backends.metal import MetalBackend  # noqa: E402
from rase_models.backends.metal.block_formats import BLOCK_FORMATS  # noqa: E402
from rase_models.backends.metal.block_matrix import BlockMatrix  # noqa: E402
from rase_models.backends.metal.device import Device  # noqa: E402
from rase_models.backends.metal.kernel_maker import Kernel  # noqa: E402
from rase_models.backends.metal.matrices import AffineMatrix, matrix_nbytes, matrix_of  # noqa: E402
from rase_models.backends.metal.narrowing import Narrowing  # noqa: E402
from rase_models.testing_metal import EmulatedFault, Emulation, emulated, has_compiler  # noqa: E402

pytestmark = pytest.mark.skipif(not has_compiler(), reason="there is no g++ to compile Metal's kernels")

Floats = NDArray[np.float32]
DEVICE = Device(is_gpu=False, dtype=mx.float32, make_kernel=emulated)
K_TYPES = (GgmlType.Q2_K, GgmlType.Q3_K, GgmlType.Q6_K)


def weight(type_: GgmlType, *shape: int, seed: int = 1, name: str = "w") -> Weight:
    data = random_blocks(type_, shape, seed=seed, limit=0x2F).reshape(-1)
    return Weight(TensorInfo(name, type_, shape, 0, data.size), data)


def values_of(given: Weight) -> Floats:
    return dequantize(given.info.type, given.data, given.info.shape)


def in_blocks(given: Weight, device: Device = DEVICE) -> BlockMatrix:
    matrix = matrix_of(given, device)
    assert isinstance(matrix, BlockMatrix)
    assert matrix.blocks.nbytes == matrix_nbytes(given.info, device) == given.data.nbytes
    return matrix


def normal(*shape: int) -> Floats:
    return np.random.default_rng(7).normal(size=shape).astype(np.float32)


SLOW = {GgmlType.IQ1_S, GgmlType.IQ2_XS, GgmlType.IQ2_S, GgmlType.IQ3_XXS}
"""What takes a while to compile, and differs little from others."""


@pytest.mark.parametrize(
    "type_",
    [pytest.param(type_, marks=pytest.mark.slow) if type_ in SLOW else type_ for type_ in BLOCK_FORMATS],
    ids=lambda type_: type_.name,
)
def test_every_type_is_decoded_exactly_and_multiplied_in_float32(type_: GgmlType) -> None:
    columns = 3 * TYPE_LAYOUTS[type_][0]
    given = weight(type_, 37, columns, seed=int(type_))
    matrix, wanted, x = in_blocks(given), values_of(given), normal(1, columns)
    np.testing.assert_array_equal(np.array(matrix.floats()), wanted)
    np.testing.assert_array_equal(np.array(matrix.rows(mx.array([36, 0, 36]))), wanted[[36, 0, 36]])
    near(matrix.times(mx.array(x)), x @ wanted.T.astype(np.float64))


def near(found: object, wanted: NDArray[np.floating]) -> None:
    np.testing.assert_allclose(np.array(found), wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("type_", [*K_TYPES, GgmlType.IQ3_S, GgmlType.IQ4_NL], ids=lambda type_: type_.name)
def test_types_are_decoded_as_by_another_reader(type_: GgmlType) -> None:
    quants = pytest.importorskip("gguf.quants")
    given = weight(type_, 5, 512, seed=9)
    wanted = quants.dequantize(given.data.reshape(5, -1), type_)
    np.testing.assert_allclose(np.array(in_blocks(given).floats()), wanted, rtol=1e-6, atol=1e-30)


@pytest.mark.parametrize("outs", [1, 2, 5, 16, 19])
@pytest.mark.parametrize("rows", [1, 3, 4, 5, 8, 9])
def test_products_of_any_size_are_whole(rows: int, outs: int) -> None:
    given, x = weight(GgmlType.Q6_K, outs, 768), normal(rows, 768)
    near(in_blocks(given).times(mx.array(x)), x @ values_of(given).T.astype(np.float64))


def test_rows_of_few_blocks_and_of_many_are_multiplied() -> None:
    for columns in (32, 96, 1056):
        given, x = weight(GgmlType.IQ4_NL, 6, columns), normal(2, columns)
        np.testing.assert_array_equal(np.array(in_blocks(given).floats()), values_of(given))
        near(in_blocks(given).times(mx.array(x)), x @ values_of(given).T.astype(np.float64))


@pytest.mark.parametrize("is_shared", [True, False])
def test_every_row_is_multiplied_with_its_own_experts(is_shared: bool) -> None:
    given, x = weight(GgmlType.Q3_K, 4, 7, 256), normal(5, 1 if is_shared else 2, 1, 256)
    experts = np.array([[0, 3], [1, 2], [3, 3], [2, 0], [1, 3]])
    found = in_blocks(given).gathered(mx.array(x), mx.array(experts))
    each = np.broadcast_to(x, (5, 2, 1, 256)).astype(np.float64)
    near(found, each @ values_of(given)[experts].swapaxes(-1, -2))


def test_parts_of_matrices_and_of_stacks_are_as_the_whole() -> None:
    for shape in ((9, 256), (3, 9, 256)):
        given = weight(GgmlType.Q2_K, *shape)
        part = in_blocks(given).part(2, 7)
        np.testing.assert_array_equal(np.array(part.floats()), values_of(given)[..., 2:7, :])


@pytest.mark.parametrize("seed", [1, 5])
def test_no_kernel_depends_on_the_order_of_threads(seed: int) -> None:
    given, x = weight(GgmlType.Q6_K, 21, 512), mx.array(normal(3, 512))
    devices = (DEVICE, Device(is_gpu=False, dtype=mx.float32, make_kernel=Emulation(seed)))
    first, other = (np.array(in_blocks(given, device).times(x)) for device in devices)
    np.testing.assert_array_equal(first, other)


def program_of(type_: GgmlType) -> tuple[Program, list[Weight]]:
    """Return a program that looks rows up, mixes experts and multiplies, and its weights."""
    ops: tuple[Op, ...] = (
        Embed("x", "rows"),
        MoeFfn("y", "x", "router", "gate", "up", "down", 4, 2, Activation.SILU),
        SelectOutputs("s", "y"),
        Linear("logits", "s", "out"),
    )
    program = Program("mixture", 11, 64, ops, {"x": 256, "y": 256, "s": 256, "logits": 11}, ())
    shapes = {"rows": (16, 256), "gate": (4, 256, 256), "up": (4, 256, 256), "down": (4, 256, 256)}
    shapes["out"] = (11, 256)
    weights = [weight(type_, *shapes[name], seed=seed, name=name) for seed, name in enumerate(shapes)]
    return program, [*weights, weight(GgmlType.F32, 4, 256, name="router")]


@pytest.mark.parametrize("type_", K_TYPES, ids=lambda type_: type_.name)
@pytest.mark.parametrize("count", [1, 11])
def test_a_program_in_blocks_has_the_logits_of_the_reference(type_: GgmlType, count: int) -> None:
    program, weights = program_of(type_)
    numbers = np.arange(count, dtype=np.int32)
    rows = Rows(np.zeros(count, np.int32), numbers, numbers, numbers, np.zeros((0, 1, 0), np.int32))
    backends = (MetalBackend(DEVICE), load_backend("reference"))
    found, wanted = (backend.load(program, iter(weights)).run(rows) for backend in backends)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
    needs = backends[0].memory_needs(program, {each.info.name: each.info for each in weights})
    assert needs.weights == sum(each.data.nbytes for each in weights)


RACE = """
    threadgroup float values[64];
    values[thread_position_in_threadgroup.x] = thread_position_in_threadgroup.x;
    BARRIER
    out[thread_position_in_threadgroup.x] = values[63 - thread_position_in_threadgroup.x];
"""


def planted(body: str, seed: int = 0) -> Floats:
    """Run a body with 64 threads, two SIMD groups, on 64 floats."""
    kernel = Emulation(seed)("planted", [], ["out"], body)
    made = kernel(
        inputs=[],
        grid=(64, 1, 1),
        threadgroup=(64, 1, 1),
        output_shapes=[(64,)],
        output_dtypes=[mx.float32],
    )
    return np.array(made[0])


def test_a_planted_race_is_found_by_the_order_of_threads() -> None:
    barrier = "threadgroup_barrier(mem_flags::mem_threadgroup);"
    right, wrong = RACE.replace("BARRIER", barrier), RACE.replace("BARRIER", "")
    assert all(np.array_equal(planted(right, seed), np.arange(64)[::-1]) for seed in range(3))
    assert not np.array_equal(planted(wrong, 0), planted(wrong, 1))


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("out[thread_position_in_grid.x + 1] = 1.0f;", "outside of an allocation"),
        (
            "threadgroup float kept[64]; kept[thread_position_in_grid.x + 1] = 1.0f; out[0] = kept[1];",
            "outside of an array in shared memory",
        ),
        ("out[0] = ((const device float4*)(out + 1))[0].x;", "not aligned"),
        ("if (thread_index_in_simdgroup < 31) out[0] = simd_sum(1.0f);", "not reached by all its lanes"),
        (
            "if (thread_position_in_grid.x < 32) threadgroup_barrier(mem_flags::mem_none);",
            "barrier is not reached",
        ),
    ],
)
def test_planted_faults_are_found(body: str, fault: str) -> None:
    with pytest.raises(EmulatedFault, match=fault):
        planted(body)


@pytest.mark.parametrize(("size", "is_refused"), [(7, True), (8, False)])
def test_a_pointer_into_an_array_that_mlx_puts_among_constants_is_found(size: int, is_refused: bool) -> None:
    kernel = emulated("planted", ["x"], ["out"], "const device float* from = x; out[0] = from[0];")
    launch = {"grid": (32, 1, 1), "threadgroup": (32, 1, 1), "output_shapes": [(1,)]}
    with pytest.raises(RuntimeError, match="volatile") if is_refused else nullcontext():
        kernel(inputs=[mx.ones(size)], output_dtypes=[mx.float32], **launch)


def test_what_a_kernel_leaves_unwritten_is_no_number() -> None:
    assert np.isnan(planted("if (thread_position_in_grid.x > 0) out[thread_position_in_grid.x] = 1.0f;")[0])
    assert np.isnan(planted("threadgroup float kept[64]; out[thread_position_in_grid.x] = kept[0];")).all()


@dataclass(frozen=True)
class Rewriting:
    """Makes kernels whose text is changed before."""

    old: str
    new: str

    def __call__(
        self, name: str, input_names: Sequence[str], output_names: Sequence[str], source: str, header: str
    ) -> Kernel:
        texts = (text.replace(self.old, self.new) for text in (source, header))
        return emulated(name, input_names, output_names, *texts)


def test_a_product_that_takes_no_care_of_the_last_rows_is_found_out() -> None:
    careless = replace(DEVICE, make_kernel=Rewriting("&& first + o < outs", ""))
    with pytest.raises(EmulatedFault, match="outside of an allocation"):
        in_blocks(weight(GgmlType.Q6_K, 5, 256), careless)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (("- 32", "- 31"), "the kernel for Q6_K in blocks is off by"),
        (("simd_sum(sums[o][r])", "sums[o][r]"), "the kernel for Q6_K in blocks is off by"),
        (("inline", "This compiler knows better."), "the kernel for Q6_K in blocks cannot be used"),
    ],
)
def test_a_kernel_that_fails_its_check_is_replaced_by_another_form_and_a_warning_says_so(
    changes: tuple[str, str], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    device, given = replace(DEVICE, make_kernel=Rewriting(*changes)), weight(GgmlType.Q6_K, 5, 256)
    matrix = matrix_of(given, device)
    assert isinstance(matrix, AffineMatrix)
    assert sum(array.nbytes for array in matrix.arrays) == matrix_nbytes(given.info, device)
    assert [reason in record.getMessage() for record in caplog.records] == [True]


@pytest.mark.parametrize("make", [None, emulated, Emulation(1)])
@pytest.mark.parametrize(("rows", "columns"), [(1, 4), (1, 32), (3, 1000)])
def test_rows_are_narrowed_to_float16_whatever_their_size(
    make: Emulation | None, rows: int, columns: int
) -> None:
    x = normal(rows, columns)
    for size in (0, 1e-35, 1e-6, 1, 1e6, 1e30):
        given = np.float32(size) * x
        found = Narrowing(mx.float16, make).product(mx.array(given), lambda narrow: narrow)
        np.testing.assert_allclose(np.array(found), given, rtol=0, atol=1e-3 * np.abs(given).max() + 1e-33)


def test_a_narrowing_that_fails_its_check_is_replaced(caplog: pytest.LogCaptureFixture) -> None:
    barrier = "threadgroup_barrier(mem_flags::mem_threadgroup);"
    racing = replace(DEVICE, make_kernel=Rewriting(barrier, ""))
    assert DEVICE.narrowing(mx.float16).make_kernel is emulated
    assert racing.narrowing(mx.float16).make_kernel is None
    assert "the kernel for float16 activations is off by" in caplog.text
