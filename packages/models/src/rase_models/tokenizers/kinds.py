"""The kinds of tokens, as `tokenizer.ggml.token_type` numbers them."""

from enum import IntEnum


class TokenKind(IntEnum):
    """What a token is; numbered as sentencepiece does."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6
