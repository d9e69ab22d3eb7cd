"""The bodies of requests as pydantic models, one file for each API."""

from rase_api.schemas.openai import ChatRequest, CompletionRequest

__all__ = ["ChatRequest", "CompletionRequest"]
