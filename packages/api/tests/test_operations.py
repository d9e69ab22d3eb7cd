"""For those who run the server: readiness, settings, metrics, ids and the access log."""

import json
import logging
import re
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from rase_api import create_app
from rase_api.testing import Answering, ScriptedEngine, ScriptedModel, served
from rase_core.manifest import ModelManifest
from rase_core.scheduler import OnEvent
from rase_core.testing_waits import wait_for
from rase_models.engine import Engine
from rase_models.request import Question

CHAT = {"model": "demo", "messages": [{"role": "user", "content": "Hi"}]}
URL = "/v1/chat/completions"


@pytest.fixture
def fresh() -> Iterator[httpx.Client]:
    """A client of a server that nobody has asked anything yet."""
    with served(create_app(ScriptedEngine())) as url, httpx.Client(base_url=url) as client:
        yield client


def samples(client: httpx.Client) -> dict[tuple[str, ...], float]:
    """Read the metrics: name and label values, by label -> value."""
    response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


def has_stopped(engine: ScriptedEngine) -> bool:
    before = len(engine.decoder.calls)
    time.sleep(0.1)
    return len(engine.decoder.calls) == before


def test_a_server_is_ready_once_a_model_was_in_memory(fresh: httpx.Client) -> None:
    response = fresh.get("/ready")
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "not_ready"
    assert response.headers["retry-after"]
    fresh.post(URL, json=CHAT)
    assert fresh.get("/ready").json() == {"status": "ready", "models": ["demo"]}
    fresh.post("/api/generate", json={"model": "demo", "keep_alive": 0})
    assert fresh.get("/ready").json() == {"status": "ready", "models": []}


def test_the_settings_of_a_model_are_told(fresh: httpx.Client) -> None:
    before = fresh.get("/props").json()
    assert (before["model"], before["is_loaded"], before["chat_template"]) == ("demo", False, None)
    fresh.post(URL, json=CHAT)
    props = fresh.get("/props", params={"model": "demo"}).json()
    assert props["is_loaded"]
    assert props["chat_template"] == "{{ messages }}"
    assert props["default_generation_settings"]["n_ctx"] == 128
    assert props["default_generation_settings"]["params"]["temperature"] == 0.7
    assert fresh.get("/props", params={"model": "nope"}).status_code == 404


def test_a_forbidden_token_does_not_break_the_settings() -> None:
    engine = ScriptedEngine(defaults={"logit_bias": {"5": float("-inf")}})
    with served(create_app(engine)) as url:
        params = httpx.get(f"{url}/props").json()["default_generation_settings"]["params"]
    assert params["logit_bias"] == {"5": "-inf"}


def test_requests_tokens_and_times_are_counted(fresh: httpx.Client) -> None:
    fresh.post(URL, json=CHAT)
    fresh.post(URL, json=CHAT | {"stream": True})
    fresh.post(URL, json=CHAT | {"temperature": -1})
    fresh.post("/api/chat", json=CHAT | {"model": "nope"})
    fresh.get("/nope")
    counted = samples(fresh)
    assert counted["rase_requests_total", "ok", URL] == 2
    assert counted["rase_requests_total", "client_error", URL] == 1
    assert counted["rase_requests_total", "client_error", "/api/chat"] == 1
    assert counted["rase_requests_total", "client_error", "unknown"] == 1
    assert counted["rase_prompt_tokens_total", "demo"] == 16
    assert counted["rase_completion_tokens_total", "demo"] == 12
    assert counted["rase_first_text_seconds_count", "demo"] == 2
    assert counted["rase_request_seconds_count", URL] == 3
    assert counted[("rase_requests_running",)] == 1  # the one that reads the metrics


def test_a_prompt_counts_once_however_many_choices_it_has(fresh: httpx.Client) -> None:
    fresh.post("/v1/completions", json={"model": "demo", "prompt": ["Hi", "Hello"], "n": 3})
    counted = samples(fresh)
    assert counted["rase_prompt_tokens_total", "demo"] == len("Hi") + len("Hello")
    assert counted["rase_completion_tokens_total", "demo"] == 6 * 6


