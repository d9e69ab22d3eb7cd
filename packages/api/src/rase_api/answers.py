"""From a checked request to its answer, whole or streamed; the same for chat and completions."""

from collections.abc import Callable, Iterable

from rase_core.errors import EngineError
from rase_core.generation import Generation
from rase_core.sampling import GenerationConfig
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from rase_api.errors import error_response
from rase_api.parameters import Parameters
from rase_api.replies import Reply, Shape
from rase_api.state import ServerState
from rase_api.streaming import EventStream, Pieces
from rase_api.work import Choice, Failed, Finished, Work

Plan = Callable[[GenerationConfig], Iterable[Choice]]


async def answer(
    request: Request, state: ServerState, body: Parameters, shape: Shape, plan: Plan
) -> Response:
    """Run the choices of a plan and respond with them.

    Nothing is sent before the first event of the work, so that a failure until then has its own status.
    """
    try:
        model = await state.served(body.model)
        reply = Reply.new(shape, model.id, model.fingerprint)
        work = Work(request, state.pool, plan(body.config(model.defaults)))
        if body.is_streamed:
            return await _streamed(work, Pieces(body, reply))
        return JSONResponse(reply.whole(await _collected(work), body.choices))
    except EngineError as error:
        return error_response(error, body.names)


async def _streamed(work: Work, pieces: Pieces) -> Response:
    try:
        first = await work.next()
        if isinstance(first, Failed):
            raise first.error
    except BaseException:
        work.close()
        raise
    return EventStream(work, first, pieces)


async def _collected(work: Work) -> list[Generation]:
    generations = []
    try:
        while (event := await work.next()) is not None:
            if isinstance(event, Failed):
                raise event.error
            if isinstance(event, Finished):
                generations.append(event.generation)
    finally:
        work.close()
    return generations
