"""The documents about the demo's configuration: `python -m tests.tools.register.golden --write` writes them again."""

from __future__ import annotations

import sys
import tempfile
from datetime import date
from pathlib import Path
from typing import Final

from monitor import __version__
from monitor.config import load_valid_config
from monitor.tools.register import Publisher, register_command

GOLDEN: Final = Path(__file__).parent / "golden"
CONFIG: Final = Path(__file__).parents[3] / "config" / "demo.yaml"
PUBLISHER: Final = Publisher(
    published=date(2026, 1, 5),
    curator="Health office of the demo's town",
    region="The demo's town",
    contact="privacy@example.org",
)


def read(folder: Path) -> dict[str, str]:
    """Return the text of each file by its name."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.iterdir())}


def compose() -> dict[str, str]:
    """Return the documents as the command writes them now, with VERSION in place of the version."""
    with tempfile.TemporaryDirectory() as folder:
        valid = load_valid_config(CONFIG, {})
        register_command(valid, PUBLISHER, Path(folder), lambda _: None, as_json=False, overwrite=True)
        return {name: text.replace(__version__, "VERSION") for name, text in read(Path(folder)).items()}


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python -m tests.tools.register.golden --write")
    for _name, _text in compose().items():
        (GOLDEN / _name).write_text(_text, encoding="utf-8")
