"""What the estimate of a one-step log rests on and what limits it, in sentences."""

from __future__ import annotations

from tailproof.algorithms.default.spreads import Constant, Hall, Rare, Spread
from tailproof.arrays import BoolArray, FloatArray
from tailproof.judgement.rules import RULES


def limits(
    spread: Spread,
    influence: FloatArray,
    active: BoolArray,
    *,
    effective: float,
    unit: str,
    unlogged: float = 0.0,
    propensities: str | None = None,
) -> str:
    """Return what limits the interval: rare events, one unit, the overlap, the tail or the size.

    Parameters
    ----------
    spread
        Of the value.
    influence, active
        Of each unit, and whether the policy weighs it at all, (U,).
    effective
        (Σw)² / Σw².
    unlogged
        Share of the policy's actions that the log never takes.
    propensities
        What they were estimated by; None where they were logged.
    """
    said = [_main_limit(spread, influence, active, effective, unit)]
    squares = influence**2
    if squares.sum() > 0 and squares.max() > RULES.decides * squares.sum():
        said.append(
            f"One {unit} carries {squares.max() / squares.sum():.0%} of the squared scores: how often "
            f"such a {unit} comes cannot be told from this log, and the interval may be too short"
        )
    if unlogged > 0:
        said.append(
            f"{unlogged:.0%} of the policy's actions were never logged: of these the interval knows "
            f"nothing"
        )
    if propensities is not None:
        said.append("it takes the estimated propensities for the true ones")
    return "; ".join(said)


def _main_limit(
    spread: Spread, influence: FloatArray, active: BoolArray, effective: float, unit: str
) -> str:
    count = int(active.sum())
    if isinstance(spread, Constant):
        return (
            f"all {count:,} samples under the policy are equal, so that the log does not show by how "
            f"much another would differ: a difference of {abs(spread.centre) or 1:.4g} is assumed, and "
            f"the interval is only as right as that"
        )
    if isinstance(spread, Rare):
        return (
            "rare events limit it: gamma intervals of the few rewards that differ from the common "
            "one, with room for one more as large as the largest of the log"
        )
    if count < RULES.few:
        return f"the size limits it: the policy's actions were taken in only {count} {unit}s"
    if effective < RULES.poor * count:
        left = f"the weights leave {effective:,.0f} effective of {count:,} {unit}s"
        return f"the overlap limits it: {left}"
    if isinstance(spread, Hall) and spread.unseen:
        return (
            "the rewards' tail limits it: Hall's transformation for skewed means, with a point for "
            "the part of the tail that was not seen"
        )
    skewed = "Hall's transformation for skewed means"
    return f"the size limits it: {skewed} over {len(influence):,} {unit}s"


def reasons(
    *,
    propensities: str | None,
    model: str,
    rare: bool,
    point: str,
    sampled: bool,
    grouped: bool,
    gain: float,
) -> tuple[str, ...]:
    """Return how a one-step log was evaluated, in sentences."""
    said = [
        "The logged propensities weigh the rows."
        if propensities is None
        else f"No propensities were logged: they are estimated by {propensities}, cross-fitted over "
        f"5 folds, and none is below 1 %."
    ]
    if rare:
        said.append(
            f"Fewer than {RULES.rare_events} of the policy's rewards differ from the common one: every "
            f"one counts fully, and no model of the reward is fitted."
        )
    elif model != "none":
        said.append(
            f"A model of the reward ({model}) makes the scores vary less, so they are doubly robust."
        )
    else:
        said.append(
            "No model of the reward makes the scores vary clearly less: plain weighted rewards."
        )
    if sampled:
        said.append("The trees learnt from a sample of 100,000 rows.")
    if grouped:
        said.append("Rows of one group count as one observation.")
    said.append(point)
    if gain > 1.05:
        said.append(f"Plain importance sampling has {gain:.1f} times the standard error.")
    return tuple(said)
