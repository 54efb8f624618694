"""One file for every learner: what is saved comes back, and what is damaged is refused."""

import sys

import numpy as np
import pytest

from tailproof import Learned, learn, load_policy, method
from tailproof.deep import EarlyStopping, Run
from tailproof.errors import MethodError, PolicyError, TailproofError
from tailproof.files import SavedFileError, from_parts, to_parts

#: What these tests train has no time to converge, and need not.
pytestmark = pytest.mark.filterwarnings("ignore::tailproof.errors.ConvergenceWarning")

SMALL = {"hidden": (8, 8), "batch": 16, "steps": 10, "run": Run(threads=1, log_every=5)}
IMPLICIT = {**SMALL, "policy_steps": 10, "stop": EarlyStopping(patience=3)}
ROWS = {
    "room-vm-iql": IMPLICIT,
    "p-room-vm-sql": IMPLICIT,
    "percent-bc-neural": SMALL,
    "sac-n": SMALL,
    "td3+bc": SMALL,
}


@pytest.mark.parametrize("name", ROWS)
def test_neural_learners_survive_their_file(name, log, tmp_path):
    learned = learn(log, method=method(name, **ROWS[name]), gamma=0.9, seed=2)
    path = tmp_path / "policy.tailproof"
    learned.save(path)
    again = Learned.load(path)
    assert (again.policy(log.states) == learned.policy(log.states)).all()
    assert (load_policy(path)(log.states) == learned.policy(log.states)).all()
    assert (again.critic(log.states, log.actions) == learned.critic(log.states, log.actions)).all()
    assert again.method.with_settings(run=SMALL["run"]) == learned.method
    assert list(again.history) == list(learned.history)
    assert list(again.policy_history) == list(learned.policy_history)
    assert again.to_dict() == learned.to_dict()
    assert again.reasons == learned.reasons


def test_discrete_neural_learners_survive_their_file(discrete_log, tmp_path):
    learned = learn(discrete_log, method=method("room-vm-iql", **IMPLICIT), gamma=0.9)
    learned.save(tmp_path / "policy")
    again = load_policy(tmp_path / "policy")
    states = discrete_log.states
    assert (again.probabilities(states) == learned.policy.probabilities(states)).all()


def test_linear_cloning_of_continuous_actions_survives_its_file(log, tmp_path):
    learned = learn(log, method=method("percent-bc", model="linear"), gamma=0.9)
    learned.save(tmp_path / "policy")
    again = Learned.load(tmp_path / "policy")
    assert (again.policy(log.states) == learned.policy(log.states)).all()
    assert again.method == learned.method
    pytest.importorskip("onnxruntime")
    learned.policy.save(tmp_path / "policy.onnx")
    answers = load_policy(tmp_path / "policy.onnx")(log.states)
    np.testing.assert_allclose(answers, learned.policy(log.states), atol=1e-12)
    with pytest.raises(PolicyError, match=r"ends in \.onnx"):
        learned.policy.save(tmp_path / "policy.bin")


def test_a_policy_alone_has_a_file_too(log, tmp_path):
    policy = learn(log, method=method("bc-neural", **SMALL), gamma=0.9).policy
    policy.save(tmp_path / "policy")
    assert (load_policy(tmp_path / "policy")(log.states) == policy(log.states)).all()


def test_one_changed_byte_is_noticed(log, tmp_path):
    learned = learn(log, method=method("bc-neural", **SMALL), gamma=0.9)
    for thing, path in ((learned, tmp_path / "learned"), (learned.policy, tmp_path / "policy")):
        thing.save(path)
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        with pytest.raises(SavedFileError, match="does not match its checksum"):
            load_policy(path)


def test_without_torch_a_file_says_what_to_install(log, tmp_path, monkeypatch):
    learned = learn(log, method=method("bc-neural", **SMALL), gamma=0.9)
    learned.save(tmp_path / "policy")
    monkeypatch.setitem(sys.modules, "torch", None)
    for read in (Learned.load, load_policy):
        with pytest.raises(TailproofError, match=r"need.* torch, which is not installed"):
            read(tmp_path / "policy")


