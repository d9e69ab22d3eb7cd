"""POST /tokenize, /detokenize and /apply-template: what a model is given to read."""

from collections.abc import Sequence
from functools import partial

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from rase_api.body import read_object
from rase_api.counting import refuse_endless
from rase_api.dialects import Json
from rase_api.errors import InvalidValue
from rase_api.faults import in_words_of
from rase_api.plans import Conversation
from rase_api.replies.logprobs import text_of
from rase_api.routing import routes_of
from rase_api.schemas.tokens import MOST_TOKENS, DetokenizeRequest, TemplateRequest, TokenizeRequest
from rase_api.serving import LoadedModel, ServingEngine, Words
from rase_api.state import ServerState


def tokens_routes(state: ServerState) -> APIRouter:
    """Make the routes."""
    routes = routes_of(state)

    @routes.post("/tokenize", response_model=None)
    async def tokenize(request: Request) -> Response:
        body = await TokenizeRequest.read(request, state.settings)
        model, text = await state.asked(partial(_to_tokenize, body), body.model)
        return await state.tokenising(text, partial(_tokenized, body, model, text))

    @routes.post("/detokenize", response_model=None)
    async def detokenize(request: Request) -> Response:
        body = await DetokenizeRequest.read(request, state.settings)
        return await state.asked(lambda engine, model_id: _text(engine, model_id, body.tokens), body.model)

    @routes.post("/apply-template", response_model=None)
    async def apply_template(request: Request) -> Json:
        given = await read_object(request, state.settings.max_body_bytes, state.settings.body_seconds)
        body = TemplateRequest.parse(await state.with_model(given), lenient=state.settings.lenient)
        with in_words_of(body.names):
            return await state.asked(lambda engine, model_id: _rendered(engine, model_id, body), body.model)

    return routes


def _to_tokenize(body: TokenizeRequest, engine: ServingEngine, model_id: str) -> tuple[LoadedModel, str]:
    if body.messages is None:
        return engine.load(model_id), body.text
    return Conversation([message.as_turn() for message in body.messages]).prompt(engine, model_id)


def _tokenized(body: TokenizeRequest, model: LoadedModel, text: str) -> Response:
    """Write the answer here, in a thread: a long one would keep the server's loop."""
    refuse_endless(text, model, MOST_TOKENS, body.given)
    tokens = _tokens(body, model.tokenizer, text)
    _refuse_many(tokens, body)
    pieces = {token: model.tokenizer.piece(token) for token in set(tokens)}
    answer: Json = {"tokens": tokens, "count": len(tokens), "max_model_len": model.decoder.context_length}
    if body.with_pieces:
        answer["tokens"] = [{"id": token, "piece": _piece(pieces[token])} for token in tokens]
    if body.return_token_strs:
        answer["token_strs"] = [text_of(pieces[token]) for token in tokens]
    return JSONResponse(answer)


def _piece(piece: bytes) -> str | list[int]:
    """Write a token as llama-server does: as text, or as its bytes where they are no whole characters."""
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return list(piece)


def _refuse_many(tokens: Sequence[int], body: TokenizeRequest) -> None:
    if len(tokens) > MOST_TOKENS:
        raise InvalidValue(
            f"Invalid value for '{body.given}': its {len(tokens)} tokens are more than the {MOST_TOKENS} "
            "that one answer tells.",
            body.given,
        )


def _tokens(body: TokenizeRequest, words: Words, text: str) -> list[int]:
    if body.messages is not None:
        return words.encode_prompt(text)
    return words.encode(text, body.adds_special_tokens, body.parses_special_tokens)


def _text(engine: ServingEngine, model_id: str, tokens: Sequence[int]) -> Response:
    words = engine.load(model_id).tokenizer
    _check_tokens(words, tokens)
    text = words.decode(tokens, skip_special_tokens=False)
    return JSONResponse({"content": text, "prompt": text})


def _check_tokens(words: Words, tokens: Sequence[int]) -> None:
    for index, token in enumerate(tokens):
        if not 0 <= token < words.vocab_size:
            name = f"tokens[{index}]"
            raise InvalidValue(
                f"Invalid value for '{name}': expected a token id of 0 to {words.vocab_size - 1}.", name
            )


def _rendered(engine: ServingEngine, model_id: str, body: TemplateRequest) -> Json:
    prompt = engine.render(
        model_id,
        body.turns(),
        add_generation_prompt=body.add_generation_prompt is not False,
        continue_final_message=bool(body.continue_final_message),
        options=body.options(),
    )
    return {"prompt": prompt}
