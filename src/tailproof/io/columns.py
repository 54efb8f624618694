"""The part of each table column in a log: named by the caller, or guessed and reported."""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from tailproof.errors import ColumnError, LogError, did_you_mean, listed
from tailproof.io.steps import Notes
from tailproof.io.values import array, numbers, unwrapped
from tailproof.log.validation import adds_up

# Names for each part, better ones first: a later row is used only if the earlier ones match
# nothing. Two names of one row in the same table are ambiguous.
CONVENTIONS: dict[str, tuple[tuple[str, ...], ...]] = {
    "action": (
        ("action",),
        ("actions", "action_id", "arm", "arm_id"),
        ("a",),
        ("treatment", "variant", "offer", "decision"),
        ("offer_sent", "offer_id", "treatment_id", "chosen_action", "choice"),
    ),
    "reward": (
        ("reward",),
        ("rewards",),
        ("r",),
        ("revenue", "profit", "margin", "spend", "sales", "payoff", "value"),
        ("cost", "costs", "loss", "losses"),
    ),
    "episode": (
        ("episode",),
        ("episode_id", "episode_index", "trajectory", "trajectory_id", "traj", "traj_id"),
        ("session", "session_id", "user", "user_id", "customer", "customer_id"),
        ("patient", "patient_id"),
    ),
    "step": (
        ("step",),
        ("step_id", "step_index", "timestep", "time_step"),
        ("t", "time", "timestamp"),
        ("week", "day", "period", "visit"),
    ),
    "terminated": (("terminated",), ("terminal", "terminals", "is_terminal"), ("done", "dones")),
    "truncated": (("truncated",), ("timeout", "timeouts")),
    "propensity": (
        ("propensity",),
        ("propensity_score", "pscore", "action_prob", "behavior_prob", "behaviour_prob"),
        ("prob", "probability"),
    ),
    "group": (("group",), ("group_id", "cluster", "cluster_id")),
}
#: Names of costs: a guessed reward with such a name is negated.
NEGATIVE = ("cost", "costs", "loss", "losses")
_ROW_LABELS = r"__index_level_\d+__"  # of pandas, in Parquet
# Words in the names of columns of which less is better, and words that turn them round.
_COSTS = re.compile(
    r"(^|_)(costs?|loss|losses|expenses?|expenditures?|claims?|damages?|penalty|penalties|refunds?|"
    r"latency|latencies|delays?)(_|$)"
)
_SPARED = re.compile(
    r"sav(ed|ing)|avoid|prevent|reduc|spared|recover|gain|profit|margin|revenue|effective|efficien|"
    r"weight_loss|fat_loss|(^|_)(neg|negative|minus|dealt|closed|processed)(_|$)"
)
# Words in the names of columns that are known only after the action, and words that put them before.
_OUTCOMES = re.compile(
    r"(^|_)(reward|revenue|profit|margin|spend|spent|sales|payoff|conversion|converted|click|clicked|"
    r"purchase|purchased|bought|paid|refund|refunded|returned|churned|outcome|response|responded)(_|$)"
)
_EARLIER = re.compile(
    r"(^|_)(last|past|prior|prev|previous|previously|since|before|ago|history|historical|avg|average|"
    r"recency|frequency|lag\d*|predicted|expected|propensity|likelihood|score)(_|$)"
)
CHOICES = re.compile(
    r"action|arm|offer|treat|variant|campaign|decision|choice|chosen|bucket|segment"
)
NEXT_FORMS = ("next_{}", "{}_next", "next {}", "{}_prime")
#: Names that may also be attributes: suggested only if there is no better one.
OFTEN_STATES = ("segment", "campaign", "bucket")
STATE_WORDS = ("state", "obs", "observation", "observations", "context", "feature", "x", "s")


def plain_name(name: str) -> str:
    """Return a name in lower case with underscores."""
    return re.sub(r"[\s\-.]+", "_", name.strip()).lower()


