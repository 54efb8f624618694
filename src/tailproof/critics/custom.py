"""A base of the user's own: one function from a fold and γ to Q."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tailproof.arrays import AnyArray, FloatArray
from tailproof.critics.base import Capabilities, Fitted, WithoutBackup
from tailproof.critics.ensembles import ListedCritics
from tailproof.critics.task import Task
from tailproof.errors import MethodError
from tailproof.files import NotInFile
from tailproof.log.folds import Folds
from tailproof.log.log import Log
from tailproof.log.spaces import Discrete
from tailproof.policies.forms import is_module, module_answer

#: Q of one fold: states (n, p) to values (n, A); for continuous actions also (n, q) actions, to (n,).
QFunction = Callable[..., Any]
_TRIED = 1000  # states of the log at which a new Q is tried
_SETTINGS = ("policy", "seed")  # what a function may ask for beside the fold and γ


@dataclass(frozen=True)
class Custom(WithoutBackup):
    """A base that is one function: ``fit(fold, gamma)`` returns Q.

    ROAM and ROOM over any learner: the function is called once for each fold, in parallel where an
    engine is given, and the K functions Q are combined at every state and action, or by their values.

    Parameters
    ----------
    fit_fold
        A function of a `Log`, one fold, and the discount γ. It returns Q: a function of states (n, p)
        that returns the values of all actions, (n, A), as an array or a torch tensor; a torch module
        is called in evaluation mode, without gradients, on tensors of its own precision and device,
        and put back into the mode that it was in. For continuous actions Q is a
        function of states and actions, (n, p) and (n, q), that returns (n,).

        With a third parameter named ``policy`` it evaluates that policy instead of learning one: it
        is passed a function of states that returns the probabilities of all actions, (n, A), or for
        continuous actions one draw, (n, q). With a parameter named ``seed`` it is passed a whole
        number, another one for each fold.

    Examples
    --------
    >>> from tailproof import Custom, Median, Method, Split, evaluate
    >>> from tailproof.worlds import CartPole
    >>> world = CartPole()
    >>> def rewards_forever(fold, gamma, policy):
    ...     value = fold.rewards.mean() / (1 - gamma)
    ...     return lambda states: np.full((len(states), fold.n_actions), value)
    >>> row = Method(base=Custom(rewards_forever), partition=Split(5), aggregate=Median())
    >>> round(evaluate(world.log(episodes=50, seed=0), world.target(), method=row, gamma=0.9).value)
    10
    """

    fit_fold: Callable[..., QFunction]

    def __post_init__(self) -> None:
        if not callable(self.fit_fold):
            raise MethodError(
                f"A base of your own is a function fit(fold, gamma) that returns Q. "
                f"Got {self.fit_fold!r} instead."
            )
        given = len(_parameters(self.fit_fold)) - len(self.asks)
        if given < 2:
            raise MethodError(
                f"A base of your own is called as fit(fold, gamma), and {self} has "
                f"{given} such parameters. Add them; policy and seed are passed by name."
            )

    @property
    def asks(self) -> tuple[str, ...]:
        """Which of ``policy`` and ``seed`` the function has parameters for."""
        named = _parameters(self.fit_fold)
        return tuple(name for name in _SETTINGS if name in named)

    @property
    def capabilities(self) -> Capabilities:
        """Evaluates if the function takes a policy, and learns otherwise."""
        evaluates = "policy" in self.asks
        return Capabilities(("value", "pointwise"), evaluates=evaluates, learns=not evaluates)

    def _fit(self, task: Task, folds: Folds, rng: np.random.Generator) -> Fitted:
        """Call the function on each fold."""
        seeds = rng.integers(2**31, size=folds.count).tolist()
        work = partial(_fit_fold, self, task, folds)
        functions = task.engine.map(work, list(enumerate(seeds)))
        space = task.log.action_space
        critics = FunctionCritics(
            tuple(functions), space.n if isinstance(space, Discrete) else None
        )
        return Fitted(critics.tried(task.log))

    def __str__(self) -> str:
        if isinstance(self.fit_fold, NotInFile):
            return self.fit_fold.name
        return getattr(self.fit_fold, "__name__", type(self.fit_fold).__name__)


def _parameters(function: Callable[..., Any]) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # written in C: taken for (fold, gamma)
        return ["fold", "gamma"]


def _fit_fold(base: Custom, task: Task, folds: Folds, item: tuple[int, int]) -> QFunction:
    member, seed = item
    more: dict[str, Any] = {"policy": _Acting(task), "seed": seed}
    fold = folds.log(task.log, member)
    function = base.fit_fold(fold, task.gamma, **{name: more[name] for name in base.asks})
    if not callable(function):
        raise MethodError(
            f"{base} must return Q, a function of states. Got {type(function).__name__} instead."
        )
    return function


@dataclass(frozen=True)
class _Acting:
    """The policy as a function of states."""

    task: Task

    def __call__(self, states: FloatArray) -> AnyArray:
        if isinstance(self.task.log.action_space, Discrete):
            return self.task.acts.probabilities(np.asarray(states), None)
        rng = np.random.default_rng(self.task.seed)
        return self.task.acts.sample(np.asarray(states), rng)


class FunctionCritics(ListedCritics):
    """Q_k(s, a) by K functions of the user."""

    def values(self, states: FloatArray, actions: AnyArray) -> FloatArray:
        """Return Q_k(s, a) at n state-action pairs, (K, n)."""
        if self.n_actions is None:
            return np.stack([_called(q, (len(states),), states, actions) for q in self.members])
        taken = np.asarray(actions, dtype=np.intp), np.arange(len(states))
        return np.asarray(self.action_values(states, self.n_actions)[:, *taken])

    def action_values(self, states: FloatArray, n_actions: int) -> FloatArray:
        """Return Q_k(s, a) at every discrete action, (K, A, n)."""
        shape = (len(states), n_actions)
        return np.stack([_called(q, shape, states).T for q in self.members])

    def tried(self, log: Log) -> FunctionCritics:
        """Return the critics with what some states of the log show: shapes, and whether finite."""
        rows = np.linspace(0, log.n_transitions - 1, min(_TRIED, log.n_transitions)).astype(int)
        with np.errstate(all="ignore"):
            found = self.values(log.states[rows], log.actions[rows])
        finite = np.asarray(np.isfinite(found).all(axis=1))
        return FunctionCritics(self.members, self.n_actions, finite)


def _called(q: QFunction, shape: tuple[int, ...], *inputs: AnyArray) -> FloatArray:
    """Return what Q gives for some inputs, as an array of this shape."""
    found: Any = module_answer(q, *inputs) if is_module(q) else q(*inputs)
    if hasattr(found, "detach"):
        found = found.detach().cpu().numpy()
    values = np.asarray(found, dtype=float)
    if values.shape != shape:
        wanted = "one value for each row" if len(shape) == 1 else "a column for each action"
        raise MethodError(
            f"Q must return {wanted}, an array of shape {shape}. Got one of shape {values.shape}."
        )
    return values
