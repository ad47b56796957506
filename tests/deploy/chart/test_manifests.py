"""The rendered chart: Kubernetes' schemas, and what every pod, policy and alert has to fulfil."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]  # it ships no type information
import pytest
import yaml

from monitor.cli import main
from monitor.config.kafka_and_redis import MetricsSettings
from monitor.config.load import load_config
from monitor.observe.health import Endpoint, Health
from monitor.observe.service_metrics import METRICS
from monitor.observe.update_service_metrics import Metrics
from tests.deploy.chart.helm import CASES, CHART, Answer, Helm, render, value_set
from tests.needed_programs import run_promtool

VERSIONS = ("1.29", "1.37")
BUILT_IN = ("v1", "apps/v1", "batch/v1", "policy/v1", "networking.k8s.io/v1")
pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.long,
]  # the first test on a machine compiles Helm, which a busy machine delays
FORBIDDEN = ("hostNetwork", "hostPID", "hostIPC", "hostUsers")


def list_pods(answer: Answer) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield (name, metadata, specification) of each pod: of the deployment, the job and the test."""
    for found in answer.manifests:
        if found["kind"] == "Pod":
            yield found["metadata"]["name"], found["metadata"], found["spec"]
        elif "template" in found.get("spec", {}):
            template = found["spec"]["template"]
            yield found["metadata"]["name"], template["metadata"], template["spec"]


def list_containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod.get("initContainers", ()), *pod["containers"]]


@pytest.mark.parametrize("name", ["minimal", "full", "secure"])
@pytest.mark.parametrize("component", ["service", "kafka"])
def test_lint_finds_nothing(helm: Helm, name: str, component: str) -> None:
    """`helm lint` accepts each set of values, and only recommends an icon."""
    given = ["strimzi.cluster=events", f"component={component}"]
    answer = helm.lint(value_set(name), set=given)
    assert answer.error == ""
    found = [line for line in answer.text.splitlines() if line.startswith("[")]
    assert [line for line in found if "icon is recommended" not in line] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_accepts_every_object(rendered: dict[str, Answer], version: str) -> None:
    """The schemas of Kubernetes accept each object of its own kinds, without unknown keys."""
    checked = set()
    for answer in rendered.values():
        for found in answer.manifests:
            if found["apiVersion"] in BUILT_IN:
                kubernetes_validate.validate(found, version, strict=True)
                checked.add(found["kind"])
    expected = {"ConfigMap", "Deployment", "Job", "NetworkPolicy", "Pod", "PodDisruptionBudget", "Service"}
    assert checked == expected


def test_objects_are_named_once(rendered: dict[str, Answer]) -> None:
    """No two objects of a release have the same kind and name, and all are in the release's namespace."""
    for answer in rendered.values():
        names = [(found["kind"], found["metadata"]["name"]) for found in answer.manifests]
        assert len(names) == len(set(names))
        assert {found["metadata"]["namespace"] for found in answer.manifests} == {"monitor"}


def test_pods_fulfil_the_restricted_standard(rendered: dict[str, Answer]) -> None:
    """Each pod fulfils the restricted pod security standard, with a read-only root, user 10001 and no token."""
    seen = set()
    for answer in rendered.values():
        for name, _, pod in list_pods(answer):
            seen.add(name)
            assert pod["automountServiceAccountToken"] is False
            assert not any(pod.get(key) for key in FORBIDDEN)
            assert {kind for volume in pod["volumes"] for kind in volume} <= {
                "name",
                "projected",
                "persistentVolumeClaim",
                "configMap",
                "emptyDir",
            }
            for container in list_containers(pod):
                security = container["securityContext"]
                assert security["runAsNonRoot"] is True
                assert security["readOnlyRootFilesystem"] is True
                assert security["allowPrivilegeEscalation"] is False
                assert security["capabilities"] == {"drop": ["ALL"]}
                assert security["seccompProfile"] == {"type": "RuntimeDefault"}
                assert (security["runAsUser"], security["runAsGroup"]) == (10001, 10001)
                assert not any("hostPort" in port for port in container.get("ports", ()))
                assert {"requests", "limits"} <= container["resources"].keys()
    parts = ("", "-preflight", "-preflight-rollback", "-test", "-auditor", "-page")
    assert seen == {f"city-location-monitor{part}" for part in parts}


