"""Parts of a log on which rungs are fitted again, and rungs that explode."""

from types import SimpleNamespace

import numpy as np
import pytest

from tailproof.estimators.ladder import Groups, _mixed, _pull, _stable


def groups(count=20, each=3):
    of_first = np.tile(np.arange(count), each)
    return Groups(count, of_first, of_first)


def test_parts_are_all_groups_but_one_and_then_halves():
    found = groups()
    assert found.parts.shape == (26, 20)
    assert (found.parts[:20].sum(axis=1) == 19).all()
    assert (found.parts[20:].sum(axis=1) == 10).all()
    assert (found.parts[20::2] + found.parts[21::2] == 1).all()
    assert len(groups(count=5).parts) == 5  # too few to be halved


def test_a_mean_is_not_pulled_and_a_biased_statistic_is(rng):
    found, values = groups(), rng.normal(size=60)
    halves = found.means(values)[20:]
    assert _pull(values.mean(), halves) == pytest.approx(0.0, abs=1e-12)
    assert _pull(values.mean() + 1 / 60, halves + 1 / 30) == pytest.approx(-1 / 60)


def rung(value, error, rng):
    """A rung with a jackknife error of this size."""
    noise = rng.normal(size=20)
    noise = (noise - noise.mean()) / noise.std()
    left_out = value + error * noise / np.sqrt(19)
    return SimpleNamespace(
        value=value, error=error, left_out=left_out, halves=np.full(6, value),
        refitted=np.concatenate([left_out, np.full(6, value)]),
        system=SimpleNamespace(groups=groups()),
    )  # fmt: skip


def test_rungs_that_explode_are_neither_averaged_nor_widen_by_their_distance(rng):
    calm = tuple(rung(value, 1.0, rng) for value in (10.0, 10.5, 11.0))
    wild = tuple(rung(value, 500.0, rng) for value in (200.0, -300.0))
    kept, dropped = _stable((*calm, *wild))
    assert (kept, dropped) == (calm, wild)
    blend = _mixed(None, (*calm, *wild), calm[1], None, None)
    assert blend.rungs == calm
    assert blend.shares == pytest.approx(1 / 3)
    alone = _mixed(None, calm, calm[1], None, None)
    # their choice was uncertain: one more standard error, and not hundreds
    assert blend.allowance == pytest.approx(alone.allowance + blend.error)
