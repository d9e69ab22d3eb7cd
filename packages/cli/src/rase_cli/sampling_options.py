"""The fields of GenerationConfig as command-line options, by one table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from rase_cli.settings import Body

if TYPE_CHECKING:
    from rase_core.sampling import GenerationConfig
    from rase_models.engine import Engine


def token_and_bias(text: str) -> tuple[int, float]:
    """Parse `TOKEN=BIAS`, as in `--logit-bias 42=-5`. Raises click.BadParameter."""
    token, _, bias = text.partition("=")
    try:
        return int(token), float(bias)
    except ValueError:
        what = f"{text!r} is no TOKEN=BIAS, a token's id and a number, as in 42=-5"
        raise click.BadParameter(what) from None


@dataclass(frozen=True, slots=True)
class SamplingOption:
    """One field: the option is its name with dashes; `default` is what the help shows."""

    field: str
    kind: Callable[[str], object]
    default: str
    help: str
    repeated: bool = False

    def decorate(self, command: Body) -> Body:
        """Give a command this option; without it on the command line its value is None or empty."""
        flag = "--" + self.field.replace("_", "-")
        text = f"{self.help} [{'may be repeated' if self.repeated else 'default: ' + self.default}]"
        if self.kind is bool:
            return click.option(flag, self.field, is_flag=True, default=None, help=text)(command)
        return click.option(flag, self.field, type=self.kind, multiple=self.repeated, help=text)(command)


OPTIONS = (
    SamplingOption("max_tokens", int, "256", "The most tokens to generate."),
    SamplingOption("temperature", float, "0.7", "Randomness; 0 always takes the likeliest token."),
    SamplingOption("top_k", int, "40", "Choose among so many likeliest tokens; 0 for all."),
    SamplingOption("top_p", float, "0.95", "Choose among the likeliest tokens of this total probability."),
    SamplingOption("min_p", float, "0.05", "Drop tokens less likely than this part of the likeliest."),
    SamplingOption("repetition_penalty", float, "1.0", "Divide the odds of repeated tokens; 1 is off."),
    SamplingOption("presence_penalty", float, "0.0", "Lower every token that has appeared."),
    SamplingOption("frequency_penalty", float, "0.0", "Lower tokens by how often they have appeared."),
    SamplingOption("penalty_last_n", int, "64", "How many last tokens the penalties look at."),
    SamplingOption(
        "dry_multiplier", float, "0.0", "Strength of the penalty on repeated sequences; 0 is off."
    ),
    SamplingOption("dry_base", float, "1.75", "How fast that penalty grows with the repeated length."),
    SamplingOption("dry_allowed_length", int, "2", "Repeated sequences up to this length are free."),
    SamplingOption("dry_penalty_last_n", int, "-1", "How many last tokens it looks at; -1 for all."),
    SamplingOption(
        "dry_sequence_breakers", int, "", "Repeated sequences end at this token id.", repeated=True
    ),
    SamplingOption("xtc_probability", float, "0.0", "How often to exclude the top choices; 0 is off."),
    SamplingOption("xtc_threshold", float, "0.1", "Top choices are the tokens at least this likely."),
    SamplingOption("seed", int, "0", "The same seed gives the same text."),
    SamplingOption("stop", str, "", "Stop before this text.", repeated=True),
    SamplingOption("stop_tokens", int, "", "Stop at this token id.", repeated=True),
    SamplingOption("ignore_eos", bool, "off", "Go on after the model's own end of the answer."),
    SamplingOption(
        "logit_bias", token_and_bias, "", "Add to the logit of a token, as in 42=-5.", repeated=True
    ),
    SamplingOption("bad_words", str, "", "Never write this text.", repeated=True),
)


def sampling_options(command: Body) -> Body:
    """Give a command an option for every field of GenerationConfig."""
    for option in reversed(OPTIONS):
        command = option.decorate(command)
    return command


def build_config(engine: "Engine", model_id: str, given: Mapping[str, object]) -> "GenerationConfig":
    """Return the model's own defaults with the options that were given; stops and bad words add to its own.

    Raises:
        InvalidGenerationConfig: a value is outside its range.
        ModelNotFound: the model is not registered.
    """
    changes: dict[str, Any] = {name: value for name, value in given.items() if value not in (None, ())}
    if "logit_bias" in changes:
        changes["logit_bias"] = dict(changes["logit_bias"])
    if "bad_words" in changes:
        changes["bad_words"] = _spellings(engine, model_id, changes["bad_words"])
    return engine.default_config(model_id).merged(changes)


def _spellings(engine: "Engine", model_id: str, words: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    from rase_models.bad_words import spellings

    return spellings(engine.load(model_id).tokenizer, words)
