"""What may be learned, from plain to flexible, each kept to what the log knows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tailproof.algorithms.learners.cloning import Cloning, TreeCloning
from tailproof.algorithms.learners.improvement import Constant, ForestFQI, OneStep, WithinSupport
from tailproof.algorithms.one_step.learners import PolicyScores, PolicyTree
from tailproof.data.log import Log
from tailproof.features.ladder import KNOTS, basis_for
from tailproof.learning.choosing import choose_learner
from tailproof.methods.catalogue import method as named_method
from tailproof.methods.method import Method

#: Shares of the likeliest action's probability that an action must have in such a state.
SUPPORTS = (0.3, 0.1, 0.0)
#: Candidates at most, for a progress bar.
MOST = 20
LIKELIEST = "likeliest action"
_TOP = 0.3  # of the episodes that are imitated
_LONG = 3  # mean steps of an episode from which it has an author to imitate
_DEPTHS = (1, 2, 3)


@dataclass(frozen=True)
class Row:
    """A candidate: its name for the reader, and how it is learned."""

    name: str
    method: Method


def behaviour_row(*, exact: bool = False) -> Row:
    """Return the logged behaviour, cloned by trees."""
    return Row("logged behaviour", _pointwise(TreeCloning(exact=exact)))


def candidates(log: Log, gamma: float) -> Iterator[Row]:
    """Yield what is worth trying on a log, plain ones first."""
    yield Row("constant", _pointwise(Constant()))
    yield Row(LIKELIEST, _pointwise(TreeCloning()))
    if log.n_transitions > _LONG * log.n_episodes:
        yield Row("best episodes, trees", _pointwise(TreeCloning(top=_TOP)))
        linear = Cloning(top=_TOP, features=basis_for(log), ridge=1e-4)
        yield Row("best episodes, linear", _pointwise(linear))
    if log.is_bandit:
        for depth in _DEPTHS:
            yield Row(f"policy tree of depth {depth}", _pointwise(PolicyTree(depth=depth)))
        yield Row("linear scores", _pointwise(PolicyScores()))
    # one-step logs are taught six times over, and nothing builds up from step to step there
    for share in SUPPORTS[:1] if log.is_bandit else SUPPORTS:
        yield Row(f"one step, support {share:g}", _pointwise(OneStep(support=share)))
    for share in () if log.is_bandit else SUPPORTS:
        base = OneStep(form="advantages", support=share)
        yield Row(f"advantages, support {share:g}", _pointwise(base))
    if not log.is_bandit:
        careful = OneStep(form="advantages", support=0.1, pessimism=1.0)
        yield Row("pessimistic advantages", _pointwise(careful))
    if gamma > 0:
        for share in SUPPORTS:
            yield Row(f"forest FQI, support {share:g}", _pointwise(ForestFQI(support=share)))
    yield from _linear(log)


def _linear(log: Log) -> Iterator[Row]:
    """Yield rows that are linear in standardised features."""
    low, high = basis_for(log), basis_for(log, knots=KNOTS)
    pick, _ = choose_learner(log, low)
    yield Row("linear", pick)
    if not log.is_bandit:
        yield Row("linear, support 0.3", replace(pick, base=WithinSupport(base=pick.base)))
    yield Row("splines", pick.with_settings(features=high))
    room = named_method("room-fqi", features=low)
    if room.folds <= log.n_groups and room != pick:
        yield Row("ROOM-FQI", room)


def _pointwise(base: object) -> Method:
    return Method(base=base, at="pointwise")  # type: ignore[arg-type]
