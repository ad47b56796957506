"""What the chart finds in the cluster: missing secrets, the configuration before a change, and a failed installation.

Helm asks a server with the requests of Kubernetes' API that it needs: the kinds of objects, and these objects.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final

import pytest

from tests.deploy.chart.helm import Answer, Helm, value_set

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.long,
]  # the first test on a machine compiles Helm, which a busy machine delays

_KINDS: Final = {"secrets": "Secret", "configmaps": "ConfigMap", "deployments": "Deployment"}
_CORE: Final = "/api/v1/namespaces/monitor"
_NAME: Final = "city-location-monitor"
_DEPLOYMENT: Final = f"/apis/apps/v1/namespaces/monitor/deployments/{_NAME}"

Cluster = Callable[[Mapping[str, Any]], str]
"""Starts a server with objects by path, and returns its address."""


def _describe_group(version: str, plurals: tuple[str, ...]) -> dict[str, Any]:
    resources = [{"name": each, "kind": _KINDS[each], "namespaced": True, "verbs": ["get", "list"]} for each in plurals]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}


_APPS: Final = {"groupVersion": "apps/v1", "version": "v1"}
_DISCOVERY: Final = {
    "/version": {"major": "1", "minor": "29", "gitVersion": "v1.29.0"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [{"name": "apps", "versions": [_APPS], "preferredVersion": _APPS}],
    },
    "/api/v1": _describe_group("v1", ("secrets", "configmaps")),
    "/apis/apps/v1": _describe_group("apps/v1", ("deployments",)),
}


@contextmanager
def serve(objects: Mapping[str, Any]) -> Iterator[str]:
    """Serve objects by their path in the API of Kubernetes, and yield the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = {**_DISCOVERY, **objects}.get(self.path.partition("?")[0])
            missing = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
            body = json.dumps(missing if found is None else found).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
            """Keep requests out of the tests' output."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def list_secrets(**secrets: str) -> dict[str, Any]:
    """Return the list of a namespace's secrets: for each name a key."""
    items = [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name.replace("_", "-")}, "data": {key: "eA=="}}
        for name, key in secrets.items()
    ]
    return {f"{_CORE}/secrets": {"kind": "SecretList", "apiVersion": "v1", "items": items}}


def config_map(name: str, data: Mapping[str, str]) -> dict[str, Any]:
    """Return a ConfigMap by its path."""
    found = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
    return {f"{_CORE}/configmaps/{name}": found}


def deployment(**status: int) -> dict[str, Any]:
    """Return the Deployment of the service by its path."""
    found = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": _NAME}, "status": status}
    return {_DEPLOYMENT: found}


def ask(helm: Helm, objects: Mapping[str, Any], *given: str, upgrade: bool = False) -> Answer:
    """Render the chart with the minimal values against a cluster with these objects."""
    with serve(objects) as address:
        command = helm.upgrade if upgrade else helm.template
        return command(value_set("minimal"), set=given, kube_apiserver=[address], dry_run=["server"])


def test_missing_secret_is_named(helm: Helm) -> None:
    """A secret that the namespace lacks is named with its value before anything is installed; so is a missing key."""
    answer = ask(helm, list_secrets(other="x"))
    assert 'secrets.personKey.existingSecret is "town-person-key": expected a Secret' in answer.error
    answer = ask(helm, list_secrets(town_person_key="other"))
    assert 'secrets.personKey.key is "person.key": expected a key of the Secret "town-person-key"' in answer.error
    auditor = ("auditor.enabled=true", "auditor.cosignKey.existingSecret=cosign")
    answer = ask(helm, list_secrets(town_person_key="person.key"), *auditor)
    assert 'auditor.cosignKey.existingSecret is "cosign": expected a Secret' in answer.error
    assert ask(helm, list_secrets(town_person_key="person.key")).error == ""
    assert ask(helm, list_secrets(other="x"), "preflight.findSecrets=false").error == ""


def test_failed_installation_is_named(helm: Helm) -> None:
    """An upgrade of a release whose installation failed creates no topics, so it is refused with what to do."""
    secrets = list_secrets(town_person_key="person.key")
    answer = ask(helm, secrets, upgrade=True)
    assert 'the first installation of "city" failed' in answer.error
    assert "helm --namespace monitor uninstall city" in answer.error
    assert ask(helm, secrets | deployment(replicas=1, updatedReplicas=1), upgrade=True).error == ""


def find_earlier(answer: Answer) -> dict[str, str]:
    """Return the earlier configurations of the auditor, without line breaks at the end."""
    assert answer.error == ""
    found = [each["data"] for each in answer.of_kind("ConfigMap") if each["metadata"]["name"] == f"{_NAME}-earlier"]
    return {name: text.strip() for data in found for name, text in data.items()}


def test_previous_configuration_is_kept(helm: Helm) -> None:
    """After a change, the auditor has the configuration and registry before it, also after an upgrade without one."""
    enabled = "auditor.enabled=true"
    installed = helm.template(value_set("minimal"), set=[enabled]).of_kind("ConfigMap")
    (data,) = [each["data"] for each in installed if each["metadata"]["name"] == _NAME]
    first = config_map(_NAME, data)
    assert find_earlier(ask(helm, first, enabled)) == {}

    changed = ask(helm, first, enabled, "config.monitors[0].threshold=13")
    kept = find_earlier(changed)
    assert kept == {"previous.yaml": data["config.yaml"].strip(), "previous.csv": data["locations.csv"].strip()}
    auditor = next(each for each in changed.of_kind("Deployment") if each["metadata"]["name"].endswith("-auditor"))
    (container,) = auditor["spec"]["template"]["spec"]["containers"]
    assert container["args"][3:5] == ["--config", "/etc/location-monitor/earlier/previous/config.yaml"]

    (data,) = [each["data"] for each in changed.of_kind("ConfigMap") if each["metadata"]["name"] == _NAME]
    second = config_map(_NAME, data) | config_map(f"{_NAME}-earlier", kept)
    same = ("config.monitors[0].threshold=13", "replicas=3")
    assert find_earlier(ask(helm, second, enabled, *same)) == kept
    assert find_earlier(ask(helm, second, enabled, "auditor.keepPrevious=false")) == {}


def test_unfinished_change_keeps_previous_configuration(helm: Helm) -> None:
    """While the instances have not completed a change, as if they refuse it, the configuration before it is kept."""
    enabled, threshold = "auditor.enabled=true", "config.monitors[0].threshold"
    kept = {"previous.yaml": "in force"}
    objects = config_map(_NAME, {"config.yaml": "installed"}) | config_map(f"{_NAME}-earlier", kept)
    refused = deployment(replicas=3, updatedReplicas=1)
    assert find_earlier(ask(helm, objects | refused, enabled, f"{threshold}=14")) == kept
    complete = deployment(replicas=2, updatedReplicas=2)
    assert find_earlier(ask(helm, objects | complete, enabled, f"{threshold}=14")) == {"previous.yaml": "installed"}
    first = config_map(_NAME, {"config.yaml": "installed"}) | refused
    assert find_earlier(ask(helm, first, enabled)) == {"previous.yaml": "installed"}
