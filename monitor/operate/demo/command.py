"""`location-monitor demo`: run a simulated town through the whole service, show each tick, recount at the end."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click
from rich.console import Console
from rich.live import Live

from monitor.audit import audit
from monitor.client.describe_records import alert_status, moment
from monitor.config.valid_config import load_valid_config
from monitor.errors import FailedError
from monitor.observe.logs import set_up_logging
from monitor.operate.convert.files import VISITS_HEADER, format_csv_line, open_atomically
from monitor.operate.demo.page import DemoPage, choose_port, write_recount
from monitor.operate.demo.screen import Screen
from monitor.operate.demo.story import Item, Story
from monitor.operate.demo.summary import DemoOutcome, show
from monitor.operate.replay.driver import Replay, Summary, plan_replay, prepare_empty, start_embedded, write_output
from monitor.operate.replay.produce_visits import Feed
from monitor.operate.simulated_town import Town
from monitor.service.wiring import Settings
from monitor.time.clock import Clock, SteppedClock
from monitor.time.instants import DAY, format_instant
from monitor.values.belief_about_one_person import describe_belief

DAYS: Final = 14
SECONDS: Final = 38.0
LINE_SECONDS: Final = 4.0

_INTRO: Final = """\
The service publishes at which places fewer infected people were reported than a threshold. Whoever reads all answers \
of a week learns little about one person: {belief}.
This town of {people:,} people is simulated. People who test positive report the places of their last two weeks. The \
reports go through a real Kafka and a real Valkey, in temporary folders. {days} days pass in less than a minute."""


@click.command()
@click.option("--seed", type=int, default=20, show_default=True, help="The seed of the simulated town.")
@click.option("--page", "with_page", is_flag=True, help="Also serve the public page, until Ctrl-C.")
@click.option("--port", type=click.IntRange(0, 65535), help="The port of the page. [default: 8080, or any free port]")
def demo(seed: int, with_page: bool, port: int | None) -> None:  # noqa: FBT001  # click passes options by name
    """Run a demo of a simulated town.

    The demo starts a real Kafka and Valkey, and takes about a minute. With --page it also serves the public page;
    Kafka and the page then run until Ctrl-C.
    """
    set_up_logging(30)
    page = DemoPage((choose_port() if port is None else port) if with_page else None)
    with _treat_sigterm_as_interrupt():
        run_demo(seed, Console(), page)


@contextmanager
def _treat_sigterm_as_interrupt() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C, so that servers and temporary files are removed."""
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def run_demo(
    seed: int, console: Console, page: DemoPage | None = None, *, days: int = DAYS, seconds: float = SECONDS
) -> DemoOutcome:
    """Run a demo and return its outcome. `seed` determines the town; the noise differs in each run.

    `days`: the simulated days; `seconds`: the minimum number of seconds that they take.

    Raises:
        EmbeddedError: the servers could not be fetched or started.
        FailedError: the recount found a broken promise.
    """
    page = page or DemoPage()
    with TemporaryDirectory(prefix="location-monitor-demo-") as name:
        folder = Path(name)
        config_file = copy_examples(folder)
        visits, alerts, recount = (folder / name for name in ("visits.csv", "alerts.jsonl", "recount.json"))
        # The audit reads only the file, so environment variables must not override the configuration.
        valid = load_valid_config(config_file, {})
        belief = describe_belief(valid.config.privacy.epsilon)
        _print(console, _INTRO.format(people=POPULATION, days=days, belief=belief))
        config, names = valid.config, {location.id: location.name or location.id for location in valid.locations}
        write_visits(visits, seed, list(names), config.clock.origin, days)
        with start_embedded(valid, lambda text: _print(console, text)) as settings, page as served:
            started = time.monotonic()

            def start_story(clock: Clock, ticks: range) -> Story:
                served.open(settings, valid.locations, clock, recount)
                return Story(settings.parameters, ticks[0], ticks[-1], names, page_url=served.url)

            story, summary = _play(settings, visits, console, days, seconds, start_story)
            topic = config.kafka.topics.alerts
            write_output(settings.kafka, topic, config.kafka.partitions.alerts, alerts)
            report = audit(visits, config_file, alerts)
            outcome = DemoOutcome(
                summary, report, valid.worst, config.clock.slot, config.privacy.period, time.monotonic() - started
            )
            write_recount(recount, report, story.now)
            show(outcome, console)
            if served.url:
                _print(console, f"\nThe page stays at {served.url} until Ctrl-C.")
                served.linger()
    if not report.ok:
        raise FailedError("the recount found a broken promise; see the findings above")
    return outcome


