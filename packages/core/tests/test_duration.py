import pytest
from hypothesis import given
from hypothesis import strategies as st
from rase_core.duration import seconds_of
from rase_core.errors import InvalidParameter

FOR_EVER = None


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (0, 0.0),
        ("0", 0.0),
        ("0s", 0.0),
        (300, 300.0),
        (2.5, 2.5),
        ("300", 300.0),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("1.5h", 5400.0),
        ("500ms", 0.5),
        (" 10s ", 10.0),
        (-1, FOR_EVER),
        ("-1", FOR_EVER),
        ("-5m", FOR_EVER),
        (float("inf"), FOR_EVER),
        (10**400, FOR_EVER),
        ("999999h" * 2, FOR_EVER),
    ],
)
def test_durations_mean_what_go_and_ollama_mean_by_them(value: object, seconds: float | None) -> None:
    assert seconds_of("keep_alive", value) == seconds


@pytest.mark.parametrize(
    "value", [True, None, "", "x", "5x", "5 m", "-", "m", "٣m", float("nan"), [], "1m" * 99]
)
def test_what_is_no_duration_is_named(value: object) -> None:
    with pytest.raises(InvalidParameter, match="keep_alive"):
        seconds_of("keep_alive", value)


@given(st.one_of(st.text(), st.integers(), st.floats(), st.from_regex(r"[-+]?([0-9.]{1,9}[nmush]{1,2})+")))
def test_anything_is_seconds_or_refused(value: object) -> None:
    try:
        seconds = seconds_of("keep_alive", value)
    except InvalidParameter:
        return
    assert seconds is None or 0 <= seconds <= 1e9