def test_chart_contains_no_secret(rendered: dict[str, Answer]) -> None:
    """The chart creates no Secret, and mounts only those that the values name."""
    named = {
        source["secret"]["name"]
        for answer in rendered.values()
        for _, _, pod in list_pods(answer)
        for volume in pod["volumes"]
        for source in volume.get("projected", {}).get("sources", ())
        if "secret" in source
    }
    given = [yaml.safe_load(path.read_text(encoding="utf-8"))["secrets"] for path in CHART.glob("ci/*.yaml")]
    of_cases = {"auditor", "page", "sentinels"}
    assert named == {secret["existingSecret"] for secrets in given for secret in secrets.values()} | of_cases
    assert not any(answer.of_kind("Secret") for answer in rendered.values())
    sources = "".join(path.read_text(encoding="utf-8") for path in CHART.glob("templates/**/*") if path.is_file())
    assert not any(
        word in sources for word in ("randAlpha", "randBytes", "genPrivateKey", "genSignedCert", "derivePassword")
    )


def test_commands_and_options_exist(rendered: dict[str, Answer]) -> None:
    """Each container runs an existing command with existing options, on the mounted configuration."""
    for answer in rendered.values():
        for _, _, pod in list_pods(answer):
            for container in list_containers(pod):
                if container.get("command") or container["name"] == "web":
                    continue
                name, *options = container["args"]
                known = {option for parameter in main.commands[name].params for option in parameter.opts}
                assert {option for option in options if option.startswith("--")} <= known
                assert options[:2] == ["--config", "/etc/location-monitor/config.yaml"]
                assert "/etc/location-monitor" in {mount["mountPath"] for mount in container["volumeMounts"]}


@pytest.mark.parametrize("ready", [True, False])
def test_helm_test_detects_readiness(rendered: dict[str, Answer], ready: bool) -> None:
    """The script of `helm test` succeeds at a ready instance's real endpoint, and fails at one that waits."""
    (pod,) = rendered["minimal"].of_kind("Pod")
    (container,) = pod["spec"]["containers"]
    metrics, health = Metrics(), Health()
    health.report_alive("service", "" if ready else "checking the servers")
    metrics.watch_readiness(lambda: not health.list_waiting())
    endpoint = Endpoint("localhost", 0, metrics.registry, health)
    try:
        script = container["args"][0].replace("city-location-monitor:9108", f"localhost:{endpoint.port}")
        assert script != container["args"][0]
        ended = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, check=False)
    finally:
        endpoint.close()
    assert (ended.returncode == 0) is ready, ended.stderr


def list_hook_commands(answer: Answer) -> dict[str, list[list[str]]]:
    """Return the arguments of the containers of each job, without the configuration, by its hooks."""
    return {
        job["metadata"]["annotations"]["helm.sh/hook"]: [
            [word for word in container["args"] if "config" not in word]
            for container in list_containers(job["spec"]["template"]["spec"])
        ]
        for job in answer.of_kind("Job")
    }


def test_preflight_runs_before_the_release(helm: Helm, rendered: dict[str, Answer]) -> None:
    """The hooks run `check` and `topics` before each change, and end at a refusal; only an installation creates topics.

    Otherwise `check --live` refuses what the instances would refuse. A rollback runs the job that the earlier revision
    has, so this job creates nothing, also if that revision was the installation.
    """
    compare = [["check", "--live"], ["topics"]]
    create = [["check"], ["topics", "--create"]]
    install, rollback = "pre-install,pre-upgrade", "pre-rollback"
    assert list_hook_commands(rendered["minimal"]) == {install: create, rollback: compare}
    assert list_hook_commands(rendered["secure"]) == {install: compare, rollback: compare}
    assert list_hook_commands(helm.upgrade(value_set("minimal"))) == {install: compare, rollback: compare}
    for answer in rendered.values():
        jobs = answer.of_kind("Job")
        assert all(job["spec"]["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"] == [2, 3] for job in jobs)
    hooks = [each["metadata"].get("annotations", {}).get("helm.sh/hook", "") for each in rendered["minimal"].manifests]
    assert sorted(filter(None, hooks)) == sorted([install, rollback, "test", *[f"{install},{rollback}"] * 2])


