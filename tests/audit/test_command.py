"""The command, its output, and the independence of the audit."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import monitor.audit
from monitor.cli import main
from tests.audit.conftest import Tiny, show

ALLOWED = {"cryptography", "yaml", "rich", "kafka", "msgspec"}


def find_imports(path: Path) -> set[str]:
    """Return the modules that a file imports, anywhere in it."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: a relative import"
            modules.add(node.module or "")
    return modules


@pytest.mark.promise(37)
def test_audit_imports_nothing_of_service() -> None:
    """The audit imports itself, the standard library and five packages. Its command and its process import more."""
    folder = Path(monitor.audit.__file__).parent
    own_files = (path for path in folder.rglob("*.py") if "live" not in path.parts and path.name != "command.py")
    files = {".".join(("monitor.audit", *path.relative_to(folder).with_suffix("").parts)): path for path in own_files}
    assert "monitor.audit.kinds.over_time" in files
    for path in files.values():
        for name in find_imports(path):
            own = name == "monitor.audit" or name in files
            root = name.partition(".")[0]
            assert own or root in sys.stdlib_module_names or root in ALLOWED, f"{path.name} imports {name}"


def run(tiny: Tiny, *more: str) -> tuple[int, str]:
    """Return the exit code and the output of the command."""
    visits, config, alerts = tiny.write()
    result = CliRunner().invoke(main, ["audit", str(visits), "--config", str(config), "--alerts", str(alerts), *more])
    return result.exit_code, result.output


@pytest.mark.promise(37)
def test_violation_exits_1(tiny: Tiny) -> None:
    """A missing tick exits with 1, and the command names it; with `--live` it is shown, but breaks no promise."""
    tiny.remove("walk/park/5")
    code, text = run(tiny)
    assert code == 1
    assert "output partition 0 has no answers for tick 5" in text
    code, text = run(tiny, "--live")
    assert code == 0
    assert "Missing in output partition 0: tick 5. Nobody decided them." in text


@pytest.mark.promise(37)
@pytest.mark.parametrize("name", ["CLOCK__SLOT", "MONITORS__0__THRESHOLD", "SERVICE__NAME"])
def test_variables_are_refused(tiny: Tiny, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that changes what the service publishes exits with 2 and is named, because only files are read."""
    monkeypatch.setenv(f"LOCATION_MONITOR__{name}", "10s")
    code, text = run(tiny)
    assert code == 2
    assert f"LOCATION_MONITOR__{name}" in text
    assert name.lower().replace("__", ".") in text


def test_other_variables_are_allowed(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logins, secrets and ports may come from variables: they change nothing that is published."""
    for name in ("KAFKA__PASSWORD", "VISITS__PERSON_KEY", "METRICS__PORT", "SIGNING__KEY_FILE"):
        monkeypatch.setenv(f"LOCATION_MONITOR__{name}", "1")
    assert run(tiny)[0] == 0


def test_early_end_is_reported(tiny: Tiny) -> None:
    """If the run ends before every visit has left every window, the command reports it."""
    tiny.remove("walk/park/6")
    assert "The run ends before tick 6, when every visit has left" in run(tiny)[1]


@pytest.mark.promise(22)
def test_output_names_no_person_or_count(tiny: Tiny) -> None:
    """Neither a person nor an exact count is printed or listed."""
    # 4,711 people at the park, of whom each record says too little
    tiny.lines += [f"person-{n},park,2026-01-01T00:10:00Z,2026-01-01T00:50:00Z," for n in range(4_709)]
    for tick in (3, 4):
        tiny[f"night/2026-01-01T02:30:00Z/0/{tick}"]["noisy_counts"] = {}
    report = tiny.audit()
    assert {"safe", "noisy_count"} <= set(report.totals)
    for secret in ("person-", "4710", "4,710", "4711", "4,711"):
        assert secret not in str(report.violations)
    assert "person-" not in show(report)
