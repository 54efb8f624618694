"""Limits of a policy: how many rows may get an action, and where it must not be taken.

A budget is a price. An action whose score is lowered by a price λ, times its cost in the row, is taken
only by the rows that gain most for a unit of cost; the smallest price that keeps the budget is found on
the rows that teach. The price stays with the policy, so that each row is decided alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tailproof.arrays import BoolArray, FloatArray, is_number
from tailproof.critics.ensembles import Critics, Ensemble, LinearCritics
from tailproof.critics.greedy import CriticPolicy
from tailproof.critics.trees import (
    Fixed,
    Limited,
    LinearScores,
    Nested,
    StateCritics,
    StateScores,
    StateTree,
    nested_tree,
)
from tailproof.errors import MethodError, PolicyError, listed
from tailproof.log.log import Log
from tailproof.log.spaces import Discrete
from tailproof.robust.aggregates import Aggregate

if TYPE_CHECKING:
    from tailproof.io.encoder import Encoder, Variable

#: The score of an action that must not be taken: finite, so that critics can be averaged.
BARRED = -1e30
_NEVER = re.compile(r"\s*(.+?)\s+where\s+(.+?)\s*(<=|>=|!=|=|<|>)\s*(.+?)\s*")


@dataclass(frozen=True)
class AtMost:
    """The most that an action may be taken.

    Attributes
    ----------
    action
        Its label.
    limit
        The largest share of the rows; with a `cost`, the largest mean cost of a row.
    cost
        The state column with the cost of the action in each row; None to count rows.
    """

    action: str
    limit: float
    cost: str | None = None

    @classmethod
    def parse(cls, text: str) -> AtMost:
        """Return the limit of a text.

        >>> AtMost.parse("voucher=20%")
        AtMost(action='voucher', limit=0.2, cost=None)
        >>> AtMost.parse("voucher=1.5 of price")
        AtMost(action='voucher', limit=1.5, cost='price')
        """
        action, _, amount = text.rpartition("=")
        number, _, cost = amount.partition(" of ")
        share = number.strip().endswith("%")
        value = number.strip().removesuffix("%")
        if not action or not is_number(value) or (share and cost):
            raise MethodError(
                f"at_most takes ACTION=SHARE such as voucher=20%, or ACTION=COST of COLUMN such as "
                f"'voucher=1.5 of price', the mean cost of a row. Got {text!r}.",
                argument="at_most",
            )
        return cls(action.strip(), float(value) / (100 if share else 1), cost.strip() or None)


@dataclass(frozen=True)
class Never:
    """Rows in which an action must not be taken: those where `column` `relation` `value`."""

    action: str
    column: str
    relation: str
    value: str

    @classmethod
    def parse(cls, text: str) -> Never:
        """Return the rule of a text.

        >>> Never.parse("discount where region=north")
        Never(action='discount', column='region', relation='=', value='north')
        """
        found = _NEVER.fullmatch(text)
        if found is None:
            raise MethodError(
                f"never takes 'ACTION where COLUMN=VALUE', or another of != < <= > >=. Got {text!r}.",
                argument="never",
            )
        return cls(*found.groups())

    def tree(self, encoder: Encoder, code: int, n_actions: int) -> StateTree:
        """Return 0 for actions that may be taken in a state, and `BARRED`."""
        for variable, place in encoder.places:
            if variable.column == self.column and variable.kind in ("text", "truth", "number"):
                part, low, high = self._range(variable)
                return _mask(place.start + part, low, high, self.relation == "!=", code, n_actions)
        raise MethodError(
            f"never tests state columns of text, truth values or numbers. Got {self.column!r}; there "
            f"are {listed(encoder.columns)}.",
            argument="never",
        )

    def _range(self, variable: Variable) -> tuple[int, float, float]:
        """Return the state variable, and the values between which the rule holds: low < x ≤ high."""
        value, equal = self.value, self.relation in ("=", "!=")
        if variable.kind == "text":
            if not equal or value not in variable.labels:
                raise MethodError(
                    f"{self.column!r} is text: never tests it by = or !=, against "
                    f"{listed(variable.labels)}. Got {self.relation}{value}.",
                    argument="never",
                )
            return variable.labels.index(value), 0.5, np.inf
        if variable.kind == "truth" and equal and value.lower() in ("true", "false"):
            return 0, *((0.5, np.inf) if value.lower() == "true" else (-np.inf, 0.5))
        if not is_number(value):
            raise MethodError(
                f"never compares {self.column!r} with a {variable.kind} value. Got {value!r}.",
                argument="never",
            )
        number = float(value)
        before = float(np.nextafter(number, -np.inf))
        return 0, *{
            "<=": (-np.inf, number),
            "<": (-np.inf, before),
            ">": (number, np.inf),
            ">=": (before, np.inf),
        }.get(self.relation, (before, number))


@dataclass(frozen=True)
class Limits:
    """What a learned policy must obey."""

    at_most: tuple[AtMost, ...] = ()
    never: tuple[Never, ...] = ()

    @classmethod
    def of(
        cls,
        at_most: Mapping[str, float | tuple[float, str]] | Sequence[str],
        never: Sequence[str],
        log: Log,
    ) -> Limits:
        """Return the limits that were asked for, and those of actions that are not always available.

        Parameters
        ----------
        at_most
            Texts as in `AtMost.parse`, or limits by label: a share, or a mean cost and its column.
        never
            Texts as in `Never.parse`.
        log
            Whose actions and columns they name.
        """
        if isinstance(at_most, Mapping):
            capped = tuple(
                AtMost(name, float(each)) if not isinstance(each, tuple) else AtMost(name, *each)
                for name, each in at_most.items()
            )
        else:
            capped = tuple(map(AtMost.parse, at_most))
        barred = (*map(Never.parse, never), *_unavailable(log))
        found = cls(capped, barred)
        if found:
            found._check(log)
        return found

    def __bool__(self) -> bool:
        return bool(self.at_most or self.never)

    @property
    def actions(self) -> frozenset[str]:
        """The actions that are limited."""
        capped, barred = (
            (each.action for each in self.at_most),
            (each.action for each in self.never),
        )
        return frozenset((*capped, *barred))

    def free(self, log: Log) -> list[int]:
        """Return the codes of the actions that may be taken in every row."""
        assert isinstance(log.action_space, Discrete)
        space = log.action_space
        return [code for code in range(space.n) if space.label(code) not in self.actions]

    def _check(self, log: Log) -> None:
        space = log.action_space
        argument = "at_most" if self.at_most else "never"
        if not isinstance(space, Discrete) or log.encoder is None:
            raise MethodError(
                "Limits are for discrete actions and the columns of a table.", argument=argument
            )
        labels = [space.label(code) for code in range(space.n)]
        if unknown := sorted(self.actions - set(labels)):
            raise MethodError(
                f"The log has no action {unknown[0]!r}. It has {listed(labels)}.", argument=argument
            )
        for each in self.at_most:
            if not log.is_bandit:
                raise MethodError("Budgets are for logs of one-step episodes.", argument="at_most")
            if not each.limit >= 0 or (each.cost is None and each.limit > 1):
                raise MethodError(
                    f"A share lies between 0 and 100 %, and a cost is not negative. Got "
                    f"{each.limit:g} for {each.action!r}.",
                    argument="at_most",
                )
            cost = _cost_of(each, log.encoder, log.states)
            if not (cost > 0).all():
                raise MethodError(
                    f"Costs must be above 0. Column {each.cost!r} has {float(cost.min()):g}.",
                    argument="at_most",
                )
        if not self.free(log) and (mask := self.mask(log.encoder, space)) is not None:
            closed = (mask(log.states) <= BARRED).all(axis=1)
            if closed.any():
                raise MethodError(
                    f"never leaves no action in {int(closed.sum()):,} rows. Allow one everywhere.",
                    argument="never",
                )

    def mask(self, encoder: Encoder, space: Discrete) -> StateTree | None:
        """Return 0 for actions that may be taken in a state, and `BARRED`; None if all may."""
        codes = {space.label(code): code for code in range(space.n)}
        found: StateTree | None = None
        for each in self.never:
            tree = each.tree(encoder, codes[each.action], space.n)
            found = tree if found is None else graft(found, tree)
        return found

    def applied(self, policy: CriticPolicy, log: Log, aggregate: Aggregate) -> CriticPolicy:
        """Return the policy within the limits; the rows of the log are those that teach it."""
        assert log.encoder is not None
        assert isinstance(log.action_space, Discrete)
        space, encoder = log.action_space, log.encoder
        members = state_critics(policy.critic.members)
        mask = self.mask(encoder, space)
        if mask is not None:
            members = StateCritics(tuple(_masked(each, mask) for each in members.members))
        found = replace(policy, critic=Ensemble(members, aggregate))
        codes = {space.label(code): code for code in range(space.n)}
        for _ in (
            self.at_most
        ):  # a price moves rows to other limited actions: as often as there are such
            for each in self.at_most:
                cost = _cost_of(each, encoder, log.states)
                price = price_of(found, codes[each.action], log.states, cost, each.limit)
                if price > 0:
                    column = _cost_column(each, encoder)
                    found = priced(found, codes[each.action], price, column)
        return found


def priced(policy: CriticPolicy, code: int, price: float, cost_column: int = -1) -> CriticPolicy:
    """Return the policy whose score of an action is lowered by a price for a unit of cost.

    `cost_column` is the state variable of the cost; −1 for 1 in every row.
    """
    prices = np.zeros(policy.n_actions)
    prices[code] = price
    members = state_critics(policy.critic.members).members
    cheaper = StateCritics(tuple(_priced(each, prices, cost_column) for each in members))
    return replace(policy, critic=Ensemble(cheaper, policy.critic.aggregate))


def margins(policy: CriticPolicy, code: int, states: FloatArray) -> FloatArray:
    """Return the score of an action less that of the best other one, (n,)."""
    values = policy.values(states)
    own = policy.actions.index(code) if code in policy.actions else -1
    if own < 0 or len(policy.actions) < 2:
        return np.full(len(states), -np.inf)
    others = np.delete(values, own, axis=1)
    return np.asarray(values[:, own] - others.max(axis=1))


def price_of(
    policy: CriticPolicy, code: int, states: FloatArray, cost: FloatArray, limit: float
) -> float:
    """Return the smallest price of an action at which its mean cost keeps a limit.

    It may be negative: then more rows take the action than would. Rows that gain the same are all in or
    all out.
    """
    ratio = margins(policy, code, states) / cost
    if np.isneginf(ratio).all():
        return 0.0  # the policy never takes it
    order = np.argsort(-ratio, kind="stable")
    spent = np.cumsum(cost[order]) / len(cost)
    sorted_ratio = ratio[order]
    last = np.append(np.diff(sorted_ratio) < 0, True)  # the last row of each group of equal ones
    within = np.flatnonzero(last & (spent <= limit * (1 + 1e-12)))
    count = 0 if len(within) == 0 else int(within[-1]) + 1
    above = sorted_ratio[count - 1] if count else sorted_ratio[0] + 2 * abs(sorted_ratio[0]) + 1
    below = sorted_ratio[count] if count < len(ratio) else sorted_ratio[-1] - 1
    return float(np.clip((above + below) / 2, -1e12, 1e12))


def state_critics(members: Critics) -> StateCritics:
    """Return critics that score all actions of a state; raise if they cannot be written so."""
    if isinstance(members, StateCritics):
        return members
    if isinstance(members, LinearCritics) and hasattr(members.features, "n_actions"):
        return StateCritics(tuple(LinearScores(members.features, theta) for theta in members.theta))
    raise MethodError(
        f"Limits need linear critics or trees. Got {type(members).__name__}; learn with another method."
    )


def _nodes(tree: StateTree, leaf: Callable[[FloatArray], Nested], k: int | None = None) -> Nested:
    """Return the nested nodes of a tree, with other leaves."""
    arrays = tree.tree
    k = int(arrays.roots[0]) if k is None else k
    if arrays.column[k] < 0:
        return leaf(tree.values[k])
    left, right = (_nodes(tree, leaf, int(side[k])) for side in (arrays.left, arrays.right))
    return int(arrays.column[k]), float(arrays.threshold[k]), left, right


def graft(first: StateTree, second: StateTree) -> StateTree:
    """Return one tree with the sum of the scores of two."""
    both = _nodes(first, lambda a: _nodes(second, lambda b: np.maximum(a + b, BARRED)))
    return nested_tree(both, first.values.shape[1])


def _mask(
    column: int, low: float, high: float, outside: bool, code: int, n_actions: int
) -> StateTree:
    """Return a tree that bars an action where low < x ≤ high, or elsewhere."""
    free = np.zeros(n_actions)
    barred = np.where(np.arange(n_actions) == code, BARRED, 0.0)
    inner, outer = (free, barred) if outside else (barred, free)
    node: Nested = (column, high, inner, outer) if np.isfinite(high) else inner
    return nested_tree((column, low, outer, node) if np.isfinite(low) else node, n_actions)


def _masked(member: StateScores, mask: StateTree) -> StateScores:
    if isinstance(member, Fixed):
        return StateTree(mask.tree, np.maximum(mask.values + member.scores, BARRED))
    if isinstance(member, StateTree):
        return graft(mask, member)
    return Limited(member, mask, np.zeros(mask.values.shape[1]), -1)


def _priced(member: StateScores, prices: FloatArray, cost_column: int) -> StateScores:
    if cost_column < 0 and isinstance(member, StateTree):
        return StateTree(member.tree, member.values - prices)
    if cost_column < 0 and isinstance(member, Fixed):
        return Fixed(member.scores - prices)
    if isinstance(member, Limited) and (
        cost_column == member.cost_column or not member.prices.any()
    ):
        return Limited(member.scores, member.barred, member.prices + prices, cost_column)
    return Limited(member, nested_tree(np.zeros(len(prices)), len(prices)), prices, cost_column)


def _cost_column(limit: AtMost, encoder: Encoder) -> int:
    """Return the state variable of a cost; −1 if rows are counted."""
    if limit.cost is None:
        return -1
    if limit.cost not in encoder.state_names:
        raise MethodError(
            f"The cost must be a state column of numbers, so that new rows have it. Got "
            f"{limit.cost!r}; there are {listed(encoder.columns)}.",
            argument="at_most",
        )
    return encoder.state_names.index(limit.cost)


def _cost_of(limit: AtMost, encoder: Encoder, states: FloatArray) -> FloatArray:
    column = _cost_column(limit, encoder)
    return np.ones(len(states)) if column < 0 else np.asarray(states[:, column])


def _unavailable(log: Log) -> list[Never]:
    """Return what a log's own mask forbids: its columns must be states, so that new rows have them."""
    origin = log.table_rows
    if origin.available is None:
        return []
    if log.encoder is None or not isinstance(log.action_space, Discrete):
        raise PolicyError("Available actions are discrete, and columns of a table.")
    mask: BoolArray = origin.available[origin.rows]
    found = []
    truths = {
        variable.column: log.states[:, place.start] == 1
        for variable, place in log.encoder.places
        if variable.kind == "truth" and not variable.has_indicator
    }
    for code in np.flatnonzero(~mask.all(axis=0)).tolist():
        label = log.action_space.label(code)
        own = [name for name, values in truths.items() if np.array_equal(values, mask[:, code])]
        named = [name for name in own if label in name]
        if not own:
            raise MethodError(
                f"Action {label!r} is not available in every row, and new rows must say where it is. "
                f"Name the columns of `available`, true or false, among the state columns too.",
                argument="available",
            )
        found.append(Never(label, (named or own)[0], "=", "false"))
    return found
