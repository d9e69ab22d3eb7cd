"""Settings of the server: which can be, and what is told of those that cannot."""

import pytest
from rase_api import create_app
from rase_api.errors import InvalidSetting
from rase_api.settings import Options
from rase_api.testing import ScriptedEngine


@pytest.mark.parametrize(
    "options",
    [
        {"api_keys": "secret"},
        {"api_keys": [""]},
        {"cors_origins": "*"},
        {"allowed_hosts": "here.example"},
        *({"api_keys": ["good", key]} for key in (" ", " secret", "secret\n", "se\ncret", "\x07")),
        *(
            {"cors_origins": ["https://page.example", origin]}
            for origin in (
                *("", "foo", "page.example", "https://", "https://page.example/", "https://Page.example"),
                *("HTTPS://page.example", "https://page.example:443", "http://page.example:80"),
                *("https://*.example", "https://a b", "https://page.example\n", "https://user@page.example"),
                *("https://page.example:port", "https://bücher.example", "https://page.example?x"),
            )
        ),
        *(
            {"allowed_hosts": ["box.example", host]}
            for host in (
                *("", "a b", " box", "box.example:8080", "http://box.example", "box.example/", "*.example"),
                *("::1", "[::1]", "box.example.", "bücher.example", "box\n"),
            )
        ),
        {"max_body_bytes": 0},
        {"max_body_bytes": -1},
        {"request_timeout": 0},
        {"request_timeout": float("nan")},
        {"keep_alive_seconds": -1},
    ],
)
def test_a_setting_that_cannot_be_is_named(options: Options) -> None:
    with pytest.raises(InvalidSetting, match=next(iter(options))):
        create_app(ScriptedEngine(), **options)


@pytest.mark.parametrize(
    "options",
    [
        {"api_keys": ["a", "sk-1 2", "schlüssel"]},
        {
            "cors_origins": [
                "*",
                "null",
                "http://localhost:3000",
                "https://[::1]:8443",
                "http://a.example:443",
            ]
        },
        {
            "cors_origins": [
                "chrome-extension://abcdefgh",
                "tauri://localhost",
                "https://xn--bcher-kva.example",
            ]
        },
        {"allowed_hosts": ["*", "BOX", "my_service", "box.example", "10.0.0.1"]},
    ],
)
def test_a_setting_that_can_match_is_taken(options: Options) -> None:
    create_app(ScriptedEngine(), **options)


def test_a_key_that_is_refused_is_not_told() -> None:
    with pytest.raises(InvalidSetting) as caught:
        create_app(ScriptedEngine(), api_keys=["secret "])
    assert "secret" not in str(caught.value)
