"""The most tokens a second that a machine could give to clients, by its memory and its dot products alone."""

from dataclasses import dataclass

from limits import int8_peak, read_bandwidth
from rase_models.step_work import StepWork


@dataclass(frozen=True, slots=True)
class Machine:
    """What a number of threads does at most in a second: bytes read, and products of 8-bit integers added."""

    bytes_read: float
    multiply_adds: float

    @classmethod
    def measured(cls, threads: int) -> "Machine":
        """Measure this machine."""
        return cls(1e9 * read_bandwidth(threads), 1e9 * int8_peak(threads) / 2)


@dataclass(frozen=True, slots=True)
class Request:
    """The tokens of a prompt that are not there yet, and those of the answer, on average."""

    prompt: float
    answer: float


def most_tokens(work: StepWork, machine: Machine, clients: int, request: Request) -> float:
    """Return tokens/s of all clients: each asks once, and every product is computed at the peak.

    Attention, sampling, the server and the clients cost nothing here. Neither all products, nor what one
    request has to do in order, which reads the weights for each of its tokens, can take less.
    """
    prompt = request.prompt * work.prompt_multiply_adds / machine.multiply_adds
    token = work.multiply_adds / machine.multiply_adds
    products = clients * (prompt + request.answer * token)
    in_order = prompt + request.answer * max(token, work.weight_nbytes / machine.bytes_read)
    return clients * request.answer / max(products, in_order)
