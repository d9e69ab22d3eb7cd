import subprocess
import sys

import rase_api


def test_the_package_offers_what_it_says() -> None:
    assert rase_api.__all__ == ["AddressUnavailable", "SeveralWorkers", "create_app", "router", "serve"]
    assert all(hasattr(rase_api, name) for name in rase_api.__all__)


def test_importing_it_loads_no_backend_and_prints_nothing() -> None:
    program = (
        "import sys, rase_api, rase_api.testing\n"
        "heavy = {'numba', 'llvmlite', 'gguf', 'tokenizers', 'jinja2', 'transformers', 'huggingface_hub'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    process = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True)
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")
