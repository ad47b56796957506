"""Fixtures of the tests of the ledger."""

from __future__ import annotations

import pytest

from tests.ticks.conftest import ScriptedNoise


@pytest.fixture
def noise() -> ScriptedNoise:
    """Noise that draws 0 unless `noise.script` is set, and records its calls."""
    return ScriptedNoise()
