"""An explanation of the decisions of `evaluate` on a log, and how to improve the estimate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tailproof.data.log import Log
from tailproof.diagnosis.evidence import Overlap
from tailproof.diagnosis.influence import Influence
from tailproof.evaluation.estimate import Estimate
from tailproof.files.frames import plain
from tailproof.judgement.rules import RULES
from tailproof.judgement.shape import RewardShape, Tails
from tailproof.methods.catalogue import method as named_method
from tailproof.methods.method import Method

_FAR = 10.0  # leverage, relative to logged actions, from which it is reported
_RUN = 4  # influential neighbours that suggest a shared event, …
_RARE = 25  # … in logs of so many times more episodes: then P < 0.01 by chance
_SLOW = 5.0  # growth of the log that halves the error, from which it is reported; 4 is normal


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The properties of the log and the resulting method, which `evaluate` uses.

    Attributes
    ----------
    method, settings
        The method that `evaluate` uses, and its features if they were given.
    shape
        Tails, skew and clustering of the rewards, independent of the policy; `learn` uses the same.
    estimator, unit, units
        The mean that `evaluate` uses, its unit, and their number; the estimator is None without a
        policy.
    skewed
        Whether a more robust mean would be biased.
    declined, limits
        Why `evaluate` gives no interval, or None; and what determines the interval's width.
    reasons, improvements
        Sentences: the reasons, and how to improve the estimate.
    """

    method: str
    settings: dict[str, Any]
    shape: RewardShape = field(repr=False)
    estimator: str | None
    unit: str
    units: int
    skewed: bool
    declined: str | None
    limits: str
    reasons: tuple[str, ...]
    improvements: tuple[str, ...]

    @property
    def tails(self) -> Tails:
        """Tails of the rewards: "light", "heavy", or "sparse" if few differ from the common one."""
        return self.shape.tails

    @property
    def call(self) -> str:
        """The recommended method as Python."""
        arguments = [f"{name}={value!r}" for name, value in self.settings.items()]
        return f"method({', '.join([repr(self.method), *arguments])})"

    def point(self) -> Method:
        """Return the method."""
        return named_method(self.method, **self.settings)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and strings, ready for JSON."""
        more = {"call": self.call, "tails": self.tails, "summary": self.summary}
        converted: dict[str, Any] = plain({**vars(self), **more, "shape": self.shape.to_dict()})
        del converted["settings"]  # in `call`
        return converted

    @property
    def summary(self) -> str:
        """The verdict in one sentence."""
        shape = self.shape
        lead = {
            "light": "Rewards have light tails",
            "heavy": f"Rewards have heavy{', skewed' if shape.skewed else ''} tails",
            "sparse": shape.kinds,
        }[shape.tails]
        if shape.tails == "heavy" and shape.unit not in ("row", "step"):
            lead += ", and extremes come in clusters"
        said = f"{lead}: use {self.call if self.settings else 'the default method'}"
        if self.estimator is not None:
            said += f", which takes the {self.estimator} over {self.units:,} {self.unit}s"
        if self.declined is not None:
            said += " and gives no interval" if self.estimator else ", which cannot answer here"
        return f"{said}."


def decide(
    log: Log,
    shape: RewardShape,
    estimate: Estimate | None,
    *,
    settings: dict[str, Any],
    overlap: Overlap | None,
    influence: Influence,
    heaviest: float | None,
    failed: str | None = None,
) -> Verdict:
    """Explain the choices of a default estimate; without an estimate, describe the rewards only.

    `heaviest` is the smallest estimated tail index; `failed` is the reason why `evaluate` failed.
    """
    choice = None if estimate is None else estimate.choice
    reasons = list(shape.sentences if choice is None else choice.reasons)
    improvements = []
    if failed is not None:
        reasons.append(f"No estimate can be given. {failed}")
    elif choice is None:
        improvements.append("Pass the policy: without it nothing is known of weights and overlap.")
    elif choice.declined is not None:
        reasons.append(f"No interval is given: {choice.declined}.")
    elif choice.limits:
        reasons.append(f"The interval: {choice.limits}.")
    if estimate is not None:
        reasons += estimate.cautions
    if overlap is not None:
        found, wished = _about_overlap(log, overlap)
        reasons += found
        improvements += wished
    improvements += _about_size(log, shape, heaviest, influence)
    if shape.tails != "light" and influence.episodes:
        first = influence.episodes[0]
        what = f"row {first.episode} (from 0)" if log.is_bandit else f"episode {first.episode}"
        improvements.append(
            f"Look at {what} first: alone it moves the plain estimate by {_short(first.effect, '+')}, "
            f"from {_short(first.value_without)} to {_short(influence.value)}."
        )
    return Verdict(
        method="auto",
        settings=settings,
        shape=shape,
        estimator=None if choice is None else choice.estimator,
        unit=shape.unit if choice is None else choice.unit,
        units=shape.units if choice is None else choice.units,
        skewed=shape.skewed if choice is None else bool(getattr(choice, "skewed", False)),
        declined=failed if choice is None else choice.declined,
        limits="" if choice is None else choice.limits,
        reasons=tuple(reasons),
        improvements=tuple(improvements),
    )


def _about_overlap(log: Log, overlap: Overlap) -> tuple[list[str], list[str]]:
    """Return problems of the weights, and how to solve them."""
    weights, found, wished = overlap.weights, [], []
    if weights.effective < RULES.poor * weights.n:
        found.append(
            f"The weights leave {weights.effective:,.0f} effective samples of {weights.n:,}; the "
            f"largest carries {weights.largest_share:.1%}."
        )
    if weights.pareto.k >= weights.reliable_k:
        found.append(
            f"The largest weights have a Pareto shape of {weights.pareto.k:.2f}, where "
            f"{weights.reliable_k:.2f} is the limit for {weights.n:,} of them."
        )
    if overlap.leverage > _FAR:
        found.append(
            f"The policy acts where the log has little data: its leverage is "
            f"{overlap.leverage:.3g} times that of the logged actions."
        )
    if overlap.unlogged > 0:
        found.append(f"{overlap.unlogged:.1%} of the policy's actions were never logged.")
    if found:
        wished.append(
            "Log more of what the policy does, or judge a policy closer to the log: no interval "
            "covers what was never tried."
        )
    if overlap.mean_known and weights.mean_error > max(4 * weights.standard_error, 0.05):
        found.append(
            f"The weights average {weights.mean:.3g} where they should average 1, by more than "
            f"chance explains."
        )
        if log.is_bandit and log.propensity is not None:
            wished.append("Check the propensities.")
    if log.is_bandit and log.propensity is None:
        wished.append("Log propensities: those that the answer now rests on are estimated.")
    return found, wished


def _short(value: float, sign: str = "") -> str:
    """Return a number with four digits, and thousands separators instead of an exponent."""
    return f"{value:{sign},.0f}" if 1e3 <= abs(value) < 1e15 else f"{value:{sign}.4g}"


def _neighbours(log: Log, influence: Influence) -> str:
    """Return the longest run of neighbours among the influential episodes; empty if chance has such.

    The order of one-step rows has no meaning.
    """
    if log.is_bandit or log.group_ids is not None or log.n_episodes < _RARE * _RUN:
        return ""
    ids = [each.episode for each in influence.episodes]
    places = np.sort(np.concatenate([np.flatnonzero(log.episode_ids == each) for each in ids]))
    runs = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)
    longest = max(runs, key=len)
    if len(longest) < _RUN:
        return ""
    first, last = (log.episode_ids[place] for place in longest[[0, -1]])
    return f"Episodes {first} to {last} follow each other, and each is among the most influential. "


def _about_size(
    log: Log, shape: RewardShape, heaviest: float | None, influence: Influence
) -> list[str]:
    """Return how more data, or group labels, would improve the estimate."""
    wished = []
    beside = _neighbours(log, influence)
    if shape.unit == "block" or beside:
        wished.append(
            f"{beside}Name what episodes with shared events have in common (week, user, site) with "
            f"--group, or Log.with_groups in Python, so that they are kept together."
        )
    if log.n_groups < RULES.fewest:
        unit = "episodes" if log.group_ids is None else "groups"
        wished.append(
            f"Intervals need {RULES.fewest} independent {unit} or more; the log has {log.n_groups}."
        )
    if shape.tails == "heavy" and heaviest is not None and 1 < heaviest < 2:
        # the error of a mean of n values is of order n^(1/α − 1)
        exponent = heaviest / (heaviest - 1)
        factor = 2.0 ** min(exponent, 60.0)
        if factor > _SLOW:
            times = f"{factor:,.0f}" if factor < 1e3 else "more than a thousand"
            wished.append(
                f"More data help the plain average little: half its error takes {times} times the "
                f"log, where light tails take 4."
            )
    return wished
