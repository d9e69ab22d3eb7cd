import pytest
from rase_core.errors import MemoryTaken, ModelTooLarge
from rase_core.sizes import size_text


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1 kB"),
        (1234, "1.2 kB"),
        (9960, "10 kB"),
        (51_200, "51 kB"),
        (1_000_000, "1 MB"),
        (1_500_000, "1.5 MB"),
        (740_400_000, "740 MB"),
        (12_345_678_900, "12,346 MB"),
    ],
)
def test_a_size_is_told_in_a_unit_that_fits(nbytes: int, text: str) -> None:
    assert size_text(nbytes) == text


def test_errors_of_memory_tell_sizes_so() -> None:
    assert "needs 740 MB of memory (all 740 MB), more than the 1 kB that" in str(
        ModelTooLarge("one", 740_000_000, 1000, "all 740 MB")
    )
    assert "needs 740 MB of the 1.5 MB of memory" in str(MemoryTaken("one", 740_000_000, 1_500_000, ["two"]))
