"""The alerting rules of deploy/prometheus/, and their runbooks, which are the sections of docs/runbooks.md."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = ROOT / "docs" / "runbooks.md"
RULES: Final = ROOT / "deploy" / "prometheus" / "service.yml"
AUDITOR_RULES: Final = ROOT / "deploy" / "prometheus" / "auditor.yml"
PAGE_RULES: Final = ROOT / "deploy" / "prometheus" / "page.yml"
RUNBOOK_BASE: Final = "https://location-monitor.example/docs/runbooks.md#"
"""How the link to each runbook begins in the rules. Operators replace the address of docs/ by their own."""


def alerts(*files: Path) -> list[dict[str, Any]]:
    """Return the alerting rules of some files in their order; of all files if none is given."""
    found = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in files or (RULES, AUDITOR_RULES, PAGE_RULES)]
    groups = [group for rules in found for group in rules["groups"]]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


def find_anchor(alert: dict[str, Any]) -> str:
    """Return the anchor of the runbook that the link of an alert leads to."""
    return str(alert["annotations"]["runbook_url"]).removeprefix(RUNBOOK_BASE)


def read_runbooks() -> dict[str, str]:
    """Return the text of each runbook by its anchor."""
    sections = re.findall(r"^### ([^\n]+)\n(.*?)(?=^##|\Z)", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return {heading.lower().replace(" ", "-"): text for heading, text in sections}


def read_commands(anchor: str) -> list[str]:
    """Return the commands of a runbook, except those that are marked as not run."""
    return read_shell_lines(read_runbooks()[anchor])


def read_shell_lines(text: str) -> list[str]:
    """Return the lines of the shell blocks of a text that are not marked as not run."""
    blocks = re.findall(r"^( *<!-- not run: [^\n]*\n)? *```sh\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)
    return [line for mark, block in blocks if not mark for line in textwrap.dedent(block).splitlines() if line]
