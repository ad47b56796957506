"""Signing, cosigning, the background of the page and earlier configurations: who gets which file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from monitor.audit.configuration import read_terms
from monitor.audit.live.config_files import list_configs
from monitor.config.load import load_config
from tests.deploy.chart.helm import Answer, Helm, value_set
from tests.deploy.chart.test_manifests import list_containers, list_pods

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.long,
]  # the first test on a machine compiles Helm, which a busy machine delays

NAME: Final = "city-location-monitor"
SIGNED: Final = (
    "auditor.enabled=true",
    "page.enabled=true",
    "secrets.signingKey.existingSecret=town-signing",
    "auditor.cosignKey.existingSecret=town-cosigning",
)


def mount(answer: Answer, pod: dict[str, Any], folder: Path) -> dict[str, str]:
    """Write the ConfigMaps that a pod mounts as its folder of configurations, and return the secret of each file."""
    data = {each["metadata"]["name"]: each["data"] for each in answer.of_kind("ConfigMap")}
    volumes = {volume["name"]: volume["projected"]["sources"] for volume in pod["volumes"] if "projected" in volume}
    for source in (each["configMap"] for each in volumes["config"]):
        content = data[source["name"]]
        for item in source.get("items", [{"key": key, "path": key} for key in content]):
            (folder / item["path"]).parent.mkdir(parents=True, exist_ok=True)
            (folder / item["path"]).write_text(content[item["key"]], encoding="utf-8")
    secrets = [each["secret"] for each in volumes["secrets"] or ()]
    return {item["path"]: secret["name"] for secret in secrets for item in secret["items"]}


def find_pod(answer: Answer, part: str) -> dict[str, Any]:
    return next(pod for name, _, pod in list_pods(answer) if name == f"{NAME}{part}")


def test_keys_are_for_their_owners(helm: Helm, tmp_path: Path) -> None:
    """Only the service, and the jobs that check it, get the signing key; only the auditor gets the cosigning key."""
    answer = helm.template(value_set("minimal"), set=SIGNED)
    owners = {name: mount(answer, pod, tmp_path / name) for name, _, pod in list_pods(answer)}
    signing = {name for name, files in owners.items() if files.get("signing.key") == "town-signing"}
    assert signing == {f"{NAME}{part}" for part in ("", "-test", "-preflight", "-preflight-rollback")}
    assert {name for name, files in owners.items() if files.get("cosign.key")} == {f"{NAME}-auditor"}
    config, folder = load_config(tmp_path / NAME / "config.yaml", {}), Path("/run/secrets/location-monitor")
    assert config.signing.key_file == folder / "signing.key"
    assert config.auditor.cosign_key_file == folder / "cosign.key"


def test_files_of_the_page_are_beside_the_configuration(helm: Helm, tmp_path: Path) -> None:
    """The page finds its background and the delays as texts beside the configuration; no other pod has them."""
    paths = {"background": tmp_path / "city.geojson", "delays": tmp_path / "late.csv"}
    answers = []
    for text in ("{}", '{"type": "FeatureCollection"}'):
        for path in paths.values():
            path.write_text(text, encoding="utf-8")
        given = [f"page.{key}={path}" for key, path in paths.items()]
        answers.append(helm.template(value_set("minimal"), set=["page.enabled=true"], set_file=given))
        mount(answers[-1], find_pod(answers[-1], "-page"), tmp_path / "page")
        config = load_config(tmp_path / "page" / "config.yaml", {})
        for file in (config.page.background, config.page.delays_file):
            assert file is not None
            assert file.read_text(encoding="utf-8") == text

    def find_checksums(answer: Answer, part: str) -> set[str]:
        return {
            deployment["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
            for deployment in answer.of_kind("Deployment")
            if deployment["metadata"]["name"] == f"{NAME}{part}"
        }

    assert find_checksums(answers[0], "-page") != find_checksums(answers[1], "-page")
    assert find_checksums(answers[0], "") == find_checksums(answers[1], "")


def test_auditor_has_earlier_configurations(helm: Helm, tmp_path: Path) -> None:
    """The auditor reads each earlier configuration with the registry of its time, the newest name first."""
    data = helm.template(value_set("minimal")).of_kind("ConfigMap")[0]["data"]
    present = yaml.safe_load(data["config.yaml"])["monitors"][0]["threshold"]
    earlier = {
        "2025-06-01": {"config": data["config.yaml"], "registry": "location_id\nstation-central\nstation-east\nold\n"},
        "2026-01-01": {"config": re.sub(r"threshold: \d+", "threshold: 11", data["config.yaml"])},
    }
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"auditor": {"enabled": True, "earlier": earlier}}), encoding="utf-8")
    answer = helm.template(value_set("minimal"), values)
    pod = find_pod(answer, "-auditor")
    mount(answer, pod, tmp_path / "mounted")
    (container,) = list_containers(pod)
    paths = [
        tmp_path / "mounted" / Path(word).relative_to("/etc/location-monitor")
        for option, word in zip(container["args"], container["args"][1:], strict=False)
        if option == "--config"
    ]
    assert paths == list_configs(paths)
    thresholds = [
        next(iter(yaml.safe_load(path.read_text(encoding="utf-8"))["monitors"]))["threshold"] for path in paths
    ]
    assert thresholds == [present, 11, present]
    assert [len(read_terms(path).locations) for path in paths] == [2, 2, 3]
