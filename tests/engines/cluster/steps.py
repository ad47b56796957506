"""The steps of the scenario: what operators do to a service on Kubernetes, and what may happen to it."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from typing import Final

from tests.engines.cluster.cluster import NAME, RELEASE
from tests.engines.cluster.town import Town, Values, start_servers
from tests.engines.scenario import Step, StepError, expect, wait_until

AUDITOR: Final = f"deployment/{NAME}-auditor"
METRICS: Final = f"http://{NAME}:9108/metrics"
SECRETS: Final = "/run/secrets/location-monitor"


def install(town: Town) -> None:
    """Install the service, the auditor and the page, with policies, logins, TLS and signatures."""
    start_servers(town)
    town.run_helm("install")
    town.cluster.wait_for_rollout("", "auditor", "page")
    wait_until(town.read_answers, "the first answer")


def run_test(town: Town) -> None:
    """Run `helm test`."""
    town.cluster.helm("test", RELEASE)


def stay(town: Town) -> None:
    """Do nothing during three ticks."""
    time.sleep(3 * town.ticks.slot)


def look(town: Town) -> None:
    """The page is served, and only a pod that is named as Prometheus reads the metrics."""
    cluster = town.cluster
    expect(cluster.request(f"http://{NAME}-page:8080/states.json") == 200, "the page through its Service")
    expect(cluster.request(METRICS) == 0, "no metrics for a stranger: does this cluster enforce network policies?")
    cluster.kubectl("label", "pod/tools", "app.kubernetes.io/name=prometheus")
    wait_until(lambda: cluster.request(METRICS) == 200, "the metrics for a pod that is named as Prometheus", 30)
    cluster.kubectl("label", "pod/tools", "app.kubernetes.io/name-")


def delete_pod(town: Town) -> None:
    """Delete the only instance; it ends in order."""
    (uid,) = town.cluster.list_pods()
    town.cluster.kubectl("delete", "pod", town.cluster.list_pods()[uid]["metadata"]["name"])
    town.cluster.wait_for_rollout()


def grow(town: Town) -> None:
    """Add an instance."""
    town.upgrade(lambda values: values.update(replicas=2))


def force_pod(town: Town) -> None:
    """Kill one of the two instances without warning."""
    oldest = next(iter(town.cluster.list_pods().values()))["metadata"]["name"]
    town.cluster.kubectl("delete", "pod", oldest, "--force", "--grace-period=0")
    wait_until(lambda: len(town.cluster.list_pods()) == 2, "a new instance")
    town.cluster.wait_for_rollout()


def drain(town: Town) -> None:
    """Drain the node of the oldest instance. With one node, the budget keeps the last instance until it is back."""
    cluster, before = town.cluster, town.cluster.list_pods()
    node = next(iter(before.values()))["spec"]["nodeName"]
    # Only pods of this namespace have the label.
    chosen = ("--pod-selector", f"scenario={cluster.namespace}")
    try:
        cluster.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", *chosen, "--timeout=40s")
    except StepError as error:
        expect("budget" in str(error) or "timeout" in str(error), f"an eviction that waits for the budget, not {error}")
    finally:
        cluster.kubectl("uncordon", node)
    cluster.wait_for_rollout()
    expect(before.keys() - cluster.list_pods().keys(), "an evicted instance")


def change_window(town: Town) -> None:
    """Roll out another window, for which all facts are read again."""
    town.upgrade(lambda values: values["config"]["monitors"][0].update(window="12m"))


def refuse(town: Town, change: Callable[[Values], object], reason: str) -> None:
    """Try an upgrade that is refused: nothing may change, and the message has the reason."""
    before = town.list_uids()
    try:
        town.run_helm("upgrade", values=town.change(change))
    except StepError as error:
        said = f"{error}\n{_read_preflight(town)}"
    else:
        raise StepError(f"expected a refused upgrade: {reason}")
    expect(reason in said, f"{reason!r} in {said}")
    expect(town.list_uids() == before, "the same pods after a refused upgrade")


def _read_preflight(town: Town) -> str:
    """Return what the first container of the job has written, if one of its pods started."""
    try:
        return town.cluster.kubectl("logs", f"job/{NAME}-preflight", "--container", "check")
    except StepError as error:
        return str(error)


def refuse_wrong(town: Town) -> None:
    """Refuse values of the wrong form, a missing secret, too much ε, an unknown key, and a broker that is not there."""
    refuse(town, lambda values: values.update(replica=3), "replica")
    refuse(town, lambda values: values["secrets"]["personKey"].update(existingSecret="nope"), "nope")
    refuse(town, lambda values: values["config"]["privacy"].update(epsilon="1"), "privacy.epsilon")
    refuse(town, lambda values: values["config"]["clock"].update(slots="20s"), "slots")
    refuse(town, _use_wrong_broker, "nowhere")


def _use_wrong_broker(values: Values) -> None:
    """Name a broker that does not exist. The job tries again until its time is over."""
    values["config"]["kafka"]["bootstrap_servers"] = ["nowhere:9093"]
    values["preflight"]["timeoutSeconds"] = 60


def _watch_others(values: Values) -> None:
    """Ask about other places, with all of ε (3 answers per period): what people have paid already comes on top.

    It does so for about an hour, until so much of the period has passed that only two further answers fit into it.
    """
    monitor, epsilon = values["config"]["monitors"][0], values["config"]["privacy"]["epsilon"]
    monitor.update(name="others", locations=["museum", "station-east"], window="60m", epsilon=f"{epsilon}/3")


def refuse_by_period(town: Town) -> None:
    """Refuse what the configuration allows, but not on top of what has been published."""
    refuse(town, _watch_others, "would refuse")


def refuse_late(town: Town) -> None:
    """Without the job, the new instance refuses two changes: the old ones answer, and the auditor judges them."""
    before = {*town.cluster.list_pods(), *town.cluster.list_pods("page")}
    values = town.change(_watch_others)
    values["preflight"]["enabled"] = False
    for threshold in (31, 32):
        values["config"]["monitors"][0]["threshold"] = threshold
        town.run_helm("upgrade", values=values)
        wait_until(lambda: _has_failed(town), "an instance that refuses to start")
        town.cluster.wait_for_rollout("auditor")
        stay(town)
        expect(before <= town.list_uids(), "all earlier pods of the service and of the page")
        expect(town.cluster.request("http://localhost:9109/readyz", AUDITOR) == 200, "an auditor that judges")


def _has_failed(town: Town) -> bool:
    for pod in town.cluster.list_pods().values():
        for container in pod["status"].get("containerStatuses", []):
            states = (container["state"], container.get("lastState", {}))
            if any(state.get("terminated", {}).get("exitCode") == 3 for state in states):
                return True
    return False


def roll_back(town: Town) -> None:
    """Roll back to the last revision whose instances became ready."""
    town.cluster.helm("rollback", RELEASE, str(town.revision))
    town.cluster.wait_for_rollout("", "auditor", "page")


def renew_secrets(town: Town) -> None:
    """Change the service's passwords at Kafka and at the store while it runs, and end its connections to the store."""
    cluster = town.cluster
    new, at_store = secrets.token_hex(16), secrets.token_hex(16)
    cluster.run_tool("store", "ACL", "SETUSER", "location-monitor", f">{at_store}")
    rules = town.store_password(at_store)
    cluster.run_tool("change-password", "location-monitor", new)
    cluster.kubectl("patch", "secret", "passwords", "--patch", json.dumps({"stringData": {"location-monitor": new}}))
    wait_until(lambda: _read_passwords(town) == {new + at_store}, "the new passwords in the pods")
    cluster.run_tool("store", "ACL", "SETUSER", "location-monitor", "resetpass", *rules.split())
    cluster.run_tool("store", "CLIENT", "KILL", "USER", "location-monitor")
    stay(town)
    delete = next(iter(cluster.list_pods().values()))["metadata"]["name"]
    cluster.kubectl("delete", "pod", delete)  # the new instance logs in to Kafka with the new password
    cluster.wait_for_rollout()


