"""Imports inside `monitor`: a room imports only those below it, without circles. Service and readers stay apart.

LAYERS is the order. A module that breaks it usually belongs in another folder: CONTRIBUTING.md has the map.
"""

from __future__ import annotations

import ast
import shutil
from collections.abc import Iterable
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2] / "monitor"

LAYERS: Final = (
    "__init__",
    "errors",
    "thread_signals",
    "stop_signals",
    "new_files",
    "privacy",
    "time",
    "records",
    "values",
    "kinds",
    "command_options",
    "config",
    "observe",
    "kafka",
    "store",
    "ingest",
    "ledger",
    "ticks",
    "service",
    "onesided",
    "client",
    "audit",
    "operate",
    "operate.keygen",
    "operate.schema",
    "operate.status",
    "operate.servers",
    "operate.simulated_town",
    "operate.convert",
    "operate.read_report_delays",
    "operate.check",
    "operate.plan",
    "operate.register",
    "operate.replay",
    "operate.send",
    "operate.dead_letters",
    "page",
    "operate.demo",
    "cli",
)
"""The folders and modules of `monitor` and of `monitor/operate`, lowest first."""

SERVICE: Final = ("monitor.service.wiring", "monitor.service.keep_running", "monitor.service.run_command")
SERVICE_ROOMS: Final = ("store", "ingest", "ledger", "ticks", "service")
AROUND: Final = ("onesided", "client", "audit", "operate", "page")
"""What is around the service, and not part of it."""

READERS: Final = ("client", "page", "audit")
"""What reads the answers. It runs where there is no Redis and no person key."""

CLIENT_ARITHMETIC: Final = {f"monitor.privacy{name}" for name in ("", ".epsilon", ".over_time", ".published_numbers")}
"""What a subscriber computes: exact ε, the p-value of an alarm, and the numbers that records repeat."""

CLIENT_CONFIG: Final = {
    "monitor.config",
    *(
        f"monitor.config.{name}"
        for name in (
            *("yaml_file", "environment", "read_sections", "sections", "describe_problems"),
            *("kafka_and_redis", "secret_values", "registry", "csv_table", "bounded_lines"),
        )
    ),
}
"""What reads the sections of a configuration that a subscriber needs, its registry, and the secrets of Kafka."""


def find_layer(module: str) -> str:
    """Return the entry of LAYERS that contains a module: "store" for monitor.store.keys."""
    parts = module.split(".")[1:] or ["__init__"]
    return ".".join(parts[: 2 if parts[0] == "operate" else 1])


def find_modules(root: Path) -> dict[str, Path]:
    """Return every module below `root` by its dotted name."""
    found = {}
    for path in root.rglob("*.py"):
        parts = path.relative_to(root.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def read_imports(path: Path) -> tuple[str, ...]:
    """Return every dotted name that a file imports, inside functions and TYPE_CHECKING blocks too."""
    return _parse_imports(path.read_text(encoding="utf-8"))


@cache
def _parse_imports(source: str) -> tuple[str, ...]:
    names: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: write the import absolute"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return tuple(names)


def read_graph(root: Path) -> dict[str, set[str]]:
    """Return the modules of `monitor` that each of its modules imports, with the packages they are in."""
    files = find_modules(root)
    graph: dict[str, set[str]] = {}
    for module, path in files.items():
        prefixes = (
            ".".join(name.split(".")[:length])
            for name in read_imports(path)
            for length in range(2, name.count(".") + 2)
        )
        graph[module] = {prefix for prefix in prefixes if prefix in files} - {module}
    return graph


def find_upward_imports(graph: dict[str, set[str]]) -> list[str]:
    """Return each import of a layer above, as "importing module -> imported module"."""
    height = {name: position for position, name in enumerate(LAYERS)}
    return [
        f"{module} -> {imported}"
        for module in sorted(graph)
        for imported in sorted(graph[module])
        if height[find_layer(imported)] > height[find_layer(module)]
    ]


def find_reachable(graph: dict[str, set[str]], modules: Iterable[str]) -> set[str]:
    """Return the modules, and every module that they import directly or through others."""
    found: set[str] = set()
    waiting = list(modules)
    while waiting:
        if (module := waiting.pop()) not in found:
            found.add(module)
            waiting.extend(graph[module])
    return found


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the sources of `monitor`, to plant imports in."""
    shutil.copytree(ROOT, tmp_path / "monitor", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "monitor"


def plant(package: Path, file: str, line: str) -> None:
    path = package / file
    path.write_text(f"{path.read_text(encoding='utf-8')}\n{line}\n", encoding="utf-8")


def test_each_folder_is_a_layer() -> None:
    """Every folder and module of `monitor` is in LAYERS, and nothing else is."""
    assert {find_layer(module) for module in read_graph(ROOT)} == set(LAYERS)


def test_imports_go_down() -> None:
    """No module imports a layer above its own."""
    assert find_upward_imports(read_graph(ROOT)) == []


def test_imports_have_no_circle() -> None:
    """No module imports itself through others, not even for its types."""
    files = find_modules(ROOT)
    # A name stands for the module that defines it.
    graph = {
        module: {name if name in files else name.rpartition(".")[0] for name in read_imports(path)} - {module}
        for module, path in files.items()
    }
    TopologicalSorter(graph).prepare()  # raises a CycleError with the modules of a circle


def test_service_imports_nothing_around_it() -> None:
    """The service imports no reader, no library and no operator's command, neither directly nor through others."""
    reached = find_reachable(read_graph(ROOT), SERVICE)
    assert [module for module in sorted(reached) if find_layer(module).split(".")[0] in AROUND] == []


@pytest.mark.parametrize("reader", READERS)
def test_reader_loads_no_service(reader: str) -> None:
    """Client, page and audit import no room of the service, neither directly nor through other modules."""
    graph = read_graph(ROOT)
    modules = [module for module in graph if find_layer(module) == reader]
    reached = find_reachable(graph, modules)
    assert [module for module in sorted(reached) if find_layer(module) in SERVICE_ROOMS] == []


def test_client_loads_what_records_need() -> None:
    """`import monitor.client` loads each kind's record alone, no arithmetic of noise, and no whole configuration."""
    graph = read_graph(ROOT)
    reached = find_reachable(graph, ["monitor.client"])
    of_kinds = {module for module in reached if find_layer(module) == "kinds" and module.count(".") == 3}
    assert {module.rpartition(".")[2] for module in of_kinds} == {"record", "record_of_designated_times"}
    assert {module for module in reached if find_layer(module) == "privacy"} <= CLIENT_ARITHMETIC
    assert {module for module in reached if find_layer(module) == "config"} <= CLIENT_CONFIG


@pytest.mark.parametrize(
    ("file", "line", "expected"),
    [
        ("kafka/topics.py", "from monitor.operate.demo import command", "monitor.operate.demo.command"),
        ("client/subscription.py", "import monitor.page.kept_records", "monitor.page.kept_records"),
        ("store/keys.py", "import monitor.ticks.loop", "monitor.ticks.loop"),
        ("privacy/one_sided_noise.py", "def late():\n    from monitor import records", "monitor.records"),
        ("errors.py", "if TYPE_CHECKING:\n    from monitor.config import Config", "monitor.config"),
    ],
    ids=["command", "reader in reader", "neighbour", "function", "type checking"],
)
def test_planted_import_is_found(package: Path, file: str, line: str, expected: str) -> None:
    """An import of a higher layer is found anywhere in a file."""
    plant(package, file, line)
    importing = f"monitor.{file.removesuffix('.py').replace('/', '.')}"
    assert f"{importing} -> {expected}" in find_upward_imports(read_graph(package))
