"""The thresholds for decisions, each with the study in which it was chosen."""

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
    [hard] 24 worlds of `benchmarks/outside.py`, parts worlds and hard, on seeds below 1,000; [hidden]
    twelve worlds with hidden states and 35 Markov ones, on seeds that `benchmarks/hidden.py` does not
    use (`hidden_reward`, `hidden_gain`, `hidden_doubt` also after six foreign ones); [none]
    a convention, with the reason beside it.
    """

    # skew
    skewed: float = 16.0  # [default] asymmetry of the Huber path that counts as skew
    unsure: float = 6.0  # [default] asymmetry from which symmetry is in doubt in small logs
    settling: int = 4_000  # [default] units needed to detect a side that is 30 % wider
    caution: float = 3.0  # [default] standard errors between estimates before one counts as biased
    action_rows: int = 50  # [learning] rows of an action needed to test its skew
    skewed_mean: float = 0.1  # [one-step] skewness of a mean beyond which it is not normal
    # tails
    light: float = 1.2  # [learning] tails are light up to this ratio of plain to robust error
    heavy: float = 2.5  # [none] tail index of skewed rewards below which their variance is in doubt
    learn_rows: int = (
        200_000  # [none] rows from which `learn` learns: more take time, change little
    )
    settled: int = 200_000  # [none] residuals enough to test symmetry: more only take time
    jackpot_share: float = 0.05  # [none] most samples that are jackpots
    jackpot_gap: float = 7.0  # [none] a gap below them has P < e⁻⁷ in tails of index 1 or more
    final: float = 0.3  # [hard] share of terminal rows among extremes, from which none is clipped
    rare_share: float = 0.2  # [one-step] share that differs from the common reward: events if less
    rare_events: int = 60  # [one-step] fewer of them under the policy: gamma intervals, not Hall's
    few_events: int = 200  # [experiment] the same for ratios and tail means, where Hall's held 87 %
    richer: float = 0.7  # [none] splines' residual scale over polynomials', to prefer splines
    richer_rows: int = 20  # [none] rows per spline feature, to avoid overfitting
    # unit of observation
    clustered: float = 5.0  # [default] standard errors of the count of extremes, beyond chance
    extreme_rows: float = 0.01  # [default] share of steps that are extreme
    extreme_episodes: float = 0.05  # [default] share of episodes that are extreme
    blocks: int = 50  # [default] of neighbouring episodes, if the log has no groups
    cluster_inflation: float = 1.5  # [none] variance of a mean over clusters, relative to rows
    # misfit of the critic and size of the log
    fewest: int = 10  # [outside] independent groups below which no interval is given
    max_disagreement_se: float = (
        5.0  # [outside] standard errors between critics beyond which they contradict
    )
    min_disagreement: float = (
        0.5  # [outside] least disagreement, as share of the gain or return spread
    )
    witness_agrees: float = 1.5  # [outside] standard errors up to which a check critic agrees
    negligible: float = 0.2  # [outside] difference that is ignored, in errors of the first rung
    precise: float = 1.1  # [outside] largest error of the first rung over a check critic's
    explodes: float = 3.0  # [hard] error over the least of all rungs, from which one is left out
    waves: int = 24  # [outside] of the Fourier check critic
    fine_waves: int = 150  # [outside] of the Fourier rung
    fine_bandwidth: float = 0.5  # [outside] of the same, in median distances
    # trees on wide tables: their time grows with the columns
    tree_columns: int = 40  # [none] columns, and indicators of actions, up to which all are used
    screening_trees: int = 4  # [none] trees that choose the columns, of more
    screening_rows: int = 2_000  # [none] rows that these trees see
    search_columns: int = 20  # [none] columns whose pairs an exact search for a policy tree tries
    # hidden state
    hidden_reward: float = 5.3  # [hidden] standard errors by which the past must tell rewards
    hidden_event: float = 4.5  # [hidden] the same for extreme rewards and ends of episodes
    hidden_next: float = 5.5  # [hidden] the same for next states
    hidden_gain: float = 0.003  # [hidden] least share of variances that the past explains held out
    hidden_doubt: float = 0.8  # [hidden] share of these from which it is in doubt
    hidden_rows: int = 800  # [hidden] fewer are not tested
    unresolved: float = 0.5  # [hidden] share of what summaries changed that stays in doubt
    contradicts: float = 3.0  # [none] standard errors by which weighted rewards contradict critics
    # overlap
    poor: float = 0.1  # [one-step] effective share of rows below which overlap is the limit
    few: int = 30  # [one-step] observations under the policy
    dominant_share: float = (
        0.5  # [one-step] share of squared scores with which one observation dominates
    )
    uncovered: float = 5.0  # [none] effective rows below which a value is extrapolated
    uncovered_share: float = 0.05  # [none] and share of the rows, for small logs
    void: float = 0.05  # [none] share of the policy's actions never logged: more voids the answer
    leaves: float = 0.2  # [hard] share of visits in states unlike the logged: more voids an answer
    hole_policy: float = 0.05  # [none] least probability of an action in a region to report it
    hole_expected: float = 8.0  # [none] logged rows expected there: none by chance has P = e⁻⁸
    hole_rows: int = 100  # [none] rows of a value: an action of 5 % is absent with P = .006
    hole_range: int = 200  # [none] rows of a range: more, because many ranges are checked


RULES = Rules()
