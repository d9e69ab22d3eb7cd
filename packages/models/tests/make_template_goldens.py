"""Write data/template_goldens.json: what transformers makes of the cases with every template of a folder.

    python make_template_goldens.py FOLDER

For each template and conversation one hash of the prompts with all options, with and without the beginning of
an answer; and some whole prompts.
"""

import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
CASES = json.loads((DATA / "template_cases.json").read_text(encoding="utf-8"))
SPECIAL = {"bos_token": "<BOS>", "eos_token": "<EOS>", "unk_token": "<UNK>", "pad_token": "<PAD>"}

Render = Callable[..., str | None]
"""Takes template, messages and options; None where they are refused."""


def options_of(case: dict[str, Any]) -> dict[str, Any]:
    """Return what the template is given for one set of options."""
    return {**case, **({"tools": CASES["tools"]} if case.get("tools") else {})}


def prompts(render: Render, source: str, conversation: str) -> Iterator[str | None]:
    """Yield the prompts of a conversation, without today's date."""
    messages = CASES["conversations"][conversation]
    for case in CASES["options"]:
        for begins in (True, False):
            text = render(source, messages, add_generation_prompt=begins, **options_of(case))
            yield None if text is None else _without_dates(text, source)


def digest(texts: list[str | None]) -> str:
    """Return one hash of all these."""
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:24]


def summary(render: Render, source: str) -> dict[str, list[object]]:
    """Return for each conversation the hash of its prompts, and how many of them are refused."""
    found = {name: list(prompts(render, source, name)) for name in CASES["conversations"]}
    return {name: [digest(texts), texts.count(None)] for name, texts in found.items()}


def _without_dates(text: str, source: str) -> str:
    for pattern in re.findall(r"""strftime_now\(\s*['"](.+?)['"]""", source):
        text = text.replace(datetime.now().strftime(pattern), "<date>")
    return text


def by_transformers(source: str, messages: list[dict[str, Any]], **options: Any) -> str | None:
    """Return what transformers makes of a conversation."""
    from jinja2 import TemplateError
    from transformers.utils.chat_template_utils import render_jinja_template

    given: dict[str, Any] = {**SPECIAL, **options}
    try:
        return str(render_jinja_template([messages], chat_template=source, **given)[0][0])
    except (TemplateError, TypeError, ValueError, LookupError, AttributeError, RecursionError):
        return None


def main(folder: Path) -> None:
    """Write the file."""
    sources = {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.jinja"))}
    goldens = {
        "prompts": {name: summary(by_transformers, source) for name, source in sources.items()},
        "whole": {
            name: next(prompts(by_transformers, sources[name], conversation))
            for name, conversation in CASES["whole"].items()
        },
    }
    text = json.dumps(goldens, ensure_ascii=False, indent=0)
    (DATA / "template_goldens.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
