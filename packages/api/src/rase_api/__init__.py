"""The HTTP server of rase: the APIs of OpenAI, Anthropic, Ollama and SGLang."""

from rase_api.app import create_app, router
from rase_api.errors import AddressUnavailable, SeveralWorkers
from rase_api.server import serve

__all__ = ["AddressUnavailable", "SeveralWorkers", "create_app", "router", "serve"]