def test_update_waits_for_whole_instances(rendered: dict[str, Answer]) -> None:
    """A rolling update ends no instance before another is ready, and a change of the configuration starts one."""
    (deployment,) = rendered["minimal"].of_kind("Deployment")
    assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    probes = {name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")}
    assert probes == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
    assert container["ports"] == [{"name": "metrics", "containerPort": MetricsSettings().port, "protocol": "TCP"}]


def test_checksum_follows_the_configuration(helm: Helm) -> None:
    """The checksum of the configuration changes with the configuration and the registry, and with nothing else."""

    def checksum(*options: str) -> str:
        (deployment,) = helm.template(value_set("minimal"), set=options).of_kind("Deployment")
        return str(deployment["spec"]["template"]["metadata"]["annotations"]["checksum/config"])

    before = checksum()
    assert checksum("replicas=5") == before
    changed = {checksum("config.monitors[0].threshold=13"), checksum("registry.csv=location_id")}
    assert len(changed | {before}) == 3


def test_page_is_not_restarted_for_places(helm: Helm) -> None:
    """Changed monitors and a changed registry restart the auditor, and not the page, which reads them by itself."""

    def find(*options: str) -> dict[str, str]:
        answer = helm.template(value_set("minimal"), set=["page.enabled=true", "auditor.enabled=true", *options])
        pods = {each["metadata"]["name"]: each["spec"]["template"]["metadata"] for each in answer.of_kind("Deployment")}
        names = {part: f"city-location-monitor-{part}" for part in ("page", "auditor")}
        return {part: pods[name]["annotations"]["checksum/config"] for part, name in names.items()}

    before = find()
    for change in ("config.monitors[0].threshold=13", "registry.csv=location_id"):
        assert find(change)["page"] == before["page"]
        assert find(change)["auditor"] != before["auditor"]
    assert find("config.clock.release_delay=9s")["page"] != before["page"]


def test_selectors_select_only_instances(rendered: dict[str, Answer]) -> None:
    """The service and the budget select the instances, and no pod of a hook; the policies select all pods."""
    for case in ("minimal", "full", "secure"):
        labels = {name: metadata["labels"].items() for name, metadata, _ in list_pods(rendered[case])}
        (service,) = rendered[case].of_kind("Service")
        (budget,) = rendered[case].of_kind("PodDisruptionBudget")
        for selector in (service["spec"]["selector"], budget["spec"]["selector"]["matchLabels"]):
            selected = {name for name, given in labels.items() if selector.items() <= given}
            assert selected == {"city-location-monitor"}
        restricted = {
            name
            for policy in rendered[case].of_kind("NetworkPolicy")
            for name, given in labels.items()
            if policy["spec"]["podSelector"]["matchLabels"].items() <= given
        }
        assert restricted == set(labels)


def test_readers_have_no_secret_of_the_service(rendered: dict[str, Answer], tmp_path: Path) -> None:
    """The auditor and the page are off by default. They have a password of their own, and neither key nor Redis.

    They get `--since` if it is set. Only the page's port is open to everybody. The service accepts the configuration of
    the release.
    """
    assert not any("-page" in text or "-auditor" in text for text in (rendered["minimal"].text, rendered["full"].text))
    answer = rendered["readers"]
    pods = {name.rpartition("-")[2]: pod for name, _, pod in list_pods(answer)}
    for part in ("auditor", "page"):
        container, *web = pods[part]["containers"]
        assert len(web) == (part == "page")
        assert not [each for each in web if {"config", "secrets"} & {mount["name"] for mount in each["volumeMounts"]}]
        assert container["args"][-2:] == ["--since", "2026-01-05T18:00:00Z"]
        assert {"name": "LOCATION_MONITOR__KAFKA__USERNAME", "value": part} in container["env"]
        (secrets,) = [volume for volume in pods[part]["volumes"] if volume["name"] == "secrets"]
        sources = [source["secret"] for source in secrets["projected"]["sources"]]
        assert [source["name"] for source in sources] == [part, "events-cluster-ca-cert"]
        assert sources[0]["items"][0]["path"] == "kafka-password"
        name = f"city-location-monitor-{part}"
        (policy,) = [found for found in answer.of_kind("NetworkPolicy") if found["metadata"]["name"] == name]
        assert {port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]} == {53, 9093}
        opened = [rule["ports"][0]["port"] for rule in policy["spec"]["ingress"] if "from" not in rule]
        assert opened == ([8080] if part == "page" else [])
    (content,) = [
        found["data"]
        for found in answer.of_kind("ConfigMap")
        if not found["metadata"]["name"].endswith(("-preflight", "-page"))
    ]
    config = yaml.safe_load(content["config.yaml"])
    (tmp_path / "locations.csv").write_text("location_id\nmarket\n", encoding="utf-8")
    config["locations"]["file"] = "locations.csv"
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    assert (
        load_config(tmp_path / "config.yaml", {"LOCATION_MONITOR__KAFKA__USERNAME": "auditor"}).kafka.username
        == "auditor"
    )


