"""Export dead letters to a file for correction. The file names people, so only its owner may read it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from monitor.contracts.visits import Fault, open_record
from monitor.errors import UsageError
from monitor.tools.dead_letters.letters import Letter
from monitor.tools.dead_letters.render import describe

OWNER_ONLY: Final = 0o600


def export_letters(letters: Iterable[Letter], path: Path) -> int:
    """Write one line of JSON per dead letter, and return their number. Records of other programs are left out.

    Each line is a batch of visits that `resend` reads: `visits` has the refused visits. If they cannot be read,
    `visits` is empty, and `value` has the text of the refused record. `dead_letter` describes the dead letter.

    Raises:
        UsageError: the file exists, or cannot be created.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
    except FileExistsError as error:
        raise UsageError(f"--export {path}: the file exists: give the name of a new file") from error
    except OSError as error:
        raise UsageError(f"--export {path}: the file cannot be created: {error.strerror}") from error
    written = 0
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            for letter in letters:
                if letter.headers is not None:
                    file.write(json.dumps(_to_line(letter), ensure_ascii=False) + "\n")
                    written += 1
    except BaseException:
        path.unlink()  # an incomplete export is useless, and it names people
        raise
    return written


def _to_line(letter: Letter) -> dict[str, Any]:
    visits = open_record(letter.value)
    line: dict[str, Any] = {"dead_letter": describe(letter)}
    if isinstance(visits, Fault):
        return line | {"value": letter.value.decode("utf-8", "backslashreplace"), "visits": []}
    return line | {"visits": visits}
