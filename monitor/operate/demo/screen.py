"""The demo's screen on a terminal: the public clock, the places, the latest news, and the visits read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from typing import Final

from rich.columns import Columns
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.progress_bar import ProgressBar
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from monitor.client.describe_records import alert_status, length, moment
from monitor.client.designated_time import AtTime, AtTimeStatus
from monitor.client.watch import STYLES, SYMBOLS
from monitor.kinds.over_time.record import OverTimeAlert
from monitor.operate.demo.story import Story
from monitor.time.instants import parse_instant, to_datetime
from monitor.values.wording import PEOPLE

_WIDE: Final = 96  # from this width in columns on, the news is shown next to the places
_TIMES: Final = 3  # designated times shown at once
_CELL: Final = 18
_BAR: Final = 24
_LEAST_NEWS: Final = 3
_LEGEND: Final = {
    "safe": "safe",
    "noisy_count": "noisy count",
    "below_since": "fewer since",
    "paused": "paused",
}


class Screen:
    """One frame of the screen, in the terminal's size."""

    def __init__(self, story: Story) -> None:
        self._story = story

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Show places left and news right on a wide terminal, news below places on a narrow one."""
        width, height = options.size
        head, foot = self._draw_head(), self._draw_foot()
        room = height - 3 - bool(self._story.page_url)
        if width >= _WIDE:
            left = width * 3 // 5
            body = Table.grid(padding=(0, 2, 0, 0))
            body.add_column(width=left - 2)
            body.add_column(width=width - left)
            body.add_row(Group(*self._draw_places()), Group(*self._draw_news(width - left, room)))
            yield Group(head, body, foot)
            return
        places = console.render_lines(Group(*self._draw_places()), options.update(width=width, height=None))
        yield Group(head, *self._draw_places(), *self._draw_news(width, max(_LEAST_NEWS, room - len(places))), foot)

    def _draw_head(self) -> RenderableType:
        story = self._story
        head = Table.grid(expand=True, padding=(0, 1))
        head.add_column(no_wrap=True)
        head.add_column(no_wrap=True, justify="right")
        clock = Text.assemble((moment(story.now), "bold cyan"), f"  day {story.day} of {story.days}")
        progress = Table.grid(padding=(0, 1))
        left = Text(f"{story.seconds_left:.0f} s left" if story.ticks_published else "starting")
        progress.add_row(ProgressBar(story.ticks, story.ticks_published, width=_BAR), left)
        head.add_row(clock, progress)
        return head

    def _draw_foot(self) -> RenderableType:
        intake = self._story.intake
        legend = Text("  ").join(
            Text(f"{SYMBOLS[status]} {name}", style=STYLES[status]) for status, name in _LEGEND.items()
        )
        read = Text(f"{intake.visits:,} visits; dead letters: {intake.dead_letters}")
        foot = Table.grid(expand=True, padding=(0, 1))
        foot.add_column(no_wrap=True)
        foot.add_column(no_wrap=True, justify="right")
        foot.add_row(read, legend)
        page = [Text(f"The page: {self._story.page_url}")] if self._story.page_url else []
        return Group(foot, *page)

    def _draw_places(self) -> Iterator[RenderableType]:
        view = self._story.subscriber_view
        for monitor, alerts in groupby(view.alerts, attrgetter("monitor")):
            shown = list(alerts)
            window = length(parse_instant(shown[0].as_of) - parse_instant(shown[0].window_start))
            yield _draw_title(f"{monitor}: fewer than {shown[0].threshold} {PEOPLE} in the last {window}?")
            yield self._draw_over_time(shown)
        for monitor, times in groupby(view.times, attrgetter("monitor")):
            latest = list(times)[:_TIMES][::-1]
            yield _draw_title(f"{monitor}{_format_times(latest)}: fewer than {latest[0].sample.threshold} {PEOPLE}?")
            yield self._draw_at_times(latest)

    def _draw_over_time(self, alerts: list[OverTimeAlert]) -> Table:
        table = Table.grid(padding=(0, 1))
        for alert in alerts:
            status = alert_status(alert)
            table.add_row(
                Text(f"{SYMBOLS[status]} {self._story.words.name(alert.location_id)}", style=STYLES[status]),
                Text(_describe(alert), STYLES[status]),
            )
        return table

    def _draw_at_times(self, shown: list[AtTime]) -> RenderableType:
        """Show every place with one symbol per time, the latest last. A place with a noisy count is coloured."""
        return Columns(
            [
                _draw_cell(self._story.words.name(place), [at.statuses[place] for at in shown])
                for place in self._story.parameters.registry.ids
            ],
            width=_CELL,
            padding=(0, 1),
            column_first=True,
        )

    def _draw_news(self, width: int, room: int) -> Iterator[RenderableType]:
        """Yield as many items of news as fit, the latest first."""
        yield _draw_title("news")
        room -= 1
        for item in reversed(self._story.news):
            text = Text.assemble((f"{item.at}  ", "bright_black"), (item.text, STYLES[item.status]))
            lines = text.wrap(Console(width=width), width)
            if len(lines) > room:
                return
            room -= len(lines)
            yield text


def _draw_title(text: str) -> RenderableType:
    return Rule(Text(text, style="bold"), align="left", style="bright_black")


def _draw_cell(place: str, statuses: list[AtTimeStatus]) -> Text:
    symbols = [(SYMBOLS[status], STYLES[status]) for status in statuses]
    style = STYLES["noisy_count"] if "noisy_count" in statuses else ""
    return Text.assemble(*symbols, " ", (place, style), no_wrap=True, overflow="ellipsis")


def _format_times(shown: list[AtTime]) -> str:
    """Return the times of day and weekdays shown: ` 12:30 of Mon, Tue, Wed`."""
    days = [to_datetime(parse_instant(at.time)) for at in shown]
    hours = ", ".join(dict.fromkeys(f"{day:%H:%M}" for day in days))
    return f" {hours} of {', '.join(dict.fromkeys(f'{day:%a}' for day in days))}" if days else ""


def _describe(alert: OverTimeAlert) -> str:
    if alert.status == "noisy_count":
        return f"at most {alert.count_at_most}"
    if alert.status == "paused" and alert.resumes_at:
        bound = f" (≤ {alert.answers[-1].noisy_count})" if alert.answers else ""
        return f"paused until {moment(alert.resumes_at)}{bound}"
    if alert.counted_since and alert.status == "safe":
        return f"below {alert.threshold} since {moment(alert.counted_since)}"
    return alert.status
