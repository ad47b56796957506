"""The generated pages by their names."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.docs.reference import commands, errors, keys, records

FOLDER: Final = Path(__file__).parents[3] / "docs" / "reference"


def render_all() -> dict[str, str]:
    """Return the text of each generated page by its file name."""
    return {
        "commands.md": commands.render(),
        "errors.md": errors.render(),
        "keys.md": keys.render(),
        "records.md": records.render(),
    }
