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
        choices = plan(body.config(model.defaults))
    except EngineError as error:
        return error_response(error, body.names)
    reply = Reply.new(shape, model.id, model.fingerprint)
    respond = _streamed if body.is_streamed else _whole
    return await respond(Work(request, state.pool, choices), body, reply)


async def _streamed(work: Work, body: Parameters, reply: Reply) -> Response:
    try:
        first = await work.next()
    except BaseException:
        work.close()
        raise
    if isinstance(first, Failed):
        work.close()
        return error_response(first.error, body.names)
    return EventStream(work, first, Pieces(body, reply))


async def _whole(work: Work, body: Parameters, reply: Reply) -> Response:
    generations: list[Generation] = []
    try:
        while (event := await work.next()) is not None:
            if isinstance(event, Failed):
                return error_response(event.error, body.names)
            if isinstance(event, Finished):
                generations.append(event.generation)
    finally:
        work.close()
    return JSONResponse(reply.whole(generations, body.choices))