def test_token_is_of_each_pod(rendered: dict[str, Answer], tmp_path: Path) -> None:
    """Each pod logs in to Kafka with a token of its own service account. Secrets are mounted as whole folders.

    Kubernetes renews the files in such a folder, and not those that are mounted one by one (`subPath`).
    """
    answer = rendered["token"]
    accounts = {}
    for name, _, pod in list_pods(answer):
        (secrets,) = [volume for volume in pod["volumes"] if volume["name"] == "secrets"]
        tokens = [source for source in secrets["projected"]["sources"] if "serviceAccountToken" in source]
        token = {"audience": "kafka", "expirationSeconds": 3600, "path": "kafka-token"}
        assert tokens == [{"serviceAccountToken": token}], name
        mounts = [mount for container in list_containers(pod) for mount in container.get("volumeMounts", ())]
        assert not any("subPath" in mount for mount in mounts)
        accounts[name.rpartition("-")[2]] = pod.get("serviceAccountName")
    assert accounts["page"] == "page"
    assert accounts["auditor"] == "auditor"
    assert accounts["monitor"] is None
    content = answer.of_kind("ConfigMap")[0]["data"]["config.yaml"]
    (tmp_path / "config.yaml").write_text(content, encoding="utf-8")
    config, folder = load_config(tmp_path / "config.yaml", {}), Path("/run/secrets/location-monitor")
    assert config.kafka.token_file == folder / "kafka-token"
    assert config.redis.sentinel_password_file == folder / "sentinel-password"


def test_network_policy_opens_only_needed_ports(rendered: dict[str, Answer]) -> None:
    """Pods may connect to DNS, the configured servers, and metrics; only metrics can be reached."""

    def ports(rules: list[dict[str, Any]]) -> set[int]:
        return {port["port"] for rule in rules for port in rule["ports"]}

    expected = {"minimal": ({9108}, {53, 9092, 6379}), "secure": ({9108}, {53, 9093, 6380})}
    expected["full"] = ({9208}, {53, 9092, 9093, 9094, 6379})
    for case, (inwards, outwards) in expected.items():
        for policy in rendered[case].of_kind("NetworkPolicy"):
            of_hook = policy["metadata"]["name"].endswith("preflight")
            assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
            assert ports(policy["spec"]["ingress"]) == (set() if of_hook else inwards)
            assert ports(policy["spec"]["egress"]) == (outwards if of_hook else outwards | inwards)
    (policy, _) = rendered["full"].of_kind("NetworkPolicy")
    assert all(rule["to"] for rule in policy["spec"]["egress"])
    assert policy["spec"]["ingress"][0]["from"]


