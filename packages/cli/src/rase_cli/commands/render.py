"""`rase render`"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rase_cli.chat_input import read_messages, read_tools, read_variables
from rase_cli.direct import choose
from rase_cli.file_path import FilePath
from rase_cli.output import answer, emit_json, emit_table
from rase_cli.settings import STORE, Settings, pass_settings, shared_options
from rase_cli.terminal import is_terminal

if TYPE_CHECKING:
    from rase_models.tokenizers import Tokenizer

_FILE = FilePath()


@click.command()
@click.argument("model", metavar="MODEL")
@click.argument("prompt", metavar="[PROMPT]", required=False)
@click.option("--messages", "file", type=_FILE, help="A JSON file of messages, as OpenAI's API has them.")
@click.option("--system", metavar="TEXT", help="What the model is told before the PROMPT.")
@click.option("--tools", type=_FILE, help="A JSON file of tools, as OpenAI's API has them.")
@click.option("--kwargs", metavar="JSON", help='Further variables, such as {"enable_thinking": false}.')
@click.option("--no-generation-prompt", is_flag=True, help="Leave out the beginning of an answer.")
@click.option("--continue", "is_continued", is_flag=True, help="Leave the last message open.")
@click.option("--tokens", is_flag=True, help="Show the tokens, an id and its text on each line.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object with prompt and tokens.")
@shared_options(STORE)
@pass_settings
def render(
    settings: Settings,
    model: str,
    prompt: str | None,
    file: Path | None,
    system: str | None,
    tools: Path | None,
    kwargs: str | None,
    no_generation_prompt: bool,
    is_continued: bool,
    tokens: bool,
    as_json: bool,
) -> None:
    """Show the prompt that a conversation becomes, exactly as the model reads it.

    MODEL is a registered id or the path of a GGUF file; its weights are not loaded. The PROMPT is the
    argument or standard input, and becomes a user's message.
    """
    from rase_models.chat.options import ChatOptions
    from rase_models.chat.prompt import chat_prompt

    messages = read_messages(prompt, file, system)
    options = ChatOptions(tools=read_tools(tools), variables=read_variables(kwargs))
    chosen = choose(settings, model)
    tokenizer = chosen.tokenizer()
    text = chat_prompt(
        chosen.template(tokenizer),
        tokenizer,
        messages,
        options,
        add_generation_prompt=not no_generation_prompt,
        continue_final_message=is_continued,
    )
    return _show(text, tokenizer, tokens=tokens, as_json=as_json)


def _show(text: str, tokenizer: "Tokenizer", *, tokens: bool, as_json: bool) -> None:
    ids = tokenizer.encode_prompt(text)  # which names what the model cannot read
    if not tokens and not as_json:
        answer(text)
        return answer("\n") if is_terminal(sys.stdout) else None
    if as_json:
        return emit_json({"prompt": text, "tokens": ids}, indent=None)
    pieces = [ascii(tokenizer.decode([token], skip_special_tokens=False)) for token in ids]
    return emit_table(("id", "token"), list(zip(ids, pieces, strict=True)))
