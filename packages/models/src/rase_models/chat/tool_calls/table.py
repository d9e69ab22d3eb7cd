"""Which format the templates of a model teach it."""

from collections.abc import Sequence

from rase_models.chat.tool_calls.call_format import CallFormat
from rase_models.chat.tool_calls.deepseek import DEEPSEEK, DEEPSEEK_31
from rase_models.chat.tool_calls.gemma import FUNCTION_GEMMA, GEMMA
from rase_models.chat.tool_calls.granite import GRANITE
from rase_models.chat.tool_calls.harmony import HARMONY
from rase_models.chat.tool_calls.hermes import HERMES
from rase_models.chat.tool_calls.invoke import DEEPSEEK_4, DEEPSEEK_32, MINIMAX
from rase_models.chat.tool_calls.kimi import KIMI
from rase_models.chat.tool_calls.llama import LLAMA
from rase_models.chat.tool_calls.mistral import MISTRAL, MISTRAL_LIST
from rase_models.chat.tool_calls.phi import PHI
from rase_models.chat.tool_calls.pythonic import LFM2, LLAMA_PYTHONIC
from rase_models.chat.tool_calls.tagged_arguments import GLM, QWEN_CODER, SEED
from rase_models.chat.tool_calls.tagged_lists import APRIEL, COHERE, NEMOTRON

_SIGNS: Sequence[tuple[CallFormat, Sequence[str]]] = (
    (HARMONY, ("<|channel|>", "<|message|>")),
    (DEEPSEEK, ("<｜tool▁call▁begin｜>", "```json")),
    (DEEPSEEK_31, ("<｜tool▁call▁begin｜>",)),
    (DEEPSEEK_32, ("｜DSML｜", "function_calls>")),
    (DEEPSEEK_4, ("｜DSML｜", "invoke name=")),
    (MINIMAX, ("<minimax:tool_call>", "<invoke name=")),
    (KIMI, ("<|tool_call_argument_begin|>",)),
    (MISTRAL, ("[TOOL_CALLS]", "[ARGS]")),
    (MISTRAL_LIST, ("[TOOL_CALLS]",)),
    (SEED, ("<seed:tool_call>", "<function=")),
    (QWEN_CODER, ("<tool_call>", "<function=", "<parameter=")),
    (GLM, ("<tool_call>", "<arg_key>")),
    (GEMMA, ("<|tool_call>", "call:")),
    (FUNCTION_GEMMA, ("<start_function_call>",)),
    (PHI, ("<|/tool_call|>",)),
    (PHI, ("<|/tool|>",)),
    (GRANITE, ("<|tool_call|>",)),
    (LFM2, ("<|tool_call_start|>",)),
    (LFM2, ("<|tool_list_start|>",)),
    (APRIEL, ("<tool_calls>", "</tool_calls>", "[")),
    (NEMOTRON, ("<TOOLCALL>",)),
    (COHERE, ("<|START_ACTION|>",)),
    (HERMES, ("<tool_call>", "</tool_call>", '"name"', '"arguments"')),
    (LLAMA_PYTHONIC, ("[func_name1(",)),
    (LLAMA, ('"parameters":', "<|start_header_id|>")),
    (LLAMA, ('"parameters":', "<|python_tag|>")),
)
"""The first counts whose signs are all in a template's source."""

FORMATS: Sequence[CallFormat] = tuple({form.name: form for form, _ in _SIGNS}.values())
"""All that are known."""


def call_format(template: str) -> CallFormat | None:
    """Return the format that a template's source teaches; None when it teaches none that is known."""
    return next((form for form, signs in _SIGNS if all(sign in template for sign in signs)), None)
