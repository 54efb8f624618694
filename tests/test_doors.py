"""No two doors disagree about a log; `doors.py` has the logs and the checks."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import doors

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", doors.KINDS)
def test_no_two_doors_disagree(kind: str):
    for seed in range(4):
        assert doors.disagreements(*doors.draw(kind, seed)) == []
