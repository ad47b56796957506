"""`location-monitor register`: write the entry, the notice and the draft of an assessment into a folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from monitor.config import ValidConfig
from monitor.errors import FailedError, UsageError
from monitor.tools.register.entry import build_entry, to_yaml
from monitor.tools.register.figures import collect_figures
from monitor.tools.register.pages import write_assessment, write_notice
from monitor.tools.register.publisher import OPEN, Publisher


def register_command(
    valid: ValidConfig, publisher: Publisher, out: Path, echo: Callable[[str], None], *, as_json: bool, overwrite: bool
) -> None:
    """Write the three files, and print their names and what is left to fill in.

    Raises:
        UsageError: a file exists, and `overwrite` is false.
        FailedError: a file cannot be written.
    """
    files = _compose(valid, publisher, as_json=as_json)
    existing = [name for name in files if (out / name).exists()]
    if existing and not overwrite:
        raise UsageError(
            f"--out {out} contains {', '.join(existing)}, which somebody may have edited: name another folder, or add "
            "--overwrite."
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (out / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise FailedError(f"--out: {error.filename} cannot be written ({error.strerror}).") from error
    for name, text in files.items():
        echo(f"{out / name}: {_count_open(text)}")


def _compose(valid: ValidConfig, publisher: Publisher, *, as_json: bool) -> Mapping[str, str]:
    """Return the text of each file by its name."""
    figures = collect_figures(valid)
    entry = build_entry(figures, publisher)
    written = json.dumps(entry, ensure_ascii=False, indent=2) + "\n" if as_json else to_yaml(entry)
    return {
        f"registry-entry.{'json' if as_json else 'yaml'}": written,
        "notice.md": write_notice(figures, publisher),
        "assessment.md": write_assessment(figures, publisher),
    }


def _count_open(text: str) -> str:
    number = text.count(OPEN)
    return f'{number} places to fill in ("{OPEN}")' if number else "complete; read it before you publish it"
