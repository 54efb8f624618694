"""A base that is one function: the laws of folds and aggregates, what it may ask for, and errors."""

import numpy as np
import pytest

from tailproof import (
    FQI,
    Custom,
    GreedyPolicy,
    Learned,
    Log,
    Mean,
    Median,
    Method,
    PerAction,
    Polynomial,
    Split,
    Whole,
    evaluate,
    learn,
    method,
)
from tailproof.critics.custom import FunctionCritics
from tailproof.critics.ensembles import Ensemble
from tailproof.errors import FoldError, MethodError
from tailproof.parallel import Local

GAMMA = 0.9


def plain_fqi(fold, gamma):
    """FQI with a ridge of 1/1000 an observation, written plainly."""
    phi = PerAction(Polynomial(), fold.states.shape[1], fold.n_actions)
    x = phi(fold.states, fold.actions)
    inverse = np.linalg.inv(x.T @ x + 1e-3 * len(x) * np.eye(phi.size))
    theta = inverse @ x.T @ fold.rewards / (1 - gamma)

    def q(states):
        every = [phi(states, np.full(len(states), a)) @ theta for a in range(fold.n_actions)]
        return np.column_stack(every)

    for _ in range(30):
        theta = inverse @ x.T @ (fold.rewards + gamma * q(fold.next_states).max(axis=1))
    return q


def reward_model(fold, gamma, policy):
    """E[r | a] / (1 − γ), whatever the state."""
    means = [fold.rewards[fold.actions == a].mean() / (1 - gamma) for a in range(fold.n_actions)]
    assert policy(fold.states[:3]).sum() == pytest.approx(3)
    return lambda states: np.tile(means, (len(states), 1))


@pytest.fixture(scope="module")
def log(cartpole):
    return cartpole.log(episodes=20, steps=40, epsilon=0.3, seed=5)


@pytest.mark.parametrize("at", ["value", "pointwise"])
@pytest.mark.parametrize("aggregate", [Mean(), Median()], ids=str)
def test_it_is_the_base_of_the_same_name_fold_by_fold(log, at, aggregate):
    mine = Method(base=Custom(plain_fqi), partition=Split(3), aggregate=aggregate, at="pointwise")
    ours = Method(
        base=FQI(ridge=1e-3, iterations=30),
        partition=Split(3),
        aggregate=aggregate,
        at="pointwise",
    )
    found, wanted = (learn(log, method=row, gamma=GAMMA, seed=1) for row in (mine, ours))
    states = log.states[::7]
    assert found.policy.values(states) == pytest.approx(wanted.policy.values(states), rel=1e-6)
    assert found.policy(states).tolist() == wanted.policy(states).tolist()
    assert at in Custom(plain_fqi).capabilities.at


def test_a_function_is_enough_where_a_base_is_named(log):
    row = method("room-vm", base=plain_fqi, folds=3)
    assert row == Method(Custom(plain_fqi), Split(3), Median(), "pointwise")
    assert str(row.base) == "plain_fqi"


class PlainFQI:
    """A base with settings: an object that is called."""

    def __init__(self, discounted):
        self.discounted = discounted

    def __call__(self, fold, gamma):
        return plain_fqi(fold, gamma * self.discounted)


def test_an_object_that_is_called_is_a_base_too(log):
    row = method("room-vm", base=PlainFQI(0.5), folds=3)
    assert str(row.base) == "PlainFQI"
    found = learn(log, method=row, gamma=0.9, seed=1)
    wanted = learn(log, method=method("room-vm", base=plain_fqi, folds=3), gamma=0.45, seed=1)
    np.testing.assert_array_equal(found.policy.values(log.states), wanted.policy.values(log.states))
    with pytest.raises(MethodError, match="base must be an algorithm"):
        method("room-vm", base=PlainFQI, folds=3)  # not made yet


