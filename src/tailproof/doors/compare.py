"""`compare`: which of these policies is best, and does any of them beat the logged policy?"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tailproof.arrays import FloatArray
from tailproof.doors.estimate import (
    Estimate,
    LoggedValue,
    or_reason,
)
from tailproof.doors.evaluate import estimate_policy
from tailproof.doors.guardrails import Guardrail, as_outcomes
from tailproof.doors.source import LogSource, as_profile
from tailproof.doors.verdict import Answered, GainVerdict, Judged, bound_or_reason
from tailproof.errors import (
    Caution,
    CoverageWarning,
    FoldError,
    FoldWarning,
    LevelError,
    PolicyError,
    StateWarning,
    TaughtWarning,
    WeightWarning,
    void,
)
from tailproof.estimators.choice import OneStepChoice
from tailproof.files import as_frame, plain
from tailproof.log.folds import Split
from tailproof.methods.catalogue import as_method
from tailproof.methods.fit import check_gamma, prepare
from tailproof.methods.method import Method
from tailproof.parallel import Engine, running
from tailproof.parameters import one_setting, seed_of
from tailproof.policies.binding import Policy
from tailproof.policies.text import policy_columns
from tailproof.profile.profile import LogProfile
from tailproof.progress import staged
from tailproof.robust.gains import FoldGain, PairedGain, PooledGain, Scored
from tailproof.robust.intervals import Bound, Interval, folds_for
from tailproof.robust.segments import joint_level
from tailproof.robust.sequences import sequential_miss, smoothing_sequence
from tailproof.robust.tails import check_level

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tailproof.doors.segments import Segments
    from tailproof.files import Frame
    from tailproof.report.blocks import Answer


#: Name of the policy that made the log.
LOGGED = "logged policy"


@dataclass(frozen=True, kw_only=True)
class Difference(Judged):
    """One policy against another, on the same folds or the same rows, with the cautions of both."""

    gain: PairedGain | PooledGain | FoldGain = field(repr=False)
    first: str
    second: str

    @property
    def fold_values(self) -> FloatArray:
        """The differences on the folds, (K,), if differences are paired by folds."""
        return self.gain.fold_values if isinstance(self.gain, FoldGain) else np.empty(0)

    @property
    def won(self) -> int:
        """Number of folds in which the first is ahead."""
        return int(np.count_nonzero(self.fold_values > 0))

    def __str__(self) -> str:
        return f"{self.first} over {self.second}: {self.gain}"


def _ends(name: str, ask: Callable[[float], Interval], level: float) -> dict[str, float]:
    """Return the two ends of an interval for a frame; NaN if there is none."""
    try:
        found = ask(level)
    except LevelError:
        return {f"{name}_low": math.nan, f"{name}_high": math.nan}
    return {f"{name}_low": found.low, f"{name}_high": found.high}


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One policy of a comparison."""

    name: str
    value: float  # the estimate that ranks it
    lower_bound: Bound
    gain: Difference  # over the baseline; the bounds of all candidates hold jointly
    estimate: Estimate = field(repr=False)
    guardrails: tuple[Guardrail, ...] = ()

    @property
    def harmed(self) -> tuple[str, ...]:
        """The guarded outcomes that it harms."""
        return tuple(each.outcome.column for each in self.guardrails if each.verdict == "harmed")

    @property
    def verdict(self) -> GainVerdict:
        """Whether it is better than the baseline; worse if it harms a guarded outcome."""
        found = self.gain.verdict
        if self.harmed and not found.void:
            why = Caution("guardrail", f"It harms {' and '.join(self.harmed)}.")
            return GainVerdict("worse", found.level, (why,))
        return found

    @property
    def passes(self) -> bool:
        """Whether it is better than the baseline, and harms no guarded outcome."""
        return self.verdict.word == "better"


