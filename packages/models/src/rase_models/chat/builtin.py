"""The templates that rase brings for models whose files have none."""

from collections.abc import Mapping

_CHATML = """\
{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
"""

_LLAMA3 = """\
{{- bos_token -}}
{%- for message in messages -%}
{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' -}}
{{- message.content | trim + '<|eot_id|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}{%- endif -%}
"""

# The models know no system role, so a system text becomes the beginning of the next user's.
_MERGE_SYSTEM = """\
{{- bos_token -}}
{%- set ns = namespace(system='') -%}
{%- for message in messages -%}
{%- if message.role == 'system' -%}
{%- set ns.system = ns.system + OPEN + message.content | trim + CLOSE -%}
{%- elif message.role == 'assistant' -%}
{{- ASSISTANT -}}
{%- elif message.role in ('user', 'tool') -%}
{{- USER -}}
{%- set ns.system = '' -%}
{%- else -%}
{{- raise_exception('the role ' + message.role + ' is not known to it') -}}
{%- endif -%}
{%- endfor -%}
{%- if ns.system -%}{{- LAST -}}{%- endif -%}
{%- if add_generation_prompt -%}{{- PROMPT -}}{%- endif -%}
"""


def _merging(**parts: str) -> str:
    text = _MERGE_SYSTEM
    for name, part in parts.items():
        text = text.replace(name, part)
    return text


_MISTRAL = _merging(
    OPEN="''",
    CLOSE="'\\n\\n'",
    ASSISTANT="' ' + message.content | trim + eos_token",
    USER="'[INST] ' + ns.system + message.content | trim + ' [/INST]'",
    LAST="'[INST] ' + ns.system | trim + ' [/INST]'",
    PROMPT="''",
)

_LLAMA2 = _merging(
    OPEN="'<<SYS>>\\n'",
    CLOSE="'\\n<</SYS>>\\n\\n'",
    ASSISTANT="' ' + message.content | trim + ' ' + eos_token",
    USER=(
        "('' if loop.first or ns.system else bos_token)"
        " + '[INST] ' + ns.system + message.content | trim + ' [/INST]'"
    ),
    LAST="'[INST] ' + ns.system + ' [/INST]'",
    PROMPT="''",
)

_GEMMA = _merging(
    OPEN="''",
    CLOSE="'\\n\\n'",
    ASSISTANT="'<start_of_turn>model\\n' + message.content | trim + '<end_of_turn>\\n'",
    USER="'<start_of_turn>user\\n' + ns.system + message.content | trim + '<end_of_turn>\\n'",
    LAST="'<start_of_turn>user\\n' + ns.system | trim + '<end_of_turn>\\n'",
    PROMPT="'<start_of_turn>model\\n'",
)

BUILTIN_TEMPLATES: Mapping[str, str] = {
    "chatml": _CHATML,
    "llama3": _LLAMA3,
    "mistral": _MISTRAL,
    "llama2": _LLAMA2,
    "gemma": _GEMMA,
}
"""By name: jinja text."""

_BY_ARCHITECTURE: Mapping[str, str] = {
    "llama3": "llama3",
    "llama": "mistral",
    "llama2": "mistral",
    "mistral": "mistral",
    "mixtral": "mistral",
    **dict.fromkeys(("gemma", "gemma2", "gemma3", "gemma3n"), "gemma"),  # Gemma 4 writes turns otherwise
}
_BY_FAMILY: Mapping[str, str] = {"qwen": "chatml"}


def builtin_name(architecture: str) -> str | None:
    """Return the name of the template for an architecture, or None when there is none for it."""
    by_family = (name for family, name in _BY_FAMILY.items() if architecture.startswith(family))
    return _BY_ARCHITECTURE.get(architecture) or next(by_family, None)
