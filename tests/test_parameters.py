import numpy as np
import pytest
from sklearn.base import clone

from tailproof import (
    DR,
    FQE,
    LSTD,
    Bootstrap,
    Clip,
    Log,
    Mean,
    MeanMinusStd,
    Median,
    Method,
    OutOfBag,
    PerAction,
    Polynomial,
    Quantile,
    Replicate,
    Split,
    TrimmedMean,
    Whole,
    compare,
    diagnose,
    evaluate,
    learn,
    method,
)
from tailproof.errors import EngineError, MethodError, PartitionError
from tailproof.means import AdaptiveHuber, Catoni, MedianOfMeans, SampleMean
from tailproof.methods.catalogue import names
from tailproof.parameters import COUNT, Within, seed_of

SETTINGS = [
    *(method(name).base for name in names()),
    *(method(name) for name in ("auto", "roam-dr", "room-fqi")),
    *(Mean(), Median(), Quantile(0.1, rule="lower"), TrimmedMean(0.3), MeanMinusStd(1.0)),
    *(Whole(), Split(3), Bootstrap(4), OutOfBag(2), Replicate(6)),
    *(SampleMean(), AdaptiveHuber(), Catoni(), MedianOfMeans(blocks=7)),
    *(Clip(3.0), PerAction(Polynomial(), 2, 3)),
]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda each: type(each).__name__)
def test_settings_are_cloned_read_and_changed_as_in_scikit_learn(settings):
    assert clone(settings) == settings
    shallow = settings.get_params(deep=False)
    assert type(settings)(**shallow) == settings
    assert settings.set_params(**settings.get_params()) == settings
    assert shallow.items() <= settings.get_params().items()


def test_inner_settings_are_changed_by_two_underscores_and_the_original_stays():
    base = DR(critic=FQE(iterations=7))
    changed = base.set_params(parts=3, critic__iterations=9)
    assert (changed.parts, changed.critic.iterations) == (3, 9)
    assert base == DR(critic=FQE(iterations=7))
    assert Method(base=LSTD()).set_params(base__ridge=0.5).base == LSTD(ridge=0.5)


@pytest.mark.parametrize("name", ["ridges", "ridge__much", "critic__ridges"])
def test_unknown_settings_are_named(name):
    with pytest.raises(MethodError, match=r"has no setting .*It has "):
        DR().set_params(**{name: 1})


def test_changed_settings_are_checked():
    with pytest.raises(PartitionError, match="folds must be a whole number"):
        Split(3).set_params(folds=0)


def tiny_log():
    rng = np.random.default_rng(1)
    states, actions = rng.normal(size=200), rng.integers(2, size=200)
    rewards = actions + rng.normal(size=200)
    return Log.from_arrays(states, actions, rewards, states, episode=range(200))


DOORS = {
    "evaluate": lambda log, **names: evaluate(log, "always:1", method="roam-dm", **names).to_dict(),
    "compare": lambda log, **names: compare(
        log, {"one": "always:1"}, method="roam-dm", **names
    ).to_dict(),
    "learn": lambda log, **names: learn(log, method="room-fqi", **names).critic.members.theta,
    "diagnose": lambda log, **names: diagnose(log, "always:1", **names).influence.to_dict(),
}


@pytest.mark.parametrize(
    "door",
    [*list(DOORS)[:3], pytest.param("diagnose", marks=pytest.mark.slow)],
)
def test_random_state_is_the_seed(door):
    log, ask = tiny_log(), DOORS[door]
    assert str(ask(log, random_state=3)) == str(ask(log, seed=3))
    with pytest.raises(MethodError, match=r"Got seed=3, random_state=3\."):
        ask(log, seed=3, random_state=3)


@pytest.mark.parametrize("door", [door for door in DOORS if door != "diagnose"])
def test_n_jobs_is_an_engine(door):
    log, ask = tiny_log(), DOORS[door]
    plain = str(ask(log))
    assert str(ask(log, n_jobs=2)) == plain
    assert str(ask(log, n_jobs=-1)) == plain
    with pytest.raises(MethodError, match="engine and n_jobs are names of one setting"):
        ask(log, engine="local", n_jobs=2)
    with pytest.raises(EngineError, match="n_jobs a number of threads or -1"):
        ask(log, n_jobs=0)


def test_seeds_are_whole_numbers_or_drawn_from_a_generator():
    assert seed_of(3, None) == seed_of(None, 3) == seed_of(None, np.int64(3)) == 3
    for make in (np.random.default_rng, np.random.RandomState):
        assert seed_of(None, make(5)) == seed_of(None, make(5)) != seed_of(None, make(6))
    for wrong in (-1, 0.5, "zero", True):
        with pytest.raises(MethodError, match=r"seed must be a whole number of at least 0\. Got"):
            seed_of(wrong, None)


@pytest.mark.parametrize(
    ("interval", "inside", "outside"),
    [
        ("[0, 1]", (0, 0.5, 1), (-1e-9, 1.1, np.nan, "a", None, True)),
        ("(0, 1]", (1e-9, 1), (0, 1.1)),
        ("[0, inf)", (0, 1e300), (-1, np.inf, np.nan)),
        ("(0, inf]", (1, np.inf), (0, np.nan)),
    ],
)
def test_numbers_within_an_interval(interval, inside, outside):
    assert all(each in Within(interval) for each in inside)
    assert not any(each in Within(interval) for each in outside)


def test_whole_numbers_are_not_nearly_whole():
    assert 3 in COUNT
    assert np.int64(3) in COUNT
    assert not any(each in COUNT for each in (3.0, 0, True, "3"))


def test_a_setting_that_breaks_its_constraint_is_named_by_its_argument():
    for make, argument in ((lambda: Quantile(2), "q"), (lambda: Quantile(0.5, "x"), "rule")):
        with pytest.raises(MethodError) as refused:
            make()
        assert refused.value.argument == argument