@dataclass(frozen=True, kw_only=True)
class Comparison(Answered):
    """Policies ranked by their estimates, and a gate.

    Attributes
    ----------
    candidates
        Highest estimate first.
    baseline, baseline_value, baseline_folds
        The baseline's name, value and, if the method has folds, fold values.
    baseline_rival
        The baseline as an estimate or a number; None for the logged policy.
    probability_best
        Probability that the first is best, also against the baseline; see `compare`.
    level, gate_level
        Level of each candidate's bound, and of each gain's bound: the latter is higher, so that all of
        them hold jointly with `level`.
    method, gamma, seed
        What to pass to `compare` to get the same numbers again.
    notes
        Cautions and remarks on the result.
    """

    candidates: tuple[Candidate, ...]
    baseline: str
    baseline_value: float
    baseline_folds: FloatArray = field(repr=False)
    probability_best: float
    level: float
    gate_level: float
    method: Method
    gamma: float
    seed: int
    notes: tuple[str, ...]
    baseline_rival: Estimate | float | None = field(default=None, repr=False)

    @property
    def has_folds(self) -> bool:
        """Whether differences are paired by folds."""
        return len(self.baseline_folds) > 1

    @property
    def best(self) -> Candidate:
        """The candidate with the highest estimate."""
        return self.candidates[0]

    @property
    def proposed(self) -> Candidate:
        """The candidate to which the verdict belongs: the highest estimate of those that share it."""
        word = self.verdict.word
        return next(each for each in self.candidates if each.verdict.word == word)

    @property
    def passes(self) -> bool:
        """Whether any candidate beats the baseline: the gate."""
        return any(each.passes for each in self.candidates)

    @property
    def verdict(self) -> GainVerdict:
        """The verdict on the candidates: better if any is, worse if all are."""
        found = [each.verdict for each in self.candidates]
        order = ("better", "no difference shown", "cannot tell", "worse")
        return min(found, key=lambda each: order.index(each.word))

    def __getitem__(self, name: str) -> Candidate:
        for each in self.candidates:
            if each.name == name:
                return each
        names = ", ".join(each.name for each in self.candidates)
        raise KeyError(f"There is no candidate {name!r}. There are {names}.")

    def difference(self, first: str, second: str | None = None) -> Difference:
        """Return the difference of one candidate from another, or from the baseline."""
        rival, second = self.baseline_rival, second or self.baseline
        if second != self.baseline:
            rival = self[second].estimate
        return _difference(first, self[first].estimate, second, rival, self.level)

    def by(self, column: str | npt.ArrayLike, *, policy: str | None = None) -> Segments:
        """Return a candidate's gain over the baseline in each segment of the log; see `Estimate.by`.

        By default that of the proposed candidate. The intervals hold together, for all candidates.
        """
        from tailproof.doors.segments import gain_by_segment

        chosen = self.proposed if policy is None else self[policy]
        return gain_by_segment(
            chosen.estimate,
            column,
            level=self.level,
            rival=self.baseline_rival,
            policies=len(self.candidates),
            names=(chosen.name, self.baseline),
        )

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Draw every candidate's gain over the baseline with its lower bound; return the Axes."""
        from tailproof.report.figures import comparison_figure  # imports matplotlib
        from tailproof.report.plots import draw_on_axes

        return draw_on_axes(comparison_figure(self), ax)

    def blocks(self) -> Answer:
        """Return the answer as blocks, which notebooks, terminals and pages show."""
        from tailproof.report.answers import comparison_answer

        return comparison_answer(self)

    def to_dict(self) -> dict[str, object]:
        """Return plain numbers, lists and strings, ready for JSON."""
        of_gain = ("value", "relative", "lower_bound", "fold_values", "won")
        candidates = [
            {
                "name": each.name,
                **each.verdict.to_dict(),
                "value": None if each.verdict.void else each.value,
                "interval": or_reason(each.estimate.interval, self.level),
                "lower_bound": each.lower_bound,
                "gain": {
                    **{name: getattr(each.gain, name) for name in of_gain},
                    **({"value": None, "relative": None} if each.verdict.void else {}),
                    "interval": or_reason(each.gain.interval, self.gate_level),
                },
                "passes": each.passes,
                "guardrails": [guard.to_dict() for guard in each.guardrails],
                "cautions": [str(caution) for caution in each.estimate.cautions],
                "fold_values": each.estimate.folds.all_folds,
            }
            for each in self.candidates
        ]
        baseline = {"name": self.baseline, "value": self.baseline_value}
        converted: dict[str, Any] = plain(
            {
                **self.verdict.to_dict(),
                "passes": self.passes,
                "best": self.best.name,
                "probability_best": self.probability_best,
                "level": self.level,
                "gate_level": self.gate_level,
                "baseline": {**baseline, "fold_values": self.baseline_folds},
                "candidates": candidates,
                "method": str(self.method),
                "gamma": self.gamma,
                "seed": self.seed,
                "notes": self.notes,
            }
        )
        return converted

    def to_frame(self) -> Frame:
        """Return one row per candidate and one for the baseline, the highest value first.

        A pandas frame, or a pyarrow table where pandas is missing. Intervals of gains hold together.
        """
        rows: list[dict[str, Any]] = [
            {
                "policy": each.name,
                "value": each.value,
                **_ends("value", each.estimate.interval, self.level),
                "lower_bound": each.lower_bound.value,
                "gain": each.gain.value,
                "relative_gain": each.gain.relative,
                **_ends("gain", each.gain.interval, self.gate_level),
                "gain_lower_bound": each.gain.lower_bound.value,
                **({"folds_won": each.gain.won} if self.has_folds else {}),
                "verdict": each.verdict.word,
                "passes": each.passes,
            }
            for each in self.candidates
        ]
        unknown = {**dict.fromkeys(rows[0], math.nan), "verdict": "baseline", "passes": False}
        rows.append({**unknown, "policy": self.baseline, "value": self.baseline_value})
        ordered = sorted(rows, key=lambda row: -row["value"])
        return as_frame(ordered)

    def __repr__(self) -> str:
        gate = "passed" if self.passes else "closed"
        return (
            f"<Comparison of {len(self.candidates)}: {self.best.name} first, {self.best.value:.4g}; "
            f"{self.baseline} {self.baseline_value:.4g}; gate {gate}>"
        )


