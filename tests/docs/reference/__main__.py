"""Write the generated pages of the reference: `python -m tests.docs.reference --write`."""

import sys

from tests.docs.reference.pages import FOLDER, render_all

if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python -m tests.docs.reference --write")
    for name, text in render_all().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
