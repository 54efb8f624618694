import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad

from tailproof.errors import TailproofError
from tailproof.log.log import Log
from tailproof.noise import (
    AlphaStable,
    Contaminated,
    Gamma,
    Gaussian,
    LogNormal,
    Noise,
    Pareto,
    SkewedT,
    StudentT,
    add_noise,
    winsorised_std,
)

EVERY_NOISE = [
    (StudentT(1.0), 1.0, False, "t, df 1"),
    (StudentT(1.5, kappa=2), 1.5, True, "t, df 1.5 × 2"),
    (SkewedT(1.8), 1.8, True, "t, df 1.8, right side × 1.3"),
    (Gaussian(), math.inf, True, "Gaussian"),
    (Pareto(1.5), 1.5, True, "Pareto 1.5"),
    (Pareto(2.5, sign=-1, scale=2), 2.5, True, "−Pareto 2.5 × 2"),
    (LogNormal(2), math.inf, True, "log-normal σ=2"),
    (LogNormal(1, sign=-1), math.inf, True, "−log-normal σ=1"),
    (Gamma(4), math.inf, True, "Gamma(4)"),
    (Contaminated(), math.inf, True, "Gaussian + 0.1 % × 300"),
    (AlphaStable(1.5), 1.5, True, "α-stable 1.5"),
    (AlphaStable(0.8, beta=-1), 0.8, False, "α-stable 0.8, β=-1"),
    (AlphaStable(2.0), math.inf, True, "α-stable 2"),
]


def draws(noise, size=100_000, seed=0):
    return noise.sample(size, np.random.default_rng(seed))


def small_log(n=6):
    states = np.arange(n, dtype=float)[:, None]
    return Log.from_arrays(states, np.arange(n) % 2, np.ones(n), states, episode=np.zeros(n))


@pytest.mark.parametrize(("noise", "index", "mean_exists", "text"), EVERY_NOISE)
def test_every_noise_says_what_it_is_and_draws_what_is_asked(noise, index, mean_exists, text):
    assert noise.tail_index == index
    assert noise.mean_exists is mean_exists
    assert str(noise) == text
    assert noise.sample((2, 3), np.random.default_rng(1)).shape == (2, 3)
    assert np.isfinite(draws(noise, 1000)).all()
    assert (draws(noise, 50) == draws(noise, 50)).all()


def test_winsorised_std_of_cauchy_has_a_closed_form():
    cut = math.tan(0.49 * math.pi)
    inner = 2 / math.pi * (cut - math.atan(cut))
    assert winsorised_std(1.0) == pytest.approx(math.sqrt(inner + 0.02 * cut**2), rel=1e-9)


def test_winsorised_std_tends_to_the_normal_one():
    cut = stats.norm.ppf(0.99)
    inner = 0.98 - 2 * cut * stats.norm.pdf(cut)  # ∫ x² density, by parts
    assert winsorised_std(1e7) == pytest.approx(math.sqrt(inner + 0.02 * cut**2), rel=1e-5)


@given(df=st.floats(0.5, 30))
def test_winsorised_std_is_that_of_a_winsorised_sample(df):
    # A sample that is the quantile function itself, so only its grid is approximate.
    grid = stats.t.ppf(np.clip((np.arange(20_000) + 0.5) / 20_000, 0.01, 0.99), df)
    assert winsorised_std(df) == pytest.approx(grid.std(), rel=2e-3)


@pytest.mark.parametrize(
    ("noise", "law"),
    [
        (StudentT(1.0, kappa=2), stats.cauchy(scale=2 / winsorised_std(1.0))),
        (StudentT(1.5), stats.t(1.5, scale=1 / winsorised_std(1.5))),
        (Gaussian(2), stats.norm(scale=2)),
        (Pareto(1.5), stats.pareto(1.5, loc=-3)),
        (LogNormal(2), stats.lognorm(2, loc=-math.exp(2))),
        (Gamma(4), stats.gamma(4, loc=-2, scale=0.5)),
        (Contaminated(fraction=0), stats.norm()),
        (Contaminated(fraction=1, scale=7), stats.norm(scale=7)),
        (AlphaStable(2.0), stats.norm(scale=math.sqrt(2))),
        (AlphaStable(1.0), stats.cauchy()),
        (AlphaStable(0.5, beta=1), stats.levy()),
    ],
    ids=lambda value: str(value) if isinstance(value, Noise) else "",
)
def test_draws_follow_the_law(noise, law):
    assert stats.kstest(draws(noise), law.cdf).pvalue > 1e-3


@pytest.mark.parametrize(
    ("alpha", "beta"), [(1.5, 0.7), (1.9, -1.0), (1.0, 0.5), (1.0, -1.0), (0.8, -0.4), (1.2, 0.0)]
)
def test_stable_draws_have_the_characteristic_function(alpha, beta):
    sample = draws(AlphaStable(alpha, beta), 200_000)
    for u in (0.2, 0.7, 1.5):
        lean = -2 / math.pi * math.log(u) if alpha == 1 else math.tan(math.pi * alpha / 2)
        exact = np.exp(-(u**alpha) * (1 - 1j * beta * lean))
        assert abs(np.exp(1j * u * sample).mean() - exact) < 4 / math.sqrt(len(sample))


