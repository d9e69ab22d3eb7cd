"""The bodies of Ollama's endpoints."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError
from rase_core.duration import seconds_of
from rase_core.errors import InvalidParameter
from rase_core.logprobs import Logprobs
from rase_core.neighbours.ollama import PARAMETERS, UNBOUNDED
from rase_core.sampling.config import MAX_COUNT
from rase_models.chat.options import ChatOptions
from rase_models.chat.variables import EFFORT, THINKS
from rase_models.constraints import ResponseFormat

from rase_api.dialects import OLLAMA, Dialect
from rase_api.errors import InvalidValue, MissingParameter, UnsupportedParameter
from rase_api.faults import Names
from rase_api.fields import Ignored, No, NoList, NoText, Seed, Stops, Strict, TopLogprobs, only
from rase_api.parameters import Body, TextRequest
from rase_api.plans import FOR_EVER, Completions, Conversation, Plan
from rase_api.schemas.response_format import ConstrainedRequest
from rase_api.schemas.tools import MOST_TOOLS, VARIABLES, ToolParam
from rase_api.serving import Messages

SAMPLING: Mapping[str, str] = {f"options.{name}": field for name, field in PARAMETERS.items()}


def _limit(value: int) -> int:
    return MAX_COUNT if value in UNBOUNDED else value


def _format(value: object) -> object:
    if value is None or isinstance(value, dict) or value in ("", "json"):
        return value
    raise PydanticCustomError("format_value", "expected 'json' or a JSON schema")


def _duration(value: object) -> float | None:
    """Return seconds, FOR_EVER for no end."""
    if value is None:
        return None
    try:
        seconds = seconds_of("keep_alive", value)
    except InvalidParameter as error:
        raise PydanticCustomError("duration", "expected {expected}", {"expected": error.expected}) from error
    return FOR_EVER if seconds is None else seconds


KeepAlive = Annotated[float | None, BeforeValidator(_duration, json_schema_input_type=str | float | None)]


Format = Annotated[
    str | dict[str, object] | None,
    BeforeValidator(_format, json_schema_input_type=str | dict[str, object] | None),
]


class OllamaOptions(Strict):
    """How to choose each token, and how Ollama would have loaded the model."""

    num_predict: Annotated[int, AfterValidator(_limit)] | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: Seed | None = None
    stop: Stops | None = None
    repeat_penalty: float | None = None
    repeat_last_n: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    typical_p: Annotated[object, only(1, 1.0)] = None
    tfs_z: Annotated[object, only(1, 1.0)] = None
    mirostat: Annotated[object, only(0)] = None
    penalize_newline: Annotated[object, only(True)] = None
    vocab_only: No = None
    embedding_only: No = None

    # The context is the model's own, and nothing is cut to fit into less of it.
    num_ctx: int | None = None
    num_keep: int | None = None

    # Where the layers are is the server's own affair, and what is asked for must be so: all, or none.
    num_gpu: Annotated[int, Field(ge=-1)] | None = None

    # These cannot change the text, so they are accepted and not used.
    mirostat_tau: float | None = None
    mirostat_eta: float | None = None
    num_batch: int | None = None
    num_thread: int | None = None
    main_gpu: int | None = None
    numa: bool | None = None
    low_vram: bool | None = None
    f16_kv: bool | None = None
    logits_all: bool | None = None
    use_mmap: bool | None = None
    use_mlock: bool | None = None


class OllamaRequest(TextRequest, ConstrainedRequest):
    """What /api/chat and /api/generate share; a stream is what they answer by default."""

    dialect: ClassVar[Dialect] = OLLAMA
    sampling: ClassVar[Mapping[str, str]] = SAMPLING
    format_parameter: ClassVar[str] = "format"

    model: str
    options: OllamaOptions | None = None
    keep_alive: KeepAlive = None

    format: Format = None
    think: bool | Literal["low", "medium", "high"] | None = None
    truncate: No = None
    shift: No = None
    logprobs: bool | None = None
    top_logprobs: TopLogprobs | None = None

    @property
    def names(self) -> Names:
        """Field of GenerationConfig, or a template's variable -> the name by which this request gave it."""
        return {**super().names, **dict.fromkeys(VARIABLES, "think"), "response_format": self.format_name}

    def own_format(self) -> tuple[bool, ResponseFormat | None]:
        """Tell whether there is a `format`, and what it demands. Raises UnenforceableFormat."""
        if isinstance(self.format, Mapping):
            return True, ResponseFormat.json_schema(self.format)
        return bool(self.format), ResponseFormat.json_object() if self.format == "json" else None

    def refuse_contradictions(self) -> None:
        """Refuse two formats, and a number of log probabilities where none are told."""
        super().refuse_contradictions()
        self.constraint()
        if self.top_logprobs and not self.logprobs:
            raise InvalidValue("'top_logprobs' needs 'logprobs' to be true.", "top_logprobs")

    def told(self) -> Logprobs | None:
        """Return what is told of probabilities."""
        return Logprobs(self.top_logprobs or 0) if self.logprobs else None

    def variables(self) -> dict[str, object]:
        """Return what the template is told of thinking."""
        if self.think is None:
            return {}
        return {EFFORT if isinstance(self.think, str) else THINKS: self.think}

    @property
    def is_streamed(self) -> bool:
        """Whether the answer comes in pieces."""
        return self.stream is not False

    @property
    def context_length(self) -> int | None:
        """The context length that is asked for."""
        return None if self.options is None else self.options.num_ctx

    @property
    def gpu_layers(self) -> int | None:
        """How many layers are asked to be on a GPU."""
        return None if self.options is None else self.options.num_gpu

    @property
    def unloads(self) -> bool:
        """Whether the model is to leave memory; an empty request with this asks for nothing else."""
        return self.keep_alive == 0

    def plan(self) -> Plan | None:
        """Return what to generate; None for a request that only loads or unloads the model."""
        raise NotImplementedError


