"""Members trained together are the members trained alone."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from tailproof import (
    Bootstrap,
    Mean,
    MeanMinusStd,
    Median,
    Method,
    Quantile,
    Replicate,
    Split,
    Whole,
    evaluate,
    learn,
    method,
)
from tailproof.deep import IQL, SAC, SQL, TD3BC, BehaviourCloning, NeuralFQE, Run
from tailproof.deep.fitting import extract, fit_critics, member_seeds
from tailproof.deep.rows import deep_rows
from tailproof.errors import EngineWarning, MethodError
from tailproof.methods.catalogue import deep
from tailproof.parallel import Local

#: What these tests train has no time to converge, and need not.
pytestmark = pytest.mark.filterwarnings("ignore::tailproof.errors.ConvergenceWarning")

SMALL = {"hidden": (16, 16), "batch": 32, "steps": 60, "run": Run(threads=1, log_every=20)}


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("base", [IQL(policy_steps=1, **SMALL), SQL(policy_steps=1, **SMALL)])
@pytest.mark.parametrize("discrete", [False, True])
@pytest.mark.parametrize("partition", [Split(5), Bootstrap(5)], ids=str)
def test_five_stacked_are_five_apart(task, discrete_task, base, discrete, partition):
    chosen = discrete_task if discrete else task
    folds = partition.assign(chosen.log, rng())
    seeds = member_seeds(5, rng(1))
    together = fit_critics(base, chosen, folds, backup=None, seeds=seeds).critics
    for k in range(5):
        alone = fit_critics(
            base, chosen, folds.subset(np.array([k])), backup=None, seeds=[seeds[k]]
        ).critics
        member = together.subset(np.array([k]))
        torch.testing.assert_close(member.q.flat, alone.q.flat, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(member.v.flat, alone.v.flat, rtol=1e-4, atol=1e-5)
        assert not np.allclose(alone.q.flat, together.subset(np.array([(k + 1) % 5])).q.flat)


@pytest.mark.parametrize("kind", [IQL, SQL])
def test_room_vm_of_one_fold_is_the_base(task, kind):
    base = kind(policy_steps=40, **SMALL)
    found = []
    for partition, aggregate in (
        (Whole(), Mean()),
        (Split(1), Median()),
        (Split(1), Quantile(0.1)),
    ):
        folds = partition.assign(task.log, rng())
        fitted = base.fit(task, folds, backup=None, rng=rng(1))
        policy = base.extract(task, fitted, aggregate=aggregate, rng=rng(2)).policy
        found.append((fitted.critics.q.flat, policy.stack.flat))
    for q, policy in found[1:]:
        assert torch.equal(q, found[0][0])
        assert torch.equal(policy, found[0][1])


def test_policies_extracted_side_by_side_are_those_extracted_alone(task):
    base = IQL(policy_steps=40, **SMALL)
    fitted = base.fit(task, Split(5).assign(task.log, rng()), backup=None, rng=rng(1))
    aggregates = [Mean(), Median(), Quantile(0.0)]
    seed = int(rng(2).integers(2**62))
    together = extract(base, task, fitted.critics, aggregates, seed=seed)
    for aggregate, found in zip(aggregates, together, strict=True):
        alone = base.extract(task, fitted, aggregate=aggregate, rng=rng(2))
        torch.testing.assert_close(
            found.policy.stack.flat, alone.policy.stack.flat, rtol=1e-4, atol=1e-5
        )


def test_members_in_processes_are_members_in_one(task):
    folds = Split(3).assign(task.log, rng())
    base = IQL(policy_steps=1, **SMALL)
    apart = IQL(policy_steps=1, **{**SMALL, "run": Run(workers=2, log_every=20)})
    one = base.fit(task, folds, backup=None, rng=rng(1)).critics
    two = apart.fit(task, folds, backup=None, rng=rng(1))
    torch.testing.assert_close(one.q.flat, two.critics.q.flat, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(one.v.flat, two.critics.v.flat, rtol=1e-4, atol=1e-5)
    assert two.history.shape == (3, 3)
    with pytest.raises(MethodError, match="use workers=1"):
        apart.fit(task, folds, backup=Median(), rng=rng(1))


def test_an_engine_is_used_or_said_to_be_of_no_use(task):
    folds = Split(3).assign(task.log, rng())
    base = IQL(policy_steps=1, **SMALL)
    apart = IQL(policy_steps=1, **{**SMALL, "run": Run(workers=2, threads=1, log_every=20)})
    wanted = base.fit(task, folds, backup=None, rng=rng(1)).critics
    with Local(workers=2, kind="processes") as engine:
        elsewhere = replace(task, engine=engine)
        found = apart.fit(elsewhere, folds, backup=None, rng=rng(1)).critics
        assert engine._sent is not None  # it was given the work
        torch.testing.assert_close(found.q.flat, wanted.q.flat, rtol=1e-4, atol=1e-5)
        with pytest.warns(EngineWarning, match=r"in one task.*Run\(workers=\.\.\.\)"):
            base.fit(elsewhere, folds, backup=None, rng=rng(1))
    with pytest.warns(EngineWarning, match="in one task"):
        base.fit(replace(task, engine=Local(workers=2)), folds, backup=None, rng=rng(1))


@pytest.mark.parametrize(
    ("base", "partition", "backup"),
    [
        (IQL(policy_steps=300, beta=10.0, **SMALL), Split(3), None),
        (IQL(policy_steps=300, beta=10.0, huber=1.0, **SMALL), Replicate(3), Quantile(0.25)),
        (SQL(policy_steps=300, alpha=0.3, **SMALL), Split(3), None),
        (SAC(**SMALL), Replicate(3), Quantile(0.0)),
        (TD3BC(**SMALL), Whole(), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_learners_find_the_better_actions(task, base, partition, backup):
    from dataclasses import replace

    base = replace(base, steps=300, learning_rate=3e-3)
    fitted = base.fit(task, partition.assign(task.log, rng()), backup=backup, rng=rng(1))
    policy = base.extract(task, fitted, aggregate=Median(), rng=rng(2)).policy
    states = rng(3).standard_normal((500, 3))
    wanted = np.tanh(states[:, 0])
    taken = policy(states)[:, 0]
    assert np.corrcoef(taken, wanted)[0, 1] > 0.8
    assert np.mean((taken - wanted) ** 2) < 0.6 * np.mean(wanted**2)


@pytest.mark.parametrize("base", [IQL(policy_steps=300, **SMALL), SQL(policy_steps=300, **SMALL)])
def test_discrete_policies_are_categorical(discrete_task, base):
    from dataclasses import replace

    base = replace(base, steps=300, learning_rate=3e-3)
    if isinstance(base, SQL):
        base = replace(base, alpha=0.3)
    fitted = base.fit(
        discrete_task, Split(3).assign(discrete_task.log, rng()), backup=None, rng=rng(1)
    )
    policy = base.extract(discrete_task, fitted, aggregate=Median(), rng=rng(2)).policy
    states = rng(3).standard_normal((500, 3))
    probabilities = policy.probabilities(states)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    assert (policy(states) == np.digitize(states[:, 0], [-0.5, 0.5])).mean() > 0.8
    assert fitted.critics.action_values(states, 3).shape == (3, 3, 500)


def test_cloning_ignores_rewards(log, task):
    from dataclasses import replace

    base = BehaviourCloning(**SMALL)
    noisy = replace(task, log=log.with_rewards(rng().standard_cauchy(log.n_transitions)))
    folds = Whole().assign(log, rng())
    fits = [base.fit(given, folds, backup=None, rng=rng(1)) for given in (task, noisy)]
    assert torch.equal(fits[0].policy.stack.flat, fits[1].policy.stack.flat)
    assert (fits[0].critics.values(log.states, log.actions) == 0).all()


def test_zero_rewards_do_not_see_the_rewards(log, task):
    from dataclasses import replace

    base = IQL(policy_steps=1, zero_rewards=True, reward_scale=1.0, **SMALL)
    noisy = replace(task, log=log.with_rewards(rng().standard_cauchy(log.n_transitions)))
    folds = Whole().assign(log, rng())
    fits = [base.fit(given, folds, backup=None, rng=rng(1)) for given in (task, noisy)]
    assert torch.equal(fits[0].critics.q.flat, fits[1].critics.q.flat)


@pytest.mark.parametrize("name", ["fqe", "roam-dm", "roam-variant", "roam-fqe", "b-roam-dm"])
def test_neural_fqe_serves_every_row_with_critics(log, name):
    def policy(states):
        return np.column_stack([np.tanh(states[:, 0]), np.zeros(len(states))])

    settings = {**SMALL, "steps": 400, "learning_rate": 3e-3}
    estimate = evaluate(log, policy, method=method(name, base=NeuralFQE(**settings)), gamma=0.9)
    # The policy's rewards are all zero, the logged actions' are -0.7 a step: -7 if continued.
    assert -2.0 < estimate.value < 1.0


def test_neural_fqe_integrates_over_a_stochastic_policy(log, discrete_log):
    class Noisy:
        def sample(self, states, generator):
            return np.clip(generator.normal(0, 0.3, (len(states), 2)), -1, 1)

    class Uniform:
        def probabilities(self, states):
            return np.full((len(states), 3), 1 / 3)

    chosen = method("fqe", base=NeuralFQE(**{**SMALL, "steps": 400, "learning_rate": 3e-3}))
    uniform = evaluate(discrete_log, Uniform(), method=chosen, gamma=0.0)
    assert abs(uniform.value + 1 / 3) < 0.25  # one action of three is right
    noisy = evaluate(log, Noisy(), method=chosen, gamma=0.0)
    rewards = -((np.tanh(log.first_states[:, 0])) ** 2) - 0.09
    assert abs(noisy.value - rewards.mean()) < 0.2


def test_critics_speak_the_logs_units(task):
    """Scaling all rewards by 1000 scales the critics' values by 1000, and changes nothing else."""
    from dataclasses import replace

    base = IQL(policy_steps=1, **SMALL)
    folds = Split(2).assign(task.log, rng())
    large = replace(task, log=task.log.with_rewards(1000 * task.log.rewards))
    values = [
        base.fit(given, folds, backup=None, rng=rng(1)).critics.values(
            task.log.states, task.log.actions
        )
        for given in (task, large)
    ]
    np.testing.assert_allclose(values[1], 1000 * values[0], rtol=1e-3, atol=1e-3)


