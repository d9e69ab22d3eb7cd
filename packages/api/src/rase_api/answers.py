"""From a checked request to its answer, whole or streamed; the same for every API."""

from collections.abc import Callable
from functools import partial

from rase_core.errors import EngineError
from rase_models.room import Check
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from rase_api.asking import Failed, Finished
from rase_api.parameters import TextRequest
from rase_api.plans import Plan
from rase_api.record import record_of
from rase_api.replies.writer import Writer
from rase_api.state import ServedModel, ServerState
from rase_api.streaming import StreamedAnswer
from rase_api.work import Work

MakeWriter = Callable[[ServedModel], Writer]


async def answer(
    request: Request,
    state: ServerState,
    body: TextRequest,
    model_id: str | None,
    plan: Plan,
    make_writer: MakeWriter,
) -> Response:
    """Run the generations of a plan and respond with them.

    Nothing is sent before the first event of the work, so that a failure until then has its own status; only
    a stream that would be silent for too long begins earlier.
    """
    record = record_of(request.scope)
    try:
        model = await state.served(model_id)
        config = body.config(model.defaults)
    except EngineError as error:
        record.fail(error)
        return body.dialect.response(error, body.names)
    record.model, record.is_streamed = model.id, body.is_streamed
    writer = make_writer(model)
    asks = plan.asks(state.engine, model.id, config)
    work = Work(request, state.pool, asks, state.settings.request_timeout, partial(_load, state, model.id))
    state.add_work(work)
    respond = _streamed if body.is_streamed else _whole
    return await respond(work, body, writer, state.settings.keep_alive_seconds)


def _load(state: ServerState, model_id: str, check: Check) -> None:
    """Bring a model into memory; who has gone meanwhile does not keep a thread until it is there."""
    state.engine.load(model_id, check=check)


async def _streamed(work: Work, body: TextRequest, writer: Writer, patience: float) -> Response:
    try:
        first = await work.next(patience)
    except BaseException:
        work.close()
        raise
    if isinstance(first, Failed):
        work.close()
        return body.dialect.response(first.error, body.names)
    return StreamedAnswer(work, first, writer, patience)


async def _whole(work: Work, body: TextRequest, writer: Writer, _: float) -> Response:
    finished: dict[int, Finished] = {}
    try:
        while (event := await work.next()) is not None:
            if isinstance(event, Failed):
                return body.dialect.response(event.error, body.names)
            if isinstance(event, Finished):
                finished[event.index] = event
    finally:
        work.close()
    ends = [end for _, end in sorted(finished.items())]
    return JSONResponse(writer.whole([end.generation for end in ends], [end.reply for end in ends]))
