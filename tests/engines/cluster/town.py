"""The service on the cluster: its values, which the steps change, its servers and secrets, and its answers."""

from __future__ import annotations

import copy
import json
import os
import secrets
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import trustme
import yaml
from click.testing import CliRunner

from monitor.cli import main
from monitor.operate.servers.rights import list_store_rules
from tests.engines.cluster.cluster import CHART, NAME, RELEASE, Cluster
from tests.engines.scenario import StepError, Ticks
from tests.kit.certificates import write_certificate

HERE: Final = Path(__file__).parent
USERS: Final = ("operator", "location-monitor", "auditor", "page", "sender", "subscriber")
IMAGES: Final = CHART.parent / "compose.yaml"
Values = dict[str, Any]


@dataclass
class Town:
    """A namespace with Kafka, a store, and a release of the chart."""

    cluster: Cluster
    values: Values
    folder: Path
    earlier: dict[str, dict[str, str]] = field(default_factory=dict)
    """The configurations that were in force, as `auditor.earlier`."""
    revision: int = 1
    """The last revision whose instances became ready."""

    @property
    def ticks(self) -> Ticks:
        """The ticks of the service."""
        config = self.values["config"]
        return Ticks(int(config["clock"]["slot"].rstrip("s")), config["monitors"][0]["locations"])

    def run_helm(self, *words: str, values: Values | None = None) -> None:
        """Install or upgrade the release."""
        file = self.folder / "values.yaml"
        file.write_text(yaml.safe_dump(self.values if values is None else values), encoding="utf-8")
        command, *options = words
        self.cluster.helm(command, RELEASE, str(CHART), "--values", str(file), *options)

    def change(self, change: Callable[[Values], object]) -> Values:
        """Return changed values."""
        values = copy.deepcopy(self.values)
        change(values)
        return values

    def upgrade(self, change: Callable[[Values], object]) -> None:
        """Change the values, and upgrade the release. An earlier configuration is kept for the auditor."""
        values = self.change(change)
        if values["config"] != self.values["config"]:
            kept = self.cluster.kubectl("get", "configmap", NAME, "--output", "jsonpath={.data.config\\.yaml}")
            self.earlier[f"{len(self.earlier):04}"] = {"config": kept}
            values["auditor"]["earlier"] = dict(self.earlier)
        self.values = values
        self.run_helm("upgrade")
        self.cluster.wait_for_rollout("", "auditor", "page")
        self.revision = json.loads(self.cluster.helm("status", RELEASE, "--output", "json"))["version"]

    def read_answers(self) -> Mapping[int, Mapping[str, str]]:
        """Return the status by tick and place."""
        return {int(time): states for time, states in json.loads(self.cluster.run_tool("read")).items()}

    def describe(self) -> str:
        """Return the list of pods."""
        return self.cluster.kubectl("get", "pods")

    def list_uids(self) -> set[str]:
        """Return the unique ids of all pods of the service, the auditor and the page that are not ending."""
        pods = {uid: pod for part in ("", "auditor", "page") for uid, pod in self.cluster.list_pods(part).items()}
        return {uid for uid, pod in pods.items() if "deletionTimestamp" not in pod["metadata"]}

    def store_password(self, password: str) -> str:
        """Write the service's password at the store into its secret, and return its rules there."""
        self.apply_secret("store-password", {"password": password})
        return list_store_rules(self.values["config"]["service"]["name"], password)

    def apply_secret(self, name: str, content: Mapping[str, str]) -> None:
        """Create or replace a secret."""
        self.cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": content})


def read_values() -> Values:
    """Return the values of the scenario, merged with those of the file that VALUES names."""
    values: Values = yaml.safe_load((HERE / "values.yaml").read_text(encoding="utf-8"))
    if named := os.environ.get("VALUES"):
        merge(values, yaml.safe_load(Path(named).read_text(encoding="utf-8")))
    return values


def merge(values: Values, other: Values) -> None:
    """Replace values by others, as Helm merges files of values."""
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(values.get(key), dict):
            merge(values[key], value)
        else:
            values[key] = value


def start_servers(town: Town) -> None:
    """Create the secrets, and start Kafka, the store, and the pod that sends and reads."""
    _create_keys(town)
    config, absent = copy.deepcopy(town.values["config"]), "/not/needed/here"
    files = {"locations": {"file": "locations.csv"}, "visits": {"person_key_file": absent}}
    merge(config, files | {"kafka": {"password_file": absent}})
    programs = {
        "in_pod.py": (HERE / "in_pod.py").read_text(encoding="utf-8"),
        "traffic.py": (HERE.parent / "traffic.py").read_text(encoding="utf-8"),
        "config.yaml": yaml.safe_dump(config),
        "locations.csv": town.values["registry"]["csv"],
    }
    town.cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "programs"}, "data": programs})
    services = yaml.safe_load(IMAGES.read_text(encoding="utf-8"))["services"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    image = {"repository": "location-monitor", "tag": chart["appVersion"]} | town.values.get("image", {})
    names = {
        "@kafka@": services["kafka"]["image"],
        "@store@": services["valkey"]["image"],
        "@image@": f"{image['repository']}:{image['tag']}",
        "@place@": town.ticks.places[0],
    }
    text = (HERE / "servers.yaml").read_text(encoding="utf-8")
    for name, value in names.items():
        text = text.replace(name, value)
    town.cluster.apply(text)
    town.cluster.kubectl("wait", "--for=condition=Ready", "pod/kafka", "pod/store", "pod/tools", "--timeout=300s")


def _create_keys(town: Town) -> None:
    """Create the person key, the signing key, the certificates, and the passwords of all users."""
    passwords = {user: secrets.token_hex(16) for user in (*USERS, "store")}
    with tempfile.TemporaryDirectory(dir=town.folder) as made:
        folder = Path(made)
        authority = trustme.CA()
        write_certificate(folder, "server", authority.issue_cert("kafka", "store"))
        keygen(folder / "person.key")
        town.values["config"]["signing"] = {
            "public_key": keygen(folder / "signing.key", "--signing", "example.org/town")
        }
        rules = town.store_password(passwords.pop("store"))
        operator = f"on >{passwords['operator']} ~* &* +@all"
        acl = f"user default off\nuser operator {operator}\nuser location-monitor {rules}\n"
        pem = (folder / "server.pem").read_text(encoding="utf-8")
        ca = authority.cert_pem.bytes().decode()
        town.apply_secret("servers", {"server.pem": pem, "ca.crt": ca, "users.acl": acl})
        town.apply_secret("passwords", passwords)
        for name in ("person", "signing"):
            town.apply_secret(f"{name}-key", {f"{name}.key": (folder / f"{name}.key").read_text(encoding="utf-8")})


def keygen(file: Path, *options: str) -> str:
    """Write a new key, and return what the command prints: the public key of one that signs."""
    ended = CliRunner().invoke(main, ["keygen", *options, str(file)])
    if ended.exit_code != 0:
        raise StepError(f"keygen: exit code {ended.exit_code}: {ended.output}")
    return ended.output.strip()
