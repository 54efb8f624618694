"""Other libraries as entrants, if installed: d3rlpy's FQE, SCOPE-RL's estimators.

Neither is a dependency, and d3rlpy pins an old gymnasium: install them with tailproof in a separate
environment. `docs/alternatives.md` describes this and the results.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.battery.cells import Problem
from benchmarks.battery.entrants import LEVELS, Estimator, Reply
from tailproof.arrays import FloatArray, count_of
from tailproof.errors import LogError
from tailproof.log.log import Log
from tailproof.policies.forms import action_probabilities, draw

#: SCOPE-RL's estimators of discrete actions that need no model of the state's visits.
SCOPE_RL = {
    "scope-rl dm": "DirectMethod",
    "scope-rl tis": "TrajectoryWiseImportanceSampling",
    "scope-rl pdis": "PerDecisionImportanceSampling",
    "scope-rl dr": "DoublyRobust",
    "scope-rl sn-pdis": "SelfNormalizedPDIS",
    "scope-rl sn-dr": "SelfNormalizedDR",
}
WITH_CRITIC = ("DirectMethod", "DoublyRobust", "SelfNormalizedDR")


def installed_rivals() -> dict[str, Estimator]:
    """Return the entrants of installed libraries, by name."""
    found: dict[str, Estimator] = {}
    if find_spec("d3rlpy") is None:
        return found
    found["d3rlpy fqe"] = D3rlpyFQE()
    if find_spec("scope_rl") is not None:
        found |= {name: ScopeRL(estimator) for name, estimator in SCOPE_RL.items()}
    return found


def to_d3rlpy(log: Log) -> dict[str, Any]:
    """Return the arguments of a d3rlpy data set: ``MDPDataset(**to_d3rlpy(log))``.

    d3rlpy stores no next states. A truncated episode therefore gets one more row with its last next
    state, reward 0 and the last action; d3rlpy and `from_d3rlpy` use only its observation. Ids,
    groups, labels and propensities are not exported.

    Examples
    --------
    >>> log = Log.from_arrays([0.0, 1.0], [1, 0], [5.0, 6.0], [1.0, 2.0], episode=["a", "a"])
    >>> arrays = to_d3rlpy(log)
    >>> arrays["observations"].ravel(), arrays["rewards"], arrays["timeouts"]
    (array([0., 1., 2.]), array([5., 6., 0.]), array([0., 0., 1.], dtype=float32))
    """
    last = log.starts[1:] - 1
    inside = np.ones(log.n_transitions, dtype=bool)
    inside[last] = False
    rows = np.flatnonzero(inside)
    apart = rows[(log.next_states[rows] != log.states[rows + 1]).any(axis=1)]
    if len(apart):
        raise LogError(
            f"d3rlpy takes the next row's state as the next state. Row {apart[0]} of the log has "
            f"another one ({count_of(len(apart))}); it cannot be exported."
        )
    cut = last[~log.terminated[last]]
    at = cut + 1  # numpy inserts before these rows, so the new row comes last in its episode
    flags = np.insert(log.terminated, at, False).astype(np.float32)
    timeouts = np.insert(np.zeros(log.n_transitions, dtype=bool), at, True).astype(np.float32)
    return {
        "observations": np.insert(log.states, at, log.next_states[cut], axis=0),
        "actions": np.insert(log.actions, at, log.actions[cut], axis=0),
        "rewards": np.insert(log.rewards, at, 0.0),
        "terminals": flags,
        "timeouts": timeouts,
        "action_size": log.n_actions if log.is_discrete else log.actions.shape[1],
    }


@dataclass(frozen=True)
class D3rlpyFQE:
    """d3rlpy's `DiscreteFQE`: two layers of units, Adam, a Huber loss of threshold 1.

    d3rlpy supports deterministic policies only, so a stochastic policy provides one drawn action per
    state and update.

    Parameters
    ----------
    updates, learning_rate, batch_size, sync
        Gradient steps, their size, rows in each, and steps between two copies to the target network.
    hidden
        Units of the layers.
    """

    updates: int = 6_000
    learning_rate: float = 1e-3
    batch_size: int = 256
    sync: int = 9
    hidden: tuple[int, ...] = (64, 64)

    def __call__(self, problem: Problem, *, seed: int) -> float:
        """Estimate the value of the problem's policy from the initial states."""
        critic = fitted_critic(problem, self, seed)
        starts = problem.log.first_states
        law = action_probabilities(problem.policy, starts, problem.log.n_actions)
        return float((critic(starts) * law).sum(axis=1).mean())