def test_learn_takes_the_rows_and_asks_the_same_critics_again(log, discrete_log):
    base = IQL(policy_steps=40, **SMALL)
    for chosen in (log, discrete_log):
        row = Method(base=base, partition=Split(5), aggregate=Median(), at="pointwise")
        room = learn(chosen, method=row, gamma=0.9, seed=3)
        mean = room.with_aggregate(Mean())
        again = learn(
            chosen, method=Method(base=base, partition=Split(5), at="pointwise"), gamma=0.9, seed=3
        )
        assert mean.members is room.members
        assert torch.equal(mean.policy.stack.flat, again.policy.stack.flat)
        assert not torch.equal(mean.policy.stack.flat, room.policy.stack.flat)
        assert room.history["q loss"].values.shape == (3, 5)
        assert "policy loss" in room.policy_history


LEARNING_ROWS = [name for name in deep() if not isinstance(method(name).base, NeuralFQE)]


def small(name):
    """Return a row with settings that train in no time."""
    base = method(name).base
    known = {each.name for each in fields(base)}
    settings = {**SMALL, "steps": 5, "policy_steps": 5}
    return method(name, **{key: value for key, value in settings.items() if key in known})


@pytest.mark.parametrize("name", LEARNING_ROWS)
def test_learn_takes_every_deep_row(name, log):
    learned = learn(log, method=small(name), gamma=0.9)
    again = learn(log, method=small(name), gamma=0.9)
    assert learned.policy(log.states).shape == (log.n_transitions, 2)
    assert (learned.policy(log.states) == again.policy(log.states)).all()
    assert learned.members.count == learned.method.folds
    assert learned.to_dict()["method"] == str(learned.method)


