"""What is exported answers like what was trained, in another program."""

import numpy as np
import pytest

from tailproof import Mean, MeanMinusStd, Median, Quantile, Replicate, Split, TrimmedMean
from tailproof.deep import IQL, SAC, Run
from tailproof.deep.export import export_critic, export_policy
from tailproof.errors import MethodError

#: What these tests train has no time to converge, and need not.
pytestmark = pytest.mark.filterwarnings("ignore::tailproof.errors.ConvergenceWarning")

onnxruntime = pytest.importorskip("onnxruntime")
SMALL = {"hidden": (16, 16), "batch": 32, "steps": 30, "run": Run(threads=1)}
AGGREGATES = [Mean(), Median(), Quantile(0.0), Quantile(0.3), TrimmedMean(0.2), MeanMinusStd(2.0)]


def rng(seed=0):
    return np.random.default_rng(seed)


def ask(path, **inputs):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    given = {name: values.astype(np.float32) for name, values in inputs.items()}
    return session.run(None, given)[0]


@pytest.fixture(scope="module")
def fitted(task):
    base = IQL(policy_steps=10, **SMALL)
    found = base.fit(task, Split(5).assign(task.log, rng()), backup=None, rng=rng(1))
    return found, base.extract(task, found, aggregate=Median(), rng=rng(2)).policy


@pytest.fixture(scope="module")
def discrete_fitted(discrete_task):
    base = IQL(policy_steps=10, **SMALL)
    folds = Split(4).assign(discrete_task.log, rng())
    found = base.fit(discrete_task, folds, backup=None, rng=rng(1))
    return found, base.extract(discrete_task, found, aggregate=Median(), rng=rng(2)).policy


@pytest.mark.parametrize("aggregate", AGGREGATES, ids=str)
def test_the_aggregated_critic(task, fitted, aggregate, tmp_path):
    critics = fitted[0].critics
    export_critic(critics, aggregate, tmp_path / "critic.onnx")
    states, actions = task.log.states[:50], task.log.actions[:50]
    np.testing.assert_allclose(
        ask(tmp_path / "critic.onnx", states=states, actions=actions),
        aggregate(critics.values(states, actions)),
        rtol=1e-4,
        atol=1e-5,
    )


@pytest.mark.parametrize("aggregate", AGGREGATES, ids=str)
def test_the_aggregated_critic_of_discrete_actions(
    discrete_task, discrete_fitted, aggregate, tmp_path
):
    critics = discrete_fitted[0].critics
    export_critic(critics, aggregate, tmp_path / "critic.onnx")
    states = discrete_task.log.states[:50]
    np.testing.assert_allclose(
        ask(tmp_path / "critic.onnx", states=states),
        aggregate(critics.action_values(states, 3)).T,
        rtol=1e-4,
        atol=1e-5,
    )


def test_policies(task, fitted, discrete_task, discrete_fitted, tmp_path):
    sac = SAC(**SMALL)
    folds = Replicate(2).assign(task.log, rng())
    gaussian = sac.fit(task, folds, backup=Quantile(0.0), rng=rng(1)).policy
    for policy, states in (
        (fitted[1], task.log.states),
        (discrete_fitted[1], discrete_task.log.states),
        (gaussian, task.log.states),
    ):
        export_policy(policy, tmp_path / "policy.onnx")
        answers = ask(tmp_path / "policy.onnx", states=states)
        np.testing.assert_allclose(answers, policy(states), rtol=1e-4, atol=1e-5)


def test_an_aggregate_of_ones_own_cannot_be_exported(fitted, tmp_path):
    with pytest.raises(MethodError, match="can be exported"):
        export_critic(fitted[0].critics, lambda values: values[0], tmp_path / "critic.onnx")


def test_a_saved_graph_is_a_policy_of_the_library(
    task, fitted, discrete_task, discrete_fitted, tmp_path
):
    from tailproof.export.onnx_policy import load_onnx

    for (_, policy), states in (
        (fitted, task.log.states),
        (discrete_fitted, discrete_task.log.states),
    ):
        policy.save(tmp_path / "policy.onnx")
        answers = load_onnx(tmp_path / "policy.onnx")(states)
        np.testing.assert_allclose(answers, policy(states), rtol=1e-4, atol=1e-5)
