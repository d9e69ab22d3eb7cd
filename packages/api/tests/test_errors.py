import logging
from pathlib import Path

import pytest
import rase_core.errors
from rase_api.dialects import ANTHROPIC, ANTHROPIC_TYPES, OLLAMA, OPENAI
from rase_api.errors import RequestError
from rase_api.faults import FAULTS, fault_of
from rase_core.errors import (
    BackendFailure,
    ContextOverflow,
    EngineError,
    IntegrityMismatch,
    InvalidAlias,
    InvalidConversation,
    InvalidGenerationConfig,
    InvalidLogits,
    InvalidModelId,
    InvalidParameter,
    ModelNotFound,
    QueueFull,
    StoreError,
    TemplateError,
    UnencodableText,
)


def error_of(error: BaseException, **names: str) -> dict[str, object]:
    inner = OPENAI.envelope(error, names)["error"]
    assert isinstance(inner, dict)
    assert set(inner) == {"message", "type", "param", "code"}
    return inner


def subclasses(kind: type[BaseException]) -> set[type[BaseException]]:
    direct = kind.__subclasses__()
    return set(direct).union(*(subclasses(sub) for sub in direct))


def test_every_error_that_a_request_can_cause_has_a_line_of_its_own() -> None:
    assert subclasses(RequestError) <= set(FAULTS)


KINDS = sorted(subclasses(EngineError), key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_of_the_core_has_an_answer(kind: type[BaseException]) -> None:
    if kind.__module__.startswith(rase_core.errors.__name__):
        fault = next(FAULTS[base] for base in kind.__mro__ if base in FAULTS)
        assert 400 <= fault.status < 600


@pytest.mark.parametrize(
    ("error", "status", "code", "param"),
    [
        (ModelNotFound("x", ["a", "b"]), 404, "model_not_found", "model"),
        (InvalidModelId("../x"), 404, "model_not_found", "model"),
        (InvalidAlias("x", "is one of a, b"), 404, "model_not_found", "model"),
        (ContextOverflow(200, 128), 400, "context_length_exceeded", "prompt"),
        (TemplateError("no template"), 400, "chat_template_error", "prompt"),
        (InvalidConversation("no content", index=3), 400, "invalid_value", "prompt[3]"),
        (UnencodableText("the byte 0xf1"), 400, "invalid_value", "prompt"),
        (InvalidConversation("refused"), 400, "invalid_value", "prompt"),
        (InvalidGenerationConfig("top_p", 2, "0 to 1"), 400, "invalid_value", "top_p"),
        (InvalidParameter("n", 0, "1 or more"), 400, "invalid_value", "n"),
        (InvalidLogits(3, 1), 500, "engine_error", None),
        (BackendFailure("out of memory"), 500, "engine_error", None),
        (StoreError("no permission"), 500, "store_error", None),
        (IntegrityMismatch("x", Path("/x"), "a", "b"), 500, "integrity_mismatch", None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_has_the_answer_of_its_nearest_class(
    error: EngineError, status: int, code: str, param: str | None
) -> None:
    assert fault_of(error).status == status
    assert error_of(error)["code"] == code
    assert error_of(error)["param"] == param


def test_an_unknown_model_is_told_which_there_are() -> None:
    assert "(registered: a, b)" in str(error_of(ModelNotFound("x", ["a", "b"]))["message"])


def test_an_overflow_is_told_in_the_words_that_clients_look_for() -> None:
    error = error_of(ContextOverflow(8227, 8192), prompt="messages")
    assert error["message"] == (
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 8227 tokens. "
        "Please reduce the length of the messages."
    )
    assert error["param"] == "messages"


def test_a_parameter_is_called_what_the_request_called_it() -> None:
    error = error_of(
        InvalidGenerationConfig("max_tokens", -1, "0 or more"), max_tokens="max_completion_tokens"
    )
    assert error["param"] == "max_completion_tokens"
    assert "'max_completion_tokens'" in str(error["message"])


def test_a_bug_tells_nothing_of_itself_but_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, logger="rase_api"):
        response = OPENAI.response(ZeroDivisionError("secret"))
    assert response.status_code == 500
    assert b"secret" not in response.body
    assert b"Traceback" not in response.body
    assert "secret" in caplog.text


def test_a_clients_fault_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    OPENAI.response(ModelNotFound("x", []))
    assert not caplog.records


def test_a_message_that_repeats_its_cause_is_cut() -> None:
    assert len(str(error_of(ModelNotFound("x" * 100_000, []))["message"])) < 1100


def test_each_api_has_its_own_form_for_the_same_error() -> None:
    error = ModelNotFound("x", ["a"])
    message = "model 'x' is not registered (registered: a)"
    assert OLLAMA.envelope(error, {}) == {"error": message}
    assert ANTHROPIC.envelope(error, {}) == {
        "type": "error",
        "error": {"type": "not_found_error", "message": message},
    }


def test_every_status_has_a_type_of_anthropics() -> None:
    assert {fault.status for fault in FAULTS.values()} <= set(ANTHROPIC_TYPES)


def test_a_full_queue_says_when_to_come_back() -> None:
    response = OPENAI.response(QueueFull(64))
    assert response.status_code == 429
    assert response.headers["retry-after"] == "1"
