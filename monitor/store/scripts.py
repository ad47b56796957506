"""The Lua scripts of the windows, as commands. They are sent as text, so that a SCRIPT FLUSH has no effect."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

Command = tuple[Any, ...]
"""A command as redis-py takes it: the name, then strings, bytes and integers."""

_ALONE: Final = frozenset({"forget_progress", "read", "rights"})
"""The scripts that do not use the functions of common.lua."""


def _read_text(name: str) -> str:
    """Return the text of a script's file without comment lines and indentation, which are half of it.

    The text is sent with each call. For few places, it is most of what a tick sends.
    """
    text = files("monitor.store").joinpath(f"{name}.lua").read_text(encoding="utf-8")
    lines = (line.strip() for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("--"))


@cache
def load_script(name: str) -> str:
    """Return a script's text, with the functions it uses inserted after the first line, which has the flags."""
    flags, _, text = _read_text(name).partition("\n")
    return "".join((flags, "\n", "" if name in _ALONE else _read_text("common"), text))


def make_eval(script: str, keys: Sequence[str], *arguments: str | int | bytes) -> Command:
    """Return the EVAL command that runs a script."""
    return ("EVAL", load_script(script), len(keys), *keys, *arguments)
