"""A learned rule with what each of its leaves earns, and the small tree closest to any policy."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tailproof.critics.ensembles import Ensemble
from tailproof.critics.greedy import critic_policy, require_discrete
from tailproof.critics.trees import StateCritics
from tailproof.doors.estimate import Estimate
from tailproof.doors.evaluate import evaluate
from tailproof.doors.segments import Segment, segments_of
from tailproof.errors import MethodError, TailproofWarning
from tailproof.files import as_frame, plain
from tailproof.learners.exact_tree import state_tree
from tailproof.learners.rules import Rule, is_rule
from tailproof.log.log import Log
from tailproof.policies.forms import action_probabilities
from tailproof.profile.profile import LogProfile
from tailproof.robust.segments import joint_level

if TYPE_CHECKING:
    from tailproof.doors.learned import Learned
    from tailproof.files import Frame

_MOST = 20_000  # rows that a closest tree is fitted to
_SMALLEST = 0.01  # share of the rows in its smallest leaf


@dataclass(frozen=True, kw_only=True)
class RuleLeaf:
    """A leaf of a rule, with what it earns in the rows that judge it.

    Attributes
    ----------
    conditions, action
        What leads to it, in words, and its decision.
    rows, share
        How many rows it decides, and their share; None if no rows judge it.
    value
        Mean reward of these rows under the rule; None if it is not known.
    segment
        Its gain over what was logged in these rows, with an interval that holds together with those of
        the other leaves; None if it is not known.
    """

    conditions: tuple[str, ...]
    action: str
    rows: int | None = None
    share: float | None = None
    value: float | None = None
    segment: Segment | None = None

    def to_dict(self) -> dict[str, object]:
        """Return plain numbers and strings, ready for JSON."""
        found = self.segment
        return {
            "conditions": list(self.conditions),
            "action": self.action,
            "rows": self.rows,
            "share": self.share,
            "value": plain(self.value),
            "gain": None if found is None else plain(found.gain.value),
            "interval": None if found is None else plain(found.interval),
        }


@dataclass(frozen=True, kw_only=True)
class JudgedRule:
    """A rule, leaf by leaf, judged by rows from which it was not learned; see `Learned.judge_rule`.

    Attributes
    ----------
    rule
        In words, SQL and Python.
    leaves
        In the order of the rule.
    level
        Confidence that the intervals of all leaves hold together.
    agreement
        If the rule is a tree close to another policy: probability that both take the same action in
        these rows.
    share_of_gain
        The rule's gain over the log divided by that of the other policy; None if that is not positive.
    """

    rule: Rule
    leaves: tuple[RuleLeaf, ...]
    level: float = 0.9
    agreement: float | None = None
    share_of_gain: float | None = None

    @classmethod
    def unjudged(cls, rule: Rule) -> JudgedRule:
        """Return a rule of whose leaves nothing is known."""
        parts = rule.leaves()
        leaves = (RuleLeaf(conditions=each, action=leaf.action) for each, leaf in parts)
        return cls(rule=rule, leaves=tuple(leaves))

    @property
    def sentence(self) -> str:
        """How close it is to the policy that it stands for; empty if it is the policy."""
        if self.agreement is None:
            return ""
        said = f"The closest small tree says the same for {100 * self.agreement:.0f} % of rows"
        if self.share_of_gain is None:
            return f"{said}."
        return f"{said} and earns {100 * self.share_of_gain:.0f} % of the gain."

    def to_dict(self) -> dict[str, object]:
        """Return plain numbers and strings, ready for JSON."""
        return {
            "text": self.rule.text(),
            "level": self.level,
            "agreement": self.agreement,
            "share_of_gain": self.share_of_gain,
            "leaves": [each.to_dict() for each in self.leaves],
        }

    def to_frame(self) -> Frame:
        """Return one row per leaf: a pandas frame, or a pyarrow table where pandas is missing."""
        rows = []
        for each in self.leaves:
            found = each.to_dict()
            del found["interval"]
            ends = None if each.segment is None else each.segment.interval
            found["conditions"] = " and ".join(each.conditions)
            found["low"], found["high"] = (ends.low, ends.high) if ends else (np.nan, np.nan)
            rows.append(found)
        return as_frame(rows)


def judged_rule(rule: Rule, estimate: Estimate, *, level: float = 0.9) -> JudgedRule:
    """Return a rule with what its leaves earn, by an estimate of its value on other rows.

    Gains by leaf need the scores of one-step rows; of other logs, and of a rule with one
    leaf, which is the whole answer, there are only rows and shares.
    """
    log: Log | None = None if estimate.task is None else estimate.task.log
    if log is None:
        raise MethodError(
            "Leaves are judged by the log of the estimate: evaluate the policy again."
        )
    place, parts = rule.leaf_of(log.states), rule.leaves()
    shares = np.bincount(place, minlength=len(parts)) / max(len(place), 1)
    counts = np.bincount(rule.leaf_of(log.once.states), minlength=len(parts))  # rows of the file
    there = np.flatnonzero(counts)
    gains: dict[int, tuple[float, Segment]] = {}
    if (
        log.is_bandit and estimate.choice is not None and len(there) > 1
    ):  # else it is the whole answer
        own = joint_level(level, len(there))
        names = [str(k) for k in there]
        codes = np.searchsorted(there, place)
        values, found = (
            segments_of(estimate, log, codes, names, level=own, rival=rival)
            for rival in (0.0, None)
        )
        gains = {
            int(k): (value.gain.value, segment)
            for k, value, segment in zip(there, values, found, strict=True)
        }
    return JudgedRule(
        rule=rule,
        leaves=tuple(
            RuleLeaf(
                conditions=conditions,
                action=leaf.action,
                rows=int(counts[k]),
                share=float(shares[k]),
                value=gains[k][0] if k in gains else None,
                segment=gains[k][1] if k in gains else None,
            )
            for k, (conditions, leaf) in enumerate(parts)
        ),
        level=level,
    )


def closest_tree(learned: Learned, *, depth: int = 2) -> Learned:
    """Return the policy tree that agrees with a policy in most rows that taught it.

    A policy that is a small tree or a constant already is returned as it is.
    """
    if is_rule(learned.policy):
        return learned
    space = require_discrete(learned.action_space)
    if learned.task is None:
        raise MethodError(
            "The closest tree is fitted to the rows that the policy was learned from, which a loaded "
            "result does not have. Learn with readable=True."
        )
    states = learned.task.log.states
    if len(states) > _MOST:
        rng = np.random.default_rng([learned.seed, 17])
        states = states[np.sort(rng.choice(len(states), _MOST, replace=False))]
    probabilities = action_probabilities(learned.policy, states, space.n)
    smallest = max(10, int(_SMALLEST * len(states)))
    tree = state_tree(states, probabilities, depth=depth, smallest=smallest)
    critic = Ensemble(StateCritics((tree,)), learned.method.aggregate)
    named = {
        "state_names": learned.state_names,
        "encoder": learned.encoder,
        "taught": learned.taught,
    }
    actions = tuple(getattr(learned.policy, "actions", ()))
    policy = critic_policy(critic, space, actions, None, **named)
    same = float((action_probabilities(policy, states, space.n) * probabilities).sum(axis=1).mean())
    said = (
        f"A tree replaces it, with the same action in {100 * same:.0f} % of the rows it was learned "
        f"from."
    )
    return replace(
        learned,
        policy=policy,
        critic=critic,
        history=np.zeros((0, 1)),
        policy_history=None,
        reasons=(*learned.reasons, said),
    )


def judge_simplified(
    learned: Learned, full: Estimate, profile: LogProfile, *, level: float = 0.9
) -> JudgedRule:
    """Return the tree closest to a policy, judged beside it by the same rows.

    Parameters
    ----------
    learned, full
        The policy, and its estimate.
    profile
        Of the log of that estimate.
    level
        Confidence of the intervals.
    """
    simple = closest_tree(learned)
    with warnings.catch_warnings():  # already given for the policy itself
        warnings.simplefilter("ignore", TailproofWarning)
        found = evaluate(profile, simple.policy, gamma=learned.gamma, seed=learned.seed)
    states, n = profile.log.states, require_discrete(learned.action_space).n
    own, tree = (action_probabilities(each.policy, states, n) for each in (learned, simple))
    gain = full.gain.value
    return replace(
        judged_rule(simple.rule, found, level=level),
        agreement=float((own * tree).sum(axis=1).mean()),
        share_of_gain=found.gain.value / gain if gain > 0 else None,
    )
