"""`make audit-dependencies`: compare the pinned dependencies with the published advisories.

pip-audit compares the packages of Python. OSV's service compares the jars of the embedded Kafka, which pip-audit does
not know. Images are in neither: scan them before a release (docs/releases.md).

The exit code is 1 if a dependency is affected. If advisories cannot be read, the output says what was not audited.
With `AUDIT=required`, as for a release, this is an error too; without it, a machine without a network can run the
tests. pip-audit is installed in a temporary virtual environment, as `requirements-audit.lock` pins it, because its
dependencies are not dependencies of this product.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
import venv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
LOCKS: Final = ("requirements.lock", "requirements-install.lock")
JARS: Final = ROOT / "monitor/operate/servers/kafka.lock"
TOOL: Final = ROOT / "requirements-audit.lock"
OSV: Final = "https://api.osv.dev/v1/querybatch"
SERVICES: Final = ("pypi", "osv")
"""The services of advisories that pip-audit asks, in this order. A mirror of PyPI may not serve advisories."""
SECONDS: Final = 300
OSV_SECONDS: Final = 30


@dataclass(frozen=True, slots=True)
class Findings:
    """The dependencies compared with advisories, those that were not, and the advisories that apply, each as a line."""

    audited: frozenset[str]
    skipped: frozenset[str]
    affected: tuple[str, ...] = ()


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


def read_jars(lines: Iterable[str]) -> dict[str, str]:
    """Return the version of each jar of a lock, by `group:artifact`. A line has SHA-256, bytes and coordinates."""
    coordinates = (line.split()[2].split(":") for line in lines if line.strip() and not line.startswith("#"))
    return {f"{group}:{artifact}": version for group, artifact, version, *_ in coordinates}


def judge_jars(jars: dict[str, str], results: Sequence[dict[str, Any]]) -> Findings:
    """Return what OSV answered about the jars: for each of them, in their order, the advisories that apply."""
    found = zip(jars.items(), results, strict=True)
    affected = (
        f"{name} {version}: {known['id']}" for (name, version), each in found for known in each.get("vulns", ())
    )
    return Findings(frozenset(jars), frozenset(), tuple(affected))


def judge(findings: Iterable[Findings], *, required: bool) -> tuple[int, str]:
    """Return the exit code and the message. `required`: whether it is an error if something was not audited."""
    found = tuple(findings)
    affected = [line for each in found for line in each.affected]
    skipped = sorted(name for each in found for name in each.skipped)
    lines = [f"{sum(len(each.audited) for each in found)} dependencies were compared with advisories"]
    if affected:
        lines += ["dependencies with known vulnerabilities:", *affected]
    if skipped:
        names = ", ".join((*islice(skipped, 8), "…") if len(skipped) > 8 else skipped)
        lines.append(f"!!! NOT AUDITED: {names}. Run `make audit-dependencies` where advisories can be read")
    return int(bool(affected or (skipped and required))), "\n".join(lines)


def main() -> int:
    """Audit the packages with the first service that knows them, and the jars with OSV's."""
    code, message = judge((_audit_packages(), _audit_jars()), required=os.environ.get("AUDIT") == "required")
    print(message, file=sys.stderr)
    return code


def _audit_packages() -> Findings:
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = f"{folder}/bin/python"
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
        installed = subprocess.run([*pip, "-r", str(TOOL)], timeout=SECONDS, check=False).returncode == 0
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
                return findings
    return Findings(frozenset(), frozenset(LOCKS))


def _audit_jars() -> Findings:
    jars = read_jars(JARS.read_text(encoding="utf-8").splitlines())
    queries = [{"package": {"ecosystem": "Maven", "name": name}, "version": version} for name, version in jars.items()]
    request = urllib.request.Request(OSV, json.dumps({"queries": queries}).encode())
    try:
        with urllib.request.urlopen(request, timeout=OSV_SECONDS) as response:  # noqa: S310  # a constant, by https
            return judge_jars(jars, json.load(response)["results"])
    except OSError:
        return Findings(frozenset(), frozenset({str(JARS.relative_to(ROOT))}))


if __name__ == "__main__":
    sys.exit(main())
