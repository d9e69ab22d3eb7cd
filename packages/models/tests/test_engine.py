"""The engine on a tiny model: what it answers, when it stops, and what it refuses."""

import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
from rase_core.errors import (
    BackendUnavailable,
    ContextOverflow,
    EngineError,
    InvalidConversation,
    ModelNotFound,
    QueueFull,
    RequestTimeout,
    TemplateError,
)
from rase_core.generation import Generation, StopReason
from rase_core.registration import Registration
from rase_core.registry import ModelRegistry
from rase_core.sampling import GenerationConfig
from rase_core.scheduler import SchedulerLimits
from rase_models import Engine
from rase_models.backends.base import BLOCK_TOKENS
from rase_models.testing import END, write_tiny_model

CONFIG = GenerationConfig(max_tokens=20, seed=7, ignore_eos=True)
LONG = GenerationConfig(max_tokens=100, seed=7, ignore_eos=True)
HELLO = [{"role": "user", "content": "Hello"}]


def text_and_tokens(generation: Generation) -> tuple[str, tuple[int, ...]]:
    return generation.text, generation.tokens


def test_the_same_seed_gives_the_same_answer(engine: Engine, tmp_path: Path) -> None:
    first = engine.chat("tiny", HELLO, CONFIG)
    assert len(first.tokens) == 20
    assert text_and_tokens(engine.chat("tiny", HELLO, CONFIG)) == text_and_tokens(first)
    with Engine(tmp_path / "store", "reference") as other:
        assert text_and_tokens(other.chat("tiny", HELLO, CONFIG)) == text_and_tokens(first)


def test_other_seeds_and_choices_give_other_answers(engine: Engine) -> None:
    seeded = GenerationConfig(max_tokens=20, seed=8, ignore_eos=True)
    answers = {
        engine.generate("tiny", "Hello", CONFIG).tokens,
        engine.generate("tiny", "Hello", seeded).tokens,
        engine.generate("tiny", "Hello", CONFIG, choice=1).tokens,
    }
    assert len(answers) == 3


def test_a_prompt_may_be_tokens(engine: Engine) -> None:
    tokens = engine.load("tiny").tokenizer.encode("Hello")
    assert engine.generate("tiny", tokens, CONFIG).tokens == engine.generate("tiny", "Hello", CONFIG).tokens
    assert engine.count_tokens("tiny", "Hello") == len(tokens)


def test_the_manifest_s_defaults_count_when_no_settings_are_given(engine: Engine, tiny_path: Path) -> None:
    defaults = {"max_tokens": 3, "temperature": 0, "ignore_eos": True}
    engine.import_model(tiny_path, "short", defaults=defaults)
    assert engine.default_config("short").max_tokens == 3
    assert len(engine.generate("short", "Hello").tokens) == 3


def test_new_defaults_count_without_loading_again(engine: Engine, tiny_path: Path) -> None:
    engine.import_model(tiny_path, "short", defaults={"max_tokens": 3, "ignore_eos": True})
    session = engine.load("short")
    engine.import_model(tiny_path, "short", defaults={"max_tokens": 4, "ignore_eos": True})
    assert len(engine.generate("short", "Hello").tokens) == 4
    assert engine.load("short") is session


def test_a_prompt_longer_than_the_context_is_refused(engine: Engine) -> None:
    with pytest.raises(ContextOverflow, match="129 tokens, but the maximum context length is 128"):
        engine.generate("tiny", "x" * 129, CONFIG)
    with pytest.raises(ContextOverflow):
        engine.stream_chat("tiny", [{"role": "user", "content": "x" * 200}], CONFIG)


def test_an_answer_that_fills_the_context_stops_there(engine: Engine) -> None:
    config = GenerationConfig(max_tokens=200, seed=7, ignore_eos=True)
    generation = engine.generate("tiny", "x" * 120, config)
    assert generation.stop_reason is StopReason.CONTEXT_FULL
    assert generation.prompt_tokens + len(generation.tokens) == 128


def test_the_context_can_be_limited_for_all_models(tmp_path: Path, engine: Engine) -> None:
    with Engine(tmp_path / "store", "reference", context_length=100) as limited:
        assert limited.load("tiny").decoder.context_length == 100
    with Engine(tmp_path / "store", "reference", context_length=1000) as generous:
        assert generous.load("tiny").decoder.context_length == 128


def test_the_model_s_end_token_ends_an_answer(engine: Engine) -> None:
    config = GenerationConfig(max_tokens=20, logit_bias={END: 1e6})
    generation = engine.generate("tiny", "Hello", config)
    assert (generation.stop_reason, generation.tokens) == (StopReason.STOP_TOKEN, ())


