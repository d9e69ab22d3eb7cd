"""Which sequences begin with which tokens, in whole blocks."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int32]


class PrefixTree:
    """A tree whose edges are blocks of tokens; whoever holds a node holds all nodes above it."""

    def __init__(self, block_tokens: int) -> None:
        self.block_tokens = block_tokens
        self.root = Node(None, b"")
        self.blocks = 0

    def walk(self, tokens: Tokens) -> "Iterator[Node]":
        """Yield the nodes that these tokens pass, the root left out."""
        node = self.root
        for start in range(0, len(tokens) - self.block_tokens + 1, self.block_tokens):
            child = node.children.get(self._key(tokens, start))
            if child is None:
                return
            node = child
            yield node

    def extend(self, path: "Path", tokens: Tokens) -> None:
        """Lead a path on to the last whole block of its tokens."""
        first = path.node.depth * self.block_tokens
        for start in range(first, len(tokens) - self.block_tokens + 1, self.block_tokens):
            path.node = self._child(path.node, self._key(tokens, start))
            path.node.holders[path] = None

    def shorten(self, path: "Path", depth: int) -> None:
        """Take a path back to its first `depth` blocks."""
        while path.node.depth > depth:
            node, path.node = path.node, path.node.parent_node
            del node.holders[path]
            if not node.holders:
                del path.node.children[node.key]
                self.blocks -= 1

    def _child(self, node: "Node", key: bytes) -> "Node":
        child = node.children.get(key)
        if child is None:
            child = node.children[key] = Node(node, key)
            self.blocks += 1
        return child

    def _key(self, tokens: Tokens, start: int) -> bytes:
        return tokens[start : start + self.block_tokens].tobytes()


class Node:
    """A prefix of `depth` blocks."""

    __slots__ = ("children", "depth", "holders", "key", "parent")

    def __init__(self, parent: "Node | None", key: bytes) -> None:
        self.parent, self.key = parent, key
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.children: dict[bytes, Node] = {}
        self.holders: dict[Path, None] = {}  # a set that keeps its order

    @property
    def parent_node(self) -> "Node":
        """The prefix that is a block shorter; the root has itself."""
        return self if self.parent is None else self.parent

    def ancestors(self) -> "Iterator[Node]":
        """Yield the shorter prefixes, the root left out."""
        node = self.parent_node
        while node.depth:
            yield node
            node = node.parent_node


class Path:
    """The way from the root to a node."""

    def __init__(self, root: Node) -> None:
        self.node = root