def test_two_servers_count_apart(fresh: httpx.Client) -> None:
    with served(create_app(ScriptedEngine())) as other:
        httpx.post(f"{other}{URL}", json=CHAT)
    assert ("rase_requests_total", "ok", URL) not in samples(fresh)


def test_every_answer_has_an_id_and_a_fit_one_is_kept(fresh: httpx.Client) -> None:
    for path in ("/health", "/nope"):
        assert re.fullmatch(r"[0-9a-f]{32}", fresh.get(path).headers["x-request-id"])
    given = fresh.post(URL, json=CHAT | {"stream": True}, headers={"x-request-id": "my-id.1"})
    assert given.headers["x-request-id"] == given.headers["request-id"] == "my-id.1"
    unfit = fresh.get("/health", headers={"x-request-id": "a b\tc" * 100})
    assert re.fullmatch(r"[0-9a-f]{32}", unfit.headers["x-request-id"])


def facts_of(caplog: pytest.LogCaptureFixture, path: str) -> dict[str, Any]:
    def found() -> list[dict[str, Any]]:
        facts = [vars(record)["request"] for record in caplog.records if record.name == "rase_api.access"]
        return [fact for fact in facts if fact["path"] == path]

    wait_for(lambda: bool(found()))
    return found()[-1]


@pytest.mark.parametrize("streamed", [False, True])
def test_a_request_is_logged_with_what_it_was_and_cost(
    caplog: pytest.LogCaptureFixture, streamed: bool
) -> None:
    caplog.set_level(logging.INFO, "rase_api.access")
    with served(create_app(ScriptedEngine(), json_log=True)) as url:
        httpx.post(f"{url}{URL}", json=CHAT | {"stream": streamed}, headers={"x-request-id": "abc"})
        facts = facts_of(caplog, URL)
    assert json.loads(caplog.records[-1].message) == facts
    assert (facts["id"], facts["method"], facts["status"], facts["outcome"]) == ("abc", "POST", 200, "ok")
    assert (facts["model"], facts["prompt_tokens"], facts["completion_tokens"]) == ("demo", 8, 6)
    assert facts["ms"] >= facts["first_text_ms"] > 0
    assert facts.get("stream", False) is streamed


