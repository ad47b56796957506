"""Take owner and start records, which decide how the later answers of their output partition are checked."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.tools.audit.fields import FormError
from monitor.tools.audit.findings import FORM, Findings
from monitor.tools.audit.input_ids import InputIds
from monitor.tools.audit.judge import Judge
from monitor.tools.audit.owners import read_owner
from monitor.tools.audit.parts import TickParts
from monitor.tools.audit.records import PublishedRecord
from monitor.tools.audit.stretches import Stretches


class Ownership:
    """The statements of owner and start records: configurations in force, input topics, and output partitions.

    `checks_ticks`: records that are missing in a decided tick are reported. `whole`: no output record has expired.
    """

    def __init__(self, judges: Sequence[Judge], findings: Findings, *, whole: bool, checks_ticks: bool = True) -> None:
        self._judges = judges
        self._findings = findings
        self.stretches = Stretches(judges, findings, whole)
        self.input_ids = InputIds()
        self.parts = TickParts(findings, checks_ticks)

    def take(self, record: PublishedRecord) -> None:
        """Take an owner or start record. One of another form is a finding, and changes nothing."""
        services = {judge.terms.service for judge in self._judges}
        try:
            facts = read_owner(record, services, self._judges[0].terms.grid)
        except FormError as error:
            self._findings.add(FORM, f"{record.place}: not in the form of the interface: {error}")
            return
        for judge in self._judges:
            judge.take_owner(record.partition, facts)
        takeover = self.parts.take_owner(record, facts)
        if record.kind == "owner":
            self.stretches.take_owner(record.partition, facts, takeover=takeover)
        self.parts.take_empty(record.partition, facts.tick, self.stretches.find_single(record.partition))
        self.input_ids.take_owner(record.partition, facts)

    def take_repeat(self, partition: int | None) -> None:
        """Note that a record was delivered again, which may show a takeover."""
        if self.parts.take_repeat(partition):
            self.stretches.doubt(partition)