@pytest.mark.parametrize("name", [name for name in deep() if name not in LEARNING_ROWS])
def test_evaluate_takes_every_deep_row_that_evaluates(name, log):
    def still(states):
        return np.zeros((len(states), 2))

    found = evaluate(log, still, method=small(name), gamma=0.9)
    assert found.value == evaluate(log, still, method=small(name), gamma=0.9).value
    assert found.fold_values.shape == (small(name).folds,)


def test_rows_are_methods_and_share_their_critics():
    rows = deep_rows()
    assert all(isinstance(row.method, Method) and row.about for row in rows.values())
    for base in ("iql", "sql"):
        room, mean = rows[f"room-vm-{base}"].method, rows[f"ma-{base}"].method
        assert room.base == mean.base == rows[f"p-room-vm-{base}"].method.base
        assert room.partition == mean.partition
        assert room.aggregate == Median()
        assert rows[f"zero-reward-{base}"].method.base.zero_rewards
    assert rows["sac-n"].method.aggregate == Quantile(0.0)
    assert rows["sac-n-std"].method.aggregate == MeanMinusStd(2.0, ddof=1)
    assert rows["sac-n"].method.folds == 10


def test_rows_are_composed_by_the_name_of_their_base():
    assert method("room-vm", base="iql") == method("room-vm-iql")
    assert method("ma", base="sql") == method("ma-sql")
    assert method("room-fqi", base="iql", steps=7).base.steps == 7
    with pytest.raises(MethodError, match=r"There is no base 'dqn'. Known are fqe, .*, iql, sql"):
        method("room-vm", base="dqn")
    for name in ("zero-reward", "percent-bc", "huber-fqi"):
        with pytest.raises(
            MethodError, match=f"'{name}' is made by .* another base would leave that"
        ):
            method(name, base="iql")
    with pytest.raises(MethodError, match="use at='backup', or a row that has it"):
        method("room-vm", base="sac")