_DRAWS = 20_000
_UNITS = 1 << 16  # units whose scores are multiplied at a time
_CONTINUED = (
    "Episodes were cut off before they ended: a value function of the state, fitted by the same "
    "method, adds what the logged policy would still earn."
)


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """The baseline: an estimate, a number, or the logged policy (`rival` is None).

    `folds` are its values on the folds of the method, (K,), empty if there are none.
    """

    name: str
    value: float
    rival: Estimate | float | None
    folds: FloatArray
    notes: tuple[str, ...] = ()

    def probability(self, candidates: Sequence[Candidate], seed: int) -> float:
        """Return the probability that the first candidate is best; NaN if it is unknown."""
        estimates = [each.estimate for each in candidates]
        if any(void(each.cautions) for each in estimates):
            return float("nan")
        if len(self.folds) > 1:
            everyone = [*(each.folds.all_folds for each in estimates), self.folds]
            return probability_first_is_best(np.stack(everyone), seed=seed)  # (m + 1, K)
        scored = [each.choice for each in estimates if each.choice is not None]
        if len(scored) < len(estimates):
            return float("nan")
        rival = scored[0].logged if self.rival is None else _scored(self.rival)
        return probability_highest([*scored, rival], seed=seed)


def _scored(rival: Estimate | float) -> Scored:
    """Return the scores of a rival, or a number without an error."""
    if isinstance(rival, Estimate) and rival.choice is not None:
        return rival.choice
    return Scored.known(rival.value if isinstance(rival, Estimate) else rival)


def baseline_of(
    policies: Mapping[str, Policy],
    baseline: Policy | str | float | None,
    first: Estimate,
    run: Callable[[Policy], Estimate],
) -> Baseline:
    """Return the baseline; `first` is one of the candidates, and `run` evaluates a policy."""
    rival: Estimate | float | None = None
    notes: tuple[str, ...] = ()
    logged = first.logged
    folds = logged.all_folds if isinstance(logged, LoggedValue) else np.empty(0)
    if baseline is None:
        name, value = LOGGED, first.logged_value
        if isinstance(logged, LoggedValue) and logged.how == "continued":
            notes = (_CONTINUED,)
    elif isinstance(baseline, float | Real):
        rival = value = float(baseline)
        name, folds = f"{value:g}", np.full(len(folds), value)
    else:
        name = baseline if isinstance(baseline, str) else "baseline"
        rival = run(policies[baseline] if isinstance(baseline, str) else baseline)
        value = rival.value
        folds = rival.folds.all_folds if len(folds) else folds
    return Baseline(name=name, value=value, rival=rival, folds=folds, notes=notes)


