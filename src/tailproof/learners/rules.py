"""Rules in words, SQL and Python: a small tree or a constant, over the columns of the log's table.

The encoder says what each split means for the original columns: a number up to a threshold (with the
fill value where it is missing), a category, a truth value, a part of a date. All three forms decide
as the policy does, row by row, and decide nothing (NULL, None) for rows that the encoder refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

import numpy as np

from tailproof.arrays import FloatArray, IntArray
from tailproof.critics.greedy import GreedyPolicy
from tailproof.critics.trees import Fixed, StateCritics, StateTree
from tailproof.errors import PolicyError
from tailproof.log.log import MISSING, OTHER
from tailproof.log.spaces import ActionSpace

if TYPE_CHECKING:
    from tailproof.io.encoder import Encoder, Variable

Dialect = Literal["duckdb", "sqlite"]
DIALECTS: tuple[Dialect, ...] = ("duckdb", "sqlite")


@dataclass(frozen=True)
class Split:
    """A test of one column: the left branch is taken where it holds."""

    variable: Variable
    part: int  # which of the variable's state variables
    threshold: float

    @property
    def about_gaps(self) -> bool:
        """Whether it tests that a value is missing."""
        return self.variable.has_indicator and self.part == len(self.variable.names) - 1

    @property
    def category(self) -> str | None:
        """The category that it tests, of a text column."""
        if self.variable.kind != "text" or self.about_gaps:
            return None
        return self.variable.labels[self.part]

    def words(self) -> tuple[str, str]:
        """Return the conditions of the left and the right branch in words."""
        column = self.variable.column
        if self.about_gaps:
            return f"{column} is given", f"{column} is missing"
        if self.category is not None:
            name = "missing" if self.category == MISSING else self.category
            return f"{column} is not {name}", f"{column} is {name}"
        if self.variable.kind == "truth":
            return f"{column} is false", f"{column} is true"
        name = {"hour": f"hour of {column}", "weekday": f"weekday of {column} (Monday is 0)"}.get(
            self.variable.kind, self.variable.names[self.part]
        )
        limit = _number(self.threshold)
        if self.variable.kind == "days":
            name, limit = column, _date(self.threshold)
        return f"{name} ≤ {limit}", f"{name} > {limit}"


@dataclass(frozen=True)
class Leaf:
    """A decision."""

    action: str


@dataclass(frozen=True)
class Branch:
    """A split and what follows on both sides of it."""

    split: Split
    left: Branch | Leaf
    right: Branch | Leaf


#: Splits, each with whether its left branch is taken.
Path = tuple[tuple[Split, bool], ...]


@dataclass(frozen=True)
class Rule:
    """A policy that can be read.

    Examples
    --------
    >>> import numpy as np
    >>> from tailproof import learn, read_log
    >>> rng = np.random.default_rng(0)
    >>> recency, offer = rng.integers(0, 100, 2000), rng.integers(0, 2, 2000)
    >>> table = {
    ...     "recency": recency,
    ...     "action": np.where(offer == 1, "voucher", "none"),
    ...     "spend": 5.0 * offer * (recency > 60) - offer + rng.normal(size=2000),
    ... }
    >>> log = read_log(table, state="recency", reward="spend")
    >>> learned = learn(log, method="policy-tree", gamma=0.0)
    >>> rule = rule_of(learned.policy, log.encoder)
    >>> print(rule.text())
    recency ≤ 60: none
    recency > 60: voucher
    >>> print(rule.sql())
    CASE
      WHEN "recency" IS NULL THEN NULL
      WHEN "recency" <= 60 THEN 'none'
      ELSE 'voucher'
    END
    >>> scope = {}
    >>> exec(rule.python(), scope)
    >>> scope["decide"]({"recency": 75})
    'voucher'
    """

    root: Branch | Leaf
    encoder: Encoder

    def text(self) -> str:
        """Return the rule in words, one line for each decision."""
        if isinstance(self.root, Leaf):
            return f"always {self.root.action}"
        return "\n".join(
            f"{' and '.join(conditions)}: {leaf.action}" for conditions, leaf in self.leaves()
        )

    def paths(self) -> Iterator[tuple[Path, Leaf]]:
        """Yield every decision and the splits that lead to it."""

        def walk(node: Branch | Leaf, path: Path) -> Iterator[tuple[Path, Leaf]]:
            if isinstance(node, Leaf):
                yield path, node
                return
            yield from walk(node.left, (*path, (node.split, True)))
            yield from walk(node.right, (*path, (node.split, False)))

        return walk(self.root, ())

    def leaves(self) -> list[tuple[tuple[str, ...], Leaf]]:
        """Return every decision with the conditions that lead to it, without repetitions."""
        return [(_conditions(path), leaf) for path, leaf in self.paths()]

    def leaf_of(self, states: FloatArray) -> IntArray:
        """Return the place among `leaves` of the one that decides each state, (n,)."""
        first = {variable: place.start for variable, place in self.encoder.places}
        found = np.empty(len(states), dtype=np.intp)
        for k, (path, _) in enumerate(self.paths()):
            inside = np.ones(len(states), dtype=bool)
            for split, left in path:
                column = states[:, first[split.variable] + split.part]
                inside &= (column <= split.threshold) == left
            found[inside] = k
        return found

    def sql(self, dialect: Dialect = "duckdb") -> str:
        """Return a CASE expression over the columns of the table; NULL for rows that are refused."""
        if dialect not in DIALECTS:
            raise PolicyError(f"dialect must be one of {', '.join(DIALECTS)}. Got {dialect!r}.")
        refused = _refused(self.encoder.variables)
        lines = [f"WHEN {' OR '.join(refused)} THEN NULL"] if refused else []
        *others, (_, last) = self.paths()
        for path, leaf in others:
            tests = (_sql_tests(split, dialect)[0 if left else 1] for split, left in path)
            lines.append(f"WHEN {' AND '.join(tests)} THEN {_quoted(leaf.action)}")
        body = [*lines, f"ELSE {_quoted(last.action)}"]
        return "\n".join(["CASE", *(f"  {line}" for line in body), "END"])

    def python(self) -> str:
        """Return the source of ``decide(row)``, a function of a dict that imports nothing.

        Dates are `datetime` objects; None for rows that are refused.
        """
        lines = ["def decide(row):", *_python_guards(self.encoder.variables)]

        def walk(node: Branch | Leaf, depth: int) -> None:
            space = "    " * depth
            if isinstance(node, Leaf):
                lines.append(f"{space}return {node.action!r}")
                return
            lines.append(f"{space}if {_python_test(node.split)}:")
            walk(node.left, depth + 1)
            walk(node.right, depth)

        walk(self.root, 1)
        return "\n".join(lines) + "\n"


def _conditions(path: Path) -> tuple[str, ...]:
    """Return the tests on the way to a leaf in words; a later test may make an earlier one needless."""
    found: dict[tuple[object, ...], str] = {}
    for split, left in path:
        column, words = split.variable.column, split.words()[0 if left else 1]
        if split.category is not None and not left:  # one category excludes the others
            found = {key: text for key, text in found.items() if key[:2] != (column, "category")}
        kind = "category" if split.category is not None else split.variable.kind
        # a further threshold on the same side is closer, and a further category is another
        further = split.category if split.category is not None else (split.part, left)
        found[column, kind, further] = words
    return tuple(found.values())


def is_rule(policy: object) -> bool:
    """Return whether a policy is a small tree or a constant."""
    return _rule_member(policy) is not None


def _rule_member(policy: object) -> StateTree | Fixed | None:
    """Return the one tree or constant of a greedy policy; None if it is another."""
    if not isinstance(policy, GreedyPolicy):
        return None
    members = policy.critic.members
    if not isinstance(members, StateCritics) or members.count != 1:
        return None
    member = members.members[0]
    return member if isinstance(member, StateTree | Fixed) else None


def columns_by_name(state_names: Sequence[str], space: ActionSpace) -> Encoder:
    """Return an encoder for states that were read from arrays: each is a column of numbers."""
    from tailproof.io.encoder import Actions, Encoder, Variable  # imports pyarrow

    return Encoder(
        tuple(Variable(name, "number") for name in state_names), Actions(("action",), space)
    )


def rule_of(policy: object, encoder: Encoder) -> Rule:
    """Return the rule of a greedy policy over one small tree or a constant; raise if it is another.

    Parameters
    ----------
    policy
        What `learn` returned.
    encoder
        That of the log it was learned from, ``log.encoder``.
    """
    member = _rule_member(policy)
    if member is None or not isinstance(policy, GreedyPolicy):
        raise PolicyError(
            f"{policy!r} is no small tree or constant, which a rule can be written of. Take "
            f"learned.readable(), learn with readable=True, or with method='policy-tree'."
        )
    labels = [
        str(action) if policy.action_labels is None else policy.action_labels[action]
        for action in policy.actions
    ]
    if isinstance(member, Fixed):
        return Rule(Leaf(labels[int(member.scores[list(policy.actions)].argmax())]), encoder)
    places = [(each, part) for each in encoder.variables for part in range(len(each.names))]
    tree, values = member.tree, member.values[:, list(policy.actions)]

    def node(k: int) -> Branch | Leaf:
        if tree.column[k] < 0:
            return Leaf(labels[int(values[k].argmax())])
        split = Split(*places[int(tree.column[k])], float(tree.threshold[k]))
        left, right = node(int(tree.left[k])), node(int(tree.right[k]))
        return left if left == right else Branch(split, left, right)

    return Rule(node(0), encoder)


def _number(value: float) -> str:
    return f"{value:.0f}" if value == round(value) and abs(value) < 1e15 else repr(value)


def _date(days: float) -> str:
    """Return the moment so many days after the first of 1970."""
    return (datetime(1970, 1, 1) + timedelta(days=days)).isoformat(" ", "minutes")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _takes_gaps(variable: Variable, category: str) -> bool:
    """Return whether missing texts count as this category."""
    if variable.fill is None:
        return False
    known = str(variable.fill) if str(variable.fill) in variable.labels else OTHER
    return known == category


def _sql_tests(split: Split, dialect: Dialect) -> tuple[str, str]:
    """Return the conditions of both branches; NULL counts as false in a CASE."""
    variable, column = split.variable, _name(split.variable.column)
    if split.about_gaps:
        return f"{column} IS NOT NULL", f"{column} IS NULL"
    if (category := split.category) is not None:
        among, others = f"{column} = {_quoted(category)}", f"{column} <> {_quoted(category)}"
        if category == OTHER:
            known = ", ".join(_quoted(each) for each in variable.labels if each != OTHER)
            among, others = f"{column} NOT IN ({known})", f"{column} IN ({known})"
            if not known:
                among, others = f"{column} IS NOT NULL", "FALSE"
        if _takes_gaps(variable, category):
            return others, f"({column} IS NULL OR {among})"
        return f"({column} IS NULL OR {others})" if variable.fill is not None else others, among
    value = _sql_value(variable, column, dialect)
    if variable.fill is not None:
        value = f"COALESCE({value}, {float(variable.fill)!r})"
    limit = _number(split.threshold)
    return f"{value} <= {limit}", f"{value} > {limit}"


def _sql_value(variable: Variable, column: str, dialect: Dialect) -> str:
    if variable.kind == "number":
        return column
    if variable.kind == "truth":
        return f"CAST({column} AS INTEGER)"
    if variable.kind == "list" or variable.zone is not None:
        what = "a list" if variable.kind == "list" else f"a date in the zone {variable.zone}"
        raise PolicyError(
            f"Column {variable.column!r} is {what}, which SQL dialects read differently. Export the "
            f"rule as Python, or leave the column out of the state."
        )
    parts = {
        ("duckdb", "hour"): f"date_part('hour', CAST({column} AS TIMESTAMP))",
        ("duckdb", "weekday"): f"(date_part('isodow', CAST({column} AS TIMESTAMP)) - 1)",
        ("duckdb", "days"): f"(epoch(CAST({column} AS TIMESTAMP)) / 86400.0)",
        ("sqlite", "hour"): f"CAST(strftime('%H', {column}) AS INTEGER)",
        ("sqlite", "weekday"): f"((strftime('%w', {column}) + 6) % 7)",
        ("sqlite", "days"): f"(julianday({column}) - 2440587.5)",
    }
    return parts[dialect, variable.kind]


def _refused(variables: Sequence[Variable]) -> list[str]:
    """Return the conditions under which the encoder refuses a row."""
    found: dict[str, None] = {}
    for variable in variables:
        column = _name(variable.column)
        if variable.fill is None:
            found[f"{column} IS NULL"] = None
        if variable.kind == "text" and OTHER not in variable.labels:
            known = ", ".join(map(_quoted, variable.labels))
            found[f"{column} NOT IN ({known})"] = None
    return list(found)


def _python_guards(variables: Sequence[Variable]) -> list[str]:
    """Return the lines that refuse rows, and the values with gaps as None."""
    lines = []
    for variable in variables:
        value = f"row.get({variable.column!r})"
        if variable.fill is None:
            lines.append(f"    if {value} is None or {value} != {value}:")
            lines.append("        return None")
        if variable.kind == "text" and OTHER not in variable.labels:
            allowed = (*variable.labels, None) if variable.fill is not None else variable.labels
            lines.append(f"    if {value} not in {allowed!r}:")
            lines.append("        return None")
    return lines


def _python_test(split: Split) -> str:
    variable = split.variable
    value = f"row.get({variable.column!r})"
    missing = f"({value} is None or {value} != {value})"
    if split.about_gaps:
        return f"not {missing}"
    if (category := split.category) is not None:
        among = f"str({value}) == {category!r}"
        if category == OTHER:
            known = tuple(each for each in variable.labels if each != OTHER)
            among = f"str({value}) not in {known!r}"
        if _takes_gaps(variable, category):
            return f"not ({missing} or {among})"
        return f"{missing} or not {among}" if variable.fill is not None else f"not {among}"
    read = _PYTHON[variable.kind](value, split.part)
    if variable.fill is not None:
        read = f"({float(variable.fill)!r} if {missing} else {read})"
    return f"{read} <= {_number(split.threshold)}"


_PYTHON: dict[str, Callable[[str, int], str]] = {
    "number": lambda value, _: value,
    "truth": lambda value, _: f"int({value})",
    "hour": lambda value, _: f"{value}.hour",
    "weekday": lambda value, _: f"{value}.weekday()",
    "days": lambda value, _: (
        f"(({value} - {value}.replace(year=1970, month=1, day=1, hour=0, minute=0, second=0, "
        f"microsecond=0)).total_seconds() / 86400)"
    ),
    "list": lambda value, part: f"{value}[{part}]",
}