def test_choices_are_the_answers_of_their_numbers(engine: Engine) -> None:
    choices = engine.generate_choices("tiny", "Hello", 3, CONFIG, choice=1)
    alone = [engine.generate("tiny", "Hello", CONFIG, choice=choice) for choice in (1, 2, 3)]
    assert [text_and_tokens(generation) for generation in choices] == [*map(text_and_tokens, alone)]
    answers = engine.chat_choices("tiny", HELLO, 2, CONFIG)
    assert text_and_tokens(answers[0]) == text_and_tokens(engine.chat("tiny", HELLO, CONFIG))
    with pytest.raises(EngineError, match="invalid n: 0"):
        engine.generate_choices("tiny", "Hello", 0, CONFIG)


def test_a_request_that_takes_too_long_is_refused(engine: Engine) -> None:
    with pytest.raises(RequestTimeout):
        engine.generate("tiny", "Hello", LONG, timeout=1e-6)
    with pytest.raises(RequestTimeout):
        list(engine.stream_generate("tiny", "Hello", LONG, timeout=1e-6))
    with pytest.raises(EngineError, match="invalid timeout"):
        engine.generate("tiny", "Hello", LONG, timeout=0)


def test_more_requests_than_may_wait_are_refused_at_once(tmp_path: Path, tiny_path: Path) -> None:
    limits = SchedulerLimits(waiting=1, running=1)
    with Engine(tmp_path / "narrow", "reference", limits=limits) as engine:
        engine.import_model(tiny_path, "tiny")
        with ExitStack() as streams, pytest.raises(QueueFull):
            for _ in range(4):
                streams.enter_context(engine.stream_generate("tiny", "Hello", LONG))
        assert engine.generate("tiny", "Hello", CONFIG).text


def test_memory_for_keys_and_values_limits_the_context(tmp_path: Path, engine: Engine) -> None:
    decoder = engine.load("tiny").decoder
    assert decoder.kv_capacity is not None and decoder.kv_capacity >= 128
    block = 2 * 2 * 2 * 16 * 4 * BLOCK_TOKENS  # layers, keys and values, heads, width, float32
    with Engine(tmp_path / "store", "reference", kv_memory=block + 1) as narrow:
        assert narrow.load("tiny").decoder.context_length == BLOCK_TOKENS
        with pytest.raises(ContextOverflow, match="the maximum context length is 64"):
            narrow.generate("tiny", "x" * 65, CONFIG)
    with Engine(tmp_path / "store", "reference", kv_memory=block - 1) as none:  # noqa: SIM117
        with pytest.raises(EngineError, match=f"expected at least {block} bytes"):
            none.load("tiny")


def test_what_was_computed_for_a_conversation_is_used_for_its_next_turn(engine: Engine) -> None:
    turns = [{"role": "user", "content": "Hello, who are you? Tell me all of it, if you can."}]
    first = engine.chat("tiny", turns, CONFIG)
    turns = [*turns, {"role": "assistant", "content": "No"}, {"role": "user", "content": "Yes"}]
    second = engine.chat("tiny", turns, CONFIG)
    assert (first.cached_tokens, second.cached_tokens) == (0, BLOCK_TOKENS)


def test_a_model_without_template_completes_texts_and_refuses_chats(tmp_path: Path, tiny_path: Path) -> None:
    with Engine(tmp_path / "store", "reference") as engine:
        given = Registration(architecture="llama", chat_template="no-such-template")
        ModelRegistry(engine.store).import_local(tiny_path, "bad", given)  # which knows no templates
        assert engine.generate("bad", "Hello", CONFIG).text
        with pytest.raises(TemplateError, match="no-such-template"):
            engine.chat("bad", HELLO, CONFIG)


def test_a_template_can_come_from_a_file(tmp_path: Path, tiny_path: Path) -> None:
    template = tmp_path / "chat.jinja"
    template.write_text("{% for m in messages %}<{{ m.content }}>{% endfor %}", encoding="utf-8")
    with Engine(tmp_path / "store", "reference") as engine:
        engine.import_model(tiny_path, "tiny", template_file=template)
        assert engine.render("tiny", HELLO) == "<Hello>"


def test_a_final_message_is_continued(engine: Engine) -> None:
    begun = [*HELLO, {"role": "assistant", "content": "Well"}]
    generation = engine.chat("tiny", begun, CONFIG, continue_final_message=True)
    prompt = engine.load("tiny").tokenizer.encode(
        "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\nWell"
    )
    assert generation.prompt_tokens == len(prompt)
    assert generation.tokens == engine.generate("tiny", prompt, CONFIG).tokens


def test_a_broken_conversation_is_refused(engine: Engine) -> None:
    with pytest.raises(InvalidConversation):
        engine.chat("tiny", [{"role": "robot", "content": "beep"}])


def test_an_unknown_model_is_named(engine: Engine) -> None:
    with pytest.raises(ModelNotFound, match=r"'big' is not registered \(registered: tiny\)"):
        engine.generate("big", "Hello")


