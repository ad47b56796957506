"""Export dead letters to a file, for correction. `location-monitor send` sends such a file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from monitor.errors import UsageError
from monitor.new_files import create_file
from monitor.operate.dead_letters.read_letters import Letter
from monitor.operate.dead_letters.render import describe
from monitor.records.visit_contract import Fault, open_record


def export_letters(letters: Iterable[Letter], path: Path) -> int:
    """Write one line of JSON per dead letter, and return their number. Records of other programs are left out.

    Each line is a batch of visits: `visits` has the refused visits. If they cannot be read,
    `visits` is empty, and `value` has the text of the refused record. `dead_letter` describes the dead letter. The file
    names people, so only its owner may read it.

    Raises:
        UsageError: the file exists, or cannot be created.
    """
    with ExitStack() as stack:
        try:
            file = stack.enter_context(create_file(path))
        except FileExistsError as error:
            raise UsageError(f"--export {path}: the file exists: give the name of a new file") from error
        except OSError as error:
            raise UsageError(f"--export {path}: the file cannot be created: {error.strerror}") from error
        written = 0
        for letter in letters:
            if letter.headers is not None:
                file.write(f"{json.dumps(_to_line(letter), ensure_ascii=False)}\n".encode())
                written += 1
    return written


def _to_line(letter: Letter) -> dict[str, Any]:
    visits = open_record(letter.value)
    line: dict[str, Any] = {"dead_letter": describe(letter)}
    if isinstance(visits, Fault):
        return line | {"value": letter.value.decode("utf-8", "backslashreplace"), "visits": []}
    return line | {"visits": visits}
