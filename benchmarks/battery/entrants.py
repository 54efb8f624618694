"""The entrants: estimators and learners, the library's by name or any callable."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.battery.cells import Problem
from tailproof.critics.rewards import HuberRewards
from tailproof.doors.estimate import Estimate
from tailproof.doors.evaluate import evaluate
from tailproof.doors.learn import learn
from tailproof.doors.learned import Learned
from tailproof.errors import LevelError, MethodError, TailproofWarning
from tailproof.features import default_features
from tailproof.methods.catalogue import CATALOGUE, method
from tailproof.methods.method import Method
from tailproof.policies.forms import Policy
from tailproof.robust.means import AdaptiveHuber, Catoni, PermutedMedianOfMeans

LEVELS = (0.9, 0.95)
#: A function of a problem and a seed that returns a number, an `Estimate` or a `Reply`.
Estimator = Callable[..., Any]
#: A function of a problem and a seed that returns a policy or a `Learned`.
Learner = Callable[..., Any]


@dataclass(frozen=True)
class Reply:
    """An estimate with its entrant's intervals, (low, high) by level.

    A missing level was declined. If the entrant failed, the value is NaN and `failure` the reason.
    """

    value: float
    intervals: Mapping[float, tuple[float, float]] = field(default_factory=dict)
    failure: str = ""


@dataclass(frozen=True)
class Named:
    """A `Method` as an entrant, with the problem's features."""

    method: Method

    def __call__(self, problem: Problem, *, seed: int) -> Estimate:
        """Evaluate the problem's policy."""
        return evaluate(
            problem.log, problem.policy, method=self.method, gamma=problem.gamma, seed=seed
        )


@dataclass(frozen=True)
class HuberThenLSTD:
    """LSTD on rewards smoothed by a Huber regression on the features.

    A one-pass version of d3rlpy's Huber loss: excellent for symmetric noise.
    """

    def __call__(self, problem: Problem, *, seed: int) -> Estimate:
        """Smooth the rewards and evaluate the problem's policy."""
        features = default_features(problem.log)
        smooth = problem.log.with_rewards(HuberRewards()(problem.log, features))
        return evaluate(smooth, problem.policy, method="lstd", gamma=problem.gamma, seed=seed)


def default_entrants() -> dict[str, Estimator]:
    """Return the estimators that the leaderboard compares, `auto` first.

    Examples
    --------
    >>> list(default_entrants())[:3]
    ['auto', 'lstd', 'fqe']
    """
    rows = {
        "auto": method("auto"),
        "lstd": method("lstd"),
        "fqe": method("fqe"),
        "roam-dm": method("roam-dm", folds=5),
        "roam-variant": method("roam-variant", folds=5),
        "roam-fqe": method("roam-fqe", folds=5),
        "pooled huber": method("mis", mean=AdaptiveHuber()),
        "pooled catoni": method("mis", mean=Catoni()),
        "pooled mom-20": method("mis", mean=PermutedMedianOfMeans(20)),
        "tm-mis": method("tm-mis"),
        "clipped 1 %": method("lstd", clip=0.01),
    }
    return {**{name: Named(row) for name, row in rows.items()}, "huber rewards": HuberThenLSTD()}


def storage_entrants() -> dict[str, Estimator]:
    """Return more entrants for the storage stories: more folds, and robust means of weekly sums."""
    return {
        "roam-dm K=10": Named(method("roam-dm", folds=10)),
        "week huber": Named(method("mis", mean=AdaptiveHuber(), unit="group")),
    }


def entrant_named(text: str) -> tuple[str, Estimator]:
    """Return an entrant and its name from a row of the catalogue, or from ``file.py:function``.

    A function of an importable module is ``package.module:function``.

    Examples
    --------
    >>> entrant_named("roam-mis")[0]
    'roam-mis'
    """
    if text in CATALOGUE:
        return text, Named(method(text))
    place, colon, name = text.rpartition(":")
    if not colon:
        raise MethodError(
            f"There is no method {text!r}. An entrant is a method that `tailproof methods` lists, or "
            f"file.py:function, or module:function."
        )
    found = getattr(_module(place), name, None)
    if not callable(found):
        raise MethodError(
            f"{place} has no function {name!r}. An entrant is called with a problem (log, policy, "
            f"gamma, features) and a seed, and returns a number."
        )
    return name, found


def _module(place: str) -> Any:
    try:
        if not place.endswith(".py"):
            sys.path.insert(0, str(Path.cwd()))
            return importlib.import_module(place)
        spec = importlib.util.spec_from_file_location(Path(place).stem, place)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except Exception as error:  # user code may raise any error
        raise MethodError(
            f"{place} could not be imported: {type(error).__name__}: {error}."
        ) from error
    return module


def reply_of(entrant: Estimator, problem: Problem, *, seed: int) -> Reply:
    """Return an entrant's result for a problem as a `Reply`; an error becomes a failed reply.

    Examples
    --------
    >>> reply_of(lambda problem, *, seed: 3.5, None, seed=0)
    Reply(value=3.5, intervals={}, failure='')
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TailproofWarning)  # poor overlap is intended
            answer = entrant(problem, seed=seed)
    except Exception as error:  # user code may raise any error; the others continue
        return Reply(float("nan"), failure=f"{type(error).__name__}: {error}")
    if isinstance(answer, Reply):
        return answer
    if isinstance(answer, Estimate):
        return Reply(answer.value, _intervals(answer))
    try:
        return Reply(float(answer))
    except (TypeError, ValueError):
        raise MethodError(
            f"An entrant must return a number, an Estimate or a Reply. "
            f"Got {type(answer).__name__} instead."
        ) from None


def _intervals(estimate: Estimate) -> dict[float, tuple[float, float]]:
    if estimate.method.at == "backup":
        return {}  # its members are dependent: their spread is not an error estimate
    found = {}
    for level in LEVELS:
        try:
            interval = estimate.interval(level)
        except LevelError:
            continue
        if np.isfinite([interval.low, interval.high]).all():
            found[level] = (interval.low, interval.high)
    return found


@dataclass(frozen=True)
class Taught:
    """A `Method` as a learner.

    Without a discount every episode ends within 24 steps here: 25 sweeps from 0 are enough.
    """

    method: Method

    def __call__(self, problem: Problem, *, seed: int) -> Learned:
        """Learn a policy."""
        known = {each for each in vars(self.method.base) if each in ("iterations", "start")}
        sweeps = {"iterations": 25, "start": "zero"} if problem.gamma == 1 else {}
        chosen = self.method.with_settings(**{k: v for k, v in sweeps.items() if k in known})
        return learn(problem.log, method=chosen, gamma=problem.gamma, seed=seed)


def default_learners() -> dict[str, Learner]:
    """Return the learners that the leaderboard compares.

    Examples
    --------
    >>> list(default_learners())[:3]
    ['fqi', 'ma', 'room-vm']
    """
    names = ("fqi", "ma", "room-vm", "room-fqi", "p-room-fqi", "huber-reward", "bc", "zero-reward")
    learners: dict[str, Learner] = {name: Taught(method(name)) for name in names}
    return {**learners, "fqi clipped 1 %": Taught(method("fqi", clip=0.01))}


def taught(learner: Learner, worth: Callable[[Policy], float]) -> Estimator:
    """Return an entrant that learns a policy and returns the policy's value."""

    def value(problem: Problem, *, seed: int) -> float:
        learned = learner(problem, seed=seed)
        return worth(learned.policy if isinstance(learned, Learned) else learned)

    return value
