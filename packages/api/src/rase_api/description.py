"""The description of the routes by OpenAPI.

Bodies are read by hand, so that every error is told in each API's own form; a table says which is whose.
"""

from collections.abc import Mapping, Sequence
from importlib.metadata import version

from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema
from starlette.routing import BaseRoute

from rase_api.dialects import Json
from rase_api.parameters import Body
from rase_api.replies.writer import NDJSON, SSE
from rase_api.schemas.anthropic import CountRequest, MessagesRequest
from rase_api.schemas.embeddings import EmbeddingsRequest, OllamaEmbedRequest
from rase_api.schemas.ollama import OllamaChat, OllamaGenerate, ShowRequest
from rase_api.schemas.openai import ChatRequest, CompletionRequest
from rase_api.schemas.responses import ResponsesRequest
from rase_api.schemas.sglang import SglangRequest
from rase_api.schemas.tokens import DetokenizeRequest, TemplateRequest, TokenizeRequest

BODIES: Mapping[str, type[Body]] = {
    "/v1/chat/completions": ChatRequest,
    "/v1/chat/completions/input_tokens": ChatRequest,
    "/v1/completions": CompletionRequest,
    "/v1/responses": ResponsesRequest,
    "/v1/responses/input_tokens": ResponsesRequest,
    "/v1/embeddings": EmbeddingsRequest,
    "/v1/messages": MessagesRequest,
    "/v1/messages/count_tokens": CountRequest,
    "/api/chat": OllamaChat,
    "/api/generate": OllamaGenerate,
    "/api/show": ShowRequest,
    "/api/embed": OllamaEmbedRequest,
    "/api/embeddings": OllamaEmbedRequest,
    "/generate": SglangRequest,
    "/tokenize": TokenizeRequest,
    "/detokenize": DetokenizeRequest,
    "/apply-template": TemplateRequest,
}
STREAMS: Mapping[str, str] = {
    "/v1/chat/completions": SSE,
    "/v1/completions": SSE,
    "/v1/responses": SSE,
    "/v1/messages": SSE,
    "/generate": SSE,
    "/api/chat": NDJSON,
    "/api/generate": NDJSON,
}
"""In what form a stream comes."""

SECURITY: Json = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
}


def described(routes: Sequence[BaseRoute]) -> Json:
    """Describe routes; those that an application has of its own stay as FastAPI describes them."""
    bodies = list(dict.fromkeys(BODIES.values()))
    found, schemas = models_json_schema(
        [(body, "validation") for body in bodies], ref_template="#/components/schemas/{model}"
    )
    references = {body: found[body, "validation"] for body in bodies}
    plain = get_openapi(title="rase", version=version("rase-api"), routes=routes)
    return {
        **plain,
        "paths": {path: _entry(path, entry, references) for path, entry in plain["paths"].items()},
        "components": {
            "schemas": plain.get("components", {}).get("schemas", {}) | schemas["$defs"],
            "securitySchemes": SECURITY,
        },
        "security": [{}, *({name: []} for name in SECURITY)],
    }


def _entry(path: str, entry: Mapping[str, Json], references: Mapping[type[Body], Json]) -> Json:
    if path not in BODIES:
        return dict(entry)
    content = {"application/json": {"schema": references[BODIES[path]]}}
    post = entry["post"] | {"requestBody": {"required": True, "content": content}}
    if path in STREAMS:
        forms: Json = {form: {} for form in ("application/json", STREAMS[path])}
        whole = {"200": {"description": "the answer, whole or as a stream", "content": forms}}
        post["responses"] = {**entry["post"]["responses"], **whole}  # type: ignore[dict-item]
    return {**entry, "post": post}
