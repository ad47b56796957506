"""How strong an alarm is: whether noise alone could plausibly have raised it."""

from __future__ import annotations

from collections import Counter
from typing import Final, Literal

from monitor.client.fold_records import SubscriberView
from monitor.time.instants import YEAR

Strength = Literal["far_above", "just_above"]

_STRENGTHS: Final[dict[Strength, str]] = {"far_above": "very likely", "just_above": "perhaps"}


def describe_strength(strength: Strength, threshold: int) -> str:
    """Return in words whether the threshold was reached, such as "very likely 60 or more"."""
    return f"{_STRENGTHS[strength]} {threshold} or more"


def judge_strength(p_value: float, draws: float) -> Strength:
    """Return "far_above" if noise alone raises so high an answer less than once in a year with this many draws."""
    return "far_above" if p_value * draws < 1 else "just_above"


def count_draws(view: SubscriberView, slot: int) -> float:
    """Return how often noise is drawn in a year, at all places together.

    It is drawn at each tick: for each place over time, and for all places about each designated time that is not final.
    Pauses and marks lower the number. Each monitor counts with one designated time or more, because a later one follows
    the final one.
    """
    open_times = Counter(
        monitor
        for (monitor, _time), snapshots in view.snapshot_index.items()
        if len(snapshots.by_shard) < snapshots.shards or not all(one.final for one in snapshots.understood.values())
    )
    times = sum(max(1, open_times[monitor]) for monitor in {monitor for monitor, _time in view.snapshot_index})
    return (len(view.alert_index) + len(view.registry.ids) * times) * YEAR / slot