@pytest.mark.parametrize(
    "noise",
    [
        Gaussian(3),
        Gamma(4),
        Gamma(0.5, sign=-1),
        LogNormal(0.5),
        Pareto(5.0, sign=-1),
        SkewedT(6.0),
        SkewedT(6.0, right=0.5, kappa=2),
        Contaminated(),
    ],
    ids=str,
)
def test_noise_is_centred(noise):
    sample = draws(noise, 400_000)
    assert abs(sample.mean()) < 4 * sample.std() / math.sqrt(len(sample))


@pytest.mark.parametrize("df", [1.2, 1.8, 4.0])
def test_skewed_t_is_a_stretched_student_t_minus_its_exact_mean(df):
    positive_part, _ = quad(lambda x: x * stats.t.pdf(x, df), 0, np.inf)
    plain = draws(StudentT(df), 100)
    stretched = np.where(plain > 0, 1.3 * plain, plain) - 0.3 * positive_part / winsorised_std(df)
    assert np.allclose(draws(SkewedT(df), 100), stretched, rtol=0, atol=1e-6)


def test_skewed_t_without_stretch_is_student_t():
    assert np.array_equal(draws(SkewedT(1.8, right=1.0), 100), draws(StudentT(1.8), 100))


@pytest.mark.parametrize("law", [Pareto, LogNormal, Gamma])
def test_sign_mirrors_the_law(law):
    assert np.array_equal(draws(law(1.5, sign=1), 100), -draws(law(1.5, sign=-1), 100))


@given(scale=st.floats(1e-3, 1e3), seed=st.integers(0, 2**32))
def test_scale_is_a_factor(scale, seed):
    for one, other in (
        (StudentT(1.3), StudentT(1.3, kappa=scale)),
        (Pareto(1.5), Pareto(1.5, scale=scale)),
        (AlphaStable(1.0, 0.5), AlphaStable(1.0, 0.5, scale=scale)),
        (SkewedT(1.8), SkewedT(1.8, kappa=scale)),
    ):
        assert np.allclose(draws(one, 20, seed) * scale, draws(other, 20, seed), rtol=1e-12)


def test_contaminated_has_its_fraction_of_outliers():
    sample = draws(Contaminated(fraction=0.01, scale=1e6), 100_000)
    assert abs((np.abs(sample) > 10).mean() - 0.01) < 4 * math.sqrt(0.01 / 100_000)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: StudentT(0), r"df must be a finite number above 0\. Got 0 instead\."),
        (
            lambda: StudentT(1, kappa=math.nan),
            r"kappa must be a finite number above 0\. Got nan instead\.",
        ),
        (lambda: Gaussian(-1), r"scale must be a finite number above 0\. Got -1"),
        (lambda: Pareto(1.0), "index must be a finite number above 1"),
        (lambda: SkewedT(1.0), "df must be a finite number above 1"),
        (lambda: Pareto(1.5, sign=0), "sign must be 1 or -1"),
        (lambda: LogNormal(math.inf), "sigma must be a finite"),
        (lambda: Contaminated(1.5), r"fraction must be a number in \[0, 1\]\. Got 1\.5"),
        (lambda: AlphaStable(2.1), r"alpha must be a number in \(0, 2\]\. Got 2\.1"),
        (lambda: AlphaStable(1.5, beta=-2), r"beta must be a number in \[-1, 1\]\. Got -2"),
    ],
)
def test_a_law_that_does_not_exist_is_refused(build, message):
    with pytest.raises(TailproofError, match=message):
        build()


def test_add_noise_leaves_the_log_and_changes_only_rewards():
    log = small_log()
    noisy = add_noise(log, StudentT(1.0), seed=3)
    assert (log.rewards == 1).all()
    assert np.array_equal(noisy.rewards, 1 + draws(StudentT(1.0), 6, seed=3))
    assert noisy.states is log.states
    assert np.array_equal(add_noise(log, StudentT(1.0), seed=3).rewards, noisy.rewards)
    rng = np.random.default_rng(3)
    assert np.array_equal(add_noise(log, StudentT(1.0), seed=rng).rewards, noisy.rewards)


def test_noise_may_depend_on_state_and_action():
    log = small_log()
    plain = add_noise(log, Gaussian(), seed=3).rewards - 1
    scaled = add_noise(log, Gaussian(), seed=3, scale=lambda s, a: s[:, 0] * (a == 1)).rewards - 1
    assert np.allclose(scaled, plain * log.states[:, 0] * (log.actions == 1))
    assert (scaled[log.actions == 0] == 0).all()


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        (
            lambda s, a: s,
            r"must return 6 finite numbers, one per transition\. Got shape \(6, 1\), 0",
        ),
        (lambda s, a: np.full(6, np.inf), r"Got shape \(6,\), 6 not finite; compute it row by row"),
    ],
)
def test_a_scale_of_the_wrong_form_is_refused(scale, message):
    with pytest.raises(TailproofError, match=message):
        add_noise(small_log(), Gaussian(), seed=0, scale=scale)
