"""Prints docs/http-api.md, made from the schemas and the table of errors: send its output there."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rase_api import create_app
from rase_api.description import BODIES, STREAMS, described
from rase_api.faults import FAULTS
from rase_api.parameters import TextRequest
from rase_api.testing import ScriptedEngine
from rase_core.sampling import GenerationConfig

HEAD = """# The HTTP API

Every route, every parameter, what it may be, its default, and every error. The rules behind them, and what
each API does in its own way, stand in the [README of rase-api](../packages/api/README.md). A server shows the
same at `/docs`, and to tools at `/openapi.json`.

Made by `python docs/make_http_api.py > docs/http-api.md` from what the server itself checks requests by.

- A body is one JSON object, sent as `application/json`. A parameter that is not listed, or that may *only*
  have a value that asks for nothing and has another, is refused by name with 400 (`--lenient`: left out with
  a warning). Null is the default, always, and accepted for what another of OpenAI's routes has.
- Defaults are those of the tables, unless a model's manifest sets others in its `[defaults]`. The ranges of
  sampling parameters are those of `GenerationConfig`; a value outside is a 400 that names the range.
- `n` may be as many as the engine runs at once: 64, unless an application of your own says otherwise. A
  request may have 2048 answers, all its prompts together.
- A `seed` of -1 is as none at all: the default, which is fixed. Ollama and llama-server draw one then, and
  for none; send one of your own for answers that differ.
- *Ignored*: accepted, of any value, since it cannot change the text.
"""
LOGPROBS = """
## Log probabilities

`logprobs` with `top_logprobs` (chat, Ollama), a number as `logprobs` (completions; with `echo` also of the
prompt, whose first token has none), `top_logprobs` or `include` (responses), `return_logprob` (SGLang; with
`logprob_start_len` from 0 on also of the prompt).

They are natural logarithms of the model's own probabilities: the softmax of the logits before bias,
penalties, temperature, filters and formats. Those of all tokens of an answer are told, thoughts and calls too
(in responses those of the message), but not those of a stop string or of the end token. A stream tells them
with the text; when text is held back, they come with it. A prompt whose log probabilities are told is
computed as a whole, whatever is cached. Streamed completions with `echo` and `logprobs` are refused.
"""


ERRORS = """OpenAI's routes answer `{"error": {"message", "type", "param", "code"}}`, Anthropic's
`{"type": "error", "error": {"type", "message"}}`, Ollama's `{"error": message}`. An error before the first
piece of a stream has its status; a later one is the last event, without the usual end. `Retry-After` comes
with those that may pass again.
"""


def page() -> Iterator[str]:
    """Yield the lines."""
    description = described(create_app(ScriptedEngine()).routes)
    schemas = description["components"]["schemas"]  # type: ignore[index]
    yield HEAD
    yield "## Routes\n"
    yield "| route | body | answer |"
    yield "|---|---|---|"
    for path, entry in description["paths"].items():  # type: ignore[attr-defined]
        for method in entry:
            yield route(method, path)
    yield LOGPROBS
    yield "## Bodies"
    for name in bodies(schemas):
        yield from body(name, schemas[name])
    yield from errors()


def route(method: str, path: str) -> str:
    """Return the row of a route."""
    model = BODIES.get(path)
    given = "" if model is None else f"[{model.__name__}](#{model.__name__.lower()})"
    form = f"JSON, or {STREAMS[path]} with `stream`" if path in STREAMS else "JSON"
    return f"| `{method.upper()} {path}` | {given} | {'text' if path == '/metrics' else form} |"


def bodies(schemas: Mapping[str, object]) -> Iterable[str]:
    """Return the names of the bodies, and of their parts after them."""
    first = list(dict.fromkeys(model.__name__ for model in BODIES.values()))
    return [*first, *(name for name in schemas if name not in first)]


def body(name: str, schema: Mapping[str, object]) -> Iterator[str]:
    """Yield the table of one object."""
    defaults = defaults_of(name)
    yield f"\n### {name}\n"
    yield str(schema.get("description", "")).partition("\n")[0] + "\n"
    yield "| parameter | value | default |"
    yield "|---|---|---|"
    required = schema.get("required", ())
    for parameter, value in schema.get("properties", {}).items():  # type: ignore[attr-defined]
        default = "required" if parameter in required else defaults.get(parameter, "")  # type: ignore[operator]
        yield f"| `{parameter}` | {cell(value)} | {default} |"


def defaults_of(name: str) -> Mapping[str, str]:
    """Return the defaults of the sampling parameters of a body, or of an object in it, by name."""
    settings, found = GenerationConfig(), {}
    for model in BODIES.values():
        if issubclass(model, TextRequest):
            for path, field in model.sampling.items():
                part, _, parameter = path.rpartition(".")
                if name == (PARTS.get(part) or model.__name__):
                    found[parameter] = plain(getattr(settings, field))
    return found


PARTS = {"options": "OllamaOptions", "sampling_params": "SglangParams"}


def plain(value: object) -> str:
    """Write a default; nothing for what is empty."""
    if isinstance(value, bool | int | float):
        return str(value).lower()
    return "none"


def cell(schema: Mapping[str, object]) -> str:
    """Write what a value may be."""
    return kind(schema).replace("|", "\\|") or "ignored"


def kind(schema: Mapping[str, object]) -> str:
    """Name what a schema allows."""
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return words(schema["enum"])  # type: ignore[arg-type]
    several = schema.get("anyOf") or schema.get("oneOf")
    if several:
        kinds = [kind(one) for one in several if one.get("type") != "null"]  # type: ignore[attr-defined]
        return " or ".join(dict.fromkeys(one or "anything" for one in kinds)) or "only null"
    if schema.get("type") == "array":
        items = kind(schema["items"]) if schema.get("items") else ""  # type: ignore[arg-type]
        return f"list of {items or 'anything'}{bounds(schema, 'Items')}"
    return f"{schema.get('type', '')}{bounds(schema, 'imum')}"


def words(values: Sequence[object]) -> str:
    """Write the values of an enumeration; one with null is of those that ask for nothing."""
    texts = ", ".join(f"`{json.dumps(value)}`" for value in values if value is not None)
    return f"only {texts or 'null'}" if None in values else texts


def bounds(schema: Mapping[str, object], of: str) -> str:
    """Write the limits of a number or a list."""
    least, most = schema.get(f"min{of}"), schema.get(f"max{of}")
    texts = [f"≥ {least}"] * (least is not None) + [f"≤ {most}"] * (most is not None)
    return f" ({', '.join(texts)})" if texts else ""


def errors() -> Iterator[str]:
    """Yield the table of errors."""
    yield "\n## Errors\n"
    yield ERRORS
    yield "| status | `code` | `type` | of | again |"
    yield "|---|---|---|---|---|"
    rows = [(fault, kind) for kind, fault in FAULTS.items()]
    for fault, kind in sorted(rows, key=lambda row: (row[0].status, row[0].code, row[1].__name__)):
        again = f"after {fault.headers['Retry-After']} s" if "Retry-After" in fault.headers else ""
        yield f"| {fault.status} | `{fault.code}` | `{fault.type}` | {kind.__name__} | {again} |"


if __name__ == "__main__":
    sys.stdout.write("\n".join(page()) + "\n")
