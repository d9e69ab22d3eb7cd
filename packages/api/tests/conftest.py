"""Fixtures of the api package's tests."""

from collections.abc import Iterator

import httpx
import openai
import pytest
from rase_api import create_app
from rase_api.testing import ScriptedEngine, served


@pytest.fixture(scope="module")
def engine() -> ScriptedEngine:
    """An engine whose model `demo` always says "Paris.", and has room for 128 tokens of one byte each."""
    return ScriptedEngine(models=("demo", "other"))


@pytest.fixture(scope="module")
def client(engine: ScriptedEngine) -> Iterator[httpx.Client]:
    """A client of a real server over the scripted engine."""
    with served(create_app(engine)) as url, httpx.Client(base_url=url, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def official(client: httpx.Client) -> Iterator[openai.OpenAI]:
    """OpenAI's own client of that server."""
    with openai.OpenAI(base_url=f"{client.base_url}/v1", api_key="none", max_retries=0) as official:
        yield official
