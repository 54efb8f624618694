"""Policy interfaces, simple policies, and the functions that evaluate any policy."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tailproof.arrays import AnyArray, FloatArray, IntArray, checked_states, one_or_many, such
from tailproof.errors import PolicyError, TailproofError
from tailproof.features import Polynomial
from tailproof.log.spaces import ActionSpace, Continuous, Discrete


@contextmanager
def own_errors(
    policy: Any, states: Any = None, *, columns: Sequence[str] = (), hint: str = ""
) -> Iterator[None]:
    """Convert any error of a policy to a `PolicyError` with its file, line, message and input.

    The policy's input is the array `states`, or a frame (None), with these `columns`; `hint` is a
    sentence to add.
    """
    try:
        yield
    except (TailproofError, MemoryError):
        raise
    except Exception as error:  # a user's code may raise anything
        said = f"{type(error).__name__}: {error}".strip().rstrip(":.")
        names = columns or getattr(policy, "given_names", ())
        given = f"an array of the shape {states.shape}" if states is not None else "a frame"
        if names:
            shown = ", ".join(names[:30]) + (f" and {len(names) - 30} more" if names[30:] else "")
            given = f"{given} with the columns {shown}"
        if "truth value" in said:
            hint = (
                "It is asked about all rows at once: write numpy.where(condition, this, that) in place "
                "of if."
            )
        raise PolicyError(
            f"The policy {called(policy)} raised an error of its own{_place(policy, error)}: {said}. "
            f"It was given {given}.{f' {hint}' if hint else ''}"
        ) from error


def called(policy: Any) -> str:
    """Return the name of a policy for messages."""
    inner = getattr(policy, "policy", policy)
    name = getattr(inner, "__name__", None) or type(inner).__name__
    return "(a lambda)" if name == "<lambda>" else str(name)


def _place(policy: Any, error: Exception) -> str:
    """Return the failing line in the policy's own file, or else the last line of the traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    inner = inspect.unwrap(getattr(policy, "policy", policy))
    code = getattr(inner, "__code__", None)
    own = [each for each in frames if code is not None and each.filename == code.co_filename]
    last = own[-1] if own else frames[-1]
    line = f" ({last.line.strip()})" if last.line else ""
    return f" in {last.filename}, line {last.lineno}{line}"


#: Deterministic policy: states (n, p) to actions (n,) or (n, q).
DeterministicPolicy = Callable[[FloatArray], AnyArray]


@runtime_checkable
class StochasticPolicy(Protocol):
    """A distribution over discrete actions in every state."""

    def probabilities(self, states: FloatArray) -> FloatArray:
        """Return π(a | s), (n, A)."""


@runtime_checkable
class SampledPolicy(Protocol):
    """A distribution over continuous actions that can be sampled."""

    def sample(self, states: FloatArray, rng: np.random.Generator) -> AnyArray:
        """Return one action per state, (n, q)."""


Policy = DeterministicPolicy | StochasticPolicy | SampledPolicy


class _LawByRow:
    def law_at(self, states: FloatArray, rows: IntArray | None) -> FloatArray:
        raise NotImplementedError

    def probabilities(self, states: FloatArray) -> FloatArray:
        """Return π(a | s) in states that are not rows of a log, (n, A)."""
        return self.law_at(states, None)


@dataclass(frozen=True)
class EpsilonGreedy(_LawByRow):
    """Follow `policy` with probability 1 − ε; otherwise take a uniformly random action.

    Examples
    --------
    >>> import numpy as np
    >>> right = EpsilonGreedy(lambda states: np.ones(len(states), dtype=int), 0.1, n_actions=2)
    >>> right.probabilities(np.zeros((1, 4)))
    array([[0.05, 0.95]])
    """

    policy: Any
    epsilon: float
    n_actions: int

    def law_at(self, states: FloatArray, rows: IntArray | None) -> FloatArray:
        """Return (1 − ε) π(a | s) + ε / A in these rows of a log's table, (n, A)."""
        followed = action_probabilities(self.policy, states, self.n_actions, rows=rows)
        return (1 - self.epsilon) * followed + self.epsilon / self.n_actions


