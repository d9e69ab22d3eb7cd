"""Prints docs/templates.md, made from the records of the tests: run it with its output sent there."""

import json
import sys
from pathlib import Path

DATA = Path(__file__).parent.parent / "packages" / "models" / "tests" / "data"

HEAD = """# Chat templates

A conversation becomes a prompt by a template in the language jinja: the model's own, from its GGUF file,
the one that it was registered with (`--chat-template`), or a built-in one for its architecture. `rase
render MODEL` and `POST /apply-template` show the prompt; `rase render MODEL --tokens` shows its tokens.

Made by `python docs/make_templates.py > docs/templates.md`.

## Variables

Templates are given `messages`, `tools`, `add_generation_prompt`, `bos_token`, `eos_token`, and whatever a
request adds:

| surface | variables |
|---|---|
| OpenAI's chat | `chat_template_kwargs`, `enable_thinking`, `reasoning_effort` (`none`: no thinking, too) |
| OpenAI's responses | `reasoning.effort` |
| Anthropic | `thinking`, as `enable_thinking` (`adaptive`: as the model does) |
| Anthropic | `output_config.effort`, as `reasoning_effort` |
| Ollama | `think`, as `enable_thinking`, and as `reasoning_effort` where it is a word |
| Python | `ChatOptions(variables=...)` |
| `rase render` | `--kwargs '{"enable_thinking": false}'` |

A variable that the template does not read is refused, and the error names those that it reads, so that no
setting is lost: a misspelt one, thinking of a model that does not think, an effort where the template knows
only on and off. What asks for that which happens anyway is taken: no thinking where the template speaks of
none, thinking where it has tags for it and no switch. `enable_thinking` is told by the template's own switch:
`thinking`, `thinking_mode`, `thinking_budget` or `reasoning`, and `reasoning_effort` as `thinking_effort`,
where it calls them so. An effort switches thinking on, and `none` switches it off; an effort and a switch
that say the opposite are refused. `rase serve --lenient` leaves others out with a warning, as does
`ChatOptions(is_lenient=True)`. Words that some models know in the text (`/no_think`) stay text.

A message's thought is `reasoning_content`, `thinking` or `reasoning`; templates find it under the first
two. Arguments of calls are objects.

## What users and tools write

A model's control tokens (`<|im_end|>`, `</s>`) that are spelt out in messages of users or tools, in anything
that these hold, or in the variable `documents`, are text there: nobody ends a turn or begins one by writing
it. So are user-defined tokens of the form `<|user|>`, `<|turn>`, `<turn|>` or `<｜User｜>`, by which many
models divide turns, and a token that such a string would make with what stands right beside it (a name that
ends in `<|im_` before a content that begins with `end|>`). All surfaces go that way, and so do the counts of
tokens.

The template is given a private character of Unicode in the place of the first one of each such spelling, so
that strings keep their length, one that neither the conversation nor the template has; in the prompt these
are tokens no more, and the tokenizer sees the text as it was, as does who is shown the prompt. Where no token
is spelt out, the prompt is a plain text.

- Messages of `system`, `developer` and `assistant`, tools, and all other variables may have control tokens:
  they come from those who run the model, and answers may be written back as they came. So the text of an
  assistant that a client sends back is trusted: who lets others write it, checks it.
- Other user-defined tokens are found everywhere (`<think>` in many files), as they are in other texts.
- A template that looks for a control token in what a user wrote (`'<|im_end|>' in content`), or for the first
  character of one, does not find it.
- What a template takes out of a message (`content.replace('/no_think', '')`) leaves no control token either:
  it is rendered once more with the first character of each token replaced wherever strings have it, or the
  second one, and that counts where the prompt is the same. A template that both looks for such a character in
  a message and takes something out may make one.
- A template that makes something else of a message may make a control token of it: by another case, by
  writing the beginning and the end of one around a value (`<|{{ message.name }}|>`). So may two strings, of
  which one ends and the other begins with letters and digits alone, where a control token has no other
  characters.
- Control tokens that a `tokenizer.json` finds in normalised text (`normalized`, which hardly any has) are
  known by their own spelling alone, not by one that is normalised to it (`</S>`).
- A prompt that is text already (`/v1/completions`, `generate`, `count_tokens`), also one that `render` or
  `/apply-template` returned as text, has the control tokens that it spells.
- Control tokens of a single character stay tokens.

Tools are refused for a template that teaches no calls, also where it is only rendered or counted.

## The sandbox

Templates come with models, and models from anybody. They run in jinja's immutable sandbox, with the filters
and methods of plain values only; every loop, value and format is counted. One that takes more than 0.75 s
of CPU time, makes a value of more than 4 million characters or 128 million in all (more for long
conversations), reckons with numbers of more than 16,384 bits, has more than 8,000 parts, or reaches for
anything hidden, is an error that names the template's line. Functions are
`raise_exception`, `strftime_now`, `namespace`, `range` and `dict`.

## Compared with transformers

Seven conversations with seven sets of options, with and without the beginning of an answer, rendered by
`apply_chat_template` of transformers and by rase: 98 prompts for each template. What transformers refuses,
rase refuses, too, but for three things:

- llama-cpp-deepseek-r1 writes the tools that a filter (`map`) has gone through as JSON. In transformers a
  filter gives a generator, which JSON does not have; here it gives a list, so the tools are written.
- gpt-oss refuses an answer with content, a thought and calls together. Clients that send back what they were
  given have all three, and the thought is of use only to the model's next step, so it is left out.
- Kimi K2 keeps the ids of calls in a list that it adds to (`append`, `pop`), which the sandbox of
  transformers forbids. Here a template may add to the lists that it has written itself; those that it is
  given stay as they are.

LFM 2 and Granite 3 write no calls of earlier answers. Where a template teaches one of their formats, or that
of Hermes, and does not mention `tool_calls`, calls stand behind the content as the model has written them.

A GGUF file may have a template for tools besides (`tokenizer.chat_template.tool_use`, as Hermes 2 and 3 and
Command R have): it is used where there are tools. By itself that of Hermes renders no conversation without
tools, nor tools with values that may be null, in transformers as here.

| template | equal | both refuse | rase alone renders | rase writes the calls, too |
|---|---|---|---|---|"""