def test_a_function_with_a_policy_evaluates(log, cartpole):
    row = method("roam-variant", base=reward_model, folds=5)
    found = evaluate(log, cartpole.target(), method=row, gamma=GAMMA, seed=2)
    folds = Split(5).assign(log, np.random.default_rng(2).spawn(2)[0])
    chosen = cartpole.target()(log.first_states)
    for k in range(5):
        fold = folds.log(log, k)
        q = reward_model(fold, GAMMA, lambda states: np.eye(2)[np.zeros(len(states), dtype=int)])
        values = q(log.first_states)[np.arange(len(chosen)), chosen]
        assert found.fold_values[k] == pytest.approx(values.mean())
    assert found.value == pytest.approx(np.median(found.fold_values))


def test_what_learns_does_not_evaluate(log, cartpole):
    with pytest.raises(MethodError, match="cannot evaluate"):
        evaluate(log, cartpole.target(), method=method("roam-dm", base=plain_fqi), gamma=GAMMA)
    assert not Custom(reward_model).capabilities.learns


def test_every_fold_has_a_seed_of_its_own_and_they_repeat(log):
    seen = []

    def noisy(fold, gamma, seed):
        seen.append(seed)
        return plain_fqi(fold, gamma)

    for _ in range(2):
        learn(log, method=method("room-vm", base=noisy, folds=3), gamma=GAMMA, seed=4)
    assert seen[:3] == seen[3:]
    assert len(set(seen)) == 3


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_folds_run_in_parallel_with_the_same_answer(log, kind):
    row = method("room-vm", base=plain_fqi_q, folds=3)
    alone = learn(log, method=row, gamma=GAMMA, seed=1)
    with Local(workers=2, kind=kind) as engine:
        many = learn(log, method=row, gamma=GAMMA, seed=1, engine=engine)
    states = log.states[::11]
    np.testing.assert_array_equal(alone.policy.values(states), many.policy.values(states))


class LinearQ:
    """A Q that can be sent between processes."""

    def __init__(self, theta):
        self.theta = theta

    def __call__(self, states):
        return Polynomial()(states) @ self.theta


def plain_fqi_q(fold, gamma):
    psi, q = Polynomial()(fold.states), plain_fqi(fold, gamma)
    return LinearQ(np.linalg.lstsq(psi, q(fold.states))[0])


def test_a_torch_module_is_a_q(log):
    torch = pytest.importorskip("torch")

    def fit(fold, gamma, seed):
        torch.manual_seed(seed)
        return torch.nn.Linear(4, 2)

    learned = learn(log, method=method("ma", base=fit, folds=3), gamma=GAMMA)
    states = log.states[:5]
    modules = learned.members.members
    wanted = sum(m(torch.as_tensor(states, dtype=torch.float32)) for m in modules) / 3
    assert learned.policy.values(states) == pytest.approx(wanted.detach().numpy())


def test_a_torch_module_is_called_in_evaluation_mode_and_its_own_precision(log):
    torch = pytest.importorskip("torch")

    def fit(fold, gamma, seed):
        torch.manual_seed(seed)
        frozen = torch.nn.BatchNorm1d(4).eval()
        return torch.nn.Sequential(frozen, torch.nn.Dropout(0.5), torch.nn.Linear(4, 2)).double()

    learned = learn(log, method=method("ma", base=fit, folds=3), gamma=GAMMA)
    first, again = (learned.policy.values(log.states[:50]) for _ in range(2))
    np.testing.assert_array_equal(first, again)  # dropout draws anew at every call
    for module in learned.members.members:
        assert [part.training for part in module] == [False, True, True]  # as it was given


