"""Fixtures of the tests of tools: a model that calls some."""

import pytest
from rase_api.testing import ScriptedEngine
from rase_api.testing_tools import calling_engine


@pytest.fixture(scope="module")
def engine() -> ScriptedEngine:
    """An engine whose model `demo` always thinks, speaks and calls two tools."""
    return calling_engine()
