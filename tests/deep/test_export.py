"""What is exported answers like what was trained, in another program."""

import numpy as np
import pytest

from tailproof import Median, Quantile, Replicate, Split
from tailproof.deep import IQL, SAC, Run

#: What these tests train has no time to converge, and need not.
pytestmark = pytest.mark.filterwarnings("ignore::tailproof.errors.ConvergenceWarning")

onnxruntime = pytest.importorskip("onnxruntime")
SMALL = {"hidden": (16, 16), "batch": 32, "steps": 30, "run": Run(threads=1)}


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


def test_policies(task, fitted, discrete_task, discrete_fitted, tmp_path):
    sac = SAC(**SMALL)
    folds = Replicate(2).assign(task.log, rng())
    gaussian = sac.fit(task, folds, backup=Quantile(0.0), rng=rng(1)).policy
    for policy, states in (
        (fitted[1], task.log.states),
        (discrete_fitted[1], discrete_task.log.states),
        (gaussian, task.log.states),
    ):
        policy.save(tmp_path / "policy.onnx")
        answers = ask(tmp_path / "policy.onnx", states=states)
        np.testing.assert_allclose(answers, policy(states), rtol=1e-4, atol=1e-5)


def test_a_saved_graph_is_a_policy_of_the_library(
    task, fitted, discrete_task, discrete_fitted, tmp_path
):
    from tailproof.export.onnx import load_onnx

    for (_, policy), states in (
        (fitted, task.log.states),
        (discrete_fitted, discrete_task.log.states),
    ):
        policy.save(tmp_path / "policy.onnx")
        again = load_onnx(tmp_path / "policy.onnx")
        np.testing.assert_allclose(again(states), policy(states), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(again(states[0]), policy(states[0]), rtol=1e-4, atol=1e-5)
