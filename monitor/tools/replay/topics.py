"""The settings of a replay's topics, whose records have timestamps of another clock than that of the brokers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from monitor.kafka.topics import FOREVER, MESSAGE_BYTES, TopicNeeds, require_exactly

_LONGEST: Final = str(2**63 - 1)
_BY_OTHER_CLOCK: Final = (
    require_exactly("cleanup.policy", "delete", "compaction would delete records that still count"),
    require_exactly("retention.ms", FOREVER, "the replay is in the past: Kafka would delete the records at once"),
    require_exactly("retention.bytes", "-1", "retention by size would delete records that still count"),
    require_exactly("message.timestamp.type", "CreateTime", "records have timestamps of the replay's clock"),
    require_exactly("message.timestamp.before.max.ms", _LONGEST, "the replay may be far in the past"),
    require_exactly("message.timestamp.after.max.ms", _LONGEST, "the replay may be in the future"),
)


def adapt_topic_needs(needs: Sequence[TopicNeeds]) -> tuple[TopicNeeds, ...]:
    """Return the needs of a service's topics (visits, alerts, dead letters) in a replay.

    Records keep the timestamps of the replay's clock, and never expire.
    """
    visits, alerts, dead_letters = needs
    size = [setting for setting in alerts.settings if setting.key == MESSAGE_BYTES]
    return (
        replace(visits, settings=_BY_OTHER_CLOCK, durable=False),
        replace(alerts, settings=(*_BY_OTHER_CLOCK, *size), durable=False),
        dead_letters,
    )
