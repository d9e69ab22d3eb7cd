"""Every kernel compiles for every architecture by NVRTC, which needs no GPU."""

import pytest
from rase_models.backends.cuda.compiler import ARCHITECTURES, all_sources, compiled

cupy = pytest.importorskip("cupy", reason="CuPy is not installed: pip install 'rase-models[cuda12]'")


@pytest.fixture(scope="module", autouse=True)
def nvrtc() -> None:
    from cupy.cuda import nvrtc

    try:
        nvrtc.getVersion()
    except (ImportError, OSError, RuntimeError) as error:
        pytest.skip(f"NVRTC is not installed: {error}")


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_kernel_compiles(architecture: str) -> None:
    for source in all_sources():
        assert compiled(source, architecture).startswith(b"\x7fELF")
