"""The options of generation against the dataclass that they fill in."""

from dataclasses import MISSING, fields
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from rase_cli.sampling_options import OPTIONS, build_config, sampling_options
from rase_core.sampling import GenerationConfig
from rase_models.engine import Engine


def test_every_field_has_an_option_and_the_help_tells_its_default() -> None:
    options = {option.field: option for option in OPTIONS}
    assert set(options) == {field.name for field in fields(GenerationConfig)}
    for field in fields(GenerationConfig):
        option = options[field.name]
        if field.default_factory is not MISSING or option.repeated:
            assert option.repeated
        elif option.kind is bool:
            assert (option.default, field.default) == ("off", False)
        else:
            assert option.kind(option.default) == field.default


def parse(*arguments: str) -> dict[str, object]:
    seen: dict[str, object] = {}

    @click.command()
    @sampling_options
    def command(**given: object) -> None:
        seen.update(given)

    result = CliRunner().invoke(command, list(arguments))
    if result.exit_code:
        raise click.UsageError(result.stderr)
    return {name: value for name, value in seen.items() if value not in (None, ())}


def test_only_given_options_have_values() -> None:
    assert parse() == {}
    assert parse("--temperature", "0", "--seed", "7", "--ignore-eos") == {
        "temperature": 0.0,
        "seed": 7,
        "ignore_eos": True,
    }


def test_lists_are_repeated_options() -> None:
    assert parse("--stop", "a", "--stop", "b", "--logit-bias", "4=-1.5", "--stop-tokens", "3") == {
        "stop": ("a", "b"),
        "logit_bias": ((4, -1.5),),
        "stop_tokens": (3,),
    }


@pytest.mark.parametrize("text", ["", "4", "=1", "a=1", "4=b"])
def test_a_bias_is_a_token_and_a_number(text: str) -> None:
    with pytest.raises(click.UsageError, match=r"logit-bias.*TOKEN=BIAS"):
        parse("--logit-bias", text)


def test_stops_and_bad_words_are_added_to_the_models_own(smol: str, home: dict[str, str]) -> None:
    manifest = Path(home["RASE_STORE"]) / "manifests" / f"{smol}.toml"
    own = '[defaults]\nstop = ["own"]\nstop_tokens = [5]\nbad_words = [[7]]\nseed = 3\n'
    manifest.write_text(manifest.read_text("utf-8") + own, "utf-8")
    given = {
        "stop": ("a",),
        "stop_tokens": (6,),
        "logit_bias": ((4, -1.5),),
        "seed": 4,
        "bad_words": ("cat",),
    }
    with Engine(home["RASE_STORE"]) as engine:
        config = build_config(engine, smol, given)
    assert (config.stop, config.stop_tokens) == (("own", "a"), frozenset({5, 6}))
    assert (config.logit_bias, config.seed) == ({4: -1.5}, 4)
    assert config.bad_words[0] == (7,)
    assert len(config.bad_words) == 3
