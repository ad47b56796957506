"""Requests that aim at a proxy, a CDN or another visitor's browser. On a real Kafka."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from monitor.config.sections import PageSettings
from monitor.page.server import Page
from tests.page.conftest import OpenPage, serve
from tests.page.test_http import get
from tests.page.world import FIRST, Town, make_town
from tests.shared_kafka import SharedKafka


@pytest.fixture(scope="module")
def page(kafka: SharedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The page of a town with two ticks."""
    town = make_town(kafka, tmp_path_factory.mktemp("town"))
    town.publish(FIRST)
    town.publish(FIRST + 1)
    with serve(town) as page:
        yield page
    town.producer.close(timeout=5)


def exchange(page: Page, request: bytes) -> bytes:
    """Send bytes, and return all that the page sends until it closes the connection."""
    address, received = urlsplit(page.url), b""
    with socket.create_connection((address.hostname or "", address.port or 0), timeout=10) as client:
        client.sendall(request)
        while part := client.recv(65_536):
            received += part
    return received


@pytest.mark.parametrize("path", ["/v1/locations/", "/v1//locations", "/static/", "//evil.test/", "/v1/records/"])
def test_host_decides_nothing(page: Page, path: str) -> None:
    """No response repeats the Host of the request, so nobody is redirected to it; a CDN keeps no error."""
    answer = get(page, path, Host="evil.test")
    assert answer.status == 404
    assert "evil" not in str(answer.headers) + answer.body.decode()
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "path",
    [
        "/?lang=x1",
        "/?lang=",
        "/?embed=2",
        "/?embed=",
        "/?page=01",
        "/?page=%31",
        "/?&lang=en",
        "/?lang=en&",
        "/?lang=%65n",
        "/?l%61ng=en",
        "/v1/locations?",
        "/v1/locations?&",
        "/v1/locations?&&",
        "/v1/records?at=2099-01-01T00:00:00Z",
        "/v1/records?at=2026-01-06T01:00:00Z&",
        "/v1/states?at=2099-01-01T00:00:00Z",
        "/v1/stream?states=2",
    ],
)
def test_other_forms_are_refused(page: Page, path: str) -> None:
    """An address that is only another form of a known one is refused: a CDN would ask the page for each of them."""
    status = get(page, path).status
    assert status == (200 if path.endswith("locations?") else 400)


@pytest.mark.parametrize("path", ["/v1/loc%61tions", "/v1%2Flocations", "/%76%31/records", "/v1/%6Cocations.csv"])
def test_escaped_paths_are_refused(page: Page, path: str) -> None:
    """A path with escapes is refused, unless it has the id of a place."""
    assert get(page, path).status == 404
    assert get(page, "/v1/locations/m%61rket/history").status == 200


@pytest.mark.parametrize("name", ["records", "states"])
def test_times_lead_to_ticks(page: Page, name: str) -> None:
    """A time between two ticks leads to the address of the tick before it, so a CDN keeps one copy for each tick."""
    for at in ("2026-01-06T01:30:00Z", "2026-01-06T01:00:00.000Z", "2026-01-06T01%3A59%3A59Z"):
        answer = get(page, f"/v1/{name}?at={at}")
        assert (answer.status, answer.headers["location"]) == (307, f"{name}?at=2026-01-06T01:00:00Z")
    for at in ("2026-01-06T01:00:00Z", "2026-01-06T01%3A00%3A00Z"):
        assert get(page, f"/v1/{name}?at={at}").status == 200


@pytest.mark.parametrize("length", [b"Content-Length: 4\r\n", b""])
def test_request_with_body_is_the_last(page: Page, length: bytes) -> None:
    """After a request with a body the connection closes: what follows could be a smuggled request."""
    request = b"POST /v1/locations HTTP/1.1\r\nHost: x\r\n%sTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" % length
    received = exchange(page, request + b"GET /v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n")
    assert received.startswith(b"HTTP/1.1 405 ")
    assert received.count(b"HTTP/1.1 ") == 1


def test_refusals_have_headers(page: Page) -> None:
    """A response to something that is no HTTP has the headers that every response has, and no CDN keeps it."""
    head = exchange(page, b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n").partition(b"\r\n\r\n")[0].lower()
    assert head.startswith(b"http/1.1 400 ")
    for header in (b"cache-control: no-store", b"x-content-type-options: nosniff", b"content-security-policy: "):
        assert header in head


@pytest.mark.parametrize(
    "origin",
    [
        "https://a; script-src * 'unsafe-inline'",
        "https://a b",
        "https://a,https://b",
        "https://a/path",
        "'unsafe-inline'",
        "*",
        "javascript:alert(1)",
    ],
)
def test_origin_is_no_directive(origin: str) -> None:
    """`page.embed_from` takes origins only, so it cannot add to the Content-Security-Policy."""
    with pytest.raises(ValueError, match="an origin such as"):
        PageSettings.model_validate({"embed_from": [origin]})
    accepted = ("https://www.example.org", "http://localhost:8000", "https://*.example.org", "https://[::1]:8443")
    assert PageSettings.model_validate({"embed_from": accepted}).embed_from == accepted


def test_only_listed_origins_embed(page: Page, town: Town, open_page: OpenPage) -> None:
    """Another page can embed this one only from an origin of `page.embed_from`."""
    name, origin = "content-security-policy", "https://www.example.org"
    assert "frame-ancestors 'self';" in f"{get(page, '/').headers[name]};"
    opened = open_page(town, embed_from=(origin,))
    assert f"frame-ancestors 'self' {origin}" in get(opened, "/?embed=1").headers[name]


def test_names_are_isolated(town: Town, open_page: OpenPage) -> None:
    """A name that reverses the direction of writing changes only itself, not the state beside it."""
    _first, *others = town.parts.locations.names
    named = replace(town.parts.locations, names=("\u202eevas", *others))
    town.parts = replace(town.parts, locations=named)
    town.publish(FIRST)
    assert '<bdi class="name">\u202eevas</bdi>' in get(open_page(town), "/").body.decode()