def _play(
    settings: Settings,
    visits: Path,
    console: Console,
    days: int,
    seconds: float,
    start_story: Callable[[Clock, range], Story],
) -> tuple[Story, Summary]:
    """Run the whole service on a stepped clock, as `replay` does, at a pace that people can follow.

    `start_story` is called with the ticks once the topics exist. It also opens the page, if there is one.
    """
    grid = settings.parameters.grid
    planned = plan_replay(visits, settings.parameters, grid.origin + days * DAY, lambda: None)
    try:
        clock = SteppedClock(grid.start(planned.first_tick))
        preflight = prepare_empty(settings, clock)
        feed = Feed(settings.kafka, settings.config.kafka.topics.visits, planned.lines)
        with closing(feed), Replay(settings, preflight, clock) as run:
            ticks = range(planned.first_tick, planned.last_tick + 1)
            story = start_story(clock, ticks)
            if story.page_url:
                _print(console, f"The page is at {story.page_url}")
            began = time.monotonic()
            with _open_display(story, console) as display:
                for turn, tick in enumerate(ticks, 1):
                    # After a turn that took too long, the next waits are shorter.
                    time.sleep(max(0.0, began + turn * seconds / story.ticks - time.monotonic()))
                    feed.produce_until(grid.as_of(tick))
                    display(story.add_tick(tick, run.run_tick(tick), run.metrics.registry))
            return story, run.summarize(story.ticks, time.monotonic() - began)
    finally:
        planned.lines.close()


@contextmanager
def _open_display(story: Story, console: Console) -> Iterator[Callable[[list[Item]], None]]:
    """Yield a function to call with the news of each tick. It updates a live screen, or prints lines to a pipe."""
    if console.is_terminal:
        with Live(Screen(story), console=console, screen=True, auto_refresh=False) as live:
            yield lambda _news: live.refresh()
        return
    progress_at = time.monotonic()

    def print_lines(news: list[Item]) -> None:
        """Print a line per item of news other than "safe", and a progress line every few seconds."""
        nonlocal progress_at
        for item in news:
            if item.status != "safe":
                _print(console, f"{item.at}  {item.text}")
        if time.monotonic() - progress_at >= LINE_SECONDS:
            progress_at = time.monotonic()
            _print(console, _format_progress(story))

    yield print_lines


def _format_progress(story: Story) -> str:
    statuses = Counter(alert_status(alert) for alert in story.subscriber_view.alerts)
    counts = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in sorted(statuses.items()))
    return (
        f"{moment(story.now)}  day {story.day} of {story.days}: {counts}; {story.intake.visits:,} visits read, "
        f"dead letters: {story.intake.dead_letters}; {story.seconds_left:.0f} s left"
    )


def _print(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=not console.is_terminal)


POPULATION: Final = 160_000
PEAK: Final = 1.0
"""Reports grow until the last day, so the demo ends in an outbreak."""


def write_visits(path: Path, seed: int, locations: Sequence[str], start: int, days: int) -> int:
    """Write a town's reported visits, and five invalid ones, as a replay file (docs/interface.md, section 2).

    `start` is the instant of a midnight. Return the number of visits written.
    """
    rows = [
        dict(zip(VISITS_HEADER, (f"p-{person:06}", locations[place], *map(format_instant, times)), strict=True))
        for visits in Town(seed, POPULATION, len(locations), start, days, peak=PEAK).list_reports()
        for person, place, *times in zip(
            *(column.tolist() for column in (visits.person, visits.place)),
            *(column.tolist() for column in (visits.arrived_at, visits.left_at, visits.reported_at)),
            strict=True,
        )
    ]
    faults: tuple[dict[str, str], ...] = (
        {"location_id": "lighthouse"},
        {"left_at": format_instant(start - DAY)},
        {"arrived_at": "yesterday, around noon"},
        {"person_id": ""},
        {"arrived_at": "2199-01-01T00:00:00Z", "left_at": "2199-01-01T01:00:00Z"},
    )
    step = max(1, len(rows) // (len(faults) + 1))
    for number, fault in reversed(list(enumerate(faults[: len(rows) // 2], start=1))):
        rows.insert(number * step, rows[min(number * step, len(rows) - 1)] | fault)
    with open_atomically(path) as file:
        for row in (VISITS_HEADER, *(tuple(row.values()) for row in rows)):
            file.write(format_csv_line(row))
    return len(rows)


CONFIG: Final = "demo.yaml"
REGISTRY: Final = "demo-locations.csv"
MAP: Final = "demo-map.geojson"

_PACKAGED: Final = "examples"
_CHECKOUT: Final = Path(__file__).parents[3] / "config"


def copy_examples(folder: Path) -> Path:
    """Copy the configuration, its registry and its map into a folder and return the path of the configuration's copy.

    Raises:
        FailedError: one of these files is missing from this installation.
    """
    for name in (CONFIG, REGISTRY, MAP):
        (folder / name).write_bytes(_find(name).read_bytes())
    return folder / CONFIG


def _find(name: str) -> Traversable:
    packaged = resources.files("monitor") / _PACKAGED / name
    for path in (packaged, _CHECKOUT / name):
        if path.is_file():
            return path
    raise FailedError(f"{packaged} is missing: this installation of location-monitor is incomplete; reinstall it")