class OllamaFunction(Strict):
    """What an earlier answer called."""

    name: str
    arguments: dict[str, object]
    index: int | None = None
    description: Ignored = None


class OllamaCall(Strict):
    """A call in an earlier answer."""

    function: OllamaFunction
    id: str | None = None
    type: Literal["function"] | None = None

    def as_turn(self) -> dict[str, object]:
        """Return the call as templates know it."""
        function = {"name": self.function.name, "arguments": self.function.arguments}
        return {"id": self.id or "", "type": "function", "function": function}


class OllamaMessage(Strict):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str = ""
    images: NoList = None
    thinking: str | None = None
    tool_calls: list[OllamaCall] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None

    def as_turn(self) -> dict[str, object]:
        """Write the message as chat templates know it."""
        turn: dict[str, object] = {
            "role": self.role,
            "content": self.content,
            "name": self.tool_name,
            "tool_calls": [call.as_turn() for call in self.tool_calls or ()] or None,
            "tool_call_id": self.tool_call_id,
            "reasoning_content": self.thinking or None,
        }
        return {key: value for key, value in turn.items() if value is not None}


class OllamaChat(OllamaRequest):
    """The body of POST /api/chat."""

    prompt_name: ClassVar[str] = "messages"

    messages: list[OllamaMessage] | None = None
    tools: Annotated[list[ToolParam], Field(max_length=MOST_TOOLS)] | None = None

    def plan(self) -> Plan | None:
        """Answer the messages; one that begins the answer is gone on with, as Ollama does."""
        if not self.messages:
            return None
        tools = tuple(param.function.tool() for param in self.tools or ())
        return Conversation(
            [message.as_turn() for message in self.messages],
            is_continued=self.messages[-1].role == "assistant",
            response_format=self.constraint(),
            options=ChatOptions(tools=tools, variables=self.variables(), is_lenient=self._is_lenient),
            is_read=True,
            logprobs=self.told(),
        )


class OllamaGenerate(OllamaRequest):
    """The body of POST /api/generate."""

    prompt: str | None = None
    system: str | None = None
    raw: bool | None = None

    suffix: NoText = None
    images: NoList = None
    template: NoText = None
    context: NoList = None

    def refuse_contradictions(self) -> None:
        """Refuse a system message that a raw prompt has no place for."""
        super().refuse_contradictions()
        if self.raw and self.system:
            raise UnsupportedParameter("Unsupported parameter: 'system' does not go with 'raw'.", "system")

    def plan(self) -> Plan | None:
        """Answer the prompt, or go on with it as it is when it is raw."""
        if not self.prompt:
            return None
        form = self.constraint()
        if self.raw:
            return Completions([self.prompt], response_format=form, logprobs=self.told())
        options = ChatOptions(variables=self.variables(), is_lenient=self._is_lenient)
        messages = self._messages(self.prompt)
        return Conversation(
            messages, response_format=form, options=options, is_read=True, logprobs=self.told()
        )

    def _messages(self, prompt: str) -> Messages:
        system = [{"role": "system", "content": self.system}] if self.system else []
        return [*system, {"role": "user", "content": prompt}]


class ShowRequest(Body):
    """The body of POST /api/show."""

    model: str | None = None
    name: str | None = None  # what older clients call it
    verbose: bool | None = None
    system: NoText = None
    template: NoText = None
    options: Annotated[object, only({})] = None

    def refuse_contradictions(self) -> None:
        """Refuse no model, and two."""
        if self.model is None and self.name is None:
            raise MissingParameter("Missing required parameter: 'model'.", "model")
        if None not in (self.model, self.name) and self.model != self.name:
            raise InvalidValue("'model' and 'name' mean the same, but have different values.", "name")

    @property
    def asked(self) -> str:
        """The model's name."""
        return self.model if self.model is not None else self.name or ""
