"""`/think` and `/no_think`, which are words to the model or to its template, and the answers to them."""

from collections.abc import Iterator, Mapping

import httpx
import pytest
from rase_api.app import create_app
from rase_api.testing import ScriptedEngine, served
from rase_models import Engine
from rase_models.testing import write_tiny_model

QWEN = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}"
)
SMOLLM = (
    "{% set ns = namespace(thinks=enable_thinking is not defined or enable_thinking) %}"
    "{% if messages[0].role == 'system' %}"
    "{% if '/no_think' in messages[0].content %}{% set ns.thinks = false %}"
    "{% elif '/think' in messages[0].content %}{% set ns.thinks = true %}{% endif %}{% endif %}"
    "{% for m in messages %}{{ m.content | replace('/no_think', '') | replace('/think', '') }}\n{% endfor %}"
    "{{ '<think>\n' if ns.thinks else '<think>\n\n</think>\n' }}"
)
ALWAYS = "{{ messages[0].content }}<think>\n{# ends in </think> #}"
CHAT = "/v1/chat/completions"


def body(text: str, **fields: object) -> dict[str, object]:
    return {"model": "demo", "messages": [{"role": "user", "content": text}], **fields}


@pytest.fixture(scope="module", params=["", "\n\n", "hm"])
def thought(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def client(thought: str) -> Iterator[httpx.Client]:
    engine = ScriptedEngine(f"<think>{thought}</think>\n\nYes.", template=QWEN, context_length=1000)
    with served(create_app(engine)) as url, httpx.Client(base_url=url, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a server whose models have real templates; nothing is computed."""
    folder = tmp_path_factory.mktemp("store")
    weights = write_tiny_model(folder / "tiny.gguf")
    with Engine(folder / "store", "reference") as engine:
        engine.import_model(weights, "demo", chat_template=QWEN)
        engine.import_model(weights, "smollm", chat_template=SMOLLM)
        engine.import_model(weights, "plain", chat_template="chatml")
        engine.import_model(weights, "always", chat_template=ALWAYS)
        with served(create_app(engine)) as url, httpx.Client(base_url=url, timeout=30) as client:
            yield client


def prompt_of(client: httpx.Client, asked: Mapping[str, object]) -> str:
    return str(client.post("/apply-template", json=asked).json()["prompt"])


@pytest.mark.parametrize("switch", ["/no_think", "/think"])
def test_a_switch_reaches_the_model_as_it_is(prompts: httpx.Client, switch: str) -> None:
    for asked in (f"Why? {switch}", switch):
        prompt = prompt_of(prompts, body(asked))
        assert f"\n{asked}<|im_end|>" in prompt and prompt.endswith("<|im_start|>assistant\n")


def test_an_empty_thought_is_none_and_any_other_is_told_apart(client: httpx.Client, thought: str) -> None:
    message = client.post(CHAT, json=body("Why? /no_think")).json()["choices"][0]["message"]
    assert message["content"] == "Yes."
    assert (message.get("reasoning_content") or "") == thought.strip()


def test_a_stream_tells_them_apart_too(client: httpx.Client, thought: str) -> None:
    lines = client.post(CHAT, json=body("Why? /no_think", stream=True)).text.splitlines()
    deltas = [httpx.Response(200, text=line[6:]).json() for line in lines if line.startswith("data: {")]
    parts: list[Mapping[str, str]] = [chunk["choices"][0]["delta"] for chunk in deltas if chunk["choices"]]
    assert "".join(part.get("content") or "" for part in parts) == "Yes."
    assert "".join(part.get("reasoning_content") or "" for part in parts) == thought.strip()


@pytest.mark.parametrize(
    ("fields", "thinks"),
    [
        ({}, True),
        ({"enable_thinking": False}, False),
        ({"chat_template_kwargs": {"enable_thinking": False}}, False),
        ({"reasoning_effort": "none"}, False),
        ({"enable_thinking": True}, True),
    ],
)
def test_a_request_switches_it_off_whatever_the_words(
    prompts: httpx.Client, fields: dict[str, object], thinks: bool
) -> None:
    prompt = prompt_of(prompts, body("Why? /think", **fields))
    assert prompt.endswith("</think>\n\n") is not thinks


ASKED = [{"role": "user", "content": "Why?"}]
LOST: list[tuple[str, dict[str, object], str]] = [
    (CHAT, {"messages": ASKED, "reasoning_effort": "low"}, "reasoning_effort"),
    (CHAT, {"messages": ASKED, "chat_template_kwargs": {"mood": 1}}, "chat_template_kwargs.mood"),
    (f"{CHAT}/input_tokens", {"messages": ASKED, "reasoning_effort": "low"}, "reasoning_effort"),
    (
        "/apply-template",
        {"messages": ASKED, "chat_template_kwargs": {"mood": 1}},
        "chat_template_kwargs.mood",
    ),
    ("/v1/responses", {"input": "Why?", "reasoning": {"effort": "low"}}, "reasoning.effort"),
    ("/v1/responses/input_tokens", {"input": "Why?", "reasoning": {"effort": "low"}}, "reasoning.effort"),
    (
        "/v1/messages",
        {"messages": ASKED, "max_tokens": 5, "output_config": {"effort": "low"}},
        "output_config.effort",
    ),
    (
        "/v1/messages/count_tokens",
        {"messages": ASKED, "output_config": {"effort": "low"}},
        "output_config.effort",
    ),
    ("/api/chat", {"messages": ASKED, "think": "low"}, "think"),
    ("/api/generate", {"prompt": "Why?", "think": "low"}, "think"),
]


@pytest.mark.parametrize(("path", "fields", "name"), LOST)
def test_a_setting_that_the_template_does_not_read_is_refused_by_its_name(
    prompts: httpx.Client, path: str, fields: dict[str, object], name: str
) -> None:
    answer = prompts.post(path, json={"model": "demo", **fields})
    assert answer.status_code == 400
    assert f"'{name}'" in answer.text and "it reads enable_thinking" in answer.text


@pytest.mark.parametrize(
    ("path", "fields", "name"),
    [
        (CHAT, {"messages": ASKED, "reasoning_effort": "none"}, "reasoning_effort"),
        (f"{CHAT}/input_tokens", {"messages": ASKED, "reasoning_effort": "none"}, "reasoning_effort"),
        (CHAT, {"messages": ASKED, "enable_thinking": False}, "enable_thinking"),
        (CHAT, {"messages": ASKED, "reasoning_effort": "none", "enable_thinking": False}, "enable_thinking"),
        ("/apply-template", {"messages": ASKED, "reasoning_effort": "none"}, "reasoning_effort"),
        ("/v1/responses", {"input": "Why?", "reasoning": {"effort": "none"}}, "reasoning.effort"),
        ("/api/chat", {"messages": ASKED, "think": False}, "think"),
    ],
)
def test_a_model_that_always_thinks_refuses_not_to_by_the_name_that_asked(
    prompts: httpx.Client, path: str, fields: dict[str, object], name: str
) -> None:
    answer = prompts.post(path, json={"model": "always", **fields})
    assert answer.status_code == 400
    assert (
        f"'{name}': expected thinking, or nothing: the chat template has no switch against it" in answer.text
    )


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"enable_thinking": True, "chat_template_kwargs": {"enable_thinking": False}}, "enable_thinking"),
        ({"reasoning_effort": "none", "enable_thinking": True}, "reasoning_effort"),
    ],
)
def test_switches_that_contradict_each_other_are_refused(
    prompts: httpx.Client, fields: dict[str, object], name: str
) -> None:
    answer = prompts.post("/apply-template", json=body("Why?", **fields))
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, name)


@pytest.mark.parametrize("kind", ["adaptive", "enabled", "disabled"])
def test_thinking_as_the_model_does_is_taken_of_any_model(prompts: httpx.Client, kind: str) -> None:
    thinking = {"type": kind, "budget_tokens": 1024} if kind == "enabled" else {"type": kind}
    fields = {"model": "plain", "messages": ASKED, "thinking": thinking}
    answer = prompts.post("/v1/messages/count_tokens", json=fields)
    assert answer.status_code == (400 if kind == "enabled" else 200)
    assert kind != "enabled" or "'thinking'" in answer.text


@pytest.mark.parametrize(("switch", "opened"), [("/no_think", False), ("/think", True), ("", True)])
def test_a_template_that_knows_the_words_decides(prompts: httpx.Client, switch: str, opened: bool) -> None:
    messages = [{"role": "system", "content": f"Be brief. {switch}"}, {"role": "user", "content": "Why?"}]
    prompt = prompt_of(prompts, {"model": "smollm", "messages": messages})
    assert prompt.endswith("<think>\n") is opened and "think" not in prompt.partition("<")[0]
