"""A model that thinks, speaks and calls two tools, and those tools, for tests."""

from rase_models.request import Conversation

from rase_api.testing import ScriptedEngine

TEMPLATE = '{# <tool_call></tool_call> "name" "arguments" #}{{ messages }}'
CALLS = (
    '<think>\nhm\n</think>\n\nI look.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n'
    '</tool_call>\n<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>'
)
USER = {"role": "user", "content": "Hi"}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tells the weather.",
        "parameters": CITY,
        "strict": True,
    },
}
CLOCK = {"type": "function", "function": {"name": "clock"}}


def calling_engine() -> ScriptedEngine:
    """Return an engine whose model `demo` always answers with CALLS."""
    return ScriptedEngine(CALLS, template=TEMPLATE, context_length=1000)


def asked(engine: ScriptedEngine) -> Conversation:
    """Return the conversation that an engine was asked to go on with last."""
    question = engine.questions[-1]
    assert isinstance(question, Conversation)
    return question
