"""The code blocks of the pages: their language, code and mark, and the statements of shell blocks."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tests.docs.conftest import Document

_BLOCK: Final = re.compile(
    r"(?:^ *<!-- (?P<text>[^\n]*?) -->\n)?"
    r"^(?P<indent> *)```(?P<language>\S*)[^\n]*\n(?P<code>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)
NOT_RUN: Final = "not run: "
BACKGROUND: Final = "in the background"
_HEREDOC: Final = re.compile(r"<<-?'?(\w+)'?")


@dataclass(frozen=True)
class Block:
    """A code block. `mark`: the HTML comment on the line before it, or ""."""

    page: str
    line: int
    language: str
    code: str
    mark: str

    @property
    def runs(self) -> bool:
        """Whether the block is not marked as not run."""
        return not self.mark.startswith(NOT_RUN)

    @property
    def reason(self) -> str:
        """Why the block is not run, or ""."""
        return "" if self.runs else self.mark.removeprefix(NOT_RUN)

    def __str__(self) -> str:
        """Return the page and the line."""
        return f"{self.page}:{self.line}"


def read_blocks(document: Document) -> list[Block]:
    """Return the code blocks of a page."""
    blocks = []
    for found in _BLOCK.finditer(document.text):
        line = document.text.count("\n", 0, found.start("code"))
        mark = found["text"] or ""
        blocks.append(Block(str(document), line, found["language"], textwrap.dedent(found["code"]), mark))
    return blocks


def split_statements(code: str) -> Iterator[str]:
    """Yield the statements of a shell block: lines, with their continuations and here documents."""
    lines = iter(code.splitlines())
    for line in lines:
        statement = line
        while statement.endswith("\\"):
            statement = statement[:-1] + next(lines).lstrip()
        if heredoc := _HEREDOC.search(statement):
            for rest in lines:
                statement += f"\n{rest}"
                if rest == heredoc[1]:
                    break
        if statement.strip() and not statement.lstrip().startswith("#"):
            yield statement


def split_commands(statement: str) -> list[list[str]]:
    """Return the words of each simple command of a statement, without comments, assignments and redirections."""
    lexer = shlex.shlex(statement.partition("\n")[0], posix=True, punctuation_chars="|&;<>()")
    lexer.whitespace_split = True
    commands: list[list[str]] = [[]]
    is_target = False
    for word in lexer:
        if re.fullmatch(r"[|&;()]+", word):
            commands.append([])
        elif re.fullmatch(r"[<>]+", word):
            is_target = True
        elif is_target:
            is_target = False
        elif commands[-1] or not re.fullmatch(r"\w+=.*", word):
            commands[-1].append(word)
    return [command for command in commands if command]
