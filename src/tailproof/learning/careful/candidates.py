"""Candidate methods from simple to flexible, most of them restricted to supported actions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tailproof.algorithms.learners.cloning import Cloning, TreeCloning
from tailproof.algorithms.learners.improvement import Constant, ForestFQI, OneStep, WithinSupport
from tailproof.algorithms.one_step.learners import PolicyScores, PolicyTree
from tailproof.data.log import Log
from tailproof.features.ladder import KNOTS, basis_for
from tailproof.learning.choosing import choose_learner
from tailproof.methods.catalogue import method as named_method
from tailproof.methods.method import Method

#: Smallest allowed probability of an action, relative to that of the likeliest action.
SUPPORTS = (0.3, 0.1, 0.0)
#: Maximum number of candidates, for a progress bar.
MOST = 20
LIKELIEST = "likeliest action"
_TOP = 0.3  # share of the episodes to imitate
_LONG = 3  # mean steps of an episode above which imitating the best episodes is tried


def methods_to_try(log: Log, gamma: float) -> dict[str, Method]:
    """Return candidate methods for a log by name, simple ones first."""
    bases: dict[str, Any] = {"constant": Constant(), LIKELIEST: TreeCloning()}
    if log.n_transitions > _LONG * log.n_episodes:
        bases["best episodes, trees"] = TreeCloning(top=_TOP)
        linear = Cloning(top=_TOP, features=basis_for(log), ridge=1e-4)
        bases["best episodes, linear"] = linear
    if log.is_bandit:
        bases |= {f"policy tree of depth {depth}": PolicyTree(depth=depth) for depth in (1, 2, 3)}
        bases["linear scores"] = PolicyScores()
    # one-step logs fit each candidate six times, and errors do not accumulate over steps
    supports = SUPPORTS[:1] if log.is_bandit else SUPPORTS
    bases |= {f"one step, support {share:g}": OneStep(support=share) for share in supports}
    if not log.is_bandit:
        for share in SUPPORTS:
            bases[f"advantages, support {share:g}"] = OneStep(form="advantages", support=share)
        careful = OneStep(form="advantages", support=0.1, pessimism=1.0)
        bases["pessimistic advantages"] = careful
    if gamma > 0:
        bases |= {f"forest FQI, support {share:g}": ForestFQI(support=share) for share in SUPPORTS}
    return {name: pointwise(base) for name, base in bases.items()} | _linear(log)


def _linear(log: Log) -> dict[str, Method]:
    """Return the methods that are linear in standardised features."""
    low, high = basis_for(log), basis_for(log, knots=KNOTS)
    pick, _ = choose_learner(log, low)
    found = {"linear": pick}
    if not log.is_bandit:
        found["linear, support 0.3"] = replace(pick, base=WithinSupport(base=pick.base))
    found["splines"] = pick.with_settings(features=high)
    room = named_method("room-fqi", features=low)
    if room.folds <= log.n_groups and room != pick:
        found["ROOM-FQI"] = room
    return found


def pointwise(base: Any) -> Method:
    """Return a method with one member, whose policy is greedy in its critic."""
    return Method(base=base, at="pointwise")