@dataclass(frozen=True)
class Mixture(_LawByRow):
    """Draw one of several policies at every step, with fixed probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> Mixture(((0.1, Always(0)), (0.9, Always(1))), n_actions=2).probabilities(np.zeros((1, 4)))
    array([[0.1, 0.9]])
    """

    parts: tuple[tuple[float, Any], ...]
    n_actions: int

    def __post_init__(self) -> None:
        shares = [share for share, _ in self.parts]
        if not shares or min(shares) < 0 or abs(sum(shares) - 1) > 1e-6:
            raise PolicyError(
                f"The shares of a mixture must be at least 0 and add up to 1. Got "
                f"{' + '.join(f'{share:g}' for share in shares) or 'none'}."
            )

    def law_at(self, states: FloatArray, rows: IntArray | None) -> FloatArray:
        """Return Σ share π(a | s) in these rows of a log's table, (n, A)."""
        law = np.zeros((len(states), self.n_actions))
        for share, policy in self.parts:
            law += share * action_probabilities(policy, states, self.n_actions, rows=rows)
        return np.asarray(law / law.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class Always:
    """The same action in every state: a code, or the numbers of a continuous action.

    With `n_actions`, `action` is certainly a code.
    """

    action: int | tuple[float, ...]
    n_actions: int | None = None

    def __call__(self, states: FloatArray) -> AnyArray:
        """Return the action for each state, (n,) codes or (n, q) reals."""
        if isinstance(self.action, tuple):
            return np.tile(self.action, (len(states), 1))
        return np.full(len(states), self.action)


@dataclass(frozen=True)
class Uniform:
    """Every action with the same probability."""

    n_actions: int

    def probabilities(self, states: FloatArray) -> FloatArray:
        """Return 1 / A everywhere, (n, A)."""
        return np.full((len(states), self.n_actions), 1 / self.n_actions)


@dataclass(frozen=True)
class UniformBox:
    """Every continuous action between bounds with the same density.

    Examples
    --------
    >>> import numpy as np
    >>> policy = UniformBox((-2.0, 0.0), (2.0, 1.0))
    >>> policy.sample(np.zeros((3, 5)), np.random.default_rng(0)).shape
    (3, 2)
    >>> np.exp(policy.log_prob(np.zeros((1, 5)), np.array([[0.0, 0.5]]))).tolist()
    [0.25]
    """

    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self) -> None:
        widths = np.subtract(self.high, self.low)
        if not (np.isfinite(widths).all() and (widths > 0).all()):
            raise PolicyError(
                f"A uniform law needs finite bounds, low below high. Got {self.low} and {self.high}."
            )

    def sample(self, states: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return one action per state, (n, q)."""
        return rng.uniform(self.low, self.high, size=(len(states), len(self.low)))

    def log_prob(self, states: FloatArray, actions: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return the log density, −∞ outside the bounds, (n,)."""
        inside = ((actions >= self.low) & (actions <= self.high)).all(axis=1)
        density = -float(np.log(np.subtract(self.high, self.low)).sum())
        return np.where(inside, density, -np.inf)


def action_probabilities(
    policy: Any, states: FloatArray, n_actions: int, *, rows: IntArray | None = None
) -> FloatArray:
    """Return π(a | s) of any policy over discrete actions, checked, (n, A).

    `rows` are the states' rows in the log's table, (n,), for policies that read other columns; None
    if the states are not rows of a log.
    """
    n = len(states)
    if hasattr(policy, "probabilities"):
        given = np.asarray(_law(policy, states, rows), dtype=float)
        if given.shape != (n, n_actions):
            raise PolicyError(
                f"policy.probabilities must return the shape ({n}, {n_actions}), one row per state and "
                f"one column per action. Got {given.shape} instead."
            )
        sums = given.sum(axis=1)
        wrong = np.flatnonzero(~(np.abs(sums - 1) <= 1e-6) | (given < 0).any(axis=1))
        if len(wrong):
            row = int(wrong[0])
            raise PolicyError(
                f"policy.probabilities must be non-negative and sum to one in every state. "
                f"Got {given[row]} (sum {sums[row]:g}) for state {states[row]} "
                f"({such(len(wrong))})."
            )
        return given
    chosen = np.zeros((n, n_actions))
    chosen[np.arange(n), chosen_actions(policy, states, n_actions, rows=rows)] = 1.0
    return chosen


def chosen_actions(
    policy: Any, states: FloatArray, n_actions: int, *, rows: IntArray | None = None
) -> IntArray:
    """Return the actions of a deterministic policy over discrete actions, checked, (n,)."""
    actions = chosen_integers(policy, states, n_actions, rows=rows)
    wrong = np.flatnonzero((actions < 0) | (actions >= n_actions))
    if len(wrong):
        row = int(wrong[0])
        raise PolicyError(
            f"The policy must choose an action in 0..{n_actions - 1}. Got {actions[row]} for state "
            f"{states[row]} ({such(len(wrong))})."
        )
    return actions


def chosen_integers(
    policy: Any,
    states: FloatArray,
    n_actions: int,
    *,
    rows: IntArray | None = None,
    translate: Callable[[AnyArray], AnyArray] = lambda answered: answered,
) -> IntArray:
    """Return the actions of a deterministic policy, which must be whole numbers, (n,).

    `translate` first converts other values, such as labels, to codes.
    """
    n = len(states)
    actions = translate(_deterministic(policy, states, rows))
    if actions.shape == (n, 1):
        actions = actions[:, 0]
    if actions.shape == (n,) and actions.dtype.kind == "O":
        whole = all(isinstance(each, int | np.integer) for each in actions)
        actions = actions.astype(np.intp) if whole else actions
    if actions.dtype.kind in "US":
        raise PolicyError(
            f"The policy answers with text, such as {str(actions.flat[0])!r}, where codes 0.."
            f"{n_actions - 1} are needed: what labels stand for is known only of a log that has them."
        )
    whole = actions.dtype.kind in "iub" or (
        actions.dtype.kind == "f"
        and bool((np.isfinite(actions) & (actions == np.round(actions))).all())
    )
    if actions.shape != (n,) or not whole:
        raise PolicyError(
            f"A deterministic policy over {n_actions} actions must return {n} integers, one for each "
            f"row. Got the shape {actions.shape}, dtype {actions.dtype}."
        )
    return actions.astype(np.intp, copy=False)


def action_draws(
    policy: Any,
    states: FloatArray,
    space: ActionSpace,
    *,
    draws: int,
    rng: np.random.Generator,
    rows: IntArray | None = None,
) -> tuple[AnyArray, FloatArray]:
    """Return actions and weights whose weighted sum integrates over the policy.

    Discrete actions are enumerated and weighted by their probabilities, which is exact. A continuous
    deterministic policy has one action per state; a sampled one has `draws`, equally weighted.
    Actions are (n, L) integers or (n, L, q) reals; weights are (n, L), rows summing to one.
    """
    n = len(states)
    if isinstance(space, Discrete):
        weights = action_probabilities(policy, states, space.n, rows=rows)
        return np.broadcast_to(np.arange(space.n), (n, space.n)), weights
    if hasattr(policy, "sample"):
        with own_errors(policy, states):
            drawn = [policy.sample(_copied(states), rng) for _ in range(draws)]
        vectors = [_vectors(each, n, space) for each in drawn]
        return np.stack(vectors, axis=1), np.full((n, draws), 1 / draws)
    actions = _vectors(_deterministic(policy, states, rows), n, space)
    return actions[:, None, :], np.ones((n, 1))


def _law(policy: Any, states: FloatArray, rows: IntArray | None) -> AnyArray:
    with own_errors(policy, states):
        if hasattr(policy, "law_at"):
            return np.asarray(policy.law_at(states, rows))
        return np.asarray(policy.probabilities(_copied(states)))


def _deterministic(policy: Any, states: FloatArray, rows: IntArray | None) -> AnyArray:
    if not callable(policy):
        raise PolicyError(
            f"A policy is a callable states -> actions, an object with probabilities(states), or "
            f"one with sample(states, rng). Got {type(policy).__name__} instead."
        )
    with own_errors(policy, states):
        if hasattr(policy, "choose_at"):
            return np.asarray(policy.choose_at(states, rows))
        return np.asarray(policy(_copied(states)))


def log_densities(policy: Any, states: FloatArray, actions: AnyArray) -> FloatArray:
    """Return a policy's log density at some actions, (n,)."""
    with own_errors(policy, states):
        given = policy.log_prob(_copied(states), _copied(actions))
    return np.asarray(given, dtype=float)


def _copied(values: AnyArray) -> AnyArray:
    """Return a copy, because some policies change their input in place."""
    return np.array(values, order="K")


def _vectors(actions: AnyArray, n: int, space: Continuous) -> FloatArray:
    array = np.asarray(actions, dtype=float)
    if array.ndim == 1:
        array = array[:, None]
    if array.shape != (n, space.dimension):
        raise PolicyError(
            f"A policy over {space} must return the shape ({n}, {space.dimension}). "
            f"Got {array.shape} instead."
        )
    if not np.isfinite(array).all():
        raise PolicyError("The policy returned an action that is not finite.")
    return array


@dataclass(frozen=True, eq=False)
class LinearPolicy:
    """π(s) = ψ((s − mean) / scale)ᵀW within the bounds of the actions.

    ψ are a constant, main effects and pairwise products. Calling it with states (n, p) gives actions
    (n, q); with one state (p,), one action (q,).
    """

    weights: FloatArray  # (d, q)
    mean: FloatArray  # (p,)
    scale: FloatArray  # (p,)
    low: FloatArray  # (q,)
    high: FloatArray  # (q,)

    @one_or_many
    def __call__(self, states: FloatArray) -> FloatArray:
        """Return the action in each state, (n, q)."""
        given = checked_states(states, len(self.mean), PolicyError)
        actions = Polynomial()((given - self.mean) / self.scale) @ self.weights
        return np.asarray(np.clip(actions, self.low, self.high))

    def save(self, path: str | Path) -> None:
        """Write the policy as one ONNX graph; see `OnnxPolicy`."""
        from tailproof.export.onnx import export_regression

        export_regression(self, path)
