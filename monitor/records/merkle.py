"""The Merkle tree of RFC 6962 over published ticks, without the ticks: its size and its right edge."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Final

HASH_BYTES: Final = 32
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

    def append(self, leaf: bytes) -> Tree:
        """Return the tree with one more leaf, given its hash. It completes as many subtrees as `size` ends in ones."""
        size, hashes = self.size, list(self.hashes)
        while size % 2:
            leaf = sha256(_NODE + hashes.pop() + leaf).digest()
            size //= 2
        return Tree(self.size + 1, (*hashes, leaf))


def hash_leaf(content: bytes) -> bytes:
    """Return the hash of a leaf, which may be large."""
    leaf = sha256(_LEAF)
    leaf.update(content)
    return leaf.digest()
