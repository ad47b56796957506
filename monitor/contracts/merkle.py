"""The Merkle tree of RFC 6962 over published records, without the records: its size and its right edge."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

_LEAF: Final = b"\0"
_NODE: Final = b"\1"


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree of `size` leaves. `hashes` are the roots of its complete subtrees, the largest first."""

    size: int = 0
    hashes: tuple[bytes, ...] = ()

    @property
    def root(self) -> bytes:
        """The root hash."""
        if not self.hashes:
            return sha256().digest()
        root = self.hashes[-1]
        for left in self.hashes[-2::-1]:
            root = sha256(_NODE + left + root).digest()
        return root

    def extend(self, leaves: Iterable[bytes]) -> Tree:
        """Return the tree with more leaves, given their hashes.

        Each round combines the new nodes of one level. The last one waits in `edge` if its sibling is missing.
        """
        level, waiting, edge = list(leaves), list(self.hashes), list[bytes]()
        before, after = self.size, self.size + len(level)
        size = after
        while after:
            if before % 2:
                level.insert(0, waiting.pop())
            if after % 2:
                edge.append(level.pop())
            nodes = iter(level)
            level = [sha256(_NODE + left + right).digest() for left, right in zip(nodes, nodes, strict=True)]
            before, after = before // 2, after // 2
        return Tree(size, tuple(reversed(edge)))


def hash_leaf(content: bytes) -> bytes:
    """Return the hash of a leaf."""
    return sha256(_LEAF + content).digest()