def test_networks_and_numbers_must_fit(log):
    learned = learn(log, method=method("iql", **IMPLICIT), gamma=0.9)
    for value, network in ((learned.policy, "stack"), (learned.members, "q")):
        arrays = {}
        parts = to_parts(value, arrays)
        flat = parts[network]["flat"]["tensor"]
        with pytest.raises(SavedFileError, match="does not fit together"):
            from_parts(parts, {**arrays, flat: arrays[flat][:-1]})
    with pytest.raises(SavedFileError, match="'Forest', which this tailproof does not know"):
        from_parts({**parts, "class": "Forest"}, arrays)


@pytest.mark.parametrize("name", ["iql", "percent-bc", "sac-n", "bc-neural"])
def test_one_state_has_one_action(name, log):
    settings = IMPLICIT if name == "iql" else SMALL
    policy = learn(log, method=method(name, **settings), gamma=0.9).policy
    assert policy(log.states[0]).shape == (2,)
    # products of one row and of many differ in the last bits of single precision
    np.testing.assert_allclose(policy(log.states[0]), policy(log.states)[0], rtol=1e-4, atol=1e-6)


def test_one_state_has_one_discrete_action(discrete_log, cartpole):
    neural = learn(discrete_log, method=method("iql", **IMPLICIT), gamma=0.9).policy
    assert neural(discrete_log.states[3]) == neural(discrete_log.states)[3]
    log = cartpole.log(episodes=10, steps=20)
    for name in ("fqi", "bc", "percent-bc"):
        policy = learn(log, method=name, gamma=0.9).policy
        assert policy(log.states[3]) == policy(log.states)[3]
    linear = learn(log, method="bc", gamma=0.9)
    assert np.ndim(linear.policy(log.states[0])) == 0


def test_the_score_comes_with_its_error(discrete_log):
    import gymnasium

    learned = learn(
        discrete_log, method=method("percent-bc", steps=5, hidden=(8,), batch=8), gamma=0.9
    )

    class Three(gymnasium.Env):
        """Five steps of reward 1 and three state variables, which say nothing."""

        observation_space = gymnasium.spaces.Box(-1, 1, (3,))
        action_space = gymnasium.spaces.Discrete(3)

        def reset(self, *, seed=None, options=None):  # noqa: ARG002
            self.left = 5 + (seed or 0) % 2
            return np.zeros(3), {}

        def step(self, action):
            assert action in self.action_space
            self.left -= 1
            return np.zeros(3), 1.0, self.left == 0, False, {}

    found = learned.score(Three, episodes=4)
    assert found.returns.tolist() == [5, 6, 5, 6]
    assert found.mean == 5.5
    assert found.standard_error == pytest.approx(np.std([5, 6, 5, 6], ddof=1) / 2)
    assert np.isnan(found.normalised)
    with pytest.raises(TailproofError, match="maps 3 state variables to 3 actions"):
        learned.score("CartPole-v1")
    with pytest.raises(TailproofError, match="environment 'Nowhere-v0'"):
        learned.score("Nowhere-v0")
    assert str(found) == "5.5 ± 0.29 over 4 episodes"


def test_settings_of_a_network_make_a_network(log, discrete_log):
    from tailproof.deep import BehaviourCloning

    chosen = method("percent-bc", steps=7, hidden=(4,), top=0.5)
    assert chosen.base == BehaviourCloning(top=0.5, steps=7, hidden=(4,))
    linear = learn(discrete_log, method="percent-bc", gamma=0.9)
    assert type(linear.method.base).__name__ == "Cloning"
    regression = learn(log, method=method("bc", model="linear"), gamma=0.9)
    assert type(regression.method.base).__name__ == "RegressionCloning"
    assert method("bc", model="neural", steps=7) == method("bc-neural", steps=7)
    with pytest.raises(MethodError, match="A linear model has no 'steps'"):
        method("bc", model="linear", steps=7)
    with pytest.raises(MethodError, match="BehaviourCloning has no setting 'wings'"):
        method("bc", wings=2)
