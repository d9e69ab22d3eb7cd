"""POST /api/show: what Ollama's clients are told of a model before they ask it."""

from pathlib import Path

import httpx
import pytest
from rase_api import create_app
from rase_api.testing import ScriptedEngine, served
from rase_core.errors import ModelFileNotFound, TemplateError
from rase_models.engine import Engine

ABLE = (
    "{% if tools %}<tools>{{ tools | tojson }}</tools> call as "
    '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>{% endif %}'
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}<|im_start|>assistant\n{% if not enable_thinking %}<think>\n\n</think>\n\n{% endif %}"
)


def test_a_model_is_shown_by_the_name_that_older_clients_send(client: httpx.Client) -> None:
    shown = client.post("/api/show", json={"model": "demo"}).json()
    assert shown["details"]["format"] == "gguf"
    for body in ({"name": "demo"}, {"name": "demo", "model": "demo"}, {"name": "demo", "model": None}):
        assert client.post("/api/show", json=body).json() == shown


@pytest.mark.parametrize(("body", "at_fault"), [({}, "model"), ({"name": "demo", "model": "other"}, "name")])
def test_no_model_and_two_are_refused(client: httpx.Client, body: dict[str, str], at_fault: str) -> None:
    response = client.post("/api/show", json=body)
    assert response.status_code == 400
    assert f"'{at_fault}'" in response.json()["error"]


def test_a_model_says_what_its_template_knows_of(smollm2_path: Path, tmp_path: Path) -> None:
    with Engine(tmp_path, "cpu") as engine, served(create_app(engine)) as url:
        engine.import_model(smollm2_path, "plain")
        engine.import_model(smollm2_path, "able", chat_template=ABLE)
        plain, able = (
            httpx.post(f"{url}/api/show", json={"model": name}).json() for name in ("plain", "able")
        )
        assert list(engine.loaded_models()) == []
    assert plain["capabilities"] == ["completion"]
    assert "<|im_start|>" in plain["template"]
    assert able["capabilities"] == ["completion", "tools", "thinking"]
    assert able["template"] == ABLE


@pytest.mark.parametrize("error", [TemplateError("no chat template"), ModelFileNotFound(Path("gone.gguf"))])
def test_a_model_whose_template_cannot_be_read_is_shown_all_the_same(error: Exception) -> None:
    class Untold(ScriptedEngine):
        def chat_template(self, model_id: str) -> str:
            raise error

    with served(create_app(Untold())) as url:
        shown = httpx.post(f"{url}/api/show", json={"model": "demo"}).json()
    assert (shown["template"], shown["capabilities"]) == ("", ["completion"])
