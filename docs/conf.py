"""Settings of Sphinx (`make docs`). The build needs no network, and every warning ends it.

The source folder is a copy of the pages in which long ones are split (docs/site/split_pages.py), beside the site, so
that links between the README and the pages work as they do on a code host. `NAVIGATION` lists the pages. A page that is
in no group ends the build: add it there.
"""

from __future__ import annotations

import json
import pkgutil
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from docs.site.promises import collect_tests, list_tests  # noqa: E402  # the checkout may not be installed
from docs.site.split_pages import write_source  # noqa: E402  # as above
from monitor import __version__  # noqa: E402  # as above
from monitor.operate.schema.command import SCHEMAS  # noqa: E402  # as above

NAVIGATION: Final = {
    "Tutorial": ("docs/tutorial/*",),
    "How to …": ("docs/how-to/*", "docs/producers", "docs/subscribers", "docs/planning", "docs/scaling"),
    "Operate": (
        "docs/operations",
        "docs/kubernetes",
        "docs/runbooks",
        "docs/dashboards",
        "docs/releases",
    ),
    "Reference": (
        "docs/supported",
        "docs/configuration",
        "docs/reference",
        "docs/interface",
        "docs/guarantees",
        "docs/glossary",
    ),
    "Explanation": (
        "docs/privacy",
        "docs/theory",
        "docs/page",
        "docs/architecture",
        "docs/rules",
        "docs/faults",
        "docs/osdp",
        "docs/theorems",
        "docs/experiments",
        "docs/outbreak",
        "docs/decisions",
        "docs/literature",
    ),
    "Project": ("docs/README", "CHANGELOG", "CONTRIBUTING", "SECURITY", "CODE_OF_CONDUCT"),
}
"""The pages by group. A pattern takes all pages that are not yet listed."""

project = "location-monitor"
author = "the contributors"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "README"
include_patterns = ["*.md", "docs/**.md"]
exclude_patterns = [".*", "build", "dist", "monitor", "simulators", "tests", "config", "deploy", "node_modules"]
templates_path = ["_templates"]

myst_heading_anchors = 4
myst_enable_extensions = ["html_image"]  # so that pictures with a width are copied into the site
nitpick_ignore_regex = [
    (r"py:.*", r"(?!monitor\.(client|onesided)\.).*"),  # names of libraries and of modules that have no page
    (r"py:.*", r".*\.(_\w+|[A-Z](_co)?)"),  # private bases, and type variables
]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = f"location-monitor {__version__}"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
html_static_path = ["_static"]
html_js_files = [("copy_code.js", {"defer": "defer"})]
html_css_files = ["copy_code.css"]
html_additional_pages = {"index": "index.html"}  # leads to the README


def list_pages(patterns: tuple[str, ...]) -> Iterator[str]:
    """Yield the names of the pages of a group, without the suffix."""
    for pattern in patterns:
        for path in sorted(ROOT.glob(f"{pattern}.md")):
            yield path.relative_to(ROOT).with_suffix("").as_posix()


def write_navigation() -> str:
    """Return the hidden tables of contents that the first page gets."""
    groups = []
    for caption, patterns in NAVIGATION.items():
        pages = "\n".join(dict.fromkeys(f"/{page}" for page in list_pages(patterns)))
        groups.append(f"\n\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{pages}\n```\n")
    return "".join(groups)


def write_directives(package: str) -> Iterator[str]:
    """Yield the directives for a package and its modules, in the order of their names.

    What a package exports is described in the module that defines it, and only there.
    """
    yield f".. automodule:: {package}\n   :no-members:"
    for found in pkgutil.walk_packages(import_module(package).__path__, f"{package}."):
        yield f".. automodule:: {found.name}" + ("\n   :no-members:" if found.ispkg else "")


def write_autodoc(match: re.Match[str]) -> str:
    """Return the directives for a package and its modules."""
    modules = "\n\n".join(write_directives(match[1]))
    return f"```{{eval-rst}}\n{modules}\n```"


def unlink_folders(folder: Path, text: str) -> str:
    """Replace links to folders, which have no page, by their texts."""

    def replace(match: re.Match[str]) -> str:
        return match[1] if (folder / match[2]).is_dir() else match[0]

    return re.sub(r"\[([^\]\[]*)\]\(([^)#:\s]+)\)", replace, text)


def prepare(app: Sphinx, name: str, source: list[str]) -> None:
    """Adapt a page for Sphinx before it is parsed."""
    text = unlink_folders(Path(app.env.doc2path(name)).parent, source[0])
    if name == "docs/guarantees":
        text = list_tests(text, collect_tests(ROOT))
    text = re.sub(r"<!-- autodoc: ([\w.]+) -->", write_autodoc, text)
    source[0] = text + (write_navigation() if name == root_doc else "")


_SIGNS: Final = re.compile(r"((?<!^)\*|^\*(?! )|[|\\])")
"""Signs with a meaning in reStructuredText, apart from the star of a list."""


def escape(line: str) -> str:
    """Return a line of a docstring, with its `code` and its signs as reStructuredText writes them."""
    parts = re.split(r"(`[^`]+`)", line)
    return "".join(f"`{part}`" if part.startswith("`") else _SIGNS.sub(r"\\\1", part) for part in parts)


def adapt_docstring(*event: Any) -> None:
    """Turn the lines of a docstring, the last argument of the event, into reStructuredText; tables become text."""
    lines: list[str] = event[-1]
    adapted: list[str] = []
    in_table = False
    for line in lines:
        starts = line.startswith("|")
        if starts and not in_table:
            adapted += ["::", ""]
        in_table = starts
        adapted.append(f"    {line}" if starts else escape(line))
    lines[:] = adapted


def write_schemas(app: Sphinx, _error: Exception | None) -> None:
    """Write the schemas of all records into the site, as `location-monitor schema` prints them."""
    folder = Path(app.outdir) / "schemas"
    folder.mkdir(exist_ok=True)
    for name, build in SCHEMAS.items():
        (folder / f"{name}.json").write_text(json.dumps(build(), indent=2, ensure_ascii=False), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the preparation of pages, and the language of diagrams, which are shown as text."""
    app.srcdir = type(app.srcdir)(write_source(ROOT, Path(f"{app.outdir}-source")))
    app.connect("source-read", prepare)
    app.connect("build-finished", write_schemas)
    app.connect("autodoc-process-docstring", adapt_docstring, priority=400)  # before napoleon, at 500
    app.add_lexer("mermaid", TextLexer)
    return {"parallel_read_safe": True}
