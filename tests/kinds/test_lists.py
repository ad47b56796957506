"""The lists of kinds agree."""

from __future__ import annotations

from monitor.audit.kinds.all_kinds import KINDS as AUDITED
from monitor.kinds.all_answers import ANSWERS
from monitor.kinds.all_kinds import KINDS
from monitor.operate.schema.build_schemas import build_alerts_schema
from monitor.records.output_records import TYPE_PREFIX


def test_every_list_has_every_kind() -> None:
    """Each kind has an answer and an audit, and all lists have the same order."""
    answered = [ce_type.removeprefix(TYPE_PREFIX) for ce_type in ANSWERS]
    assert list(KINDS) == answered == list(AUDITED)


def test_audit_has_the_charges_of_each_kind() -> None:
    """The audit reads exactly the kinds of charges that the published schema has."""
    published = build_alerts_schema()["$defs"]["TimeCharges"]["properties"]["kind"]["enum"]
    assert sorted(charge for kind in AUDITED.values() for charge in kind.charged) == sorted(published)
