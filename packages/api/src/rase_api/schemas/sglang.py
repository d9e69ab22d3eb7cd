"""The body of SGLang's POST /generate."""

from collections.abc import Callable, Mapping
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field
from rase_core.json_text import NotJson, parse_json
from rase_core.logprobs import Logprobs
from rase_models.constraints import ResponseFormat

from rase_api.errors import InvalidValue
from rase_api.faults import Names
from rase_api.fields import Bias, Choices, Ignored, No, Nothing, Stops, StopTokens, Strict, TopLogprobs, only
from rase_api.parameters import TextRequest
from rase_api.plans import Completions
from rase_api.schemas.prompts import Prompts, prompts_of, refuse_too_many

ALL_TOKENS = -1


def _off(value: int) -> int:
    return 0 if value == ALL_TOKENS else value


class SglangParams(Strict):
    """How to choose each token and when to stop, in SGLang's names."""

    max_new_tokens: int | None = None
    n: Choices | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: Annotated[int, AfterValidator(_off)] | None = None
    min_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: Bias | None = None
    sampling_seed: int | None = None
    stop: Stops | None = None
    stop_token_ids: StopTokens | None = None
    ignore_eos: bool | None = None
    json_schema: str | None = None
    regex: str | None = None
    ebnf: str | None = None
    choice: Annotated[list[str], Field(min_length=1, max_length=1000)] | None = None

    min_new_tokens: Annotated[object, only(0)] = None
    skip_special_tokens: Annotated[object, only(True)] = None
    spaces_between_special_tokens: Annotated[object, only(True)] = None
    no_stop_trim: No = None
    stop_regex: Nothing = None
    structural_tag: Nothing = None
    custom_params: Nothing = None
    stream_interval: Ignored = None

    @property
    def format_name(self) -> str | None:
        """The parameter that says what an answer must look like."""
        return next((name for name in FORMATS if getattr(self, name) is not None), None)

    def format(self) -> ResponseFormat | None:
        """Return what an answer must look like; None for any text.

        Raises UnenforceableFormat, and a RequestError for two formats and for what is no JSON.
        """
        given = [name for name in FORMATS if getattr(self, name) is not None]
        if len(given) > 1:
            raise InvalidValue(f"'{given[0]}' and '{given[1]}' cannot be combined.", _path(given[1]))
        return FORMATS[given[0]](getattr(self, given[0])) if given else None


def _schema_in(text: str) -> ResponseFormat:
    try:
        schema = parse_json(text)
    except NotJson as error:
        why = f"'{_path('json_schema')}' is not valid JSON: {error}."
        raise InvalidValue(why, _path("json_schema")) from error
    if not isinstance(schema, dict | bool):
        raise InvalidValue(f"'{_path('json_schema')}' is no JSON schema.", _path("json_schema"))
    return ResponseFormat.json_schema(schema)


def _path(name: str) -> str:
    return f"sampling_params.{name}"


FORMATS: Mapping[str, Callable[..., ResponseFormat]] = {
    "json_schema": _schema_in,
    "regex": ResponseFormat.regex,
    "ebnf": ResponseFormat.grammar,
    "choice": ResponseFormat.choice,
}


class SglangRequest(TextRequest):
    """The body of POST /generate."""

    prompt_name: ClassVar[str] = "text"
    sampling: ClassVar[Mapping[str, str]] = {
        "sampling_params.max_new_tokens": "max_tokens",
        "sampling_params.temperature": "temperature",
        "sampling_params.top_p": "top_p",
        "sampling_params.top_k": "top_k",
        "sampling_params.min_p": "min_p",
        "sampling_params.frequency_penalty": "frequency_penalty",
        "sampling_params.presence_penalty": "presence_penalty",
        "sampling_params.repetition_penalty": "repetition_penalty",
        "sampling_params.logit_bias": "logit_bias",
        "sampling_params.sampling_seed": "seed",
        "sampling_params.stop": "stop",
        "sampling_params.stop_token_ids": "stop_tokens",
        "sampling_params.ignore_eos": "ignore_eos",
    }

    model: str | None = None
    text: Prompts | None = None
    input_ids: Prompts | None = None
    sampling_params: SglangParams | None = None
    rid: str | None = None

    return_logprob: bool | None = None
    logprob_start_len: Annotated[int, Field(ge=-1)] | None = None
    top_logprobs_num: TopLogprobs | None = None
    token_ids_logprob: Nothing = None
    return_text_in_logprobs: bool | None = None
    return_hidden_states: No = None
    input_embeds: Nothing = None
    image_data: Nothing = None
    audio_data: Nothing = None
    video_data: Nothing = None
    modalities: Nothing = None
    lora_path: Nothing = None
    session_params: Nothing = None
    custom_logit_processor: Nothing = None
    background: No = None

    # These cannot change the text, so they are accepted and not used.
    log_metrics: bool | None = None
    extra_key: str | None = None

    @property
    def choices(self) -> int:
        """How many answers each prompt gets."""
        return (self.sampling_params and self.sampling_params.n) or 1

    @property
    def is_batch(self) -> bool:
        """Whether the answer is a list."""
        return self.choices > 1 or len(self._prompts) > 1

    def refuse_contradictions(self) -> None:
        """Refuse a request without a prompt, with two, or for too many answers."""
        super().refuse_contradictions()
        if (self.text is None) == (self.input_ids is None):
            raise InvalidValue("One of 'text' and 'input_ids' is needed, and only one.", "text")
        if self.top_logprobs_num and not self.return_logprob:
            raise InvalidValue("'top_logprobs_num' needs 'return_logprob' to be true.", "top_logprobs_num")
        refuse_too_many(self._prompts, self.choices, "sampling_params.n")

    def plan(self) -> Completions:
        """Return what to generate."""
        form = self.sampling_params.format() if self.sampling_params is not None else None
        return Completions(
            prompts_of(self._prompts),
            self.choices,
            response_format=form,
            logprobs=self._told(),
            is_counted=self.is_streamed,
        )

    @property
    def names(self) -> Names:
        """What the request calls the parameters that errors name."""
        name = self.sampling_params.format_name if self.sampling_params is not None else None
        return {
            **super().names,
            "n": _path("n"),
            **({"response_format": _path(name)} if name is not None else {}),
        }

    def _told(self) -> Logprobs | None:
        if not self.return_logprob:
            return None
        return Logprobs(self.top_logprobs_num or 0, of_prompt=self.first_told is not None)

    @property
    def first_told(self) -> int | None:
        """The first of the prompt's tokens whose log probability is told; None for none of them."""
        start = self.logprob_start_len
        return None if start is None or start < 0 else start

    @property
    def _prompts(self) -> list[object]:
        return self.text or self.input_ids or []
