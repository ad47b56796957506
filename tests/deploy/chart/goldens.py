"""The stored output of `helm template`: `python -m tests.deploy.chart.goldens --write` writes it (`make chart`)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from tests.deploy.chart.helm import Answer, Helm, value_set
from tests.deploy.chart.helm_build import build_helm

FOLDER: Final = Path(__file__).parent / "goldens"
CASES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "minimal": ("minimal", ()),
    "full": ("full", ()),
    "secure": ("secure", ()),
    "full-kafka": ("full", ("component=kafka",)),
    "secure-kafka": ("secure", ("component=kafka",)),
}
"""The cases by name: the set of values, and the values of `--set`."""


def render(helm: Helm, case: str) -> Answer:
    """Return Helm's output for a case."""
    name, options = CASES[case]
    return helm.template(value_set(name), set=options)


def to_text(answer: Answer) -> str:
    """Return the rendered files as one text, each after its path."""
    parts = [
        f"# {path.partition('/')[2]}\n{text.strip()}\n" for path, text in sorted(answer.files.items()) if text.strip()
    ]
    return "---\n".join(parts)


def write() -> None:
    """Write the output of all cases."""
    helm = Helm(build_helm())
    FOLDER.mkdir(exist_ok=True)
    for case in CASES:
        answer = render(helm, case)
        if answer.error:
            sys.exit(f"{case}: {answer.error}")
        (FOLDER / f"{case}.txt").write_text(to_text(answer), encoding="utf-8")
    helm.close()


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python -m tests.deploy.chart.goldens --write")
    write()
