"""Mixtures of experts, attention over latents, and blocks that do not count."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rase_core.errors import InvalidGguf
from rase_models.architectures import build_program
from rase_models.gguf import open_gguf
from rase_models.loading import load_decoder
from rase_models.program import Activation, Attention, GatedActivation, MoeFfn, Program, Rotate, Scoring
from rase_models.testing_sketches import (
    EXPERTS,
    HEADS,
    INNER,
    LENGTH,
    VOCAB,
    WIDTH,
    sketch,
    write_gguf,
)

Build = Callable[..., Program]


def mixture(program: Program) -> MoeFfn:
    return next(op for op in program.ops if isinstance(op, MoeFfn))


def zeros(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.zeros(shape, np.float32)


def test_deepseek2_chooses_as_its_file_says(build: Build) -> None:
    metadata = {
        "expert_gating_func": 2,
        "expert_weights_norm": True,
        "expert_weights_scale": 2.5,
        "expert_group_count": 2,
        "expert_group_used_count": 1,
    }
    biased = {"blk.0.exp_probs_b.bias": zeros(EXPERTS)}
    op = mixture(build("deepseek2", metadata, biased))
    assert (op.scoring, op.normalise, op.scale) == (Scoring.SIGMOID, True, 2.5)
    assert (op.groups, op.groups_used, op.selection_bias) == (2, 1, "blk.0.exp_probs_b.bias")
    plain = mixture(build("deepseek2"))
    assert (plain.scoring, plain.normalise, plain.groups) == (Scoring.SOFTMAX, False, 1)


def test_the_leading_layers_of_deepseek2_may_be_dense(tmp_path: Path) -> None:
    metadata, tensors = sketch("deepseek2")
    dense = {name: values for name, values in tensors.items() if not name.startswith("blk.0.ffn_gate_")}
    dense = {name: values for name, values in dense.items() if "blk.0." not in name or "exp" not in name}
    dense |= {f"blk.0.ffn_{kind}.weight": zeros(INNER, WIDTH) for kind in ("gate", "up")}
    dense["blk.0.ffn_down.weight"] = zeros(WIDTH, INNER)
    program = build_program(open_gguf(write_gguf(tmp_path / "m.gguf", "deepseek2", metadata, dense)))
    assert sum(isinstance(op, MoeFfn) for op in program.ops) == 1


@pytest.mark.parametrize(
    "key, value",
    [
        ("expert_gating_func", 3),
        ("expert_gating_func", 9),
        ("expert_group_count", 3),
        ("expert_group_used_count", 2),
        ("expert_shared_count", 0),
        ("attention.key_length_mla", LENGTH),
        ("attention.kv_lora_rank", 0),
        ("attention.temperature_scale", 0.1),
    ],
)
def test_what_deepseek2_cannot_use_is_named(build: Build, key: str, value: object) -> None:
    with pytest.raises(InvalidGguf, match=r"deepseek2\.|expert_gating_func|tensor 'blk"):
        build("deepseek2", {key: value})


def test_latents_may_be_attended_to_or_expanded_into_heads(tmp_path: Path) -> None:
    metadata, tensors = sketch("deepseek2")
    older = {key: value for key, value in metadata.items() if not key.endswith("_mla")}
    older |= {"attention.head_count_kv": HEADS}
    older |= {"attention.key_length": 2 * LENGTH, "attention.value_length": LENGTH}
    expanded = dict(tensors)
    for layer in range(2):
        keys = expanded.pop(f"blk.{layer}.attn_k_b.weight").transpose(0, 2, 1)
        values = expanded.pop(f"blk.{layer}.attn_v_b.weight")
        both = np.concatenate([keys, values], axis=1)
        expanded[f"blk.{layer}.attn_kv_b.weight"] = both.reshape(-1, both.shape[-1])
    tokens = np.random.default_rng(0).integers(0, VOCAB, 20)
    paths = (
        write_gguf(tmp_path / "latent.gguf", "deepseek2", metadata, tensors),
        write_gguf(tmp_path / "heads.gguf", "deepseek2", older, expanded),
    )
    latent, heads = (load_decoder(path, "reference").logits(tokens) for path in paths)
    np.testing.assert_allclose(latent, heads, rtol=1e-3, atol=1e-3)
    on_cpu = load_decoder(paths[1], "cpu", threads=2)
    np.testing.assert_allclose(on_cpu.logits(tokens), heads, rtol=0.1, atol=0.1)
    on_cpu.close()


def test_yarn_grows_all_of_deepseek2s_scores(build: Build) -> None:
    metadata = {
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 40.0,
        "rope.scaling.original_context_length": 50,
        "rope.scaling.yarn_log_multiplier": 0.1,
    }
    program = build("deepseek2", metadata)
    attention = next(op for op in program.ops if isinstance(op, Attention))
    growth = 1 + 0.1 * math.log(40)
    assert attention.scale == pytest.approx(growth**2 / math.sqrt(2 * LENGTH))
    assert next(op for op in program.ops if isinstance(op, Rotate)).rope.magnitude == 1.0


def test_gpt_oss_has_sinks_windows_and_biases(build: Build) -> None:
    biases = {
        "blk.0.ffn_gate_inp.bias": zeros(EXPERTS),
        "blk.0.ffn_gate_exps.bias": zeros(EXPERTS, INNER),
        "blk.0.ffn_up_exps.bias": zeros(EXPERTS, INNER),
        "blk.0.ffn_down_exps.bias": zeros(EXPERTS, WIDTH),
    }
    program = build("gpt-oss", tensors=biases)
    attention = [op for op in program.ops if isinstance(op, Attention)]
    assert [(op.sinks, op.window) for op in attention] == [
        ("blk.0.attn_sinks.weight", 8),
        ("blk.1.attn_sinks.weight", None),
    ]
    op = mixture(program)
    assert (op.activation, op.normalise) == (Activation.CLAMPED_SWIGLU, True)
    assert {op.router_bias, op.gate_bias, op.up_bias, op.down_bias} == set(biases)


def test_the_shared_expert_of_qwen2moe_is_weighed_by_the_row(build: Build) -> None:
    program = build("qwen2moe")
    assert not mixture(program).normalise
    weighed = [op for op in program.ops if getattr(op, "activation", None) is Activation.SIGMOID]
    assert weighed == [GatedActivation("shared", "shared_gate", "shared", Activation.SIGMOID)] * 2
    assert program.buffers["shared_gate"] == 1


def test_gates_and_ups_of_experts_may_share_a_tensor(tmp_path: Path) -> None:
    metadata, tensors = sketch("qwen3moe")
    merged = dict(tensors)
    for layer in range(2):
        parts = [merged.pop(f"blk.{layer}.ffn_{kind}_exps.weight") for kind in ("gate", "up")]
        merged[f"blk.{layer}.ffn_gate_up_exps.weight"] = np.concatenate(parts, axis=1)
    paths = [
        write_gguf(tmp_path / f"{name}.gguf", "qwen3moe", metadata, values)
        for name, values in (("apart", tensors), ("merged", merged))
    ]
    apart, together = (load_decoder(path, "reference").logits([1, 2, 3]) for path in paths)
    np.testing.assert_array_equal(apart, together)


def test_blocks_that_guess_tokens_ahead_do_not_count(build: Build) -> None:
    guessing = {"blk.2.attn_norm.weight": zeros(5), "blk.2.nextn.eh_proj.weight": zeros(2, 3)}
    program = build("glm4", {"block_count": 3, "nextn_predict_layers": 1}, guessing)
    assert replace(program, context_length=100) == build("glm4")
    with pytest.raises(InvalidGguf, match=r"blk\.2\.attn_norm"):
        build("glm4", {}, guessing)


def test_a_context_ends_where_an_index_would_choose(build: Build) -> None:
    index = {"blk.0.indexer.proj.weight": zeros(2, WIDTH)}
    assert build("glm-dsa", {"attention.indexer.top_k": 16}, index).context_length == 16
    assert build("deepseek32", {"attention.indexer.top_k": 4096}).context_length == 100
    blocks = {"attention.indexer.top_k": 2, "attention.indexer.block_size": 32}
    assert build("minimax-m3", blocks).context_length == 64


def test_queries_grow_over_latents_where_the_file_says_so(build: Build) -> None:
    metadata = {"attention.temperature_scale": 0.5, "attention.temperature_length": 16}
    grown = [op.rope for op in build("mistral4", metadata).ops if isinstance(op, Rotate) and op.rope.growth]
    found = [(rope.growth, rope.growth_length, rope.dimensions) for rope in grown]
    assert found == [(0.5, 16, 2 * LENGTH)] * 2
    assert not any(isinstance(op, Rotate) and op.rope.growth for op in build("mistral4").ops)


def test_the_experts_of_cohere2moe_are_averaged_with_what_all_rows_go_through(build: Build) -> None:
    assert mixture(build("cohere2moe", {"expert_weights_scale": 3.0})).scale == 1.5


def test_experts_may_look_at_what_a_layer_began_with(build: Build) -> None:
    program = build("smallthinker")
    first, last = [op for op in program.ops if isinstance(op, MoeFfn)]
    assert (first.router_x, last.router_x) == ("began", "began.outputs")
    assert (first.activation, first.x) == (Activation.RELU, "normed")
    arctic = build("arctic")
    assert [op.x for op in arctic.ops if isinstance(op, MoeFfn)] == ["began", "began.outputs"]
