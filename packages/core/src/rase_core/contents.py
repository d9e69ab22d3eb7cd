"""Say what a file is when it is not a GGUF."""

import re

_SIGNATURES: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (re.compile(rb"\Z"), "an empty file"),
    (re.compile(rb"\s*<(!doctype\s+html|html|head)", re.IGNORECASE), "an HTML page"),
    (re.compile(rb"version https://git-lfs"), "a Git LFS pointer, not the file that it points to"),
    (re.compile(rb"FUGG"), "a GGUF with its bytes swapped"),
    (re.compile(rb"lmgg|fmgg|tjgg|algg"), "a GGML file from before GGUF"),
    (re.compile(rb"PK\x03\x04"), "a ZIP archive, perhaps a PyTorch checkpoint"),
    (re.compile(rb"\x80[\x02-\x05]"), "a pickle, perhaps a PyTorch checkpoint"),
    (re.compile(rb"\x1f\x8b"), "a gzip archive"),
    (re.compile(rb".{8}\{\"", re.DOTALL), "a safetensors file"),
    (re.compile(rb"\s*[\[{]"), "a JSON file"),
)


def describe_contents(head: bytes) -> str:
    """Name the format of a file by its first bytes, 16 or more of them where the file has them."""
    for signature, name in _SIGNATURES:
        if signature.match(head):
            return name
    text = head[:40].decode("utf-8", "replace").rstrip("\ufffd")  # the cut may fall within a character
    if text and all(c != "\ufffd" and (c.isprintable() or c.isspace()) for c in text):
        return f"text that begins with {text.splitlines()[0]!r}"
    return f"data that begins with the bytes {head[:8].hex(' ')}"
