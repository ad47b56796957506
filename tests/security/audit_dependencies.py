"""`make audit-dependencies`: compare the pinned dependencies with the published advisories, by pip-audit.

The exit code is 1 if a dependency is affected, else 0. If pip-audit or the advisories are not available, the output
says so and the exit code is 0, so that a machine without a network can run the tests. pip-audit is installed in a
temporary virtual environment, because its dependencies are not dependencies of this product.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
LOCK: Final = ROOT / "requirements.lock"
TOOL: Final = "pip-audit>=2.10,<3"
SERVICES: Final = ("pypi", "osv")
SECONDS: Final = 300


@dataclass(frozen=True, slots=True)
class Findings:
    """The dependencies compared with advisories, those skipped, and the advisories that apply, each as a line."""

    audited: frozenset[str]
    skipped: frozenset[str]
    affected: tuple[str, ...]


def parse_report(text: str) -> Findings | None:
    """Parse the output of pip-audit; return None if it contains no JSON, so that nothing was audited."""
    start = text.find('{"dependencies"')
    if start < 0:
        return None
    report, _end = json.JSONDecoder().raw_decode(text[start:])
    skipped = frozenset(entry["name"] for entry in report["dependencies"] if "skip_reason" in entry)
    audited = frozenset(entry["name"] for entry in report["dependencies"]) - skipped
    affected = tuple(
        f"{entry['name']} {entry['version']}: {known['id']}, fixed in {', '.join(known['fix_versions']) or 'none yet'}"
        for entry in report["dependencies"]
        for known in entry.get("vulns", ())
    )
    return Findings(audited, skipped, affected)


def judge(findings: Findings | None) -> tuple[int, str]:
    """Return the exit code and the message."""
    if findings is None or not findings.audited:
        return 0, "!!! NOT AUDITED: the advisories are not available. Run `make audit-dependencies` with a network"
    if findings.affected:
        return 1, "\n".join(("dependencies with known vulnerabilities:", *findings.affected))
    skipped = f"; !!! NOT AUDITED: {', '.join(sorted(findings.skipped))}" if findings.skipped else ""
    return 0, f"{len(findings.audited)} dependencies have no known vulnerability{skipped}"


def main() -> int:
    """Audit with the first advisory service that knows the dependencies."""
    findings: Findings | None = None
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = f"{folder}/bin/python"
        if not _succeeds([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", TOOL]):
            print(f"!!! NOT AUDITED: {TOOL} could not be installed", file=sys.stderr)
            return 0
        for service in SERVICES:
            words = ["-r", str(LOCK), "--disable-pip", "--require-hashes", "-f", "json", "-s", service]
            ended = subprocess.run(
                [python, "-m", "pip_audit", *words, "--progress-spinner", "off"],
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
            findings = parse_report(ended.stdout)
            if findings is not None and findings.audited:
                break
    code, message = judge(findings)
    print(message, file=sys.stderr)
    return code


def _succeeds(argv: list[str]) -> bool:
    return subprocess.run(argv, timeout=SECONDS, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
