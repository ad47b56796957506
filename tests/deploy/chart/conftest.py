"""Fixtures of the chart's tests: Helm, and its output for each case."""

from __future__ import annotations

import pytest

from tests.deploy.chart.helm import CASES, Answer, Helm, render
from tests.go_programs import HELM, GoError, install_program
from tests.needed_programs import report_missing


@pytest.fixture(scope="session")
def helm() -> Helm:
    """Helm. Without Go or its modules the tests are skipped, and fail under CI."""
    try:
        return Helm(install_program(HELM))
    except GoError as error:
        report_missing(f"Helm ({error})", "install Go 1.26 or later, with its module proxy in reach once")


@pytest.fixture(scope="session")
def rendered(helm: Helm) -> dict[str, Answer]:
    """The output of each case."""
    return {case: render(helm, case) for case in CASES}
