"""A faster selector for kafka-python, whose clients ask it for the key of a socket before each wait."""

from __future__ import annotations

import selectors
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike


class Selector(selectors.DefaultSelector):
    """The system's selector, with keys that are looked up by file descriptor.

    Usually, the socket is not registered. The standard selector then describes the socket in its KeyError, which takes
    four system calls. kafka-python discards this text.
    """

    def __init__(self) -> None:
        super().__init__()
        self._keys: dict[int, selectors.SelectorKey] = {}

    def register(self, fileobj: FileDescriptorLike, events: int, data: Any = None) -> selectors.SelectorKey:
        """Register a file for events."""
        return self._keep(super().register(fileobj, events, data))

    def modify(self, fileobj: FileDescriptorLike, events: int, data: Any = None) -> selectors.SelectorKey:
        """Change the events or the data of a file."""
        return self._keep(super().modify(fileobj, events, data))

    def unregister(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
        """Remove a file."""
        key = super().unregister(fileobj)
        self._keys.pop(key.fd, None)
        return key

    def get_key(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
        """Return the key of a registered file. Raise KeyError for any other file."""
        descriptor = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        if descriptor < 0:  # a closed socket, which may still be registered
            return super().get_key(fileobj)
        return self._keys[descriptor]

    def close(self) -> None:
        """Close the selector."""
        self._keys.clear()
        super().close()

    def _keep(self, key: selectors.SelectorKey) -> selectors.SelectorKey:
        self._keys[key.fd] = key
        return key
