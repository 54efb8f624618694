"""Conventional column names, by which the parts of a log are guessed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tailproof.errors import LogError, listed

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
LESS_LIKELY = ("segment", "campaign", "bucket")
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
