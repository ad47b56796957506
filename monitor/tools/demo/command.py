"""`location-monitor demo`: a simulated town through the whole service, told as it happens, and recounted at the end."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from rich.console import Console
from rich.live import Live

from monitor.client.words import moment
from monitor.config import load_config, load_registry
from monitor.errors import FailedError
from monitor.public.clock import SteppedClock
from monitor.public.instants import DAY
from monitor.service import Settings
from monitor.tools.audit import audit
from monitor.tools.demo.examples import copied_to
from monitor.tools.demo.screen import Screen
from monitor.tools.demo.story import Item, Story
from monitor.tools.demo.summary import DemoOutcome, show
from monitor.tools.demo.visits import PEOPLE, write_visits
from monitor.tools.replay.driver import Replay, Summary, open_feed, plan_replay, prepare_empty
from monitor.tools.replay.embedded import embedded_settings
from monitor.tools.replay.output import write_output

DAYS: Final = 14
SECONDS: Final = 38.0
LINE_SECONDS: Final = 4.0

_INTRO: Final = """\
This is what the location-safety monitor is for: it tells the public where it is safe to go, and gives away next to \
nothing about where any infected person has been.
A simulated town of {people:,} people catches an infection; who is found infected reports the places of the last two \
weeks, through a real Kafka and a real Valkey (both from wheels, in a temporary folder), and {days} days pass in well \
under a minute."""


@dataclass(frozen=True, slots=True)
class Length:
    """How long the demo is: days that it tells, and the seconds that it takes for them at least."""

    days: int = DAYS
    seconds: float = SECONDS


def demo_command(seed: int, console: Console) -> None:
    """Run the demo. `seed` decides the town and its epidemic; the noise is fresh each time.

    Raises:
        FailedError: the recount found that a promise was broken.
        EmbeddedError: the servers cannot be had or started.
    """
    with _terminated_as_interrupted():
        run_demo(seed, console, Length())


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does: everything is let go of on the way out."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def run_demo(seed: int, console: Console, length: Length) -> DemoOutcome:
    """As `demo_command`, for any length; returns what it ends with."""
    _say(console, _INTRO.format(people=PEOPLE, days=length.days))
    with TemporaryDirectory(prefix="location-monitor-demo-") as name:
        folder = Path(name)
        files = _Files(copied_to(folder), folder / "visits.csv", folder / "alerts.jsonl")
        # The audit reads the file alone, so the environment must not change what it says.
        config = load_config(files.config, {})
        locations = load_registry(config.locations.file)
        write_visits(files.visits, seed, [location.id for location in locations], config.clock.origin, length.days)
        with embedded_settings(config, locations, lambda text: _say(console, text)) as settings:
            began = time.monotonic()
            summary = _play(settings, files.visits, console, length)
            topic = config.kafka.topics.alerts
            write_output(settings.kafka, topic, config.kafka.partitions.alerts, files.alerts)
            report = audit(files.visits, files.config, files.alerts)
            seconds = time.monotonic() - began
    outcome = DemoOutcome(summary, report, config.privacy.period, seconds)
    show(outcome, console)
    if not report.ok:
        raise FailedError("the recount found that a promise was broken; what was found stands above")
    return outcome


@dataclass(frozen=True, slots=True)
class _Files:
    config: Path
    visits: Path
    alerts: Path


def _play(settings: Settings, visits: Path, console: Console, length: Length) -> Summary:
    """The whole service on a stepped clock: as `replay`, but no faster than people can look."""
    grid = settings.parameters.grid
    planned = plan_replay(visits, settings.parameters, grid.origin + length.days * DAY, lambda: None)
    try:
        clock = SteppedClock(grid.start(planned.first_tick))
        found = prepare_empty(settings, clock)
        with Replay(settings, found, clock) as run, open_feed(settings, iter(planned.lines)) as feed:
            story = Story(settings.parameters, planned.first_tick, planned.last_tick)
            pace = Pace(length.seconds / story.ticks)
            with _teller(story, console) as tell:
                for tick in range(planned.first_tick, planned.last_tick + 1):
                    pace.wait()
                    feed.until(grid.as_of(tick))
                    tell(story.take(tick, run.tick(tick), run.metrics.registry))
            return run.summary(story.ticks, pace.seconds)
    finally:
        planned.lines.close()


class Pace:
    """Turns of a steady length; one that takes longer shortens the next ones, and none is left out."""

    def __init__(
        self,
        turn_seconds: float,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._turn, self._now, self._sleep = turn_seconds, now, sleep
        self._began = self._due = now()

    def wait(self) -> None:
        """Wait until the next turn is due."""
        self._due += self._turn
        self._sleep(max(0.0, self._due - self._now()))

    @property
    def seconds(self) -> float:
        """Since it began."""
        return self._now() - self._began


@contextmanager
def _teller(story: Story, console: Console) -> Iterator[Callable[[list[Item]], None]]:
    """What to call with the news of each tick: a live screen on a terminal, lines otherwise."""
    if not console.is_terminal:
        yield _Lines(story, console)
        return
    with Live(Screen(story), console=console, screen=True, auto_refresh=False) as live:
        yield lambda _news: live.refresh()


class _Lines:
    """A line for all that is not just safe, and one every few seconds for how far it is."""

    def __init__(self, story: Story, console: Console) -> None:
        self._story, self._console = story, console
        self._said = time.monotonic()

    def __call__(self, news: list[Item]) -> None:
        """A tick was published."""
        for item in news:
            if item.status != "safe":
                _say(self._console, f"{item.at}  {item.text}")
        if time.monotonic() - self._said >= LINE_SECONDS:
            self._said = time.monotonic()
            _say(self._console, _far(self._story))


def _far(story: Story) -> str:
    states = Counter(alert.status for alert in story.subscriber_view.alerts)
    told = ", ".join(f"{count} {status}" for status, count in sorted(states.items()))
    return (
        f"{moment(story.now)}  day {story.day} of {story.days}: {told}; {story.intake.visits:,} visits read, "
        f"dead letters: {story.intake.dead_letters}; {story.seconds_left:.0f} s left"
    )


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=not console.is_terminal)