def test_what_is_read_from_a_learner_of_ones_own_is_saved_and_exported(log, tmp_path):
    """The closest small tree needs no code: only the function itself stays outside the file."""
    learned = learn(log, method=method("room-vm", base=PlainFQI(0.5), folds=3), gamma=GAMMA)
    assert "Learned by custom (PlainFQI), split in 3" in str(learned)
    tree = learned.readable()
    tree.save(tmp_path / "tree.tailproof")
    tree.policy.save(tmp_path / "tree.onnx")
    read = Learned.load(tmp_path / "tree.tailproof")
    np.testing.assert_array_equal(read.policy(log.states), tree.policy(log.states))
    assert str(read) == str(tree)
    with pytest.raises(MethodError, match="PlainFQI is a function of your own"):
        learn(log, method=read.method, gamma=GAMMA)
    with pytest.raises(MethodError, match=r"readable\(\) is a small tree"):
        learned.save(tmp_path / "all.tailproof")


def test_continuous_actions(rng):
    n = 60
    log = Log.from_arrays(
        rng.standard_normal((n, 2)),
        rng.uniform(-1, 1, (n, 1)),
        rng.standard_normal(n),
        rng.standard_normal((n, 2)),
        episode=np.repeat(np.arange(6), 10),
    )

    def fit(fold, gamma, policy):
        assert policy(fold.states).shape == (fold.n_transitions, 1)
        return lambda states, actions: states[:, 0] + actions[:, 0]

    row = method("roam-dm", base=fit, folds=3)
    found = evaluate(log, lambda states: np.full((len(states), 1), 0.5), method=row, gamma=0.5)
    assert found.value == pytest.approx(log.first_states[:, 0].mean() + 0.5)


def test_a_fold_whose_q_is_not_finite_is_left_out_or_refused(log):
    broken = iter([True, False, False, True, True, False])

    def fit(fold, gamma):
        value = np.nan if next(broken) else 1.0
        return lambda states: np.full((len(states), 2), value)

    row = method("room-vm", base=fit, folds=3)
    with pytest.warns(UserWarning, match="1 of 3 folds"):
        assert learn(log, method=row, gamma=GAMMA).bad_folds == (0,)
    with pytest.raises(FoldError, match="2 of 3 folds"):
        learn(log, method=row, gamma=GAMMA)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda fold, gamma: 3.0, "must return Q"),
        (lambda fold, gamma: lambda states: np.zeros(len(states)), r"Got one of shape \(800,\)"),
        (lambda fold, gamma: lambda states: np.zeros((len(states), 5)), r"\(800, 5\)"),
    ],
)
def test_what_is_no_q_is_refused(log, function, message):
    with pytest.raises(MethodError, match=message):
        learn(log, method=Method(base=Custom(function), partition=Whole()), gamma=GAMMA)


@pytest.mark.parametrize("function", [3, lambda fold: None, lambda policy, seed: None])
def test_what_is_no_base_is_refused(function):
    with pytest.raises(MethodError, match=r"fit\(fold, gamma\)"):
        Custom(function)


def test_it_has_no_backup_and_is_not_saved(log, tmp_path):
    with pytest.raises(MethodError, match="at='backup'"):
        method("room-fqi", base=plain_fqi)
    learned = learn(log, method=method("room-vm", base=plain_fqi, folds=3), gamma=GAMMA)
    with pytest.raises(MethodError, match="FunctionCritics"):
        learned.save(tmp_path / "policy.tp")
    members = FunctionCritics(learned.members.members, log.n_actions)
    again = GreedyPolicy(Ensemble(members, Median()), log.n_actions)  # as docs/wrap.md has it
    np.testing.assert_array_equal(again.values(log.states), learned.policy.values(log.states))


def test_the_log_s_number_of_actions_may_be_written_into_the_function(log, cartpole):
    """The logged value, which has one action, is not asked of it."""

    def fit(fold, gamma, policy):
        assert fold.n_actions == 2
        return lambda states: np.full((len(states), 2), fold.rewards.mean() / (1 - gamma))

    found = evaluate(log, cartpole.target(), method=method("roam-dm", base=fit), gamma=0.9)
    assert found.value == pytest.approx(10, rel=0.1)
    assert np.isfinite(found.logged_value)
