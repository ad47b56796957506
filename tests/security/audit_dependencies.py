"""`make audit-dependencies`: compare the pinned dependencies with the published advisories, by pip-audit.

The exit code is 1 if a dependency is affected, and in CI (environment variable CI) also if nothing was audited although
a service of advisories can be reached. If none can be reached, the output says so and the exit code is 0, so that a
machine without a network can run the tests. pip-audit is installed in a temporary virtual environment, as
`requirements-audit.lock` pins it, because its dependencies are not dependencies of this product.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
LOCKS: Final = ("requirements.lock", "requirements-install.lock")
TOOL: Final = ROOT / "requirements-audit.lock"
SERVICES: Final = {"pypi": "https://pypi.org/pypi/pip/25.0/json", "osv": "https://api.osv.dev/v1/vulns/PYSEC-2023-228"}
"""The names that pip-audit gives to the services of advisories, and an address of each that serves advisories.

PyPI serves them with a version of a project. A mirror may serve the page of a project, but not that of a version.
"""
SECONDS: Final = 300
PROBE_SECONDS: Final = 10


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


def judge(findings: Findings | None, *, required: bool) -> tuple[int, str]:
    """Return the exit code and the message. `required`: whether it is an error if nothing was audited."""
    if findings is None or not findings.audited:
        return int(required), "!!! NOT AUDITED: no advisories were read. Run `make audit-dependencies` with a network"
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
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
        installed = _succeeds([*pip, "-r", str(TOOL)])
        if not installed:
            print(f"!!! NOT AUDITED: pip-audit could not be installed from {TOOL.name}", file=sys.stderr)
        for service in SERVICES if installed else ():
            locks = [word for name in LOCKS for word in ("-r", str(ROOT / name))]
            words = [*locks, "--disable-pip", "--require-hashes", "-f", "json", "-s", service]
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
    code, message = judge(findings, required="CI" in os.environ and any(map(_answers, SERVICES.values())))
    print(message, file=sys.stderr)
    return code


def _answers(address: str) -> bool:
    """Return whether a service of advisories can be reached and knows what it must know."""
    try:
        with urllib.request.urlopen(address, timeout=PROBE_SECONDS) as response:  # noqa: S310  # a constant, by https
            return "json" in response.headers.get("content-type", "")
    except OSError:
        return False


def _succeeds(argv: list[str]) -> bool:
    return subprocess.run(argv, timeout=SECONDS, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
