import numpy as np
import pytest

from benchmarks.battery.cells import (
    GROUNDS,
    NOISES,
    Setting,
    default_settings,
    ground,
    seed_for,
)
from tailproof.critics.lstd import LSTD
from tailproof.doors.evaluate import evaluate
from tailproof.errors import TailproofError
from tailproof.features import PerAction, Polynomial
from tailproof.methods.method import Method
from tailproof.policies.forms import Mixture, Uniform


def _realisable(world, overlap):
    """Return features in which the value is linear, which the battery's entrants are not given."""
    if world == "tabular":
        return PerAction(Polynomial(degree=1, bias=False), 10, 3)
    return ground(world, overlap).world.features if world == "linear" else None


def _effective_share(world, overlap):
    """Return the effective sample size of the marginal weights, as a share of the rows."""
    from tailproof.methods.catalogue import method

    problem = ground(world, overlap).problem(40, np.random.default_rng(3))
    chosen = method("mis", features=_realisable(world, overlap))
    found = evaluate(problem.log, problem.policy, method=chosen, gamma=problem.gamma)
    return found.on_log.effective_rows / found.on_log.rows


@pytest.mark.parametrize(("world", "overlap"), [key for key in GROUNDS if key[0] != "cartpole"])
def test_truth_is_what_lstd_finds_without_noise(world, overlap):
    place = ground(world, overlap)
    problem = place.problem(400, np.random.default_rng(0))
    plain = Method(base=LSTD(features=_realisable(world, overlap)))
    found = evaluate(problem.log, problem.policy, method=plain, gamma=problem.gamma)
    assert found.value == pytest.approx(place.truth, rel=0.03)


@pytest.mark.parametrize("world", ["tabular", "linear", "cartpole"])
def test_overlap_worsens_in_the_order_of_its_names(world):
    names = [overlap for name, overlap in GROUNDS if name == world]
    shares = [_effective_share(world, overlap) for overlap in names]
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] < shares[0] - 0.1


@pytest.mark.parametrize(("world", "overlap"), [("tabular", "good"), ("linear", "fair")])
def test_the_best_is_at_least_as_good_as_the_target_and_better_than_aimless(world, overlap):
    place = ground(world, overlap)
    assert place.best >= place.truth > place.aimless
    assert place.value(place.target) == pytest.approx(place.truth)


def test_noises_are_centred_at_what_the_rewards_were():
    for law in NOISES.values():
        draws = law.noise.sample(400_000, np.random.default_rng(1))
        if law.shape == "symmetric":
            assert abs(np.median(draws)) < 0.01
        elif law.noise.tail_index > 2:
            assert abs(draws.mean()) < 6 * draws.std() / np.sqrt(len(draws))


def test_the_battery_has_the_noises_it_promises():
    names = " | ".join(NOISES)
    assert sum(name.startswith("t, df") and "side" not in name for name in NOISES) == 6
    for part in ("Gaussian", "−Pareto 1.5", "Pareto 2.5", "σ=0.5", "σ=2", "α-stable", "Gamma(4)"):
        assert part in names
    assert {law.shape for law in NOISES.values()} == {"symmetric", "mild skew", "strong skew"}


def test_action_dependent_noise_has_its_scale_by_action():
    law = NOISES["t, df 1.5, scale by action"]
    problem = ground("tabular", "fair").problem(60, np.random.default_rng(2))
    noisy = law.put_on(problem.log, np.random.SeedSequence(5))
    size = np.abs(noisy.rewards - problem.log.rewards)
    first, rest = (np.median(size[mask]) for mask in (noisy.actions == 0, noisy.actions != 0))
    assert rest / first == pytest.approx(8.0, rel=0.15)


def test_a_mixture_is_the_mean_of_its_laws():
    def always(states):
        return np.ones(len(states), dtype=int)

    mixed = Mixture(((0.4, always), (0.6, Uniform(2))), 2)
    np.testing.assert_allclose(mixed.probabilities(np.zeros((2, 1))), [[0.3, 0.7]] * 2)


def test_settings_come_in_both_sizes_and_every_world():
    settings = default_settings()
    assert len(settings) == len(set(settings)) == 16
    assert {setting.steps for setting in settings} == {2000, 10_000}
    assert {setting.world for setting in settings} == {"cartpole", "tabular", "linear"}
    log = settings[0].problem(np.random.default_rng(0)).log
    assert log.n_transitions == settings[0].steps


def test_settings_that_do_not_exist_are_refused():
    with pytest.raises(TailproofError, match="There is no world 'cartpole' with 'poor' overlap"):
        Setting("cartpole", "poor", 2000)
    with pytest.raises(TailproofError, match=r"multiple of 100.*Got 2050"):
        Setting("linear", "good", 2050)


def test_seeds_depend_on_every_name_and_on_nothing_else():
    states = {
        tuple(seed_for(*names).generate_state(2))
        for names in [(1, "a", 0), (1, "a", 1), (1, "b", 0), (2, "a", 0), (1, "a", 0, "noise")]
    }
    assert len(states) == 5
    assert (seed_for(1, "a", 0).generate_state(2) == seed_for(1, "a", 0).generate_state(2)).all()
