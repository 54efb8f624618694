import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailproof.errors import MethodError
from tailproof.robust.means import Cap

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40).map(np.array)
NAMES = st.sampled_from(["p99.9", "p0.1", "p90", "p10:all", "p75:all"])


@given(VALUES, NAMES)
def test_a_cap_moves_one_side_only_and_none_beyond_it(values, name):
    cap = Cap.named(name)
    moved = cap.capped(values) - values
    assert (moved <= 0).all() if cap.upper else (moved >= 0).all()
    if not cap.every:
        assert (moved[values == 0] == 0).all()


@given(VALUES)
def test_caps_of_both_sides_mirror_each_other(values):
    upper = Cap.named("p95")
    assert upper.mirrored == Cap.named("p5")
    assert upper.mirrored.mirrored == upper
    np.testing.assert_allclose(upper.mirrored.capped(-values), -upper.capped(values))


def test_zeros_count_only_where_asked():
    values = np.concatenate([np.zeros(990), np.arange(1.0, 11.0)])
    assert Cap.named("p90").capped(values).max() == pytest.approx(9.1)
    assert Cap.named("p90:all").capped(values).max() == 0


@pytest.mark.parametrize("name", ["99.9", "p", "p0", "p100", "p50", "p-1", "top", "p99.9:some"])
def test_other_names_are_refused_with_the_grammar(name):
    with pytest.raises(MethodError, match=r"percentile such as 'p99\.9'"):
        Cap.named(name)


@given(NAMES)
def test_a_name_reads_back(name):
    assert str(Cap.named(name)) == name
