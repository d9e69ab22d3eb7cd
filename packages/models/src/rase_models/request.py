"""One generation that is ready to run: what to continue, and how."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from rase_core.decoder import Logits
from rase_core.errors import Cancelled, ContextOverflow
from rase_core.generation import Detokenizer, Generation, StopReason, TokenEvent, generate_with
from rase_core.sampling import GenerationConfig

from rase_models.chat import ChatTemplate, encode_chat
from rase_models.decoder import ProgramDecoder
from rase_models.session import GivenUp, IsCancelled
from rase_models.tokenizers import Tokenizer

Prompt = str | Sequence[int]
Messages = Sequence[Mapping[str, object]]
OnText = Callable[[str], bool | None]


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt as tokens, the settings, and what turns the answer into text."""

    prompt: Sequence[int]
    config: GenerationConfig
    detokenizer: Detokenizer
    choice: int = 0

    def check_fits(self, context_length: int) -> None:
        """Raise ContextOverflow when the prompt is longer than the context."""
        if len(self.prompt) > context_length:
            raise ContextOverflow(len(self.prompt), context_length)

    def run(
        self, decoder: ProgramDecoder, on_text: OnText | None, cancelled: IsCancelled | None
    ) -> Generation:
        """Generate, telling each piece of text; raises GivenUp when cancelled before the first token."""

        def tell(event: TokenEvent) -> bool | None:
            return on_text(event.text) if on_text is not None and event.text else None

        return generate_with(
            _Cancellable(decoder, cancelled),
            self.prompt,
            self.config,
            cancelled,
            on_token=tell,
            detokenizer=self.detokenizer,
            choice=self.choice,
        )

    def given_up(self) -> Generation:
        """Return the answer of a request that was cancelled before its first token."""
        return Generation((), "", StopReason.CANCELLED, None, len(self.prompt), 0.0, 0.0)


def completion(tokenizer: Tokenizer, prompt: Prompt, config: GenerationConfig, choice: int = 0) -> Request:
    """Return the request that continues a text or tokens."""
    tokens = tokenizer.encode(prompt) if isinstance(prompt, str) else prompt
    return Request(tokens, _complete(config, tokenizer), tokenizer.detokenizer(continues=True), choice)


def conversation(
    tokenizer: Tokenizer,
    template: ChatTemplate,
    messages: Messages,
    config: GenerationConfig,
    choice: int = 0,
    *,
    continue_final_message: bool = False,
) -> Request:
    """Return the request that answers messages, or that goes on with the last of them."""
    tokens = encode_chat(template, tokenizer, messages, continue_final_message=continue_final_message)
    detokenizer = tokenizer.detokenizer(continues=continue_final_message)
    return Request(tokens, _complete(config, tokenizer), detokenizer, choice)


def _complete(config: GenerationConfig, tokenizer: Tokenizer) -> GenerationConfig:
    """Let the tokenizer's end tokens end the answer, too: an attached one may know more than the GGUF."""
    if config.ignore_eos:
        return config
    return replace(config, stop_tokens=config.stop_tokens | tokenizer.eos_token_ids)


class _Cancellable:
    """A TokenDecoder whose prefill can be cancelled, too."""

    def __init__(self, decoder: ProgramDecoder, cancelled: IsCancelled | None) -> None:
        self._decoder = decoder
        self._cancelled = cancelled

    @property
    def eos_tokens(self) -> frozenset[int]:
        return self._decoder.eos_tokens

    @property
    def context_length(self) -> int:
        return self._decoder.context_length

    @property
    def vocab_size(self) -> int:
        return self._decoder.vocab_size

    def prefill(self, tokens: Sequence[int]) -> Logits:
        try:
            return self._decoder.prefill(tokens, self._cancelled)
        except Cancelled as error:
            raise GivenUp from error

    def decode(self, token: int) -> Logits:
        return self._decoder.decode(token)
