"""What the documentation says is what the code does."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from rase_models import AsyncEngine

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("page", ["architectures", "http-api", "templates", "tokenizers"])
def test_what_is_made_from_the_code_is_what_the_code_has(page: str) -> None:
    script = [sys.executable, "-X", "utf8", str(DOCS / f"make_{page.replace('-', '_')}.py")]
    made = subprocess.run(script, capture_output=True, encoding="utf-8", check=True)
    assert made.stdout == (DOCS / f"{page}.md").read_text(encoding="utf-8")


def test_the_way_to_add_an_architecture_fits_on_a_page() -> None:
    text = (DOCS / "add-an-architecture.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 100


def test_the_guide_says_before_its_examples_of_tools_what_model_has_them() -> None:
    guide = (DOCS / "embedding.md").read_text(encoding="utf-8")
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    (pulling,) = re.findall(r"`rase model pull --repo [^`]+ --id qwen3`", readme)
    assert guide.index(pulling) < guide.index("options=ChatOptions(tools=") and '"qwen3"' in guide


def test_the_guide_names_every_method_of_the_engine_for_asyncio() -> None:
    text = (DOCS / "embedding.md").read_text(encoding="utf-8")
    named = text[text.index("It has these methods of `Engine`") : text.index(" for `close`")]
    methods = {name for name, value in vars(AsyncEngine).items() if name[0] != "_" and callable(value)}
    assert set(re.findall(r"`(\w+)`", named)) - {"Engine"} == methods
