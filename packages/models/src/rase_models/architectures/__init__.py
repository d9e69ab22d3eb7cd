"""The architectures that rase runs, by the name that a file gives in `general.architecture`."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from rase_core.errors import UnsupportedArchitecture

from rase_models.architectures import (
    arcee,
    baichuan,
    bailingmoe,
    bailingmoe2,
    bloom,
    chatglm,
    codeshell,
    cohere2,
    command_r,
    deepseek,
    deepseek2,
    dots1,
    ernie4_5,
    ernie4_5_moe,
    exaone,
    exaone4,
    falcon,
    falcon_h1,
    gemma,
    gemma2,
    gemma3,
    gemma4,
    glm4,
    glm4moe,
    gpt2,
    gpt_oss,
    gptneox,
    granite,
    granitehybrid,
    granitemoe,
    hunyuan_dense,
    hunyuan_moe,
    internlm2,
    jais,
    lfm2,
    lfm2moe,
    llama,
    llama4,
    mamba2,
    minicpm,
    minimax_m2,
    mistral3,
    mpt,
    nemotron,
    nemotron_h,
    olmo,
    olmo2,
    olmoe,
    orion,
    phi2,
    phi3,
    qwen,
    qwen2,
    qwen2moe,
    qwen2vl,
    qwen3,
    qwen3moe,
    qwen3next,
    qwen3vl,
    qwen3vlmoe,
    qwen35,
    qwen35moe,
    refact,
    seed_oss,
    smollm3,
    stablelm,
    starcoder,
    starcoder2,
    xverse,
)
from rase_models.architectures.builder import ProgramBuilder
from rase_models.gguf import GgufFile
from rase_models.program import Program

ARCHITECTURES: Mapping[str, Callable[[ProgramBuilder], Program]] = MappingProxyType(
    {
        "arcee": arcee.build,
        "baichuan": baichuan.build,
        "bailingmoe": bailingmoe.build,
        "bailingmoe2": bailingmoe2.build,
        "bloom": bloom.build,
        "chatglm": chatglm.build,
        "codeshell": codeshell.build,
        "cohere2": cohere2.build,
        "command-r": command_r.build,
        "deepseek": deepseek.build,
        "deepseek2": deepseek2.build,
        "dots1": dots1.build,
        "ernie4_5": ernie4_5.build,
        "ernie4_5-moe": ernie4_5_moe.build,
        "exaone": exaone.build,
        "exaone4": exaone4.build,
        "falcon": falcon.build,
        "falcon-h1": falcon_h1.build,
        "gemma": gemma.build,
        "gemma2": gemma2.build,
        "gemma3": gemma3.build,
        "gemma4": gemma4.build,
        "glm4": glm4.build,
        "glm4moe": glm4moe.build,
        "gpt-oss": gpt_oss.build,
        "gpt2": gpt2.build,
        "gptneox": gptneox.build,
        "granite": granite.build,
        "granitehybrid": granitehybrid.build,
        "granitemoe": granitemoe.build,
        "hunyuan-dense": hunyuan_dense.build,
        "hunyuan-moe": hunyuan_moe.build,
        "internlm2": internlm2.build,
        "jais": jais.build,
        "lfm2": lfm2.build,
        "lfm2moe": lfm2moe.build,
        "llama": llama.build,
        "llama4": llama4.build,
        "mamba2": mamba2.build,
        "minicpm": minicpm.build,
        "minimax-m2": minimax_m2.build,
        "mistral3": mistral3.build,
        "mpt": mpt.build,
        "nemotron": nemotron.build,
        "nemotron_h": nemotron_h.build,
        "nemotron_h_moe": nemotron_h.build,
        "olmo": olmo.build,
        "olmo2": olmo2.build,
        "olmoe": olmoe.build,
        "orion": orion.build,
        "phi2": phi2.build,
        "phi3": phi3.build,
        "qwen": qwen.build,
        "qwen2": qwen2.build,
        "qwen2moe": qwen2moe.build,
        "qwen2vl": qwen2vl.build,
        "qwen3": qwen3.build,
        "qwen35": qwen35.build,
        "qwen35moe": qwen35moe.build,
        "qwen3moe": qwen3moe.build,
        "qwen3next": qwen3next.build,
        "qwen3vl": qwen3vl.build,
        "qwen3vlmoe": qwen3vlmoe.build,
        "refact": refact.build,
        "seed_oss": seed_oss.build,
        "smollm3": smollm3.build,
        "stablelm": stablelm.build,
        "starcoder": starcoder.build,
        "starcoder2": starcoder2.build,
        "xverse": xverse.build,
    }
)


def supported_architectures() -> tuple[str, ...]:
    """Return the names, sorted."""
    return tuple(sorted(ARCHITECTURES))


def build_program(file: GgufFile, context_length: int | None = None) -> Program:
    """Build the Program of a model from its metadata and tensor table.

    Sequences will have `context_length` tokens at most, None for as many as the model was made for; some
    models treat positions differently in a short context.

    Raises UnsupportedArchitecture; InvalidGguf and UnsupportedTensorType where the file is not what its
    architecture needs. Nothing is allocated from a size in the metadata that the tensors do not bear out.
    """
    name = file.architecture
    if name not in ARCHITECTURES:
        raise UnsupportedArchitecture(name, supported_architectures(), file.path)
    return ARCHITECTURES[name](ProgramBuilder(file, context_length))
