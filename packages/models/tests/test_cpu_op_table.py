"""Op tables and the waits between ops."""

from collections.abc import Sequence
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from rase_models.backends.cpu import abi
from rase_models.backends.cpu.kernel_key import KernelKey
from rase_models.backends.cpu.op_table import Row, place_waits

KEY = KernelKey("any")


def row(reads: str = "", writes: str = "", flags: int = 0) -> Row:
    """Return an op that reads and writes resources of one letter."""
    return Row(
        KEY, {}, flags, frozenset(("r", name) for name in reads), frozenset(("r", name) for name in writes)
    )


def waits(*rows: Row) -> str:
    """Return W for a wait after an op, M for one with several rows, - for none."""
    place_waits(rows)
    marks = {abi.WAIT: "W", abi.WAIT_IF_MANY: "M", 0: "-"}
    return "".join(marks[row.flags & (abi.WAIT | abi.WAIT_IF_MANY)] for row in rows)


def test_ops_that_only_read_the_same_go_on_together() -> None:
    assert waits(row("x", "q"), row("x", "k"), row("x", "v")) == "--W"


def test_what_was_written_is_waited_for() -> None:
    assert waits(row("x", "q"), row("x", "k"), row("qk", "y")) == "-WW"


def test_what_is_still_read_is_not_overwritten() -> None:
    assert waits(row("x", "q"), row("", "x")) == "WW"


def test_what_is_written_twice_is_written_in_order() -> None:
    assert waits(row("", "x"), row("", "x")) == "WW"


def test_a_wait_covers_the_ops_since_the_last_one() -> None:
    rows = [row("", "a"), row("", "b"), row("a", "c"), row("", "d"), row("c", "e")]
    place_waits(rows)
    assert [r.wait_count for r in rows if r.flags & abi.WAIT] == [2, 2, 1]


def test_what_every_thread_does_for_itself_is_waited_for_only_with_many_rows() -> None:
    norm = row("x", "h", abi.REPLICATED)
    assert waits(row("", "x"), norm, row("hx", "q")) == "WMW"


def test_a_conditional_wait_does_not_hide_what_one_row_must_wait_for() -> None:
    norm = row("x", "h", abi.REPLICATED)
    assert waits(row("", "a"), norm, row("hx", "q"), row("a", "y")) == "-MWW"


def test_a_conditional_wait_leaves_other_rows_to_wait_for() -> None:
    every = row("x", "h", abi.REPLICATED)
    chosen = row("y", "g", abi.REPLICATED | abi.OUTPUT_ROWS)
    reader = row("gy", "z", abi.OUTPUT_ROWS)
    overwriter = row("g", "x", abi.OUTPUT_ROWS)
    assert waits(every, chosen, reader, overwriter) == "-MWW"


ROWS = st.builds(
    row,
    st.text("abc", max_size=2),
    st.text("abc", min_size=1, max_size=1),
    st.sampled_from([0, abi.REPLICATED, abi.OUTPUT_ROWS, abi.REPLICATED | abi.OUTPUT_ROWS]),
)


def is_waited_for(rows: Sequence[Row], first: int, second: int, many: set[int]) -> bool:
    """Say whether a wait between two ops covers the first, when these classes of ops have several rows."""
    for index in range(first, second):
        flags = rows[index].flags
        taken = flags & abi.WAIT or (flags & abi.WAIT_IF_MANY and flags & abi.OUTPUT_ROWS in many)
        if taken and index - rows[index].wait_count < first:
            return True
    return False


@given(st.lists(ROWS, min_size=1, max_size=7), st.sets(st.sampled_from([0, abi.OUTPUT_ROWS])))
def test_every_hazard_is_guarded_whichever_ops_have_several_rows(rows: list[Row], many: set[int]) -> None:
    place_waits(rows)
    for (i, first), (j, second) in combinations(enumerate(rows), 2):
        for_itself = first.flags & abi.REPLICATED and first.flags & abi.OUTPUT_ROWS not in many
        hazard = first.writes & (second.reads | second.writes) or first.reads & second.writes
        assert for_itself or not hazard or is_waited_for(rows, i, j, many)
    assert rows[-1].flags & abi.WAIT
