"""Which sequences begin with which tokens, in strides: small parts of a block."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int32]


class PrefixTree:
    """A tree whose edges are strides of tokens; whoever holds a node holds all nodes above it.

    Attributes:
        stride: the tokens of an edge.
        blocks: how many blocks of so many strides hold all that differs. Paths that part within a block have
            one each from there on: a block is not shared in parts.
    """

    def __init__(self, stride: int, strides_per_block: int = 1) -> None:
        self.stride, self._strides_per_block = stride, strides_per_block
        self.root = Node(None, b"")
        self.blocks = 0

    def walk(self, tokens: Tokens) -> "Iterator[Node]":
        """Yield the nodes that these tokens pass, the root left out."""
        node = self.root
        for start in range(0, len(tokens) - self.stride + 1, self.stride):
            child = node.children.get(self._key(tokens, start))
            if child is None:
                return
            node = child
            yield node

    def extend(self, path: "Path", tokens: Tokens) -> None:
        """Lead a path on to the last whole stride of its tokens."""
        first = path.node.depth * self.stride
        for start in range(first, len(tokens) - self.stride + 1, self.stride):
            path.node = self._child(path.node, self._key(tokens, start))
            path.node.holders[path] = None

    def shorten(self, path: "Path", depth: int) -> None:
        """Take a path back to its first `depth` strides."""
        while path.node.depth > depth:
            node, path.node = path.node, path.node.parent_node
            del node.holders[path]
            if not node.holders:
                del path.node.children[node.key]
                self.blocks -= self._has_own_block(path.node)

    def _child(self, node: "Node", key: bytes) -> "Node":
        child = node.children.get(key)
        if child is None:
            self.blocks += self._has_own_block(node)
            child = node.children[key] = Node(node, key)
        return child

    def _has_own_block(self, parent: "Node") -> bool:
        """Whether one more child of a node takes a block: it begins one, or another goes on in the node's."""
        return parent.depth % self._strides_per_block == 0 or bool(parent.children)

    def _key(self, tokens: Tokens, start: int) -> bytes:
        return tokens[start : start + self.stride].tobytes()


class Node:
    """A prefix of `depth` strides."""

    __slots__ = ("children", "depth", "holders", "key", "parent")

    def __init__(self, parent: "Node | None", key: bytes) -> None:
        self.parent, self.key = parent, key
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.children: dict[bytes, Node] = {}
        self.holders: dict[Path, None] = {}  # a set that keeps its order

    @property
    def parent_node(self) -> "Node":
        """The prefix that is a stride shorter; the root has itself."""
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
