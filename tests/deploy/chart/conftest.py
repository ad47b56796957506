"""Fixtures of the chart's tests: Helm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.deploy.chart.helm import Helm
from tests.deploy.chart.helm_build import build_helm
from tests.go_programs import GoError
from tests.missing import report_missing


@pytest.fixture(scope="session")
def helm() -> Iterator[Helm]:
    """Helm's code in a running program. Without Go or its modules the tests are skipped, and fail under CI."""
    try:
        program = build_helm()
    except GoError as error:
        report_missing(f"Helm ({error})", "install Go 1.26 or later, with its module proxy in reach once")
    running = Helm(program)
    yield running
    running.close()
