"""The page in a real Chromium: it shows what is published, works without a mouse, and cannot mislead."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect, sync_playwright

from monitor.time.instants import HOUR, SECOND
from tests.page.browser import launch, save, visit
from tests.page.conftest import Served, require_chromium, serve
from tests.page.world import FIRST, Town, make_town
from tests.shared_kafka import SharedKafka

pytestmark = pytest.mark.long

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
LAST = FIRST + 62
CLOUDY = {"color_scheme": "dark"}
PHONE = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "is_mobile": True, "has_touch": True}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium."""
    require_chromium()
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def shared(kafka: SharedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    """A town with two and a half days of answers in all states. Tests may publish the ticks after `LAST`."""
    town = make_town(kafka, tmp_path_factory.mktemp("town"))
    noons = {38: {"cafe-1": 11}, 61: {"park-1": 13}, 62: {"shop-9": 10}, 85: {"library": 12}, 86: {"cafe-1": 16}}
    for tick in range(FIRST, LAST + 1):
        counts: dict[str, int | None] = {"market": 14 if tick >= 50 else 0, "clinic": 12 if tick >= LAST - 3 else 0}
        counts["school-1"] = None if tick == LAST else 0
        town.publish(tick, counts, noons.get(tick, {}))
    yield town
    town.producer.close(timeout=5)


@pytest.fixture(scope="module")
def page(shared: Town, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The page of this town."""
    recount = tmp_path_factory.mktemp("recount") / "recount.json"
    recount.write_text('{"up_to": "2026-01-08T12:00:00Z", "false": 0, "epsilon_at_most": "3"}')
    with serve(shared, audit_file=recount) as page:
        yield page


def test_pictures(browser: Browser, page: Served, tmp_path: Path) -> None:
    """Each picture of the page is drawn and has more than 20 kB; with PICTURES=1 it is written to docs/pictures/."""
    folder = PICTURES if os.environ.get("PICTURES") else tmp_path
    with visit(browser, page.url) as one:
        one.open().place("Station Café").locator("summary").click()
        save(one.tab, folder / "page-desktop.png")
    with visit(browser, page.url, **PHONE) as one:
        save(one.open("ja.html").tab, folder / "page-japanese.png")
    names = ("desktop", "japanese")
    assert all((folder / f"page-{name}.png").stat().st_size > 20_000 for name in names)


def test_axe_finds_nothing(browser: Browser, page: Served) -> None:
    """axe-core finds no violation: light, dark, narrow, embedded, with open details, in the past, on a place's page."""
    with visit(browser, page.url) as one:
        one.open()
        for name in ("Station Café", "Market Hall", "Primary School", "Baker"):
            one.place(name).locator("summary").click()
        one.tab.locator(".beliefs summary").click()
        expect(one.tab.get_by_role("img", name="The chance that someone gives a visit of yours")).to_be_visible()
        assert one.violations() == []
        one.tab.get_by_role("slider").press("Home")
        expect(one.tab.get_by_role("alert")).to_contain_text("the past")
        assert one.violations() == []
    for settings, file in ((CLOUDY, "en.html"), (PHONE, "ja.html"), ({}, "de.html?embed=1")):
        with visit(browser, page.url, **settings) as one:
            assert one.open(file).violations() == []
            expect(one.tab.locator(".intro")).to_be_visible(visible="embed" not in file)
    for settings in (CLOUDY, PHONE):
        with visit(browser, page.url, **settings) as one:
            one.tab.goto(f"{page.url}places/market.html")
            assert one.violations() == []
            one.tab.get_by_role("link", name="What holds now").click()
            expect(one.place("Market Hall").locator("details")).to_have_attribute("open", "")


def test_list_needs_no_script(browser: Browser, page: Served, shared: Town) -> None:
    """Without JavaScript the list has every place, its state in words, its details, and reloads by itself."""
    with visit(browser, page.url, java_script_enabled=False) as one:
        one.tab.goto(f"{page.url}en.html")
        assert len(one.names()) == len(shared.parts.locations)
        expect(one.state("Market Hall")).to_contain_text("Alarm")
        one.place("Market Hall").locator("summary").click()
        expect(one.place("Market Hall")).to_contain_text("No new answer does not mean safe")
        assert 'http-equiv="refresh"' in one.tab.content()
        until = "These answers are known until 8 Jan 2026, 17:00."
        expect(one.tab.locator("noscript .notice")).to_contain_text(until)


def test_list_and_map_agree(browser: Browser, page: Served, shared: Town) -> None:
    """The script lists the same places in the same order as the server, and the map has all that have coordinates."""
    with visit(browser, page.url, java_script_enabled=False) as plain:
        plain.tab.goto(f"{page.url}en.html")
        names = plain.names()
        states = plain.states()
        lines = plain.tab.locator("#list .short").all_inner_texts()
    with visit(browser, page.url) as one:
        assert sorted(one.open().names()) == sorted(names)
        assert one.states() == states
        assert one.tab.locator("#list .short").all_inner_texts() == lines
        assert [name for name, state in states.items() if state.startswith("Alarm")] == names[:6]
        expect(one.tab.locator("#map .note")).to_have_text("Places without coordinates, in the list only: 1.")


def test_search_and_filters(browser: Browser, page: Served) -> None:
    """Search finds parts of names, kinds, and names with typing errors. Filters combine with it, on the device."""
    with visit(browser, page.url) as one:
        one.open()
        requests: list[str] = []
        one.tab.on("request", lambda request: requests.append(request.url))
        one.tab.get_by_role("searchbox").fill("CAFE")
        assert one.names() == ["Station Café", "Garden Café", "Market Café", "North Café"]
        one.chip("Below alarm level").click()
        assert one.names() == ["Garden Café", "Market Café", "North Café"]
        one.chip("Below alarm level").click()
        for query, first in (("libary", "Public Library"), ("bakery", "Baker"), ("train", "Central Station")):
            one.tab.get_by_role("searchbox").fill(query)
            assert one.names()[0] == first
        one.tab.get_by_role("searchbox").fill("schol")
        expect(one.tab.locator("#no-match")).to_have_text("No place is called “schol”. Similar ones:")
        wanted = {"states.json", "ticks.json", "icon.svg"}  # Chromium reads the icon again when the address changes
        assert {url.rpartition("/")[2] for url in requests} <= wanted


def test_address_keeps_what_is_shown(browser: Browser, page: Served) -> None:
    """The address has search, state, kind, place and time: a reload, another language and a shared address show them.

    No request names any of them except the file of the time.
    """
    with visit(browser, page.url, permissions=["clipboard-read", "clipboard-write"]) as one:
        one.open()
        requests: list[str] = []
        one.tab.on("request", lambda request: requests.append(request.url))
        one.tab.get_by_role("searchbox").fill("cafe")
        one.tab.get_by_label("Kind of place").select_option("café coffee")
        one.chip("Below alarm level").click()
        one.place("Garden Café").locator("summary").click()
        names = one.names()
        one.tab.reload()
        one.tab.wait_for_selector("html[data-ready]")
        assert (one.names(), one.tab.get_by_role("searchbox").input_value()) == (names, "cafe")
        expect(one.place("Garden Café").locator(".statement").first).to_be_visible()
        one.tab.get_by_role("link", name="Deutsch").click()
        one.tab.wait_for_selector("html[lang=de][data-ready]")
        assert one.names() == names
        one.open("index.html#day=2025-01-08")
        expect(one.tab.get_by_label("Alarms that cover")).to_have_value("2025-01-08")
        expect(one.tab.locator("#no-match")).to_have_text("No alarm that still counts covers this day.")
        one.open("en.html#at=2026-01-08T03:00:00Z&state=noisy_count")
        expect(one.tab.get_by_role("alert")).to_contain_text("8 Jan 2026, 03:00")
        one.place("Market Hall").locator("summary").click()
        one.chip("Share").click()
        expect(one.chip("The address is copied")).to_be_visible()
        one.tab.goto(one.tab.evaluate("navigator.clipboard.readText()"))
        one.tab.reload()
        expect(one.place("Market Hall").locator(".statement").first).to_be_visible()
        expect(one.tab.get_by_role("alert")).to_contain_text("8 Jan 2026, 03:00")
        assert not any(word in url for url in requests for word in ("cafe", "coffee", "%23"))


def test_newest_alarms_first(browser: Browser, page: Served) -> None:
    """On request, the alarms are sorted by their moment alone, the latest first."""
    with visit(browser, page.url) as one:
        one.open().chip("Newest alarms first").click()
        times = one.tab.locator("#list .noisy_count .short").all_inner_texts()
        assert next(text for text in times if "Alarm on" in text).startswith("Alarm on 8 Jan 2026, 12:30")


def test_was_i_there_asks_nobody(browser: Browser, page: Served, tmp_path: Path) -> None:
    """A visit, entered or from a timeline export, is compared with the alarms in the browser, without any request."""
    with visit(browser, page.url) as one:
        one.open()
        requests: list[str] = []
        one.tab.on("request", lambda request: requests.append(request.url))
        one.tab.get_by_text("Was I there?").click()
        results = one.tab.locator(".was li")
        for name, day, said in (
            ("market hall", "2026-01-05", "an alarm covers your visit"),
            ("Market Hall", "2025-12-01", "no alarm that still counts covers your visit"),
            ("Nowhere", "2026-01-05", "not in the list"),
        ):
            for label, value in (("Place", name), ("Day", day), ("From", "12:00"), ("Until", "13:00")):
                one.tab.locator(".was").get_by_label(label, exact=True).fill(value)
            one.chip("Compare").click()
            expect(results).to_contain_text(said)
        row = page.list_places()["market"]
        hall = {"placeLocation": f"geo:{row['latitude']},{row['longitude']}"}
        seen = {"startTime": "2026-01-06T10:00:00Z", "endTime": "2026-01-06T11:00:00Z", "visit": {"topCandidate": hall}}
        file = tmp_path / "timeline.json"
        file.write_text(json.dumps({"semanticSegments": [seen]}))
        one.tab.get_by_label("Timeline export").set_input_files(file)
        expect(results).to_contain_text("Market Hall, 2026-01-06 10:00 to 11:00: an alarm covers your visit")
        assert one.violations() == []
        assert {url.rpartition("/")[2] for url in requests} <= {"states.json", "ticks.json"}


def test_empty_list_says_why(browser: Browser, page: Served) -> None:
    """Each filter without a place has a sentence of its own."""
    with visit(browser, page.url) as one:
        one.open()
        texts = {
            "My places": "You have no places yet",
            "Changed": "No place has changed",
        }
        for name, text in texts.items():
            one.chip(name).click()
            expect(one.tab.locator("#no-match")).to_contain_text(text)
            one.chip(name).click()
        one.tab.get_by_role("searchbox").fill("nowhere")
        expect(one.tab.locator("#no-match")).to_have_text("No place is called “nowhere”, or similar.")
        one.chip("My places").click()
        expect(one.tab.locator("#no-match")).to_have_text("No place matches all of your choices.")


def test_map_answers_where_touched(browser: Browser, page: Served, shared: Town) -> None:
    """A touch of a mark shows a card there, and the highlighted, open row, in view beside or below the map."""
    row = shared.parts.parameters.registry.rows["market"]
    for settings in ({}, PHONE):
        with visit(browser, page.url, **settings) as one:
            one.open()
            find = f"import(document.querySelector('script[src]').src).then(({{map}}) => map.where({row}))"
            x, y = one.tab.evaluate(find)
            one.tab.locator("#map canvas[role]").click(position={"x": x, "y": y})
            expect(one.tab.locator(".card")).to_contain_text("Market Hall")
            expect(one.tab.locator(".card")).to_be_in_viewport()
            expect(one.place("Market Hall")).to_have_class("selected")
            expect(one.place("Market Hall").locator(".statement").first).to_be_in_viewport()
            one.chip("Close").click()
            expect(one.tab.locator(".card")).to_be_hidden()


def test_phone_begins_with_list(browser: Browser, page: Served) -> None:
    """On a telephone the first screen has the first place of the list, and nothing is wider than the screen."""
    with visit(browser, page.url, **PHONE) as one:
        one.open()
        expect(one.tab.locator("#list > li").first.locator(".short").first).to_be_in_viewport()
        assert one.tab.evaluate("document.documentElement.scrollWidth") <= 390
        expect(one.tab.get_by_role("slider")).to_be_hidden()
        one.chip("More").click()
        expect(one.tab.get_by_role("slider")).to_be_visible()


def test_device_keeps_my_places(browser: Browser, page: Served) -> None:
    """My places stay on the device and survive a reload; "near me" sorts by the distance from the device."""
    here = {"geolocation": {"latitude": 40.0099, "longitude": -29.9846}, "permissions": ["geolocation"]}
    with visit(browser, page.url, **here) as one:
        one.open().place("Baker").locator("summary").click()
        one.chip("Add to my places").click()
        one.open().chip("My places").click()
        assert one.names() == ["Baker"]
        one.chip("My places").click()
        one.chip("Near me").click()
        expect(one.tab.locator("#list .name").first).to_have_text("Sports Hall")
        expect(one.place("Sports Hall").locator(".notes")).to_have_text("0 m")


def test_keyboard_is_enough(browser: Browser, page: Served) -> None:
    """With the keyboard alone one skips to the list, opens a place, and opens another one from the map."""
    with visit(browser, page.url) as one:
        keyboard = one.open().tab.keyboard
        keyboard.press("Tab")
        expect(one.tab.locator(".skip")).to_be_focused()
        keyboard.press("Enter")
        expect(one.tab.locator("#places")).to_be_focused()
        keyboard.press("Tab")
        keyboard.press("Enter")
        expect(one.tab.locator("#list > li").first).to_contain_text("What it does not mean")
        canvas = one.tab.get_by_role("application")
        canvas.focus()
        for key in ("+", "+", "ArrowRight", "ArrowDown", "Enter"):
            keyboard.press(key)
        expect(one.tab.locator("#list summary:focus")).to_have_count(1)
        assert one.tab.locator("#list details[open]").count() == 1  # the other place has closed


def test_time_line_shows_the_past(browser: Browser, page: Served) -> None:
    """The time line shows what was published at a time, says that it is the past, and leads to alarms and to now."""
    with visit(browser, page.url) as one:
        one.open()
        expect(one.state("Primary School")).to_have_text("Unknown")
        slider = one.tab.get_by_role("slider")
        for _ in range(12):
            slider.press("ArrowLeft")
        expect(one.tab.get_by_role("alert")).to_contain_text("8 Jan 2026, 03:00")
        expect(one.state("Primary School")).to_have_text("Below alarm level")
        expect(one.state("Market Hall")).to_contain_text("Alarm")
        slider.press("Home")
        expect(one.state("Market Hall")).to_have_text("Below alarm level")
        expect(one.chip("Previous alarm")).to_be_disabled()
        one.chip("Next alarm").click()
        expect(one.tab.get_by_role("alert")).to_contain_text("6 Jan 2026, 15:00")
        expect(one.tab.locator(".timeline output")).to_have_text("6 Jan 2026, 15:00")
        expect(one.state("Station Café")).to_contain_text("Alarm")
        one.tab.locator(".timeline .track").hover(position={"x": 2, "y": 5})
        expect(one.tab.locator(".timeline .tip")).to_have_text("6 Jan 2026, 01:00: 0 new, 0 in all")
        one.chip("Back to now").click()
        expect(one.tab.get_by_role("alert")).to_be_hidden()
        expect(one.state("Market Hall")).to_contain_text("Alarm")
        expect(one.tab.locator("#live")).to_contain_text("As of 8 Jan 2026, 15:00 UTC")
        expect(one.tab.locator("#live")).not_to_contain_text("is now")


def test_most_cautious_answer_leads(browser: Browser, page: Served) -> None:
    """A place that is silent after an alarm shows the alarm first, and only says what to do about that."""
    for settings in ({}, {"java_script_enabled": False}):
        with visit(browser, page.url, **settings) as one:
            one.tab.goto(f"{page.url}en.html")
            one.place("Market Hall").locator("summary").click()
            answers = one.place("Market Hall").locator(".statement")
            expect(answers).to_have_count(3)
            expect(answers.nth(0)).to_contain_text("If you were here in the 7 days up to 7 Jan 2026, 03:00")
            expect(answers.nth(1)).to_contain_text("Unknown · in the 7 days up to 8 Jan 2026, 15:00")
            expect(answers.nth(2)).to_contain_text("Below alarm level · on 8 Jan 2026, 12:30")
            expect(answers.filter(has_text="What to do")).to_have_count(1)
            alarm = "at most 14 reported infected people were here in the 7 days before"
            lines = [
                f"Alarm on 7 Jan 2026, 03:00: {alarm} (alarm level 10)",
                (
                    "no new number before 14 Jan 2026, 05:00, "
                    "because each number reveals a little about the people counted"
                ),
            ]
            expect(one.place("Market Hall").locator(".short")).to_have_text(lines)
            expect(one.tab.get_by_text("midday")).to_have_count(0)


def test_place_lists_its_answers(browser: Browser, page: Served) -> None:
    """The history of a place lists its answers by the time that they are about, the latest first."""
    with visit(browser, page.url) as one:
        one.open().place("Market Hall").locator("summary").click()
        one.chip("Show what was published").click()
        periods = one.place("Market Hall").locator(".periods li")
        expect(periods.first).to_contain_text("8 Jan 2026, 12:30")
        alarms = one.place("Market Hall").locator(".periods .noisy_count")
        expect(alarms).to_contain_text("at most 14 reported infected people")
        days = [int(text.partition(" ")[0]) for text in periods.all_inner_texts() if text[0].isdigit()]
        assert len(days) >= 3
        assert days == sorted(days, reverse=True)


def test_print_has_every_place(browser: Browser, page: Served, shared: Town) -> None:
    """The printed page has the state of each place in words and the open details, without controls and map."""
    with visit(browser, page.url) as one:
        one.open().place("Station Café").locator("summary").click()
        one.tab.emulate_media(media="print")
        expect(one.tab.locator("#list .state:visible")).to_have_count(len(shared.parts.locations))
        expect(one.place("Station Café")).to_contain_text("What it does not mean")
        for control in (one.tab.get_by_role("searchbox"), one.tab.get_by_role("slider"), one.chip("Near me")):
            expect(control).to_be_hidden()
        expect(one.tab.locator(".map")).to_be_hidden()
        assert one.tab.pdf(format="A4").startswith(b"%PDF")


def test_alarm_appears(browser: Browser, page: Served, shared: Town) -> None:
    """A published alarm changes the list, the numbers and the spoken summary; the next visit shows it as changed."""
    with visit(browser, page.url) as one:
        one.open()
        expect(one.state("Central Station")).to_have_text("Below alarm level")
        shared.publish(LAST + 1, {"station-central": 17})
        expect(one.state("Central Station")).to_contain_text("Alarm")
        expect(one.place("Central Station")).to_contain_text("at most 17 reported infected people")
        expect(one.tab.locator(".chip.noisy_count b")).to_have_text("7")
        expect(one.tab.locator("#live")).to_contain_text("Central Station is now Alarm.")
        one.open()
        shared.publish(LAST + 2, {"station-central": 17})
        expect(one.place("Central Station")).to_contain_text("no new number before")
        expect(one.state("Central Station")).to_contain_text("Alarm")
        one.open().chip("Changed since your last visit").click()
        expect(one.tab.locator("#no-match")).to_contain_text("No place has changed")  # still an alarm
        shared.publish(LAST + 3, {"office-park": 15})
        expect(one.place("Office Park").locator(".notes")).to_have_text("was Below alarm level")


def test_old_answers_turn_unknown(browser: Browser, page: Served, shared: Town) -> None:
    """When answers are two slots old, places turn unknown in the browser. Alarms stay, and so does what was known."""
    with visit(browser, page.url) as one:
        one.open()
        expect(one.state("Baker")).to_have_text("Below alarm level")
        alarms = int(one.tab.locator(".chip.noisy_count b").inner_text())
        shared.clock.move_to(shared.clock.now() + 2 * HOUR)
        expect(one.chip("Unknown").locator("b")).to_have_text(str(len(shared.parts.locations) - alarms))
        expect(one.place("Market Hall").locator(".short").nth(1)).to_have_text("the last answer is too old")
        expect(one.tab.get_by_role("alert")).to_contain_text("older than they should be")
        one.place("Baker").locator("summary").click()
        expect(one.place("Baker")).to_contain_text("Last known: Below alarm level")


def test_script_keeps_open_places(browser: Browser, page: Served) -> None:
    """A place that was opened before the script ran stays open, and keeps the focus."""
    with visit(browser, page.url) as one:
        held: list[Route] = []
        one.tab.route("**/registry.json", lambda route: held.append(route))  # noqa: PLW0108  # playwright takes no built-in method
        with one.tab.expect_request("**/registry.json"):
            one.tab.goto(f"{page.url}en.html")
        one.place("Market Hall").locator("summary").click()
        expect(one.place("Market Hall").locator(".statement")).to_have_count(3)
        (request,) = held
        request.continue_()
        one.tab.wait_for_selector("html[data-ready]")
        expect(one.place("Market Hall").locator(".statement")).to_have_count(3)
        expect(one.place("Market Hall").locator("summary")).to_be_focused()
        assert one.tab.locator("#list details[open]").count() == 1


def test_failed_start_makes_all_unknown(browser: Browser, page: Served, shared: Town) -> None:
    """If the script cannot read the answers, the list of the server turns unknown, until a later attempt succeeds."""
    shared.publish(shared.parts.parameters.grid.find_last_tick(shared.clock.now()) + 1)
    with visit(browser, page.url) as one:
        one.tab.route("**/states.json", lambda route: route.fulfill(status=503))
        one.tab.goto(f"{page.url}en.html")
        expect(one.state("Baker")).to_have_text("Unknown")
        words = one.tab.locator("#list .state").all_text_contents()
        assert words == ["Unknown"] * len(shared.parts.locations)
        assert one.tab.locator("#counts b").all_text_contents() == ["0", str(len(words)), "0", "0"]
        one.tab.unroute("**/states.json")
        expect(one.state("Baker")).to_have_text("Below alarm level")
        expect(one.tab.locator("#banner")).to_be_hidden()
        one.errors = [error for error in one.errors if "503" not in error]


def test_list_expires_without_its_script(browser: Browser, page: Served, shared: Town) -> None:
    """If neither script nor style sheet can be read, the list of the server is hidden when its answers expire."""
    grid = shared.parts.parameters.grid
    tick = grid.find_last_tick(shared.clock.now()) + 1
    shared.publish(tick)
    shared.clock.move_to(grid.as_of(tick) + 2 * HOUR - 5 * SECOND)
    with visit(browser, page.url) as one:
        one.tab.route("**/static/**", lambda route: route.fulfill(status=404))
        one.tab.goto(f"{page.url}en.html")
        expect(one.tab.locator("#list")).to_be_hidden()
        expect(one.tab.get_by_text("does not update itself")).to_be_visible()
        one.errors = [error for error in one.errors if "404" not in error]


@pytest.mark.parametrize("what", ["server", "writer"])
def test_lost_page_turns_unknown(browser: Browser, shared: Town, what: str) -> None:
    """When the server is gone, or nobody writes the folder any more, every place turns unknown by the browser's timer.

    A later visit of the folder that nobody writes shows the same: the file says when it was written.
    """
    tick = shared.parts.parameters.grid.find_last_tick(shared.clock.now()) + 1
    shared.publish(tick)
    with serve(shared, unreachable_after=12 * SECOND) as page, visit(browser, page.url) as one:
        one.open()
        expect(one.state("Baker")).to_have_text("Below alarm level")
        if what == "server":
            page.server.__exit__()
        else:
            page.page.close()
        expect(one.state("Baker")).to_have_text("Unknown")
        expect(one.place("Baker")).to_contain_text("no connection to the source")
        expect(one.tab.get_by_role("alert")).to_contain_text("no connection to its source")
        expect(one.tab.locator(".chip.safe b")).to_have_text("0")
        expect(one.place("Market Hall").locator(".short").first).to_contain_text("Alarm on 7 Jan 2026, 03:00")
        if what == "writer":
            expect(one.open().state("Baker")).to_have_text("Unknown")
        # Chromium itself reports each failed connection.
        one.errors = [error for error in one.errors if "net::ERR_" not in error]


def test_start_page_follows_browser(browser: Browser, page: Served) -> None:
    """The start page leads to the language of the browser if the page has it, and is English otherwise."""
    for locale, language in (("de-CH", "de"), ("ja", "ja"), ("fr", "en"), ("en-GB", "en")):
        with visit(browser, page.url, locale=locale) as one:
            one.tab.goto(page.url)
            one.tab.wait_for_selector(f"html[lang={language}][data-ready]")