ALONE = {
    "llama-cpp-deepseek-r1": None,
    "openai-gpt-oss-120b": "calls",
    "Kimi-K2-Instruct": "call",
    "Kimi-K2-Thinking": "call",
}
"""What begin the names of the conversations that rase renders and transformers refuses; None for all."""

TOLD = ("LFM2-8B-A1B", "ibm-granite-granite-3.3-2B-Instruct")
"""Templates that leave calls out, which rase writes."""


def main() -> None:
    """Print the page."""
    goldens = json.loads((DATA / "template_goldens.json").read_text(encoding="utf-8"))["prompts"]
    cases = json.loads((DATA / "template_cases.json").read_text(encoding="utf-8"))
    each = 2 * len(cases["options"])
    _write(HEAD)
    totals = [0, 0, 0, 0]
    for name, conversations in goldens.items():
        refused = sum(count for _, count in conversations.values())
        alone = sum(
            count for conversation, (_, count) in conversations.items() if _is_alone(name, conversation)
        )
        told = each * sum(conversation.startswith("call") for conversation in conversations if name in TOLD)
        row = [each * len(conversations) - refused - told, refused - alone, alone, told]
        totals = [a + b for a, b in zip(totals, row, strict=True)]
        _write(f"| {name} | {' | '.join(str(count or '') for count in row)} |")
    _write(f"| **{len(goldens)} templates** | {' | '.join(f'**{count}**' for count in totals)} |")


def _is_alone(name: str, conversation: str) -> bool:
    return name in ALONE and conversation.startswith(ALONE[name] or "")


def _write(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
