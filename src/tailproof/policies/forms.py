"""The forms a policy may take, and the one form in which every algorithm asks it: `BoundPolicy`."""

from __future__ import annotations

import inspect
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from tailproof.arrays import (
    AnyArray,
    FloatArray,
    IntArray,
    as_array,
    checked_states,
    count_of,
    one_or_many,
)
from tailproof.errors import PolicyError, TailproofError, listed
from tailproof.features import Polynomial
from tailproof.files import to_parts
from tailproof.log.spaces import ActionSpace, Continuous, Discrete
from tailproof.policies.answers import action_codes, has_columns, probabilities_by_name

if TYPE_CHECKING:
    from tailproof.io.encoder import Encoder


@contextmanager
def policy_errors(
    policy: object, states: AnyArray | None = None, *, columns: Sequence[str] = (), hint: str = ""
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
        given = f"an array of the shape {states.shape}" if states is not None else "a frame"
        given += f" with the columns {listed(columns, 30)}" if columns else ""
        if "truth value" in said:
            hint = (
                "It is asked about all rows at once: write numpy.where(condition, this, that) in place "
                "of if."
            )
        raise PolicyError(
            f"The policy {name_of(policy)} raised an error of its own{_place(policy, error)}: {said}. "
            f"It was given {given}.{f' {hint}' if hint else ''}"
        ) from error


def name_of(policy: object) -> str:
    """Return the name of a policy for messages."""
    name = getattr(policy, "__name__", None) or type(policy).__name__
    return "(a lambda)" if name == "<lambda>" else str(name)


def _place(policy: Any, error: Exception) -> str:
    """Return the failing line in the policy's own file, or else the last line of the traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    code = getattr(inspect.unwrap(policy), "__code__", None)
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


class BoundPolicy(ABC):
    """A policy over the actions of one log, in the form in which algorithms ask it.

    `rows` are the rows of the log's table that the states belong to, (n,), for policies that are
    given by row; None for states that are not rows of the log. What a policy answers is checked.

    Subclasses have an action `space`, say whether they are `deterministic`, and `answer`.
    """

    space: ActionSpace

    @property
    @abstractmethod
    def deterministic(self) -> bool:
        """Whether it takes one action in each state."""

    @property
    def has_density(self) -> bool:
        """Whether `log_prob` gives the density of continuous actions."""
        return False

    @abstractmethod
    def answer(self, states: FloatArray, rows: IntArray | None) -> AnyArray:
        """Return action codes (n,), probabilities (n, A), or continuous actions (n, q)."""

    def choose(self, states: FloatArray, rows: IntArray | None = None) -> IntArray:
        """Return the action of a deterministic policy over discrete actions, (n,)."""
        n_actions = self._n_actions
        actions = _whole_numbers(self.answer(states, rows), len(states), n_actions)
        wrong = np.flatnonzero((actions < 0) | (actions >= n_actions))
        if len(wrong):
            row = int(wrong[0])
            raise PolicyError(
                f"The policy must choose an action in 0..{n_actions - 1}. Got {actions[row]} for state "
                f"{states[row]} ({count_of(len(wrong))})."
            )
        return actions

    def probabilities(self, states: FloatArray, rows: IntArray | None = None) -> FloatArray:
        """Return π(a | s) over discrete actions, (n, A)."""
        n, n_actions = len(states), self._n_actions
        if self.deterministic:
            chosen = np.zeros((n, n_actions))
            chosen[np.arange(n), self.choose(states, rows)] = 1.0
            return chosen
        given = np.asarray(self.answer(states, rows), dtype=float)
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
                f"({count_of(len(wrong))})."
            )
        return given

    def sample(
        self, states: FloatArray, rng: np.random.Generator, rows: IntArray | None = None
    ) -> AnyArray:
        """Draw one action per state: codes (n,), or continuous actions (n, q)."""
        if isinstance(self.space, Discrete):
            if self.deterministic:
                return self.choose(states, rows)
            return draw(self.probabilities(states, rows).cumsum(axis=1), rng)
        return _vectors(self._drawn(states, rng, rows), len(states), self.space)

    def draws(
        self,
        states: FloatArray,
        *,
        count: int,
        rng: np.random.Generator,
        rows: IntArray | None = None,
    ) -> tuple[AnyArray, FloatArray]:
        """Return actions and weights whose weighted sum integrates over the policy.

        Discrete actions are enumerated and weighted by their probabilities, which is exact. A
        continuous deterministic policy has one action per state; a sampled one has `count`, equally
        weighted. Actions are (n, L) integers or (n, L, q) reals; weights are (n, L), rows summing to
        one.
        """
        n = len(states)
        if isinstance(self.space, Discrete):
            weights = self.probabilities(states, rows)
            return np.broadcast_to(np.arange(self.space.n), weights.shape), weights
        if self.deterministic:
            actions = _vectors(self.answer(states, rows), n, self.space)
            return actions[:, None, :], np.ones((n, 1))
        drawn = [self.sample(states, rng, rows) for _ in range(count)]
        return np.stack(drawn, axis=1), np.full((n, count), 1 / count)

    def log_prob(self, states: FloatArray, actions: AnyArray) -> FloatArray:  # noqa: ARG002
        """Return the log density at continuous actions, (n,)."""
        raise PolicyError(f"{name_of(self)} has no log_prob(states, actions).")

    def _drawn(
        self,
        states: FloatArray,
        rng: np.random.Generator,  # noqa: ARG002 only sampled policies draw
        rows: IntArray | None,
    ) -> AnyArray:
        return self.answer(states, rows)

    @property
    def _n_actions(self) -> int:
        if isinstance(self.space, Discrete):
            return self.space.n
        raise PolicyError(f"This needs discrete actions. The policy acts in {self.space}.")


@dataclass(frozen=True, eq=False)
class StatePolicy(BoundPolicy):
    """A function of the states, or an object with `probabilities` or `sample`, bound to a log.

    Attributes
    ----------
    policy
        The function or object.
    states_of
        Turns states of the log into what the policy knows: other states, or a frame; None if it
        knows them as they are.
    codes
        The log's code of each of the policy's own codes, −1 for none; None if they are the same.
    gives_probabilities
        Whether calling the policy returns probabilities, (n, A), rather than actions.
    state_names
        The names of the states that it gets, for messages.
    """

    policy: Any
    space: ActionSpace
    _: KW_ONLY
    states_of: Callable[[FloatArray], Any] | None = None
    codes: tuple[int, ...] | None = None
    gives_probabilities: bool = False
    state_names: tuple[str, ...] = ()

    @property
    def __name__(self) -> str:
        return name_of(self.policy)

    @property
    def deterministic(self) -> bool:
        """Whether it takes one action in each state."""
        if isinstance(self.space, Discrete):
            return not self.gives_probabilities and is_deterministic(self.policy)
        return not hasattr(self.policy, "sample")

    @property
    def has_density(self) -> bool:
        """Whether `log_prob` gives the density of continuous actions."""
        return hasattr(self.policy, "log_prob")

    @property
    def taught(self) -> IntArray | None:
        """Hashes of the episodes that the policy was learned from, if it knows them."""
        return getattr(self.policy, "taught", None)

    def answer(self, states: FloatArray, rows: IntArray | None) -> AnyArray:  # noqa: ARG002
        """Return action codes (n,), probabilities (n, A), or continuous actions (n, q)."""
        ask = self.policy
        if not self.deterministic and not self.gives_probabilities:
            ask = self.policy.probabilities
        elif not callable(ask):
            raise PolicyError(
                f"A policy is a callable states -> actions, an object with probabilities(states), or "
                f"one with sample(states, rng). Got {type(ask).__name__} instead."
            )
        given = self.given(states)
        with self._own_errors(given):
            answers: Any = module_answer(ask, given) if is_module(ask) else ask(given)
        if not isinstance(self.space, Discrete):
            return as_array("The policy's answer", answers, PolicyError)
        if self.deterministic:
            return self._log_codes(answers, len(states), self.space)
        names: Sequence[Any] | None = None
        if has_columns(answers):
            answers, names = answers.to_numpy(), list(answers.columns)
        elif self.codes is not None:
            names = getattr(self.policy, "action_labels", None) or range(len(self.codes))
        values = as_array("The policy's answer", answers, PolicyError)
        if names is None:
            return values
        return probabilities_by_name(
            values, names, self.space, f"The policy {name_of(self.policy)}"
        )

    def log_prob(self, states: FloatArray, actions: AnyArray) -> FloatArray:
        """Return the log density at continuous actions, (n,)."""
        if not self.has_density:
            return super().log_prob(states, actions)
        given = self.given(states)
        with self._own_errors(given):
            return np.asarray(self.policy.log_prob(given, _copied(actions)), dtype=float)

    def _drawn(
        self, states: FloatArray, rng: np.random.Generator, rows: IntArray | None
    ) -> AnyArray:
        if self.deterministic:
            return self.answer(states, rows)
        given = self.given(states)
        with self._own_errors(given):
            return np.asarray(self.policy.sample(given, rng))

    def given(self, states: FloatArray) -> Any:
        """Return a copy of what the policy knows of states, because some policies change them."""
        return _copied(states) if self.states_of is None else self.states_of(states)

    def _own_errors(self, given: Any) -> Any:
        array = given if isinstance(given, np.ndarray) else None
        return policy_errors(self.policy, array, columns=self.state_names)

    def _log_codes(self, answers: Any, n: int, space: Discrete) -> AnyArray:
        """Return the log's codes of the policy's answers, (n,)."""
        values = as_array("The policy's answer", answers, PolicyError)
        if self.codes is None and getattr(self.policy, "n_actions", None) is not None:
            return values  # it answers with codes, even if labels are numbers
        if self.codes is None:
            return action_codes(values, space)
        own = _whole_numbers(values, n, len(self.codes))
        if ((own < 0) | (own >= len(self.codes))).any():
            return own  # `choose` says what is wrong
        codes = np.asarray(self.codes)[own]
        if (codes < 0).any():
            action = int(own[(codes < 0).argmax()])
            labels = getattr(self.policy, "action_labels", None)
            raise PolicyError(
                f"The policy takes the action {str(action) if labels is None else labels[action]!r}, "
                f"which the log does not have. It has {listed(space.names, 20)}."
            )
        return np.asarray(codes)


@dataclass(frozen=True, eq=False)
class MixedPolicy(BoundPolicy):
    """Several bound policies, one of which is drawn at every step with fixed probabilities."""

    parts: tuple[tuple[float, BoundPolicy], ...]
    space: ActionSpace

    @property
    def deterministic(self) -> bool:
        """False: it draws."""
        return False

    def answer(self, states: FloatArray, rows: IntArray | None) -> FloatArray:
        """Return Σ share π(a | s), (n, A)."""
        mixed = np.zeros((len(states), self._n_actions))
        for share, policy in self.parts:
            mixed += share * policy.probabilities(states, rows)
        return np.asarray(mixed / mixed.sum(axis=1, keepdims=True))


def draw(edges: FloatArray, rng: np.random.Generator | FloatArray) -> IntArray:
    """Draw one index per row, (n,), from cumulative probabilities (n, m).

    `rng` is a generator, or the uniform numbers to use, (n,).
    """
    uniform = rng if isinstance(rng, np.ndarray) else rng.random(len(edges))
    # Scaled by the last edge, so that rounding never draws an index of probability 0.
    drawn = uniform[:, None] * edges[:, -1:]
    return np.asarray((drawn >= edges[:, :-1]).sum(axis=1))


def is_deterministic(policy: object) -> bool:
    """Return whether a policy over discrete actions takes one action in each state.

    One with `probabilities` draws, unless it has an attribute `deterministic` that says otherwise.
    """
    return bool(getattr(policy, "deterministic", not hasattr(policy, "probabilities")))


def bound(policy: object, space: ActionSpace) -> BoundPolicy:
    """Return a policy over these actions, with nothing to match; a bound one as it is."""
    if isinstance(policy, BoundPolicy):
        return policy
    if isinstance(policy, EpsilonGreedy | Mixture):
        parts = tuple((share, bound(part, space)) for share, part in policy.parts)
        return MixedPolicy(parts, space)
    return StatePolicy(policy, space)


def action_probabilities(
    policy: object, states: FloatArray, n_actions: int, *, rows: IntArray | None = None
) -> FloatArray:
    """Return π(a | s) of any policy over discrete actions, checked, (n, A)."""
    return bound(policy, Discrete(n_actions)).probabilities(states, rows)


def is_module(policy: object) -> bool:
    """Return whether a policy is a torch module; torch is not imported for it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(policy, torch.nn.Module)


def module_answer(module: Any, *inputs: AnyArray) -> AnyArray:
    """Return what a torch module makes of its inputs, on its device, with its type of numbers.

    It is in evaluation mode while it is called: dropout would draw another answer at every call.
    """
    import torch

    like = next(module.parameters(), torch.zeros(0))
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            found: torch.Tensor = module(*(torch.as_tensor(each).to(like) for each in inputs))
    finally:
        for part, mode in modes:
            part.training = mode
    return np.asarray(found.cpu().numpy())


def _whole_numbers(actions: AnyArray, n: int, n_actions: int) -> IntArray:
    """Return actions as integers, (n,)."""
    if actions.shape == (n, 1):
        actions = actions[:, 0]
    if actions.shape == (n,) and actions.dtype.kind == "O":
        whole = all(isinstance(each, int | np.integer) for each in actions)
        actions = actions.astype(np.intp) if whole else actions
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


@dataclass(frozen=True)
class EpsilonGreedy:
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

    @property
    def parts(self) -> tuple[tuple[float, Any], ...]:
        """The policies that it draws from, each with its share."""
        return ((1 - self.epsilon, self.policy), (self.epsilon, Uniform(self.n_actions)))

    def probabilities(self, states: FloatArray) -> FloatArray:
        """Return (1 − ε) π(a | s) + ε / A, (n, A)."""
        return action_probabilities(self, states, self.n_actions)


@dataclass(frozen=True)
class Mixture:
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

    def probabilities(self, states: FloatArray) -> FloatArray:
        """Return Σ share π(a | s), (n, A)."""
        return action_probabilities(self, states, self.n_actions)


@dataclass(frozen=True)
class Column:
    """The policy in a column of the log's table: its action in each row.

    The name of a column with actions, or a pattern such as ``"p_*"`` for one column of probabilities
    per action, where the star is the action's label. In logs with several steps, the policy's action
    in the next state is that of the next row of the episode.

    Examples
    --------
    >>> from tailproof import evaluate, read_log
    >>> table = {"action": ["a", "b"] * 50, "reward": [1.0, 3.0] * 50, "new": ["b"] * 100}
    >>> round(evaluate(read_log(table), Column("new")).value, 6)
    3.0
    """

    name: str


@dataclass(frozen=True)
class Logged:
    """The logging policy, estimated by a classifier; logged propensities are kept."""


@dataclass(frozen=True)
class OnFrame:
    """A function of a pandas frame; see `on_frame`."""

    function: Callable[[Any], Any]

    @property
    def __name__(self) -> str:
        return name_of(self.function)


def on_frame(function: Callable[[object], object]) -> OnFrame:
    """Declare that a policy takes a pandas frame with the log's original columns and labels.

    It returns labels, action codes, or probabilities: an array (n, A) in the order of the log's
    actions, or a frame with columns named by action. The frame contains no rewards, logged actions,
    propensities or next states.

    A function needs no declaration if its first parameter is annotated with ``DataFrame``, or if it
    uses its argument as a frame (``states["age"]``).

    Examples
    --------
    >>> @on_frame
    ... def policy(states):
    ...     return ["email" if days >= 30 else "none" for days in states["days_since_order"]]
    """
    return OnFrame(function)


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
                f"A uniform policy needs finite bounds, low below high. Got {self.low} and {self.high}."
            )

    def sample(self, states: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return one action per state, (n, q)."""
        return rng.uniform(self.low, self.high, size=(len(states), len(self.low)))

    def log_prob(self, states: FloatArray, actions: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return the log density, −∞ outside the bounds, (n,)."""
        inside = ((actions >= self.low) & (actions <= self.high)).all(axis=1)
        density = -float(np.log(np.subtract(self.high, self.low)).sum())
        return np.where(inside, density, -np.inf)


def made_for(policy: object) -> dict[str, Any]:
    """Return for JSON what a policy knows of the log that it was made for: names, labels, encoder."""
    known = ("state_names", "action_labels", "encoder")
    return {name: to_parts(getattr(policy, name, None)) for name in known}


@dataclass(frozen=True, eq=False)
class LinearPolicy:
    """π(s) = ψ((s − mean) / scale)ᵀW within the bounds of the actions.

    ψ are a constant, main effects and pairwise products. Calling it with states (n, p) gives actions
    (n, q); with one state (p,), one action (q,). `state_names` and `encoder` are those of its log.
    """

    weights: FloatArray  # (d, q)
    mean: FloatArray  # (p,)
    scale: FloatArray  # (p,)
    low: FloatArray  # (q,)
    high: FloatArray  # (q,)
    _: KW_ONLY
    state_names: tuple[str, ...] = ()
    encoder: Encoder | None = None

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
