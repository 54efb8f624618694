import numpy as np
import pytest

from tailproof import Log, evaluate, method
from tailproof.errors import MethodError
from tailproof.features import (
    NAMES,
    Additive,
    Basis,
    Fourier,
    Interactions,
    PerAction,
    Standardise,
    Table,
    Trees,
    as_features,
    mixed_features,
    table_for,
)
from tailproof.features.ladder import basis_for


def states(n=400, p=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, p)) * np.array([1.0, 1e-4, 1e6])[:p] + np.array([0.0, 3.0, -1e6])[:p]


def small_log(n=600, p=3, actions=2, seed=0):
    rng = np.random.default_rng(seed)
    at = states(n + 1, p, seed)
    return Log.from_arrays(
        at[:-1],
        rng.integers(actions, size=n),
        rng.normal(size=n),
        at[1:],
        episode=np.arange(n) // 20,
        action_space=actions,
    )


def test_standardising_undoes_units_shifts_and_the_order_of_columns():
    raw = states()
    z = Standardise.fit(raw)(raw)
    moved = raw[:, [2, 0, 1]] * np.array([1e-3, 50.0, 7.0]) + np.array([4.0, -1.0, 0.5])
    np.testing.assert_allclose(Standardise.fit(moved)(moved), z, atol=1e-9)


def test_constant_columns_are_dropped_and_rare_indicators_are_kept():
    raw = np.column_stack([np.full(500, 7.0), np.arange(500) == 3, np.arange(500.0)]).astype(float)
    assert sorted(Standardise.fit(raw).columns) == [1, 2]


def test_taming_keeps_the_order_and_bounds_the_growth():
    raw = np.linspace(-5, 5, 1001)[:, None]
    raw[-1] = 1e9
    z = Standardise.fit(raw, tame=True)(raw)[:, 0]
    assert (np.diff(z) > 0).all()
    assert z[-1] < 30


@pytest.mark.parametrize(
    "make",
    [
        lambda s: Basis.fit(s),
        lambda s: Basis.fit(s, knots=4, squares=True),
        lambda s: Fourier.fit(s, waves=7),
        lambda s: Table.fit(np.round(s[:5], 3)),
        lambda s: Trees.fit(s, s[:, :2], trees=3, leaves=6),
    ],
)
def test_every_map_has_its_size_and_holds_the_constant(make):
    raw = states()
    made = make(raw)
    shown = np.round(raw[:5], 3) if isinstance(made, Table) else raw
    psi = made(shown)
    assert psi.shape == (len(shown), made.size(3))
    np.testing.assert_allclose(psi @ made.constant(), 1.0)
    assert np.isfinite(psi).all()


def test_waves_are_cosines():
    raw = states()
    waves = Fourier.fit(raw, waves=50)
    angle = waves.standardise(raw) @ np.array(waves.frequencies).T + np.array(waves.phases)
    np.testing.assert_allclose(waves(raw)[:, -50:], np.sqrt(2) * np.cos(angle), atol=1e-14)


def test_a_basis_without_knots_spans_the_polynomials():
    from tailproof import Polynomial

    raw = np.random.default_rng(1).normal(size=(200, 3))
    fitted, *_ = np.linalg.lstsq(Basis.fit(raw)(raw), Polynomial()(raw), rcond=None)
    np.testing.assert_allclose(Basis.fit(raw)(raw) @ fitted, Polynomial()(raw), atol=1e-9)


def test_products_of_indicators_of_one_category_are_never_formed():
    category = np.eye(4)[np.random.default_rng(0).integers(4, size=300)]
    other = np.random.default_rng(1).normal(size=(300, 1))
    basis = Basis.fit(np.hstack([category, other]))
    assert len(basis.pairs) == 4  # each indicator with the number, none with another indicator


def test_a_table_knows_its_states_and_no_others():
    table = Table.fit(np.array([[0.0, 1.0], [-0.0, 1.0], [2.0, 3.0]]))
    assert table.size(2) == 2
    assert table.index(np.array([[2.0, 3.0], [0.0, 1.0], [0.0, 2.0]])).tolist() == [1, 0, -1]


@pytest.mark.parametrize("kind", [PerAction, Additive])
def test_mixed_features_are_the_weighted_sum_over_actions(kind):
    raw = states(50)
    features = kind(Basis.fit(raw), 3, 3)
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(3), size=50)
    every = np.broadcast_to(np.arange(3), (50, 3))
    summed = sum(weights[:, [a]] * features(raw, np.full(50, a)) for a in range(3))
    np.testing.assert_allclose(mixed_features(features, raw, every, weights), summed, atol=1e-12)
    np.testing.assert_allclose(summed @ features.constant(), 1.0)


def test_the_number_of_features_follows_the_rows():
    many = Log.from_arrays(
        np.random.default_rng(0).normal(size=(500, 30)),
        np.arange(500) % 20,
        np.zeros(500),
        np.random.default_rng(1).normal(size=(500, 30)),
        episode=np.arange(500) // 5,
        action_space=20,
    )
    assert basis_for(many).size <= 50
    assert isinstance(basis_for(many), Additive)
    assert isinstance(basis_for(small_log()), PerAction)


def test_few_states_are_a_table_and_many_are_not():
    rng = np.random.default_rng(0)
    cells = rng.integers(5, size=(2001, 1)).astype(float)
    few = Log.from_arrays(
        cells[:-1], rng.integers(2, size=2000), np.zeros(2000), cells[1:],
        episode=np.arange(2000) // 20, action_space=2,
    )  # fmt: skip
    assert table_for(few).size == 10
    assert table_for(small_log()) is None


@pytest.mark.filterwarnings("ignore::tailproof.errors.SingularWarning")  # leaves may repeat
@pytest.mark.parametrize("name", [each for each in NAMES if each != "table"])
@pytest.mark.parametrize("base", ["lstd", "fqe", "mis", "auto"])
def test_features_go_by_name_in_every_base(name, base):
    log = small_log(p=2)
    found = evaluate(
        log, lambda s: np.zeros(len(s), int), method=method(base, features=name), gamma=0.5
    )
    assert np.isfinite(found.value)


def test_an_unknown_name_is_refused_with_those_that_exist():
    with pytest.raises(MethodError, match=r"features must be .*Got 'wavelets'"):
        as_features("wavelets", small_log())
    assert as_features("polynomial", small_log()).size == 2 * 7


def test_interactions_are_scikit_learns_products_of_state_and_action(rng):
    """As the paper's text describes its features, for two actions."""
    from sklearn.preprocessing import PolynomialFeatures

    states, actions = rng.standard_normal((50, 4)), rng.integers(2, size=50)
    features = Interactions(4, 2)
    found = features(states, actions)
    wanted = PolynomialFeatures(2, interaction_only=True).fit_transform(
        np.column_stack([states, actions])
    )
    assert found.shape == wanted.shape == (50, features.size)
    assert sorted(map(tuple, found.T)) == sorted(map(tuple, wanted.T))