def looks_like_cost(name: str) -> bool:
    """Return whether less of a column seems to be better, by its name.

    >>> [name for name in ("Claims Cost", "latency_ms", "cost_saving") if looks_like_cost(name)]
    ['Claims Cost', 'latency_ms']
    """
    plain = plain_name(name)
    return bool(_COSTS.search(plain)) and not _SPARED.search(plain)


def looks_like_outcome(name: str) -> bool:
    """Return whether a column seems to be known only after the action, by its name.

    >>> [name for name in ("Spend", "spend_last_90d", "order_revenue") if looks_like_outcome(name)]
    ['Spend', 'order_revenue']
    """
    plain = plain_name(name)
    return bool(_OUTCOMES.search(plain)) and not _EARLIER.search(plain)


def guess(part: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns with a conventional name of this part, or ()."""
    for row in CONVENTIONS[part]:
        found = [name for name in names if plain_name(name) in row]
        if len(found) > 1:
            raise LogError(
                f"More than one column could be the {part}: {listed(found)}. Say which: "
                f"{part}={found[0]!r}."
            )
        if found:
            return tuple(found)
    if part == "action":
        return tuple(name for name in names if re.fullmatch(r"(action|a)s?_?\d+", plain_name(name)))
    return ()


def guess_state(names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of the one family of names that look like states, or ()."""
    families: dict[str, list[str]] = {}
    pattern = re.compile(rf"({'|'.join(STATE_WORDS)})(s?|_?\d+|_.+)")
    for name in names:
        match = pattern.fullmatch(plain_name(name))
        if match and not re.search(r"(^|_)(next|prime)(_|$)", plain_name(name)):
            families.setdefault(match[1], []).append(name)
    if len(families) > 1:
        shown = "; ".join(listed(family, 4) for family in families.values())
        raise LogError(
            f"More than one family of columns could be the state: {shown}. Say which, as in "
            f"state={next(iter(families.values()))!r}."
        )
    return tuple(next(iter(families.values()), ()))


def guess_next(state: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that are named as the next values of all states, or ()."""
    for form in NEXT_FORMS:
        after = tuple(form.format(name) for name in state)
        there = [name for name in after if name in names]
        if len(there) == len(after) > 0:
            return after
        if there:
            missing = [name for name in after if name not in there]
            raise LogError(
                f"Next states are given for some state columns only: there is no {listed(missing)}. "
                f"Name all of them with next_state=[...], or pass next_state=False to derive them."
            )
    return ()


#: A column, several, a pattern such as ``"x_*"``, None to guess, or False for no column.
Choice = str | Sequence[str] | bool | None

#: Parts that may be given by several columns, and all parts in the order in which they are said.
SEVERAL = ("state", "next_state", "action", "available", "episode", "propensity")
PARTS = (
    *("state", "next_state", "action", "available", "reward", "episode", "step", "terminated"),
    *("truncated", "propensity", "group", "weight"),
)
# A time, user or week column may also be a state; these parts may not share a column.
EXCLUSIVE = ("action", "reward", "next_state", "terminated", "truncated", "propensity", "weight")


#: Parts that are unknown before the action, so that policies cannot use them.
_LATER = {
    "action": "the action",
    "reward": "the reward",
    "next_state": "a next state",
    "terminated": "what ends the episode",
    "truncated": "what ends the episode",
    "propensity": "the propensity of the logged action",
}


@dataclass(frozen=True)
class Columns:
    """The columns that make up a log.

    Attributes
    ----------
    state, action, next_state, available
        Names in the order of the variables; `next_state` is empty if next states are derived.
    episode, propensity
        One name, or several: episodes are then combinations of their values, and each propensity
        stands in the column that is named after the action.
    reward, step, terminated, truncated, group, weight
        One name each, or None if the table has no such column.
    guessed
        The parts that were guessed.
    ignored
        The columns that are not used.
    negative
        Whether the reward column is a cost, so that the reward is its negative.
    by_pattern
        State columns that were selected only by a pattern.
    """

    state: tuple[str, ...]
    action: tuple[str, ...]
    reward: str
    episode: tuple[str, ...] = ()
    step: str | None = None
    next_state: tuple[str, ...] = ()
    terminated: str | None = None
    truncated: str | None = None
    propensity: tuple[str, ...] = ()
    group: str | None = None
    weight: str | None = None
    available: tuple[str, ...] = ()
    guessed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    negative: bool = False
    by_pattern: tuple[str, ...] = ()

    @property
    def outcomes(self) -> tuple[str, ...]:
        """State columns that were guessed or matched by a pattern, and are named like outcomes."""
        return tuple(filter(looks_like_outcome, self.by_pattern))

    @property
    def doubts(self) -> list[str]:
        """A caution if more of the reward counts as better and its name says cost."""
        if self.negative or not looks_like_cost(self.reward):
            return []
        return [
            f"More of {self.reward!r} counts as better. If it is a cost, pass "
            f"reward={f'-{self.reward}'!r}."
        ]

    def parts(self) -> dict[str, tuple[str, ...]]:
        """Return the columns of each part that has columns."""
        found = {part: getattr(self, part) for part in PARTS}
        return {
            part: (names,) if isinstance(names, str) else names
            for part, names in found.items()
            if names
        }

    def guessed_episode(self, given: Mapping[str, Choice]) -> str | None:
        """Return the episode column if it was guessed and how episodes end is unknown."""
        flags = self.terminated or self.truncated or given.get("terminated") is not None
        said = flags or bool(self.next_state)
        return None if said or "episode" not in self.guessed else self.episode[0]

    def used(self) -> tuple[str, ...]:
        """Return all columns that are used, without duplicates."""
        return tuple(dict.fromkeys(name for names in self.parts().values() for name in names))

    @property
    def hidden(self) -> dict[str, str]:
        """The columns that no policy knows before it acts, and what each is."""
        own = self.parts()
        if len(self.propensity) > 1:  # those of all actions are known before
            del own["propensity"]
        return {name: what for part, what in _LATER.items() for name in own.get(part, ())}

    def describe(self) -> str:
        """Return a text with the columns of each part, and which of them are guesses."""
        said = [
            f"{part.replace('_', ' ')}: {'−' if part == 'reward' and self.negative else ''}"
            f"{listed(names)}"
            f"{' (guessed)' if part in self.guessed else ''}"
            for part, names in self.parts().items()
        ]
        unused = [each for each in self.ignored if not re.fullmatch(_ROW_LABELS, each)]
        if unused:
            said.append(f"not used: {listed(unused)}")
        return "; ".join(said)


def resolve_columns(
    names: Sequence[str],
    *,
    beside: Sequence[str] = (),
    **given: Choice,
) -> Columns:
    """Return the given columns, and guesses for the other parts.

    Parameters
    ----------
    names
        The columns of the table.
    beside
        Columns (or patterns) of policies: no pattern of states matches them.
    given
        A `Choice` for any part: ``state``, ``action``, ``reward``, ``episode``, ``step``,
        ``next_state``, ``terminated``, ``truncated``, ``propensity``, ``group``, ``weight``,
        ``available``.

    Examples
    --------
    >>> names = ["user_id", "t", "x_age", "x_income", "action", "reward", "note"]
    >>> print(resolve_columns(names).describe())
    state: x_age, x_income (guessed); action: action (guessed); reward: reward (guessed); \
episode: user_id (guessed); step: t (guessed); not used: note
    """
    _refuse_repeated(names)
    given, negative = _without_sign(given, names)
    named = {
        part: found
        for part, choice in given.items()
        if (found := named_columns(part, choice, names, single=part not in SEVERAL))
    }
    chosen = dict(named)
    apart = {name for each in beside for name in _matching(each, names)}
    loose = _by_pattern(given.get("state"), names)
    if loose:  # columns matched by a pattern are left to other parts, named ones are not
        chosen["state"] = tuple(name for name in named["state"] if name not in loose)
    guessed = []
    for part in CONVENTIONS:
        if given.get(part) is None:
            # A time column among the states may also order the rows.
            shared = chosen.get("state", ()) if part == "step" else ()
            if found := guess(part, [*_free(names, chosen), *shared]):
                chosen[part] = found
                guessed.append(part)
    if loose:
        free = {*(set(_free(names, chosen)) - apart), *chosen["state"]}
        chosen["state"] = _without_next([name for name in named["state"] if name in free], loose)
    elif "state" not in chosen:
        chosen["state"] = guess_state([name for name in _free(names, chosen) if name not in apart])
        guessed.append("state")
    if not chosen["state"] and "state" in guessed:
        guessed.remove("state")
    if "next_state" in chosen:
        chosen["next_state"] = _paired(chosen["state"], chosen["next_state"], given, names)
    elif given.get("next_state") is None and (
        after := guess_next(chosen["state"], _free(names, chosen))
    ):
        chosen["next_state"] = after
        guessed.append("next_state")
    _require(chosen, names)
    negative |= "reward" in guessed and plain_name(chosen["reward"][0]) in NEGATIVE
    _refuse_shared(chosen)
    if "episode" not in chosen and "step" in guessed:  # a step is useless without episodes
        del chosen["step"]
        guessed.remove("step")
    used = {name for columns in chosen.values() for name in columns}
    return Columns(
        **{part: found if part in SEVERAL else found[0] for part, found in chosen.items()},  # type: ignore[arg-type]
        guessed=tuple(guessed),
        ignored=tuple(name for name in names if name not in used),
        negative=negative,
        by_pattern=tuple(name for name in chosen["state"] if name in loose),
    )


def _without_next(state: Sequence[str], loose: set[str]) -> tuple[str, ...]:
    """Return state columns without those that a pattern matched and that are next states of others."""
    later = {form.format(name) for name in state for form in NEXT_FORMS} & loose
    return tuple(name for name in state if name not in later)


def _without_sign(given: dict[str, Choice], names: Sequence[str]) -> tuple[dict[str, Choice], bool]:
    """Return the choices without the reward's minus sign, and whether it had one."""
    reward = given.get("reward")
    if isinstance(reward, str) and reward[:1] == "-" and len(reward) > 1 and reward not in names:
        return {**given, "reward": reward[1:].strip()}, True
    return given, False


def _free(names: Sequence[str], chosen: dict[str, tuple[str, ...]]) -> list[str]:
    taken = {name for columns in chosen.values() for name in columns}
    return [name for name in names if name not in taken]


def _refuse_repeated(names: Sequence[str]) -> None:
    if repeated := sorted(name for name, count in Counter(names).items() if count > 1):
        raise LogError(
            f"Column names must differ. Got {listed(repeated)} more than once; rename or drop one."
        )


def _named(part: str, choice: Any, names: Sequence[str]) -> tuple[str, ...]:
    try:
        entries = [choice] if isinstance(choice, str) else [str(name) for name in choice]
    except TypeError as error:
        raise LogError(
            f"{part} must be a column name, a list of names or a pattern. Got {choice!r} instead."
        ) from error
    named = [entry for entry in entries if not _is_pattern(entry, names)]
    columns: tuple[str, ...] = ()
    for entry in entries:
        if entry in named:
            columns += (entry,)
        elif found := _matching(entry, names):
            columns += tuple(name for name in found if name not in {*columns, *named})
        else:
            raise LogError(f"No column matches the {part} pattern. The log has: {listed(names)}.")
    for name in columns:
        if name not in names:
            close = did_you_mean(name, names)
            several = [each.strip() for each in name.split(",")]
            if len(several) > 1 and {*several} <= {*names}:
                close = f" Pass a list: {part}={several}."
            raise (LogError if close else ColumnError)(
                f"There is no column {name!r} for {part}. The log has: {listed(names)}.{close}"
            )
    if not columns or len(set(columns)) < len(columns):
        raise LogError(f"{part} must name each column once. Got {list(columns)} instead.")
    return columns


def named_columns(
    part: str, choice: Choice, names: Sequence[str], *, single: bool = False
) -> tuple[str, ...]:
    """Return the columns that a choice names; none if it is None, or a boolean that is allowed."""
    if choice is True and part != "terminated":
        raise LogError(f"{part} must be a column name, or False for none. Got True instead.")
    if choice is None or isinstance(choice, bool):
        return ()
    columns = _named(part, choice, names)
    if single and len(columns) > 1:
        raise LogError(f"{part} is one column. Got {listed(columns)}; name one of them.")
    return columns


def _is_pattern(entry: str, names: Sequence[str]) -> bool:
    return "*" in entry and entry not in names


def _matching(pattern: str, names: Sequence[str]) -> list[str]:
    """Return the names that a pattern matches, in which only the star is special."""
    form = re.compile(fnmatch.translate(re.sub(r"[?[]", r"[\g<0>]", pattern)))  # linear in the name
    return [name for name in names if form.match(name)]


def _by_pattern(choice: Choice, names: Sequence[str]) -> set[str]:
    """Return the columns that are selected only by a pattern."""
    if choice is None or isinstance(choice, bool):
        return set()
    entries = [choice] if isinstance(choice, str) else list(choice)
    patterns = [entry for entry in entries if _is_pattern(entry, names)]
    return {name for each in patterns for name in _matching(each, names)} - set(entries)


def _paired(
    state: Sequence[str], after: tuple[str, ...], given: dict[str, Choice], names: Sequence[str]
) -> tuple[str, ...]:
    if len(after) != len(state):
        raise LogError(
            f"There must be a next-state column for each of the {len(state)} state columns. "
            f"Got {len(after)}: {listed(after)}."
        )
    before, pattern = given.get("state"), given.get("next_state")
    patterns = [each for each in (before, pattern) if isinstance(each, str) and each not in names]
    if len(patterns) < 2:
        return after
    # Both are patterns: columns are paired by the text that the star matches.
    middles = [_middle(patterns[0], name) for name in state]
    found = {_middle(patterns[1], name): name for name in after}
    if set(middles) != set(found):
        raise LogError(
            f"The patterns {patterns[0]!r} and {patterns[1]!r} must match columns that correspond. "
            f"Got {listed(state)} and {listed(after)}; list them instead."
        )
    return tuple(found[middle] for middle in middles)


def _middle(pattern: str, name: str) -> str:
    first, _, last = pattern.partition("*")
    return name[len(first) : len(name) - len(last)]


def _require(chosen: dict[str, tuple[str, ...]], names: Sequence[str]) -> None:
    """Raise one error for all missing parts, with an example of how to name them."""
    missing = [part for part in ("action", "reward") if not chosen.get(part)]
    if not missing:
        return
    free = _free(names, chosen)
    likely = {
        "action": sorted(
            (name for name in free if CHOICES.search(plain_name(name))),
            key=lambda name: plain_name(name).startswith(OFTEN_STATES),
        ),
        "reward": [*filter(looks_like_outcome, free)]
        or [f"-{name}" for name in free if looks_like_cost(name)],
    }
    example = {part: (likely[part] or ["COLUMN"])[0] for part in missing}
    if not chosen.get("state"):
        example["state"] = "*"
    taken = [
        f"{name!r} could be the {part}, but was taken as a state. "
        for part in missing
        for name in chosen.get("state", ())
        if plain_name(name) in {each for row in CONVENTIONS[part] for each in row}
    ]
    raise ColumnError(
        f"No column looks like the {' or the '.join(missing)}. {''.join(taken)}The log has: "
        f"{listed(names, 30) or 'no columns'}. "
        f"Name {'it' if len(missing) == 1 else 'them'}, as in "
        f"{', '.join(f'{part}={name!r}' for part, name in example.items())}."
    )


def _refuse_shared(chosen: dict[str, tuple[str, ...]]) -> None:
    parts = [part for part in EXCLUSIVE if part in chosen]
    for i, part in enumerate(parts):
        for other in [*parts[i + 1 :], "state"]:
            if shared := set(chosen[part]) & set(chosen[other]):
                raise LogError(
                    f"A column can be one part of the log only. Got {sorted(shared)[0]!r} for {part} "
                    f"and {other}; name another for one of them."
                )


_CHANCE = re.compile(
    r"(p|ps|mu)(_(action|log|logged|behaviou?r))?|(log|logged|logging|action|behaviou?r)_(p|ps|prob\w*)|"
    r"\w*propensit(y|ies)\w*|\w*pscores?\w*"
)
# Propensities of customers, which are states.
_OF_PEOPLE = re.compile(
    r"buy|purchas|churn|click|conver|respon|spend|pay|renew|cancel|lapse|attrition|default|fraud|claim"
)


def probability_columns(columns: Columns, table: pa.Table) -> tuple[str, ...]:
    """Return state columns, matched by a pattern only, that hold probabilities of the actions.

    That is a column between 0 and 1 with the name of a propensity, or one column for each action,
    named after it, which add up to 1.
    """
    if len(columns.action) > 1:
        return ()
    within = {name: plain_name(name) for name in columns.by_pattern if _is_within(table[name])}
    found = [
        name
        for name, plain in within.items()
        if _CHANCE.fullmatch(plain) and not _OF_PEOPLE.search(plain)
    ]
    action = unwrapped(table[columns.action[0]])
    if kinds.is_floating(action.type) or kinds.is_nested(action.type):
        return tuple(found)
    encoded = action.combine_chunks().dictionary_encode()
    labels = [str(each) for each in encoded.dictionary.to_pylist()]
    codes = array(encoded.indices, absent=0)
    for family in _families(within, set(labels)):
        if len(family) == len(labels) > 1:
            names = [family[label] for label in labels]
            probabilities = np.column_stack(
                [numbers(name, table[name], missing=True) for name in names]
            )
            indicators = bool(((probabilities == 0) | (probabilities == 1)).all())
            of_actions = not indicators or probabilities[np.arange(len(probabilities)), codes].all()
            if adds_up(probabilities).all() and of_actions:
                found += names
    return tuple(name for name in within if name in found)


def _families(names: Iterable[str], labels: set[str]) -> Iterable[dict[str, str]]:
    """Return columns by the label in their names, for each of the words before and after it."""
    families: dict[tuple[str, str], dict[str, str]] = {}
    for label in labels:
        whole = re.compile(rf"(?<![^\W_]){re.escape(label)}(?![^\W_])")
        for name in names:
            for match in whole.finditer(name):
                around = name[: match.start()], name[match.end() :]
                families.setdefault(around, {})[label] = name
    return families.values()


def warn_of_probability_columns(names: tuple[str, ...], notes: Notes) -> None:
    """Warn that columns look like probabilities of the actions and are left out."""
    if len(names) > 1:
        given: str | list[str] = list(names)
        what, it = "look like probabilities of the actions and are", "them"
    else:
        given = names[0]
        what, it = "looks like a probability of the actions and is", "it"
    notes.cautions.append(
        f"{listed(names)} {what} left out of the state. Name the state columns one by one to keep "
        f"{it}; if the logged actions were taken with {it}, pass propensity={given!r}."
    )


def _is_within(column: pa.ChunkedArray) -> bool:
    """Return whether a column holds real numbers, all of them between 0 and 1."""
    column = unwrapped(column)
    if not (kinds.is_floating(column.type) or kinds.is_decimal(column.type)):
        return False
    low, high = pc.min_max(column.cast(pa.float64(), safe=False)).as_py().values()
    return low is not None and bool(low >= 0 and high <= 1)
