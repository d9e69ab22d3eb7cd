"""Whether Apple's compiler takes the Metal backend's kernels and a GPU computes with them: on a Mac alone."""

import pytest
from rase_models.gguf import GgmlType

mx = pytest.importorskip("mlx.core", reason="MLX is not installed: pip install 'rase-models[metal]'")

from rase_models.backends.metal.block_formats import BLOCK_FORMATS  # noqa: E402
from rase_models.backends.metal.device import has_gpu, this_device  # noqa: E402

pytestmark = [pytest.mark.metal, pytest.mark.skipif(not has_gpu(), reason="there is no Apple GPU")]


@pytest.mark.parametrize("type_", BLOCK_FORMATS, ids=lambda type_: type_.name)
def test_the_gpu_reads_a_type_in_blocks(type_: GgmlType, caplog: pytest.LogCaptureFixture) -> None:
    assert this_device().reads_blocks(type_), caplog.text


@pytest.mark.parametrize("lengths", [(64, 64), (80, 80), (128, 128), (192, 128), (256, 256), (576, 512)])
@pytest.mark.parametrize("name", ["float16", "float32"])
def test_the_gpu_attends_to_a_paged_cache(
    lengths: tuple[int, int], name: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert this_device().attention(*lengths, getattr(mx, name)) is not None, caplog.text


def test_the_gpu_narrows_activations(caplog: pytest.LogCaptureFixture) -> None:
    assert this_device().narrowing(mx.float16).make_kernel is not None, caplog.text