def test_no_client_can_write_lines_into_the_log(
    fresh: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rase_api.access")
    fresh.get("/a%0Ab%20c")
    facts = facts_of(caplog, "/a\nb c")
    assert facts["outcome"] == "client_error"
    assert r'path="/a\nb c"' in caplog.records[-1].message
    assert "\n" not in caplog.records[-1].message


def test_a_long_path_is_clipped_in_the_log(fresh: httpx.Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rase_api.access")
    fresh.get("/" + "a" * 50_000)
    wait_for(lambda: any(record.name == "rase_api.access" for record in caplog.records))
    assert len(caplog.records[-1].message) < 1000


def test_a_bug_is_logged_and_counted_as_a_request(caplog: pytest.LogCaptureFixture) -> None:
    bugs = [ZeroDivisionError("secret")]

    class Broken(ScriptedEngine):
        def loaded_models(self) -> list[ScriptedModel]:
            if bugs:
                raise bugs.pop()
            return super().loaded_models()

    caplog.set_level(logging.INFO, "rase_api")
    app = create_app(Broken(), cors_origins=["https://page.example"])
    with served(app) as url, httpx.Client(base_url=url) as client:
        response = client.get("/ready", headers={"origin": "https://page.example", "x-request-id": "abc"})
        assert (response.status_code, response.headers["x-request-id"]) == (500, "abc")
        assert response.headers["access-control-allow-origin"] == "https://page.example"
        assert "secret" not in response.text
        facts = facts_of(caplog, "/ready")
        assert (facts["status"], facts["outcome"], facts["error"]) == (
            500,
            "server_error",
            "ZeroDivisionError",
        )
        assert samples(client)["rase_requests_total", "server_error", "/ready"] == 1
    assert "ZeroDivisionError: secret" in caplog.text


def test_an_answer_that_takes_too_long_is_ended(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rase_api.access")
    engine = ScriptedEngine(context_length=100_000, before_token=lambda: time.sleep(0.01))
    body = CHAT | {"ignore_eos": True, "max_tokens": 90_000}
    with served(create_app(engine, request_timeout=0.2)) as url:
        whole = httpx.post(f"{url}{URL}", json=body)
        assert whole.status_code == 504
        assert whole.json()["error"]["code"] == "request_timeout"
        assert facts_of(caplog, URL)["outcome"] == "timeout"
        streamed = httpx.post(f"{url}{URL}", json=body | {"stream": True})
        assert streamed.status_code == 200
        last = streamed.text.split("\n\n")[-2]
        assert json.loads(last.removeprefix("data: "))["error"]["code"] == "request_timeout"
        wait_for(lambda: has_stopped(engine))


@pytest.mark.parametrize(
    ("path", "body", "sign"),
    [
        (URL, CHAT, ": keep-alive\n\n"),
        ("/v1/responses", {"model": "demo", "input": "Hi"}, ": keep-alive\n\n"),
        ("/v1/messages", CHAT | {"max_tokens": 9}, 'event: ping\ndata: {"type":"ping"}\n\n'),
        ("/api/chat", CHAT, ""),
    ],
)
def test_a_stream_without_text_says_that_it_lives(path: str, body: dict[str, object], sign: str) -> None:
    engine = ScriptedEngine("Hi", before_token=lambda: time.sleep(0.3))
    with served(create_app(engine, keep_alive_seconds=0.1)) as url:
        text = httpx.post(f"{url}{path}", json=body | {"stream": True}).text
    assert text.count(sign) >= 2
    assert "" in text.replace(sign, "")


def test_a_stream_says_that_it_lives_before_its_first_text() -> None:
    class Loading(ScriptedEngine):
        def submit(self, model_id: str, question: Question, on_event: OnEvent) -> Answering:
            time.sleep(0.3)
            return super().submit(model_id, question, on_event)

    with served(create_app(Loading(), keep_alive_seconds=0.1)) as url:
        text = httpx.post(f"{url}{URL}", json=CHAT | {"stream": True}).text
        assert text.startswith(": keep-alive\n\n")
        assert text.endswith("data: [DONE]\n\n")
        refused = httpx.post(f"{url}{URL}", json=CHAT | {"stream": True, "temperature": -1})
        assert refused.status_code == 400


def test_a_client_that_goes_is_told_from_one_that_stays(
    fresh: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rase_api.access")
    engine = ScriptedEngine(context_length=100_000, before_token=lambda: time.sleep(0.01))
    body = json.dumps(CHAT | {"ignore_eos": True, "max_tokens": 90_000}).encode()
    with served(create_app(engine)) as url:
        address = httpx.URL(url)
        with socket.create_connection((address.host, address.port)) as connection:
            head = f"POST {URL} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            wait_for(lambda: len(engine.decoder.calls) > 3)
        assert facts_of(caplog, URL)["outcome"] == "cancelled"
        with httpx.Client(base_url=url) as client:
            assert samples(client)["rase_requests_total", "cancelled", URL] == 1


def test_queues_gaps_and_loads_are_counted(fresh: httpx.Client) -> None:
    fresh.post(URL, json=CHAT)
    fresh.post("/v1/completions", json={"model": "demo", "prompt": "Hi", "n": 2})
    counted = samples(fresh)
    assert counted["rase_queue_seconds_count", "demo"] == 2
    assert counted["rase_inter_token_seconds_count", "demo"] == 3 * 5
    assert counted["rase_model_loads_total", "demo"] == 1
    assert counted["rase_queue_length", "demo"] == 0
    assert ("rase_kv_tokens_capacity", "demo") not in counted


def test_what_is_never_computed_has_no_time_in_line(smollm2_path: Path, tmp_path: Path) -> None:
    with Engine(tmp_path, "cpu", threads=2, context_length=256) as engine:
        engine.import_model(smollm2_path, "demo")
        with served(create_app(engine)) as url, httpx.Client(base_url=url, timeout=60) as client:
            body: dict[str, object] = {"model": "demo", "prompt": ["One", "Two"], "n": 2}
            for most in (0, 1, 0, 2):
                answer = client.post("/v1/completions", json=body | {"max_tokens": most, "ignore_eos": True})
                assert answer.json()["usage"]["completion_tokens"] == 4 * most
            counted = samples(client)
    assert counted["rase_queue_seconds_count", "demo"] == counted["rase_started_total", "demo"] == 4


def test_what_a_real_models_scheduler_knows_is_told(smollm2_path: Path, tmp_path: Path) -> None:
    with Engine(tmp_path, "cpu", threads=2, context_length=256) as engine:
        engine.import_model(smollm2_path, "demo")
        with served(create_app(engine)) as url, httpx.Client(base_url=url, timeout=60) as client:
            assert not any(name.startswith("rase_kv") for name, *_ in samples(client))
            body = {
                "model": "demo",
                "prompt": "One two three four " * 20,
                "max_tokens": 3,
                "ignore_eos": True,
            }
            for _ in range(2):
                assert client.post("/v1/completions", json=body).status_code == 200
            wait_for(lambda: samples(client)["rase_sequences_decoding", "demo"] == 0)
            counted = samples(client)
    assert counted["rase_started_total", "demo"] == 2
    assert counted["rase_prefix_hits_total", "demo"] == 1
    assert counted["rase_generated_tokens_total", "demo"] == 6
    assert counted["rase_batch_size_bucket", "1.0", "demo"] >= 6
    assert counted["rase_batch_size_bucket", "+Inf", "demo"] == counted["rase_batch_size_count", "demo"]
    assert 0 < counted["rase_kv_tokens_used", "demo"] <= counted["rase_kv_tokens_capacity", "demo"]
    assert counted["rase_model_loads_total", "demo"] == 1
    assert counted["rase_inter_token_seconds_count", "demo"] > 0


@pytest.mark.parametrize("path", ["/", "/docs", "/health", "/v1/models", "/api/tags", "/metrics", "/props"])
def test_what_can_be_got_can_be_asked_for_its_head(fresh: httpx.Client, path: str) -> None:
    response = fresh.head(path)
    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["content-type"] == fresh.get(path).headers["content-type"]
    assert fresh.head("/v1/chat/completions").status_code == 405


def test_the_fingerprint_changes_with_what_decides_the_text() -> None:
    def fingerprint(engine: ScriptedEngine) -> str:
        with served(create_app(engine)) as url:
            return str(httpx.post(f"{url}{URL}", json=CHAT).json()["system_fingerprint"])

    plain, warm, narrow = ScriptedEngine(), ScriptedEngine(defaults={"temperature": 1.5}), ScriptedEngine()
    narrow.kv_type = "q8_0"
    found = [fingerprint(engine) for engine in (plain, ScriptedEngine(), warm, narrow)]
    assert found[0] == found[1]
    assert len(set(found)) == 3


def test_a_model_on_another_device_than_was_asked_for_says_so() -> None:
    engine = ScriptedEngine()
    with served(create_app(engine)) as url:
        before = httpx.post(f"{url}{URL}", json=CHAT).json()["system_fingerprint"]
        assert httpx.get(f"{url}/props").json()["fallback"] is None
        engine.load("demo").device, engine.load("demo").fallback = "cpu", "the cuda device was lost"
        props = httpx.get(f"{url}/props").json()
        assert (props["device"], props["fallback"]) == ("cpu", "the cuda device was lost")
        assert httpx.post(f"{url}{URL}", json=CHAT).json()["system_fingerprint"] != before


def test_the_fingerprint_changes_with_the_content_of_a_template_file(tmp_path: Path) -> None:
    template = tmp_path / "chat.jinja"

    class Templated(ScriptedEngine):
        def inspect(self, model_id: str) -> ModelManifest:
            return replace(super().inspect(model_id), template_file=template)

    found = set()
    with served(create_app(Templated())) as url:
        for content in ("{{ 1 }}", "{{ 2 }}"):
            template.write_text(content)
            found.add(httpx.post(f"{url}{URL}", json=CHAT).json()["system_fingerprint"])
        template.unlink()
        found.add(httpx.post(f"{url}{URL}", json=CHAT).json()["system_fingerprint"])
    assert len(found) == 3
