"""How SentencePiece spells a space."""

SPACE = "▁"