def probability_highest(values: Sequence[Scored], *, seed: int = 0) -> float:
    """Return the probability that the first of some values is the highest; ties count as half.

    Values are drawn from a normal distribution with their standard errors and the correlations of
    their scores.

    >>> from tailproof.robust.spreads import Hall
    >>> first, second = (
    ...     Scored(value=0.0, spread=Hall(0.0, 1.0), influence=scores) for scores in np.eye(2, 100)
    ... )
    >>> round(probability_highest([first, second]), 1)
    0.5
    """
    means = np.array([each.value for each in values])
    errors = np.array([each.standard_error for each in values])
    scores = [each.influence for each in values]
    units = max(0 if each is None else len(each) for each in scores)
    sizes = [0.0 if each is None else float(np.abs(each).max(initial=0.0)) for each in scores]
    largest = np.array([size or 1.0 for size in sizes])[:, None]  # so that squares do not overflow
    products = np.zeros((len(values), len(values)))
    for start in range(0, units, _UNITS):
        stop = min(start + _UNITS, units)
        some = (
            np.stack(
                [np.zeros(stop - start) if each is None else each[start:stop] for each in scores]
            ).astype(float)
            / largest
        )
        products += some @ some.T
    norms = np.sqrt(np.diag(products))
    unit = 1 / np.where(norms > 0, norms, 1.0)
    correlation = products * np.outer(unit, unit)
    np.fill_diagonal(correlation, 1.0)
    spread, basis = np.linalg.eigh(correlation)
    rng = np.random.default_rng([seed, len(means)])
    draws = rng.standard_normal((_DRAWS, len(means))) @ (basis * np.sqrt(np.maximum(spread, 0))).T
    drawn = means + draws * errors
    lead = drawn[:, 0] - drawn[:, 1:].max(axis=1)
    tiny = 1e-9 * float(np.abs(means).max())
    return float((lead > tiny).mean() + 0.5 * (np.abs(lead) <= tiny).mean())


def probability_first_is_best(fold_values: FloatArray, *, seed: int = 0) -> float:
    """Return the probability that the first of some policies is the best; see `compare`.

    `fold_values` are those of each policy on the same K folds, (policies, K). Ties count as half a win.

    >>> ahead = np.array([[2.0, 3.0, 2.0], [1.0, 1.0, 1.0]])  # in three folds of three
    >>> abs(probability_first_is_best(ahead) - (1 - 2**-4)) < 0.01
    True
    """
    kept = np.isfinite(fold_values).all(axis=0)
    lead = fold_values[0, kept] - fold_values[1:, kept]  # (rivals, K)
    wins = (lead > 0) + 0.5 * (lead == 0)
    rng = np.random.default_rng([seed, len(fold_values)])
    weights = rng.dirichlet(np.ones(wins.shape[1] + 2), size=_DRAWS)  # (draws, K + 2)
    share = weights[:, :-2] @ wins.T + weights[:, -2:-1]  # the fictitious win; the loss adds none
    return float((share > 0.5).all(axis=1).mean())


#: Warnings about a policy; others are about the log.
_OF_THE_POLICY = (CoverageWarning, FoldWarning, TaughtWarning, WeightWarning)
_EVIDENCE = 1 << 28  # most bytes for the evidence of all candidates


