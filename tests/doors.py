"""Logs of all kinds, and where `evaluate`, `compare`, `diagnose` and `learn` disagree about one.

`tests/test_doors.py` draws a few of each kind, `benchmarks/agreement.py` hundreds.
"""

import warnings
from typing import Any

import numpy as np

from tailproof import Log, compare, diagnose, evaluate
from tailproof.doors.careful import choose_learner
from tailproof.errors import LevelError, TailproofError, TailproofWarning
from tailproof.profile.profile import LogProfile

KINDS = ("light", "heavy", "skewed", "clustered", "zero-inflated", "bandit", "sequential")


def draw(kind: str, seed: int) -> tuple[Log, Any, float | None]:
    """Return a small log, a policy and a discount."""
    rng = np.random.default_rng([KINDS.index(kind), seed])
    n, n_actions = int(rng.integers(60, 201)), int(rng.integers(2, 4))
    one_step = kind == "bandit" or (kind != "sequential" and rng.random() < 0.4)
    length = 1 if one_step else int(rng.integers(2, 9))
    episode = np.arange(n) // length
    states = rng.normal(size=(n, int(rng.integers(1, 4))))
    actions = rng.integers(n_actions, size=n)
    noise = {
        "light": rng.normal(size=n),
        "heavy": rng.standard_t(1.3, size=n),
        "skewed": rng.choice([-1, 1]) * rng.pareto(1.6, size=n),
        "clustered": rng.normal(size=n) + 30 * rng.standard_t(1.5, n)[episode // 4 * length],
        "zero-inflated": np.zeros(n),
    }.get(kind, rng.standard_t(rng.uniform(1.2, 6), size=n))
    rewards = actions * states[:, 0] + rng.uniform(0.2, 3) * noise
    if kind == "zero-inflated":
        rewards = np.where(rng.random(n) < 0.1, rng.lognormal(1, 1, n) * (1 + actions), 0.0)
    named = kind == "clustered" and rng.random() < 0.5
    ends = np.append(episode[1:] != episode[:-1], True)
    log = Log.from_arrays(
        states,
        actions,
        rewards,
        np.roll(states, -1, axis=0),
        episode=episode,
        group=episode // 4 if named else None,
        terminated=ends if one_step or rng.random() < 0.5 else None,
        propensity=np.full(n, 1 / n_actions) if rng.random() < 0.5 else None,
        action_space=n_actions,
    )
    best = int(rng.integers(n_actions))
    lean = float(rng.choice([0.0, 0.3]))

    class Policy:
        def probabilities(self, at: np.ndarray) -> np.ndarray:
            chances = np.full((len(at), n_actions), lean / n_actions)
            chances[np.arange(len(at)), np.where(at[:, 0] > 0, best, 0)] += 1 - lean
            return chances

    return log, Policy(), None if one_step else float(rng.choice([0.5, 0.9]))


def disagreements(log: Log, policy: Any, gamma: float | None) -> list[str]:
    """Return what two doors say differently about a log."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TailproofWarning)
        found = diagnose(log, policy, gamma=gamma).verdict
        without = diagnose(log, gamma=gamma).verdict
        try:
            estimate = evaluate(log, policy, gamma=gamma)
        except TailproofError as error:
            return [] if found.declined == str(error) else ["diagnose answers, evaluate does not"]
        compared = compare(log, {"policy": policy}, gamma=gamma)
        learner, reasons = choose_learner(log)
    shape, choice, candidate = LogProfile(log).reward_shape, estimate.choice, compared["policy"]
    gain = estimate.gain
    same = {
        "tails, skew and unit": [
            each.to_dict() for each in (shape, choice.shape, found.shape, without.shape)
        ],
        "words about the rewards": [shape.sentences, reasons[:3]],
        "unit": [shape.unit, choice.unit, found.unit, without.unit],
        "estimator": [choice.estimator, found.estimator],
        "skew of the mean": [choice.skewed, found.skewed],
        "why no interval": [choice.declined and str(choice.declined), found.declined],
        "method": [estimate.method, found.point(), without.point(), compared.method],
        "value": [estimate.value, candidate.value],
        "logged value": [estimate.logged_value, compared.baseline_value],
        "gain": [gain.value, candidate.gain.value, estimate.value - estimate.logged_value],
        "lower bound": [_asked(estimate.lower_bound), candidate.lower_bound.value],
        "bound of the gain": [_asked(gain.lower_bound), candidate.gain.lower_bound.value],
        "reasons": [choice.reasons, found.reasons[: len(choice.reasons)]],
        "unused": [True, shape.tails == "heavy" or (learner.clip == 0 and learner.folds == 1)],
    }
    wrong = [f"{name}: {answers}" for name, answers in same.items() if not _equal(answers)]
    for about in (estimate, gain):
        if _asked(about.lower_bound) > about.value:
            wrong.append(f"a bound above its value {about.value}")
    if estimate.choice.declined is None:
        interval = estimate.interval(0.9)
        if not interval.low <= estimate.value <= interval.high:
            wrong.append("a value outside its interval")
    said = " ".join(found.reasons)
    wrong += [
        f"{one} and {other}"
        for one, other in (("light tails", "heavy tails"), ("look symmetric", "are skewed"))
        if one in said and other in said
    ]
    return wrong


def _equal(answers: list[Any]) -> bool:
    return all(each == answers[0] for each in answers)


def _asked(ask: Any) -> float:
    try:
        return float(ask(0.9).value)
    except LevelError:
        return -np.inf