class Critic:
    """Q(s, ·) of a fitted d3rlpy model."""

    def __init__(self, model: Any, n_actions: int) -> None:
        self._model = model
        self._n_actions = n_actions

    def __call__(self, states: FloatArray) -> FloatArray:
        """Return Q at every action, (n, A)."""
        inputs = states.astype(np.float32)
        columns = [
            self._model.predict_value(inputs, np.full(len(inputs), action))
            for action in range(self._n_actions)
        ]
        return np.column_stack(columns).astype(float)


@lru_cache(maxsize=1)  # SCOPE-RL's three estimators with a critic ask for the same one
def fitted_critic(problem: Problem, settings: D3rlpyFQE, seed: int) -> Critic:
    """Return d3rlpy's FQE, fitted to the problem's log and policy."""
    import d3rlpy
    import structlog  # type: ignore[import-not-found]
    import torch

    # d3rlpy logs to stdout, where the answer of a command goes.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    log, n_actions = problem.log, problem.log.n_actions
    rng = np.random.default_rng(seed)
    d3rlpy.seed(seed % 2**31)
    arrays = to_d3rlpy(log)
    arrays["observations"] = arrays["observations"].astype(np.float32)
    arrays["rewards"] = arrays["rewards"].astype(np.float32)
    arrays["actions"] = np.asarray(arrays["actions"]).reshape(-1, 1)
    dataset = d3rlpy.dataset.MDPDataset(**arrays)
    actor = d3rlpy.algos.DQNConfig().create(device=False)
    actor.create_impl((log.states.shape[1],), n_actions)

    def chosen(states: Any) -> Any:
        law = action_probabilities(problem.policy, states.numpy().astype(float), n_actions)
        return torch.from_numpy(draw(law.cumsum(axis=1), rng))

    actor.impl.predict_best_action = chosen
    model = d3rlpy.ope.DiscreteFQE(
        algo=actor,
        config=d3rlpy.ope.FQEConfig(
            gamma=problem.gamma,
            learning_rate=settings.learning_rate,
            batch_size=settings.batch_size,
            target_update_interval=settings.sync,
            encoder_factory=d3rlpy.models.VectorEncoderFactory(list(settings.hidden)),
        ),
    )
    model.fit(
        dataset,
        n_steps=settings.updates,
        n_steps_per_epoch=settings.updates,
        show_progress=False,
        logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
    )
    return Critic(model, n_actions)


@dataclass(frozen=True)
class ScopeRL:
    """An estimator of SCOPE-RL, with its bootstrap interval; critics are `D3rlpyFQE`.

    All but the direct method estimate the value over the length of the episodes: at γ = 0.99 and 100
    steps, 63 % of the infinite-horizon value.

    Parameters
    ----------
    estimator
        Name of a class of `scope_rl.ope.discrete`.
    critic
        Settings of the critic, for the estimators that have one.
    """

    estimator: str
    critic: D3rlpyFQE = D3rlpyFQE()

    def __call__(self, problem: Problem, *, seed: int) -> Reply:
        """Estimate the value of the problem's policy."""
        from scope_rl.ope import discrete  # type: ignore[import-not-found]

        log = problem.log
        if len(set(log.lengths.tolist())) > 1 or log.propensity is None:
            raise LogError(
                "SCOPE-RL needs episodes of one length and logged propensities. This log has "
                f"lengths from {log.lengths.min()} to {log.lengths.max()}."
            )
        given: dict[str, Any] = {
            "step_per_trajectory": int(log.lengths[0]),
            "action": log.actions,
            "reward": log.rewards,
            "pscore": log.propensity,
            "evaluation_policy_action_dist": action_probabilities(
                problem.policy, log.states, log.n_actions
            ),
            "gamma": float(problem.gamma),
        }
        if self.estimator in WITH_CRITIC:
            critic = fitted_critic(problem, self.critic, seed)
            given["state_action_value_prediction"] = critic(log.states)
        estimator = getattr(discrete, self.estimator)()
        intervals = {}
        for level in LEVELS:
            ends = estimator.estimate_interval(
                **given, alpha=1 - level, n_bootstrap_samples=1000, random_state=seed % 2**31
            )
            low, high = (value for name, value in ends.items() if name != "mean")
            intervals[level] = (float(low), float(high))
        return Reply(float(estimator.estimate_policy_value(**given)), intervals)