@staged("Comparing")
def compare(
    log: LogSource,
    policies: Mapping[str, Policy],
    *,
    gamma: float | None = None,
    method: str | Method = "auto",
    level: float = 0.9,
    baseline: Policy | str | float | None = None,
    guardrails: Sequence[str] = (),
    margins: Mapping[str, float | str] | None = None,
    sizes_within: float | None = None,
    gate_sizes_within: float | None = None,
    sequential: bool = False,
    seed: int | None = None,
    random_state: int | None = None,
    engine: str | Engine | None = None,
    n_jobs: int | None = None,
    **columns: object,
) -> Comparison:
    """Rank policies by their estimates, and test whether any beats the logged policy.

    Every policy is evaluated as by `evaluate`; value, gain and bounds come from one estimator, so that
    value = baseline + gain and no bound exceeds its value. Policies are ranked by value.

    By default, and with `snips` and other methods that score rows or episodes, the bound of a
    difference combines both values' own bounds with the correlation of their scores
    (`tailproof.robust.gains`).

    Methods with folds evaluate all policies on the same folds, so that differences are paired: an
    extreme event in one fold affects all policies. With D_k = Ĵ_k(first) − Ĵ_k(second), a bound of the
    difference is an order statistic of D_1, …, D_K, whose level is exact for the median of their
    distribution. Methods without folds or scores rank policies too, but nothing passes the gate.

    The gate uses Bonferroni's correction: with m candidates each difference from the baseline is
    bounded at level 1 − (1 − level)/m, so that all bounds hold jointly with `level`, and the best of
    many does not pass by chance. Guardrails are further outcomes of the same rows: with g of them, each
    difference is bounded at level 1 − (1 − level)/(m (1 + g)). A candidate that credibly harms one, by
    more than its margin, does not pass.

    The probability that the first is best is simulated. With scores, values are drawn from the normal
    distribution with their standard errors and correlations. With folds, each fold is a win or a loss
    against each rival, and one fictitious win and one fictitious loss against all rivals are added; the
    K + 2 weights are drawn from a flat Dirichlet distribution, and the first is best in a draw if its
    wins have more than half of the weight against every rival. Against one rival this is the posterior
    of "ahead in most folds" under a uniform prior: K wins of K give 1 − 2^−(K+1), never 1. The baseline
    is a rival too.

    Parameters
    ----------
    log
        The logged transitions, in memory or on disk.
    policies
        By name; each as in `evaluate`.
    gamma
        The discount; a log of one-step episodes needs none.
    method
        As in `evaluate`, with the same default. A method with folds given by name gets as many folds as
        the gate needs; a `Method` is used as it is, and raises a `LevelError` if it has too few.
    level
        Level of the bounds.
    baseline
        What to compare with: the logged policy by default (for its value see
        `tailproof.doors.evaluate`); the name of one of the policies; another policy; or a number.
    guardrails
        Columns of the log's table that a candidate must not harm; -NAME where less is better.
    margins
        The harm that is tolerated, by column: an amount, or a share of the baseline as ``"2%"``.
    sizes_within
        Also say in `notes` the gains if sizes of extremes differ by at most this share between
        policies, as 0.2. The verdicts do not assume it.
    gate_sizes_within
        Let the gate assume that sizes of extremes differ by at most this share between policies, as
        0.2: more true gains pass, and false ones where sizes differ more. By default it assumes nothing
        about sizes.
    sequential
        Whether verdicts hold however often a growing one-step log is looked at, and `notes` also give
        lower bounds for logs of a bandit.
    seed
        Seeds the folds.
    random_state
        Another name for `seed`, as in scikit-learn.
    engine
        Where passes over the log run; see `evaluate`.
    n_jobs
        Instead of `engine`: the number of threads, −1 for one per core, as in scikit-learn.
    columns
        Where `log` is a frame, a file or another source of a log: how to read it, as in `read_log`
        (``action="offer", reward="spend", state=["age", "shop"]``).

    Examples
    --------
    >>> import numpy as np
    >>> from tailproof import Log
    >>> rng = np.random.default_rng(1)
    >>> states, actions = rng.normal(size=4000), rng.integers(2, size=4000)
    >>> rewards = actions + rng.standard_t(1.5, size=4000)
    >>> log = Log.from_arrays(states, actions, rewards, states, episode=range(4000))
    >>> result = compare(log, {"one": lambda s: np.ones(len(s)), "zero": lambda s: np.zeros(len(s))})
    >>> result.best.name, result.passes, result.baseline
    ('one', True, 'logged policy')
    """
    outcomes = as_outcomes(guardrails, margins)
    guarded = [each.column for each in outcomes]
    beside = [*policy_columns([policies, baseline]), *guarded]
    profile = as_profile(log, columns, compare, beside=beside)
    seed = seed_of(seed, random_state)
    _check_policies(policies, baseline)
    against = baseline if isinstance(baseline, str) else None
    rivals = {name: policy for name, policy in policies.items() if name != against}
    if not rivals:
        raise PolicyError(
            f"compare needs a candidate beside the baseline. Got only {baseline!r}; pass more "
            f"policies, or leave baseline out to compare with the logged policy."
        )
    check_level(level)
    gate_level = joint_level(level, len(rivals) * (1 + len(outcomes)))
    notes: list[str] = []
    if gate_sizes_within is not None:
        notes.append(
            f"The verdicts assume that sizes of extremes differ by at most "
            f"{100 * gate_sizes_within:.0f} % between the policies."
        )
    chosen = _with_folds(method, gate_level, notes)
    with running(one_setting(engine=engine, n_jobs=n_jobs)) as where:
        data = profile.of(prepare(profile.log, chosen, seed=seed))
        discount = check_gamma(gamma, data.log)
        known: list[LoggedValue] = []  # of the logged policy on the folds, once for all policies

        def run(policy: Policy, data: LogProfile = data) -> Estimate:
            logged = known[0] if known else True
            found = estimate_policy(
                data, policy, chosen, gamma=discount, seed=seed, engine=where, logged=logged
            )
            if isinstance(found.logged, LoggedValue):
                known[:] = [found.logged]
            return found

        estimates = _estimates(rivals, run, notes)
        first = next(iter(estimates.values()))
        if sequential:
            notes += _guaranteed(estimates, joint_level(level, len(estimates)))
            gate_level = _at_any_time(first, gate_level)
        beaten = baseline_of(policies, baseline, first, run)
        judged: dict[str, list[Guardrail]] = {name: [] for name in estimates}
        for outcome in outcomes:
            known.clear()
            other = partial(run, data=LogProfile(outcome.log(data.log, notes)))
            with warnings.catch_warnings():  # what does not depend on the outcome was given already
                for known_already in (CoverageWarning, StateWarning, WeightWarning):
                    warnings.simplefilter("ignore", known_already)
                harms = {name: other(rivals[name]) for name in estimates}
                rival = baseline_of(policies, baseline, next(iter(harms.values())), other).rival
            rival = None if isinstance(baseline, Real) else rival
            for name, each in harms.items():
                gain = each.gain_over(rival)
                judged[name].append(Guardrail(outcome=outcome, gain=gain, level=gate_level))
    notes += beaten.notes
    if first.choice is None and first.folds.declined:
        notes.append(f"No bound is given, and nothing can pass the gate. {first.folds.declined}")
    candidates = sorted(
        (
            replace(
                _candidate(name, each, beaten, level, gate_level, gate_sizes_within),
                guardrails=tuple(judged[name]),
            )
            for name, each in estimates.items()
        ),
        key=lambda each: (-each.value, each.name),
    )
    if sizes_within is not None:
        notes.append(_if_sizes_are_within(sizes_within, candidates, level))
    return Comparison(
        candidates=tuple(candidates),
        baseline=beaten.name,
        baseline_value=beaten.value,
        baseline_folds=beaten.folds,
        baseline_rival=beaten.rival,
        probability_best=beaten.probability(candidates, seed),
        level=level,
        gate_level=gate_level,
        method=chosen,
        gamma=discount,
        seed=seed,
        notes=tuple(notes),
    )


