"""What the documentation says is what the code does."""

import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def test_the_table_of_architectures_is_what_the_code_has() -> None:
    made = subprocess.run(
        [sys.executable, str(DOCS / "make_architectures.py")], capture_output=True, text=True, check=True
    )
    assert made.stdout == (DOCS / "architectures.md").read_text(encoding="utf-8")


def test_the_way_to_add_an_architecture_fits_on_a_page() -> None:
    text = (DOCS / "add-an-architecture.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 100
