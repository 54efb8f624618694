"""The thresholds by which evidence becomes a decision, each with the study that chose it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rules:
    """Thresholds of the judgement.

    Studies: [default] `benchmarks/default.py`, CartPole with nine noises and the battery's cells, on
    seeds that its report does not use; [outside] 17 worlds and 7 cells of the battery, on seeds that
    `benchmarks/outside.py` does not use; [one-step] Hillstrom and RAND medical spend, drawn as in
    `docs/one-step.md`; [experiment] RAND spend, claims and the made populations of
    `benchmarks/experimenter.py`, on seeds 11 to 13; [learning] the worlds of `benchmarks/learning.py`;
    [none] a convention, with the reason beside it.
    """

    # skew
    skewed: float = 16.0  # [default] squared differences on the Huber path: beyond chance
    unsure: float = 6.0  # [default] beyond this, symmetry is in doubt in logs that cannot settle it
    settling: int = 4_000  # [default] units in which a side that is 30 % wider shows as skewed
    caution: float = 3.0  # [default] standard errors between estimates before one counts as biased
    action_rows: int = 50  # [learning] rows of an action that show its skew
    skewed_mean: float = 0.1  # [one-step] skewness of a mean beyond which it is not normal
    # tails
    light: float = 1.2  # [learning] the plain mean's error over a robust one's: it is safe so far
    settled: int = 200_000  # [none] residuals that settle symmetry: more cost time only
    rare_share: float = 0.2  # [one-step] rewards that differ from the common one: fewer are events
    rare_events: int = 60  # [one-step] fewer of them under the policy: gamma intervals, not Hall's
    few_events: int = 200  # [experiment] the same for ratios and tail means, where Hall's held 87 %
    richer: float = 0.7  # [none] scale of the residuals of splines over that of polynomials
    richer_rows: int = 20  # [none] rows for each of their features, so that they cannot overfit
    # what is one observation
    clustered: float = 5.0  # [default] standard errors of the count of extremes, beyond chance
    extreme_rows: float = 0.01  # [default] share of steps that are extreme
    extreme_episodes: float = 0.05  # [default] share of episodes that are extreme
    blocks: int = 50  # [default] of neighbouring episodes, where no groups are named
    # misfit of the critic and size of the log
    fewest: int = 10  # [outside] independent groups below which no interval is given
    apart: float = 5.0  # [outside] standard errors between critics beyond which they contradict
    matters: float = 0.5  # [outside] of the gain, or the spread of returns, that this must be worth
    witness_agrees: float = 1.5  # [outside] standard errors up to which a witness agrees
    negligible: float = 0.2  # [outside] of the first rung's error: a difference that is none
    precise: float = 1.1  # [outside] how much less precise than a witness the first rung may be
    waves: int = 24  # [outside] of the Fourier witness
    fine_waves: int = 150  # [outside] of the Fourier rung
    fine_bandwidth: float = 0.5  # [outside] of the same, in median distances
    # overlap
    poor: float = 0.1  # [one-step] effective share of the rows below which the overlap limits
    few: int = 30  # [one-step] observations under the policy
    decides: float = 0.5  # [one-step] share of the squared scores that makes one observation decide
    hole_policy: float = 0.05  # [none] the policy's share of an action in a region, to speak of it
    hole_expected: float = 8.0  # [none] logged rows expected there: none by chance has P = e⁻⁸
    hole_rows: int = 100  # [none] rows with a value: what is taken in 5 % lacks with P = .006
    hole_range: int = 200  # [none] rows of a range, of which many are looked at


RULES = Rules()