def _at_any_time(estimate: Estimate, level: float) -> float:
    """Return the level of bounds that hold jointly at all sizes of a growing log."""
    choice = estimate.choice
    if not isinstance(choice, OneStepChoice) or choice.unit == "episode":
        raise LevelError(
            f"sequential is for one-step logs, by 'auto', 'ips', 'snips' or 'bandit-dr'. Got "
            f"{estimate.method} on {estimate.n_episodes} episodes of {estimate.n_transitions} rows.",
            argument="sequential",
        )
    return 1 - sequential_miss(choice.units, miss=1 - level)


def _guaranteed(estimates: Mapping[str, Estimate], level: float) -> list[str]:
    """Return lower bounds at any time that need neither a variance nor independent rows.

    With known propensities and rewards that are never negative, w·r has the mean J(π) given all
    earlier rows, also if these decided the propensities: `smoothing_sequence` needs no more.
    """
    said = ["The verdicts hold however often one looks at the growing log."]
    found = {
        name: smoothing_sequence(each.choice.guarantee, miss=1 - level)
        for name, each in estimates.items()
        if isinstance(each.choice, OneStepChoice) and not isinstance(each.choice.guarantee, str)
    }
    if found:
        each = ", ".join(f"{name} {low:.4g}" for name, low in found.items())
        said.append(
            f"Values are at least {each} at any time ({level:.3g} confidence), for any tail, and also "
            f"if a bandit chose the logged actions by what it had seen."
        )
    return said


