"""A forged record on real servers: the page says so, and the steps of the runbook bring its answers back."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.conftest import Eventually
from tests.deploy.alerts.faults import START_SECONDS, forge_safe, forged_answer, sign_answers
from tests.deploy.alerts.site import Site, run_site
from tests.shared_kafka import SharedKafka

pytestmark = pytest.mark.long

GAUGE = "location_monitor_page_not_verified"


@pytest.fixture
def site(kafka: SharedKafka, tmp_path_factory: pytest.TempPathFactory, eventually: Eventually) -> Iterator[Site]:
    """A service that is ready, with a page."""
    with run_site(tmp_path_factory.mktemp("forged"), kafka, eventually, [], audited=False, scrape="1s") as site:
        yield site


def list_states(site: Site) -> set[str]:
    """Return the states of all places on the page."""
    return {place["state"] for place in json.loads((site.folder / "site/places.json").read_bytes())["locations"]}


def is_blank(site: Site) -> bool:
    """Return whether the alert's condition holds, the page is not ready, and every place is unknown."""
    if f"{GAUGE} 1.0" not in site.fetch("page_metrics", "/metrics")[1]:
        return False
    status, why = site.fetch("page_metrics", "/readyz")
    assert (status, "output partition" in why) == (503, True)
    return list_states(site) == {"unknown"}


def is_back(site: Site) -> bool:
    """Return whether the alert's condition does not hold, the page is ready, and every place is known."""
    if not site.ready("page_metrics") or f"{GAUGE} 0.0" not in site.fetch("page_metrics", "/metrics")[1]:
        return False
    return "unknown" not in list_states(site)


@pytest.mark.timeout(600)
def test_runbook_brings_display_back(site: Site, eventually: Eventually) -> None:
    """After a forged "safe" the page is blank, and the alert's condition holds. `--since` and a new key both end it.

    In between, a restart does not help.
    """
    with forged_answer(site, eventually):
        eventually(lambda: is_blank(site), START_SECONDS)
        assert site.run_commands("an-answer-is-not-verified")
        site.page.stop()
        site.page.start()
        eventually(lambda: is_blank(site), START_SECONDS)
    eventually(lambda: is_back(site), START_SECONDS)
    forge_safe(site)
    eventually(lambda: is_blank(site), START_SECONDS)
    sign_answers(site, "signing-2.key", eventually)
    eventually(lambda: is_back(site), START_SECONDS)
    watched = site.command("watch", "--once")
    assert watched.returncode == 0, watched.stderr
    assert "NOT VERIFIED" not in watched.stdout