def test_a_token_outside_the_vocabulary_is_refused(engine: Engine) -> None:
    with pytest.raises(EngineError, match="prompt: 9999"):
        engine.generate("tiny", [1, 9999], CONFIG)


def test_an_unknown_device_is_refused_when_it_is_needed(tmp_path: Path, tiny_path: Path) -> None:
    with Engine(tmp_path / "store", "abacus") as engine:
        engine.import_model(tiny_path, "tiny")
        with pytest.raises(BackendUnavailable, match="abacus"):
            engine.generate("tiny", "Hello")


def test_a_file_runs_without_being_registered(engine: Engine, tiny_path: Path) -> None:
    generation = engine.generate_file(tiny_path, None, "Hello", CONFIG)
    assert text_and_tokens(generation) == text_and_tokens(engine.generate("tiny", "Hello", CONFIG))


def test_a_split_model_answers_like_the_whole(engine: Engine, tmp_path: Path) -> None:
    first = write_tiny_model(tmp_path / "split.gguf", tensors_per_file=7)
    manifest = engine.import_model(first, "split", chat_template="chatml")
    assert len(manifest.weights) == 3
    assert engine.chat("split", HELLO, CONFIG).tokens == engine.chat("tiny", HELLO, CONFIG).tokens


def test_a_removed_model_is_gone_and_its_file_stays(engine: Engine, tiny_path: Path) -> None:
    engine.load("tiny")
    engine.remove("tiny")
    with pytest.raises(ModelNotFound):
        engine.generate("tiny", "Hello")
    assert tiny_path.exists()


def test_a_model_may_be_unloaded_while_it_answers(engine: Engine) -> None:
    unloaded: list[bool] = []

    def listen(text: str) -> None:
        if not unloaded:
            engine.unload("tiny")
            unloaded.append(True)

    generation = engine.generate("tiny", "Hello", CONFIG, on_text=listen)
    assert len(generation.tokens) == 20
    assert engine.generate("tiny", "Hello", CONFIG).tokens == generation.tokens


def test_many_threads_on_two_models_get_the_answers_they_get_alone(engine: Engine, tmp_path: Path) -> None:
    other = write_tiny_model(tmp_path / "other.gguf", seed=1)
    engine.import_model(other, "other", chat_template="chatml")
    jobs = [(model, f"Question {i}", i) for i in range(4) for model in ("tiny", "other")]

    def ask(model: str, prompt: str, seed: int) -> tuple[str, tuple[int, ...]]:
        config = GenerationConfig(max_tokens=15, seed=seed, ignore_eos=True)
        return text_and_tokens(engine.generate(model, prompt, config))

    alone = {job: ask(*job) for job in jobs}
    engine.unload()
    together: dict[tuple[str, str, int], tuple[str, tuple[int, ...]]] = {}
    threads = [
        threading.Thread(target=lambda job=job: together.__setitem__(job, ask(*job))) for job in jobs * 2
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


def test_the_time_of_requests_is_counted_when_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny_path: Path
) -> None:
    monkeypatch.setenv("RASE_PROFILE", "1")
    with Engine(tmp_path / "store", "reference") as engine:
        engine.import_model(tiny_path, "tiny")
        engine.generate("tiny", "Hello", CONFIG)
        counts = engine.profile(reset=True)
        assert (counts["requests"], counts["prefill_tokens"], counts["decode_tokens"]) == (1, 5, 20)
        assert counts["decode_ns"] > 0
        assert set(engine.profile().values()) == {0}


def test_nothing_is_counted_otherwise(engine: Engine) -> None:
    engine.generate("tiny", "Hello", CONFIG)
    assert set(engine.profile().values()) == {0}


def test_the_models_in_memory_are_those_that_were_used_and_not_let_go(engine: Engine) -> None:
    assert engine.loaded_models() == []
    engine.count_tokens("tiny", "Hello")
    assert [session.manifest.id for session in engine.loaded_models()] == ["tiny"]
    engine.unload("tiny")
    assert engine.loaded_models() == []


def test_a_conversation_is_rendered_and_counted_as_it_will_be_read(engine: Engine) -> None:
    opened = [*HELLO, {"role": "assistant", "content": "Well"}]
    assert engine.render("tiny", HELLO).endswith("<|im_start|>assistant\n")
    assert engine.render("tiny", HELLO, add_generation_prompt=False).endswith("<|im_end|>\n")
    assert engine.render("tiny", opened, continue_final_message=True).endswith("assistant\nWell")
    generation = engine.chat("tiny", opened, CONFIG, continue_final_message=True)
    tokens = engine.encode_chat("tiny", opened, continue_final_message=True)
    assert len(tokens) == generation.prompt_tokens
