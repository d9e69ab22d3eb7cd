from rase_core.tracebacks import without_locals


def frames_of(error: BaseException) -> list[bool]:
    """Say of each frame that an error went through whether it still has locals."""
    found, entry = [], error.__traceback__
    while entry is not None:
        found.append(bool(entry.tb_frame.f_locals))
        entry = entry.tb_next
    return found


def failed(reason: str) -> Exception:
    def fail(kept: object) -> None:
        raise ValueError(reason)

    try:
        fail(bytearray(8))
    except ValueError as error:
        return error
    raise AssertionError


def test_causes_that_go_in_a_circle_are_let_go_of_once() -> None:
    first, second = failed("one"), failed("two")
    first.__cause__, second.__cause__ = second, first
    assert without_locals(first) is first
    assert not frames_of(first)[-1] and not frames_of(second)[-1]
