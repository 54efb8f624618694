"""Order statistics and robust means found in passes are those of memory."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailproof.robust.means import (
    AdaptiveHuber,
    Catoni,
    FindExtremes,
    SampleMean,
    TrimmedMean,
    Winsorised,
)
from tailproof.robust.streaming import converse, quantiles, ranked_samples, streamed

numbers = st.floats(-1e12, 1e12) | st.sampled_from([0.0, -0.0, 1.0, 1e-300, -1e300, 5e-324])


def in_pieces(samples, sizes):
    """Return an `ask` over pieces of some samples; each conversation sees all of them."""
    borders = np.cumsum(sizes) % (len(samples) + 1)
    pieces = [each for each in np.split(samples, np.sort(borders)) if len(each)]

    def ask(questions):
        found = []
        for question in questions:
            answers = [question(piece) for piece in pieces]
            total = answers[0]
            for each in answers[1:]:
                total = total + each
            found.append(total)
        return found

    return ask


@given(
    st.lists(numbers, min_size=1, max_size=60), st.lists(st.integers(0, 60), max_size=4), st.data()
)
def test_order_statistics_are_exact(samples, sizes, data):
    samples = np.array(samples)
    ranks = data.draw(st.lists(st.integers(0, len(samples) - 1), min_size=1, max_size=4))
    (found,) = converse([ranked_samples(ranks)], in_pieces(samples, sizes))
    assert found.tolist() == (np.sort(samples)[ranks] + 0.0).tolist()


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60),
    st.lists(st.floats(0, 1), min_size=1, max_size=3),
)
def test_quantiles_are_numpys(samples, levels):
    samples = np.array(samples)
    (found,) = converse([quantiles(levels, len(samples))], in_pieces(samples, [7, 20]))
    assert np.allclose(found, np.quantile(samples, levels), rtol=1e-12, atol=1e-9)


MEANS = [SampleMean(), AdaptiveHuber(), Catoni(), TrimmedMean(0.1), Winsorised(0.1)]


@pytest.mark.parametrize("mean", MEANS, ids=str)
@pytest.mark.parametrize("df", [0.8, 1.5, 30.0])
def test_means_are_those_of_memory(mean, df):
    for n in (1, 2, 7, 300, 20_000):
        samples = 5 + np.random.default_rng(n).standard_t(df, size=n)
        (found,) = converse([streamed(mean, n)], in_pieces(samples, [n // 3, n // 2, n // 7]))
        assert found == pytest.approx(mean(samples), rel=1e-8)


@settings(max_examples=30)
@given(
    seed=st.integers(0, 1000),
    n=st.integers(1, 400),
    size=st.integers(1, 20),
    alike=st.sampled_from([0, 2, 50]),
)
def test_extremes_of_long_arrays_are_found_without_sorting_all(seed, n, size, alike):
    rng = np.random.default_rng(seed)
    samples = rng.integers(0, alike, size=n).astype(float) if alike else rng.standard_cauchy(n)
    found = FindExtremes(size)(samples)
    ordered, most = np.sort(samples), min(size, n // 2)
    assert np.array_equal(found.low, ordered[:most])
    if n > 2 * size:
        assert np.array_equal(found.high, ordered[n - most :])
        between = ordered[most : n - most]
        assert found.count == len(between)
        assert found.mean == pytest.approx(between.mean(), rel=1e-9, abs=1e-12)
        assert found.squares == pytest.approx(((between - between.mean()) ** 2).sum(), rel=1e-7)
    else:
        assert np.array_equal(np.concatenate([found.low, found.high]), ordered)


def test_several_conversations_share_the_passes():
    samples, passes = np.arange(10.0), []

    def ask(questions):
        passes.append(sum(question is not None for question in questions))
        return [None if question is None else question(samples) for question in questions]

    found = converse([ranked_samples([9]), streamed(SampleMean(), 10)], ask)
    assert found[0].tolist() == [9.0]
    assert found[1] == 4.5
    assert passes == [2, 1, 1, 1]