def _read_passwords(town: Town) -> set[str]:
    """Return the passwords at Kafka and at the store that the instances can read, one after the other."""
    program = f"for name in ('kafka', 'redis'): print(open(f'{SECRETS}/{{name}}-password').read(), end='')"
    names = [pod["metadata"]["name"] for pod in town.cluster.list_pods().values()]
    return {town.cluster.execute(f"pod/{name}", "python", "-c", program) for name in names}


def shrink(town: Town) -> None:
    """Remove an instance."""
    town.upgrade(lambda values: values.update(replicas=1))
    wait_until(lambda: len(town.cluster.list_pods()) == 1, "one instance")


def audit(town: Town) -> None:
    """The auditor judges all answers, by the configurations of their times, and finds nothing."""
    spec = json.loads(town.cluster.kubectl("get", AUDITOR, "--output", "json"))["spec"]["template"]["spec"]
    words = [word for word in spec["containers"][0]["args"] if word != "--follow"]
    print(town.cluster.execute(AUDITOR, "location-monitor", *words))


def reinstall(town: Town) -> None:
    """Uninstall the service, and install it again: the ledger remains, and the ticks between are lost."""
    town.cluster.helm("uninstall", RELEASE, "--wait")
    removed = time.time()
    town.values["preflight"]["createTopics"] = False
    town.run_helm("install")
    town.cluster.wait_for_rollout("", "auditor", "page")
    wait_until(lambda: max(town.read_answers()) > removed, "an answer after the installation")


def uninstall(town: Town) -> None:
    """Remove the service: nothing of the release remains, and the ledger does."""
    town.cluster.helm("uninstall", RELEASE, "--wait")
    wait_until(lambda: not _list_objects(town), "nothing of the release", 90)
    expect(town.read_answers(), "the ledger")


def _list_objects(town: Town) -> str:
    """Return the names of what exists of the release. Pods end in order after `helm uninstall`."""
    kinds = "deployment,job,pod,service,configmap,networkpolicy,poddisruptionbudget"
    chosen = f"app.kubernetes.io/instance={RELEASE}"
    return town.cluster.kubectl("get", kinds, "--selector", chosen, "--output", "name").strip()


STEPS: Final = (
    Step("install, with policies, restricted pods, TLS, logins, signatures", install),
    Step("`helm test`", run_test),
    Step("page and network policies", look),
    Step("pod deleted", delete_pod),
    Step("1 → 2 replicas", grow),
    Step("pod deleted by force", force_pod),
    Step("node drained", drain),
    Step("another window", change_window),
    Step("five wrong configurations", refuse_wrong),
    Step("refused because of earlier answers", refuse_by_period),
    Step("refused by the instances only", refuse_late),
    Step("rollback", roll_back),
    Step("passwords renewed", renew_secrets),
    Step("2 → 1 replicas", shrink),
    Step("nothing", stay),
    Step("the auditor judges all", audit),
    Step("uninstalled and installed again", reinstall, loses=True),
    Step("uninstalled", uninstall, loses=True),
)