def test_metrics_are_for_prometheus(helm: Helm, rendered: dict[str, Answer]) -> None:
    """Unless it is set otherwise, Prometheus and the release itself reach the metrics; never everybody."""
    own = {"app.kubernetes.io/name": "location-monitor", "app.kubernetes.io/instance": "city"}

    def list_peers(answer: Answer) -> list[dict[str, str]]:
        (policy, _) = answer.of_kind("NetworkPolicy")
        (rule,) = policy["spec"]["ingress"]
        return [peer["podSelector"]["matchLabels"] for peer in rule["from"]]

    prometheus, release = list_peers(rendered["minimal"])
    assert prometheus == {"app.kubernetes.io/name": "prometheus"}
    assert own.items() <= release.items()
    closed = helm.template(value_set("minimal"), set_json=["networkPolicy.metricsFrom=[]"])
    assert list_peers(closed) == [release]


@pytest.fixture(scope="session")
def notes(helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The notes of each set of values, and of the readers.

    Without a cluster Helm shows no notes, so a copy of the chart renders them as the field of an object.
    """
    chart = tmp_path_factory.mktemp("notes") / "chart"
    shutil.copytree(CHART, chart)
    (chart / "templates/NOTES.txt").rename(chart / "files/notes")
    template = 'kind: Notes\ntext: {{ tpl (.Files.Get "files/notes") . | quote }}\n'
    (chart / "templates/notes.yaml").write_text(template, encoding="utf-8")
    copy = replace(helm, chart=chart)
    cases = ("minimal", "full", "secure", "readers")
    return {case: str(render(copy, case).of_kind("Notes")[0]["text"]) for case in cases}


def test_notes_say_how_to_change_registry(notes: dict[str, str]) -> None:
    """If Helm cannot see the content of the registry, the notes say how the instances read a new one."""
    restart = "rollout restart deployment/city-location-monitor"
    assert {name for name, text in notes.items() if restart in text} == {"full", "secure", "readers"}


def test_notes_name_all_parts(notes: dict[str, str]) -> None:
    """The notes name the deployments of the auditor and the page and the address of the page, if they are enabled."""
    for part in (
        "rollout status deployment/city-location-monitor-auditor",
        "http://city-location-monitor-page.monitor",
    ):
        assert {name for name, text in notes.items() if part in text} == {"readers"}


def test_page_survives_a_drain(rendered: dict[str, Answer]) -> None:
    """The page has a budget that selects only its pods, which are spread over nodes and ready when they have read."""
    answer = rendered["readers"]
    budgets = {each["metadata"]["name"]: each["spec"] for each in answer.of_kind("PodDisruptionBudget")}
    budget = budgets["city-location-monitor-page"]
    assert budget["maxUnavailable"] == 1
    wanted = budget["selector"]["matchLabels"].items()
    selected = {name for name, metadata, _ in list_pods(answer) if wanted <= metadata["labels"].items()}
    assert selected == {"city-location-monitor-page"}
    pod = next(found for name, _, found in list_pods(answer) if name in selected)
    spread = {each["topologyKey"]: each["labelSelector"]["matchLabels"] for each in pod["topologySpreadConstraints"]}
    assert spread == {key: dict(wanted) for key in ("topology.kubernetes.io/zone", "kubernetes.io/hostname")}
    assert pod["containers"][0]["readinessProbe"]["httpGet"] == {"path": "/healthz", "port": "metrics"}


def test_auditor_is_ready_when_it_judges(rendered: dict[str, Answer]) -> None:
    """The old auditor stays until the new one judges, so a change that the service refuses leaves it as it is."""
    deployment = next(
        each for each in rendered["readers"].of_kind("Deployment") if each["metadata"]["name"].endswith("-auditor")
    )
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}
    assert "strategy" not in deployment["spec"], "of one pod, the default ends none before another one is ready"


def test_readers_are_scraped(helm: Helm, rendered: dict[str, Answer]) -> None:
    """With PodMonitors, the auditor and the page have one each, with the label `job` of their alerts."""
    assert not rendered["readers"].of_kind("PodMonitor")
    name, given = CASES["readers"]
    answer = helm.template(value_set(name), set=[*given, "monitoring.podMonitor.enabled=true"])
    jobs = {}
    for monitor in answer.of_kind("PodMonitor"):
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        (pod,) = [found for _, metadata, found in list_pods(answer) if wanted <= metadata["labels"].items()]
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        assert endpoint["port"] in {port["name"] for port in pod["containers"][0]["ports"]}
        jobs[monitor["metadata"]["name"]] = endpoint["relabelings"][0]["replacement"]
    parts = {part: f"location-monitor-{part}" for part in ("auditor", "page")}
    assert jobs == {"city-location-monitor": "city-location-monitor"} | {
        f"city-location-monitor-{part}": job for part, job in parts.items()
    }


def test_autoscaling_counts_each_partition_once(rendered: dict[str, Answer]) -> None:
    """The autoscaler is off by default, is limited by the partitions, and takes the larger lag of a partition."""
    assert not rendered["minimal"].of_kind("ScaledObject")
    (scaled,) = rendered["full"].of_kind("ScaledObject")
    (deployment,) = rendered["full"].of_kind("Deployment")
    assert "replicas" not in deployment["spec"]
    (trigger,) = scaled["spec"]["triggers"]
    metric = "location_monitor_consumer_lag_records"
    assert metric in {metric.exposed_name for metric in METRICS}
    assert trigger["metadata"]["query"] == f'sum(max by (partition) ({metric}{{job="city"}}))'
    assert (scaled["spec"]["minReplicaCount"], scaled["spec"]["maxReplicaCount"]) == (3, 8)
    behavior = scaled["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behavior["scaleDown"]["stabilizationWindowSeconds"] >= 1800


def test_lag_is_counted_once_per_partition(rendered: dict[str, Answer], tmp_path: Path) -> None:
    """
    Prometheus computes the autoscaler's query: two groups that read the same two partitions count once.

        partition      0     1
        old group     70     5
        new group    100     0
        counts       100     5
    """
    (scaled,) = rendered["full"].of_kind("ScaledObject")
    lags = {("old", 0): 70, ("old", 1): 5, ("new", 0): 100, ("new", 1): 0}
    labels = 'job="city", instance="{}", partition="{}"'
    series = [
        {
            "series": f"location_monitor_consumer_lag_records{{{labels.format(instance, partition)}}}",
            "values": str(lag),
        }
        for (instance, partition), lag in lags.items()
    ]
    query = {"expr": scaled["spec"]["triggers"][0]["metadata"]["query"], "eval_time": "0m"}
    case = {"interval": "1m", "input_series": series, "promql_expr_test": [{**query, "exp_samples": [{"value": 105}]}]}
    file = tmp_path / "query.yml"
    file.write_text(yaml.safe_dump({"tests": [case]}), encoding="utf-8")
    run_promtool("test", "rules", str(file))


def test_rules_are_those_of_prometheus(rendered: dict[str, Answer], tmp_path: Path) -> None:
    """Prometheus accepts the rules of the PrometheusRule, which select the job of the PodMonitor."""
    (rule,) = rendered["full"].of_kind("PrometheusRule")
    (monitor,) = rendered["full"].of_kind("PodMonitor")
    assert monitor["spec"]["podMetricsEndpoints"][0]["relabelings"] == [{"targetLabel": "job", "replacement": "city"}]
    text = yaml.safe_dump(rule["spec"], allow_unicode=True)
    assert 'job="location-monitor"' not in text
    alerts = [alert for group in rule["spec"]["groups"] for alert in group["rules"] if "alert" in alert]
    assert alerts
    start = "https://docs.example/location-monitor/runbooks.md#"
    assert all(alert["annotations"]["runbook_url"].startswith(start) for alert in alerts)
    file = tmp_path / "rules.yml"
    file.write_text(text, encoding="utf-8")
    run_promtool("check", "rules", str(file))
