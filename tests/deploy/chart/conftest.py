"""Fixtures of the chart's tests: Helm."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.deploy.chart.helm import Helm, HelmError, build_helm


@pytest.fixture(scope="session")
def helm() -> Iterator[Helm]:
    """Helm's code in a running program. Without Go or its modules the tests are skipped, and fail under CI."""
    try:
        program = build_helm()
    except HelmError as error:
        message = (
            f"server missing: Helm ({error}). To run these tests: install Go 1.26 or later, with its proxy in reach"
        )
        if os.environ.get("CI"):
            pytest.fail(message, pytrace=False)
        pytest.skip(message)
    running = Helm(program)
    yield running
    running.close()
