"""The bodies of requests for embeddings, of OpenAI and of Ollama."""

from pydantic import Field

from rase_api.fields import Ignored
from rase_api.parameters import Body
from rase_api.schemas.nulls import TakesNulls


class EmbeddingsRequest(TakesNulls):
    """The body of POST /v1/embeddings, as far as it matters while no model can embed."""

    model: str
    input: Ignored = Field()
    dimensions: Ignored = None
    encoding_format: Ignored = None
    user: Ignored = None


class OllamaEmbedRequest(Body):
    """The body of POST /api/embed and /api/embeddings, as far as it matters."""

    model: str
    input: Ignored = None
    prompt: Ignored = None
    truncate: Ignored = None
    dimensions: Ignored = None
    options: Ignored = None
    keep_alive: Ignored = None