def _if_sizes_are_within(change: float, candidates: Sequence[Candidate], level: float) -> str:
    """Return the gains that assume something about sizes of extremes, in a sentence."""
    found = []
    for each in candidates:
        gain = each.gain.gain
        if not isinstance(gain, PairedGain):
            raise LevelError(
                f"sizes_within needs a method that scores rows, such as 'auto', and a gate that does "
                f"not assume it. Got {each.estimate.method}.",
                argument="sizes_within",
            )
        ends = gain.sizes_within(change).interval(level)
        found.append(f"{each.name} {ends.low:+.4g} to {ends.high:+.4g}")
    return (
        f"If sizes of extremes differ by at most {100 * change:.0f} % between the policies, the gains "
        f"are ({100 * level:.3g} % confidence) {', '.join(found)}. The verdicts do not assume it."
    )


def _candidate(
    name: str,
    estimate: Estimate,
    beaten: Baseline,
    level: float,
    gate_level: float,
    sizes_within: float | None,
) -> Candidate:
    gain = _difference(name, estimate, beaten.name, beaten.rival, gate_level)
    if sizes_within is not None:
        if not isinstance(gain.gain, PairedGain):
            raise LevelError(
                f"gate_sizes_within needs a method that scores rows, such as 'auto'. Got "
                f"{estimate.method}."
            )
        gain = replace(gain, gain=gain.gain.sizes_within(sizes_within))
    return Candidate(
        name=name,
        value=estimate.value,
        lower_bound=bound_or_reason(estimate.lower_bound, level),
        gain=gain,
        estimate=estimate,
    )


def _difference(
    first: str, estimate: Estimate, second: str, rival: Estimate | float | None, level: float
) -> Difference:
    others = rival.cautions if isinstance(rival, Estimate) else ()
    return Difference(
        first=first,
        second=second,
        gain=estimate.gain_over(rival),
        level=level,
        cautions=(*estimate.cautions, *others),
    )


def _estimates(
    rivals: Mapping[str, Policy], run: Callable[[Policy], Estimate], notes: list[str]
) -> dict[str, Estimate]:
    """Return the estimates of the policies that can be evaluated, and note the others.

    Warnings about some of the policies are given with their names, those that hold for all as they are.
    """
    found: dict[str, Estimate] = {}
    warned: dict[tuple[str, type[Warning]], list[str]] = {}
    try:
        for name, policy in rivals.items():
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                try:
                    first = next(iter(found.values()), None)
                    found[name] = run(policy).within(_EVIDENCE // len(rivals), like=first)
                except FoldError as error:
                    if len(rivals) == 1:
                        raise
                    notes.append(f"{name} is left out, because it could not be evaluated. {error}")
                finally:
                    for each in heard:
                        warned.setdefault((str(each.message), each.category), []).append(name)
    finally:
        for (text, category), names in warned.items():
            own = issubclass(category, _OF_THE_POLICY) and len(set(names)) < len(rivals)
            warnings.warn(f"{', '.join(names)}: {text}" if own else text, category, 4)
    if not found:
        raise FoldError(f"No policy could be evaluated. {' '.join(notes)}")
    return found


def _check_policies(policies: Any, baseline: Any) -> None:
    if not isinstance(policies, Mapping) or not policies:
        raise PolicyError(
            f"policies must be a mapping from names to policies, with one or more of them: "
            f"{{'new': policy}}. Got {policies!r} instead."
        )
    for name in policies:
        if not isinstance(name, str) or not name:
            raise PolicyError(f"Policies need names that are texts. Got {name!r} instead.")
    if isinstance(baseline, str) and baseline not in policies:
        raise PolicyError(
            f"baseline must name one of the policies ({', '.join(policies)}), or be a policy, a "
            f"number or None. Got {baseline!r} instead."
        )


def _with_folds(method: str | Method, gate_level: float, notes: list[str]) -> Method:
    """Return the method with enough folds for the gate, or raise if a `Method` has too few."""
    chosen = as_method(method)
    if not isinstance(chosen.partition, Split) or chosen.at == "backup":
        return chosen  # its estimates show whether it scores rows
    needed = folds_for(gate_level, "order-statistic-bound")
    if chosen.folds >= needed:
        return chosen
    if not isinstance(method, str):
        raise LevelError(
            f"For all bounds to hold at once each must reach {100 * gate_level:.4f} %, and "
            f"{chosen.folds} folds reach {100 * (1 - 2.0**-chosen.folds):.4f} %. Use {needed} folds "
            f"or more, fewer candidates or a lower level."
        )
    notes.append(f"{needed} folds instead of {chosen.folds}, so that the gate's level is in reach.")
    return replace(chosen, partition=Split(needed))
