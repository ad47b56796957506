"""`make audit-dependencies`: the pinned dependencies against the published advisories, by pip-audit.

Exit code 1 if one is affected, else 0. Where pip-audit or the advisories can't be had nothing was audited, which is
said loudly and fails nothing: a machine without the network must still be able to test. pip-audit lives in a virtual
environment of its own, thrown away afterwards: what it depends on is no dependency of this product.
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
    """What was compared with advisories, what could not be, and the advisories that hold, each as a line."""

    audited: frozenset[str]
    skipped: frozenset[str]
    affected: tuple[str, ...]


def findings(report: str) -> Findings | None:
    """Read pip-audit's JSON; None if it is none, so nothing was audited."""
    start = report.find('{"dependencies"')
    if start < 0:
        return None
    found, _end = json.JSONDecoder().raw_decode(report[start:])
    skipped = frozenset(entry["name"] for entry in found["dependencies"] if "skip_reason" in entry)
    audited = frozenset(entry["name"] for entry in found["dependencies"]) - skipped
    affected = tuple(
        f"{entry['name']} {entry['version']}: {known['id']}, mended in {', '.join(known['fix_versions']) or 'none yet'}"
        for entry in found["dependencies"]
        for known in entry.get("vulns", ())
    )
    return Findings(audited, skipped, affected)


def verdict(found: Findings | None) -> tuple[int, str]:
    """The exit code, and what to say."""
    if found is None or not found.audited:
        return 0, "!!! NOT AUDITED: the advisories could not be had. Run `make audit-dependencies` where they can be"
    if found.affected:
        return 1, "\n".join(("dependencies with known vulnerabilities:", *found.affected))
    left = f"; !!! NOT AUDITED: {', '.join(sorted(found.skipped))}" if found.skipped else ""
    return 0, f"{len(found.audited)} dependencies have no known vulnerability{left}"


def main() -> int:
    """Audit, by the first service that knows the dependencies."""
    found: Findings | None = None
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = f"{folder}/bin/python"
        if not _ran([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", TOOL]):
            print(f"!!! NOT AUDITED: {TOOL} could not be installed", file=sys.stderr)
            return 0
        for service in SERVICES:
            words = ["-r", str(LOCK), "--disable-pip", "--require-hashes", "-f", "json", "-s", service]
            done = subprocess.run(
                [python, "-m", "pip_audit", *words, "--progress-spinner", "off"],
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
            found = findings(done.stdout)
            if found is not None and found.audited:
                break
    code, said = verdict(found)
    print(said, file=sys.stderr)
    return code


def _ran(argv: list[str]) -> bool:
    return subprocess.run(argv, timeout=SECONDS, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
