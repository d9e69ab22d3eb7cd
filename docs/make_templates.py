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
| Anthropic | `thinking`, as `enable_thinking` |
| Ollama | `think`, as `enable_thinking`, and as `reasoning_effort` where it is a word |
| Python | `ChatOptions(variables=...)` |
| `rase render` | `--kwargs '{"enable_thinking": false}'` |

A message's thought is `reasoning_content`, `thinking` or `reasoning`; templates find it under the first
two. Arguments of calls are objects.

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
rase refuses, too, but for two things:

- llama-cpp-deepseek-r1 writes the tools that a filter (`map`) has gone through as JSON. In transformers a
  filter gives a generator, which JSON does not have; here it gives a list, so the tools are written.
- gpt-oss refuses an answer with content, a thought and calls together. Clients that send back what they were
  given have all three, and the thought is of use only to the model's next step, so it is left out.

| template | equal | both refuse | rase alone renders |
|---|---|---|---|"""

ALONE = {"llama-cpp-deepseek-r1": None, "openai-gpt-oss-120b": "calls"}


def main() -> None:
    """Print the page."""
    goldens = json.loads((DATA / "template_goldens.json").read_text(encoding="utf-8"))["prompts"]
    cases = json.loads((DATA / "template_cases.json").read_text(encoding="utf-8"))
    each = 2 * len(cases["options"])
    _write(HEAD)
    totals = [0, 0, 0]
    for name, conversations in goldens.items():
        refused = sum(count for _, count in conversations.values())
        alone = sum(
            count for conversation, (_, count) in conversations.items() if _is_alone(name, conversation)
        )
        row = [each * len(conversations) - refused, refused - alone, alone]
        totals = [a + b for a, b in zip(totals, row, strict=True)]
        _write(f"| {name} | {' | '.join(str(count or '') for count in row)} |")
    _write(f"| **{len(goldens)} templates** | {' | '.join(f'**{count}**' for count in totals)} |")


def _is_alone(name: str, conversation: str) -> bool:
    return name in ALONE and ALONE[name] in (None, conversation)


def _write(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
