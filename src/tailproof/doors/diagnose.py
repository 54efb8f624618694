"""`diagnose`: how far a log can be trusted, and what decides the answer."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.critics.task import Task
from tailproof.doors.decisive import Influence, influence_on
from tailproof.doors.estimate import Estimate
from tailproof.doors.evaluate import evaluate
from tailproof.doors.source import LogSource, as_profile
from tailproof.doors.verdict import Answered
from tailproof.errors import (
    Caution,
    FoldError,
    LogError,
    SingularError,
    TailproofError,
    TailproofWarning,
)
from tailproof.features import Features, mixed_features
from tailproof.features.ladder import as_features, basis_for
from tailproof.files import as_frame, plain
from tailproof.log.budget import sample_to_budget
from tailproof.log.log import Log, discounted_returns
from tailproof.methods.catalogue import as_method
from tailproof.methods.catalogue import method as named_method
from tailproof.methods.fit import check_gamma, prepare, warn_of_a_hidden_horizon
from tailproof.methods.method import Method
from tailproof.parameters import SHARE, require, seed_of
from tailproof.policies.binding import Policy
from tailproof.policies.text import policy_columns
from tailproof.profile.profile import LogProfile
from tailproof.profile.shape import RewardShape, Tails
from tailproof.progress import staged
from tailproof.robust.pooling import PooledPath
from tailproof.robust.tails import (
    ExtremalIndex,
    MomentEvidence,
    TailAsymmetry,
    TailIndex,
    TailPath,
    WeightEvidence,
    extremal_index,
    moment_evidence,
    tail_asymmetry,
    tail_index,
    tail_path,
    weight_evidence,
)
from tailproof.rules import RULES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tailproof.files import Frame
    from tailproof.report.blocks import Answer


def resolve(
    log: Log, policy: Policy | None, *, gamma: float | None, method: str | Method | None
) -> tuple[float, Method | None]:
    """Check and return the discount and the method.

    Without a policy only logged returns are needed, which are finite sums: any discount is valid, and
    1 is the default, and 0 for one-step logs.
    """
    chosen = None if method is None else as_method(method)
    prepare(log, chosen or as_method("lstd"))
    if policy is not None:
        return check_gamma(gamma, log), chosen
    if gamma is not None:
        require(SHARE, TailproofError, gamma=gamma)
    if log.is_bandit:
        return 0.0, chosen
    return 1.0 if gamma is None else float(gamma), chosen


Lean = Literal["symmetric", "left", "right", "unclear"]

#: Extremes cluster when the interval of their extremal index ends below this.
CLUSTERED = 0.9
_LEAN = 1.5  # tails are similar if one has less than this many times the extremes of the other
_POINTS = 100  # number of points of a plot against the number of extremes
_PROBED = 20_000  # most states at which the leverage of the policy's actions is computed


@dataclass(frozen=True, kw_only=True)
class TailReport:
    """The weight of both tails of one sample, and its skew."""

    name: str
    n: int
    left: TailIndex  # Hill's index of each tail
    right: TailIndex
    left_path: TailPath | None  # Hill's estimate by number of extremes; None for a short tail
    right_path: TailPath | None
    mean: MomentEvidence  # whether it plausibly exists
    variance: MomentEvidence
    asymmetry: TailAsymmetry

    @property
    def heavier(self) -> TailIndex | None:
        """The tail with the smaller index; None when neither is estimable."""
        known = [tail for tail in (self.left, self.right) if tail.estimable]
        return min(known, key=lambda tail: tail.alpha, default=None)

    @property
    def skew(self) -> Lean:
        """The longer tail: significantly, and with at least 1½ times as many extremes; or neither.

        "symmetric" if the interval of the ratio contains 1 and lies within ⅔ and 1½; "unclear" if the
        sample is too small to decide, or the difference is significant but small.
        """
        tails = self.asymmetry
        if tails.low > 1 and tails.ratio >= _LEAN:
            return "right"
        if tails.high < 1 and tails.ratio <= 1 / _LEAN:
            return "left"
        return "symmetric" if 1 / _LEAN <= tails.low <= 1 <= tails.high <= _LEAN else "unclear"


def tail_report(name: str, values: FloatArray, *, theta: float = 1.0) -> TailReport:
    """Return everything about the tails of one sample; θ is its extremal index.

    >>> report = tail_report("x", np.random.default_rng(1).standard_t(1.5, 20_000))
    >>> report.variance.exists, report.skew
    ('no', 'symmetric')
    """
    ordered = np.sort(values)  # once: every statistic below selects from it
    left, right = (tail_index(ordered, side=side, theta=theta) for side in ("left", "right"))
    paths = (
        tail_path(ordered, side=tail.side, points=_POINTS, theta=theta) if tail.estimable else None
        for tail in (left, right)
    )
    return TailReport(
        name=name,
        n=len(values),
        left=left,
        right=right,
        left_path=next(paths),
        right_path=next(paths),
        mean=moment_evidence(ordered, 1, tails=(left, right)),
        variance=moment_evidence(ordered, 2, tails=(left, right)),
        asymmetry=tail_asymmetry(ordered, theta=theta),
    )


#: Extremes come together when the interval of their extremal index ends below this.
CLUSTERED = 0.9


def clustering(log: Log, steps: FloatArray) -> ExtremalIndex | None:
    """Return the extremal index of steps within episodes: 1 if isolated, ½ if in pairs on average.

    The stronger evidence of the rewards and the weighted rewards; None for a one-step log.
    """
    if log.is_bandit:
        return None
    found = [extremal_index(each, episode=log.episode_of_row) for each in (log.rewards, steps)]
    return min(found, key=lambda each: each.high if each.estimable else math.inf)


_PROBED = 20_000  # most states at which the leverage of the policy's actions is computed
_RIDGE = 1e-6


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """How well the log covers the policy's actions.

    The density ratios ω have mean 1 in theory (`mean_known`) with γ < 1 and without terminal
    transitions, or in bandits; otherwise they were scaled to mean 1. The leverage φᵀ(Σφφᵀ + λI)⁻¹φ at
    the policy's actions, divided by its mean at the logged ones, measures the distance of the policy's
    actions from the data: 1 is the log itself.
    """

    weights: WeightEvidence  # of ω
    mean_known: bool
    leverage: float  # the mean
    unlogged: float  # share of the policy's actions that were never logged


def overlap(weights: FloatArray, estimate: Estimate, features: Features | str | None) -> Overlap:
    """Measure the weights of an estimate, (n,), and the distance of its policy from the log."""
    task = estimate.task
    assert task is not None
    log, gamma = task.log, estimate.gamma
    # the mean weight is the sum of discounts: 1/(1 − γ) if nothing terminates
    known = gamma < 1 and not (gamma > 0 and log.terminated.any())
    scale = 1 - gamma if known else 1 / (abs(float(weights.mean())) or 1.0)
    unlogged = 0.0
    if log.is_discrete:
        never = np.bincount(log.actions, minlength=log.n_actions) == 0
        unlogged = float(np.array(list(estimate.on_log.shares.values()))[never].sum())
    groups = None
    if log.group_ids is not None:
        groups = np.repeat(np.unique(log.group_ids, return_inverse=True)[1], log.lengths)
    return Overlap(
        weights=weight_evidence(scale * weights, groups=groups),
        mean_known=known,
        leverage=leverage(task, basis_for(log) if features is None else as_features(features, log)),
        unlogged=unlogged,
    )


def leverage(task: Task, features: Features) -> float:
    """Return the mean leverage of the policy's actions, relative to that of the logged ones."""
    log = task.log
    rows = np.arange(0, log.n_transitions, max(1, log.n_transitions // _PROBED))
    states, rng = log.states[rows], np.random.default_rng(task.seed)
    actions, weights = task.acts.draws(
        states, count=task.draws, rng=rng, rows=log.table_rows.rows[rows]
    )
    logged = features(states, log.actions[rows])
    acting = mixed_features(features, states, actions, weights)
    gram = logged.T @ logged + _RIDGE * len(rows) * np.eye(logged.shape[1])
    inverse = np.linalg.pinv(gram, hermitian=True)
    far, usual = (
        float(np.einsum("nd,de,ne->", phi, inverse, phi, optimize=True)) for phi in (acting, logged)
    )
    return far / usual


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
    cautions
        Those of the reasons that say why the log may mislead.
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
    cautions: tuple[str, ...] = ()

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

    def to_dict(self) -> dict[str, object]:
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
        if self.declined is not None:
            said += f", which {'gives no interval' if self.estimator else 'cannot answer'} here"
        return f"{said}."


def decide(
    log: Log,
    shape: RewardShape,
    estimate: Estimate | None,
    *,
    settings: dict[str, object],
    overlap: Overlap | None,
    influence: Influence,
    heaviest: float | None,
    cautions: Sequence[Caution] = (),
    failed: str | None = None,
) -> Verdict:
    """Explain the choices of a default estimate; without an estimate, describe the rewards only.

    `heaviest` is the smallest estimated tail index, `cautions` why the log may mislead, and `failed`
    is the reason why `evaluate` failed.
    """
    choice = None if estimate is None else estimate.choice
    reasons = list(shape.sentences if choice is None else choice.reasons)
    improvements = []
    if failed is not None:
        reasons.append(f"No estimate can be given. {failed}")
    elif choice is None:
        improvements.append("Pass the policy: without it nothing is known of weights and overlap.")
    elif choice.declined is not None:
        reasons.append(f"No interval is given: {str(choice.declined).rstrip('.')}.")
    elif choice.limits:
        reasons.append(f"What limits the interval: {choice.limits}.")
    reasons += map(str, cautions)
    if overlap is not None:
        problems, advice = _about_overlap(log, overlap)
        reasons += problems
        improvements += advice
    improvements += _about_size(log, shape, heaviest, influence)
    return Verdict(
        method="auto",
        settings=settings,
        shape=shape,
        estimator=None if choice is None else choice.estimator,
        unit=shape.unit if choice is None else choice.unit,
        units=shape.units if choice is None else choice.units,
        skewed=shape.skewed if choice is None else bool(getattr(choice, "skewed", False)),
        declined=failed if choice is None or choice.declined is None else str(choice.declined),
        limits="" if choice is None else choice.limits,
        reasons=tuple(reasons),
        improvements=tuple(improvements),
        cautions=tuple(map(str, cautions)),
    )


def _about_overlap(log: Log, overlap: Overlap) -> tuple[list[str], list[str]]:
    """Return problems of the weights, and how to solve them."""
    weights, problems, advice = overlap.weights, [], []
    if weights.effective < RULES.poor * weights.n:
        problems.append(
            f"The {weights.n:,} weights are worth {weights.effective:,.0f} equal ones (effective "
            f"samples); the largest has {100 * weights.largest_share:.1f} % of all weight."
        )
    if weights.pareto.k >= weights.reliable_k:
        problems.append(
            f"The largest weights have a Pareto shape of {weights.pareto.k:.2f}; above "
            f"{weights.reliable_k:.2f} a mean of {weights.n:,} weights is not reliable."
        )
    if overlap.leverage > _FAR:
        problems.append(
            f"The policy acts where the log has little data: its leverage is "
            f"{overlap.leverage:,.0f} times that of the logged actions."
        )
    if overlap.unlogged > 0:
        problems.append(
            f"{100 * overlap.unlogged:.1f} % of the policy's actions were never logged."
        )
    if problems:
        advice.append(
            "Log more of what the policy does, or judge a policy closer to the log: no interval "
            "covers what was never tried."
        )
    if overlap.mean_known and weights.mean_error > max(4 * weights.standard_error, 0.05):
        problems.append(
            f"The weights average {weights.mean:.3g} and should average 1; chance does not explain "
            f"the difference."
        )
        if log.is_bandit and log.propensity is not None:
            advice.append("Check the propensities.")
    if log.is_bandit and log.propensity is None:
        advice.append("Log the propensities: the answer now rests on estimated ones.")
    return problems, advice


def _neighbours(log: Log, influence: Influence) -> str:
    """Return the longest run of neighbours among the influential episodes; empty if chance has such.

    The order of one-step rows has no meaning.
    """
    if log.is_bandit or log.group_ids is not None or log.n_episodes < _RARE * _RUN:
        return ""
    named = [each.label for each in influence.units if each.noun == "episode"]
    places = np.flatnonzero(np.isin(log.episode_ids.astype(str), named))
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
    advice = []
    beside = _neighbours(log, influence)
    if shape.unit == "block" or beside:
        advice.append(
            f"{beside}If episodes share events, name what they have in common (week, user, site) with "
            f"--group, or Log.with_groups in Python, so that they are kept together."
        )
    if log.n_groups < RULES.fewest:
        unit = "episodes" if log.group_ids is None else "groups"
        advice.append(
            f"Intervals need {RULES.fewest} independent {unit} or more; the log has {log.n_groups}."
        )
    if shape.tails == "heavy" and heaviest is not None and 1 < heaviest < 2:
        # the error of a mean of n values is of order n^(1/α − 1)
        exponent = heaviest / (heaviest - 1)
        factor = 2.0 ** min(exponent, 60.0)
        if factor > _SLOW:
            times = f"{factor:,.0f}" if factor < 1e3 else "more than a thousand"
            advice.append(
                f"More data help a plain average little: halving its error takes {times} times the "
                f"data (4 times with light tails)."
            )
    return advice


@dataclass(frozen=True, kw_only=True)
class Diagnosis(Answered):
    """The evidence that `diagnose` collects, and its `Verdict`.

    Attributes
    ----------
    transitions, episodes, groups
        The size of the log; `groups` is None if it has none.
    gamma, with_policy
        The discount, and whether a policy was given.
    tails
        By name: "rewards"; with a policy "weighted rewards" and their "weighted sums" over the unit;
        without one "returns".
    clustering, overlap, influence
        Whether extremes of an episode come together, the weights of a policy, and what decides.
    verdict
        Which method is safe for this log, and why.
    notes
        Warnings and assumptions.
    weights
        The row weights of `evaluate`, (n,); None without a policy.
    average
        The mean return of the log.
    pooling
        The policy's gains by the size at which pooling begins; None if nothing is pooled.
    reward
        The name of the reward.
    """

    transitions: int
    episodes: int
    groups: int | None
    gamma: float
    with_policy: bool
    tails: dict[str, TailReport]
    clustering: ExtremalIndex | None
    overlap: Overlap | None
    influence: Influence
    verdict: Verdict
    notes: tuple[str, ...]
    average: float
    weights: FloatArray | None = field(default=None, repr=False)
    pooling: PooledPath | None = field(default=None, repr=False)
    reward: str = "reward"

    @property
    def noun(self) -> str:
        """What an episode is called: a "row" of a one-step log, counted from 0."""
        return "row" if self.transitions == self.episodes else "episode"

    def plot(self, *, of: str = "rewards", ax: Axes | None = None) -> Axes:
        """Draw the index of both tails against the number of extremes used, and return the Axes.

        `of` is a name in `tails`.
        """
        from tailproof.report.plots import plot_diagnosis  # matplotlib is slow to import

        return plot_diagnosis(self, of=of, ax=ax)

    def __str__(self) -> str:
        from tailproof.report.terminal import as_text

        return as_text(self.blocks())

    def blocks(self) -> Answer:
        """Return the answer as blocks, which notebooks, terminals and pages show."""
        from tailproof.report.answers import diagnosis_answer

        return diagnosis_answer(self)

    def to_dict(self) -> dict[str, object]:
        """Return plain numbers, lists and strings, ready for JSON."""
        kept = {name: value for name, value in vars(self).items() if name != "weights"}
        path = None if self.pooling is None else self.pooling.to_dict()
        converted: dict[str, Any] = plain(
            {**kept, "verdict": self.verdict.to_dict(), "pooling": path}
        )
        for name, report in self.tails.items():
            converted["tails"][name]["skew"] = report.skew
        return converted

    def to_frame(self) -> Frame:
        """Return one row per measured quantity: a pandas frame, or a pyarrow table without pandas.

        Columns: the subject, the quantity, its value and its interval if there is one.
        """
        columns = ("about", "quantity", "value", "low", "high")
        return as_frame([dict(zip(columns, row, strict=True)) for row in self._rows()])

    def __repr__(self) -> str:
        return f"<Diagnosis of {self.transitions:,} rows: {self.verdict.summary}>"

    def _rows(self) -> list[tuple[str, str, float, float, float]]:
        nan = math.nan
        rows: list[tuple[str, str, float, float, float]] = []
        for name, report in self.tails.items():
            rows += [
                (name, f"{tail.side} tail index", tail.alpha, tail.low, tail.high)
                for tail in (report.left, report.right)
            ]
            lean = report.asymmetry
            rows += [
                (name, "largest share of Σ|x|", report.mean.ratio, nan, nan),
                (name, "largest share of Σx²", report.variance.ratio, nan, nan),
                (name, "right to left extremes", lean.ratio, lean.low, lean.high),
            ]
        if (index := self.clustering) is not None:
            rows.append(("clustering", "extremal index", index.theta, index.low, index.high))
        if self.overlap is not None:
            weights = self.overlap.weights
            found = {
                "effective sample size": weights.effective,
                "largest share": weights.largest_share,
                "|mean − 1|": weights.mean_error if self.overlap.mean_known else nan,
                "Pareto k": weights.pareto.k,
                "leverage": self.overlap.leverage,
                "unlogged actions": self.overlap.unlogged,
            }
            rows += [("overlap", name, value, nan, nan) for name, value in found.items()]
        rows += [("influence", each.name, each.effect, nan, nan) for each in self.influence.units]
        return rows


@staged("Diagnosing")
def diagnose(
    log: LogSource,
    policy: Policy | None = None,
    *,
    gamma: float | None = None,
    method: str | Method | None = None,
    estimate: Estimate | None = None,
    seed: int | None = None,
    random_state: int | None = None,
    **columns: object,
) -> Diagnosis:
    """Explain the decisions of `evaluate` on a log, with evidence and the most influential episodes.

    The verdict is that of `evaluate` with the default method, on the same evidence: tails, skew and
    unit, the chosen estimator, and the interval or why there is none. Further evidence: indices of both
    tails with intervals, whether mean and variance exist, clustering of extremes; with a policy also
    weights and overlap; and the ten rows, episodes or groups that decide the answer: the gain over the
    logged policy, or without an answer the mean return of the log.

    Parameters
    ----------
    log
        The logged transitions, with episodes in time order, because neighbours are compared. A log on
        disk is loaded if its budget allows; otherwise runs of neighbouring episodes (or groups) are
        sampled with the seed, and a warning and a note say how many.
    policy
        The policy to evaluate, as in `evaluate`; without one, the logged returns are diagnosed.
    gamma
        The discount. Required with a policy, except for one-step episodes; 1 by default without one.
    method
        The method whose features are used instead of the default's.
    estimate
        The result of `evaluate` for the same log and policy, if it exists already; it is used if it
        is by the default method, with this discount and seed.
    seed
        Seeds the partitions into folds.
    random_state
        Another name for `seed`, as in scikit-learn.
    columns
        Where `log` is a frame, a file or another source of a log: how to read it, as in `read_log`
        (``action="offer", reward="spend", state=["age", "shop"]``).

    Examples
    --------
    >>> from tailproof.doors.diagnose import diagnose
    >>> from tailproof.noise import StudentT
    >>> from tailproof.worlds import CartPole
    >>> world = CartPole()
    >>> log = world.log(episodes=60, noise=StudentT(df=1.5), seed=1)
    >>> diagnosis = diagnose(log, world.target(), gamma=0.99)
    >>> diagnosis.tails["rewards"].variance.exists
    'no'
    >>> diagnosis.verdict.tails, diagnosis.verdict.estimator, diagnosis.verdict.unit
    ('heavy', 'Huber mean', 'step')
    """
    given = as_profile(log, columns, diagnose, beside=policy_columns([policy]))
    seed = seed_of(seed, random_state)
    with _collect_warnings() as sampling:
        profile = given.of(sample_to_budget(given.log, "The diagnosis", seed=seed))
    discount, chosen = resolve(profile.log, policy, gamma=gamma, method=method)
    with _collect_warnings() as horizon:
        warn_of_a_hidden_horizon(profile, discount)
    for each in (*sampling, *horizon):
        warnings.warn(each.message, stacklevel=2)
    diagnosis = _diagnosis(profile, policy, chosen, discount, seed, estimate)
    said = dict.fromkeys(str(each.message) for each in (*sampling, *horizon))
    return replace(diagnosis, notes=tuple(dict.fromkeys((*said, *diagnosis.notes))))


def diagnose_with(
    profile: LogProfile,
    estimate: Estimate | None = None,
    *,
    policy: Policy | None = None,
    gamma: float | None = None,
    seed: int = 0,
) -> tuple[Log, Diagnosis]:
    """Return the rows that a diagnosis looked at, and the diagnosis: that of an estimate, if given.

    `policy`, `gamma` and `seed` are those of the estimate, if there is one.
    """
    if estimate is not None:
        policy = None if estimate.task is None else estimate.task.policy
        gamma, seed = estimate.gamma, estimate.seed
    shown = sample_to_budget(profile.log, "The diagnosis", seed=seed)
    return shown, diagnose(profile.of(shown), policy, gamma=gamma, seed=seed, estimate=estimate)


def _diagnosis(
    profile: LogProfile,
    policy: Policy | None,
    chosen: Method | None,
    discount: float,
    seed: int,
    estimate: Estimate | None,
) -> Diagnosis:
    log = profile.log
    features = getattr(None if chosen is None else chosen.base, "features", None)
    settings = {} if features is None else {"features": features}
    with _collect_warnings() as found:
        estimate, failed = _evaluated(profile, policy, estimate, settings, discount, seed)
    choice = None if estimate is None else estimate.choice
    once, first = log.once, np.unique(log.copy_of)  # weights repeat episodes, which makes no tails
    rows = np.flatnonzero(np.isin(log.episode_of_row, first))
    shape = choice.shape if choice is not None and once is log else None
    shape = shape or profile.of(once).reward_shape
    weights = None if choice is None else choice.weights
    if weights is not None and len(weights) != log.n_transitions:
        weights = None  # those of a sample
    covered = None
    if weights is not None and estimate is not None and estimate.task is not None:
        covered = overlap(weights, estimate, features)
    steps = once.rewards if weights is None else weights[rows] * once.rewards
    clusters = clustering(once, steps)
    tails = _tails(_samples(once, discount, steps, shape, weighted=weights is not None), clusters)
    influence = influence_on(estimate, log, gamma=discount)
    heavier = [each.heavier.alpha for each in tails.values() if each.heavier is not None]
    verdict = decide(
        once,
        shape,
        estimate,
        settings=settings,
        overlap=covered,
        influence=influence,
        heaviest=min(heavier, default=None),
        cautions=(*profile.cautions, *profile.hidden_state())
        if estimate is None
        else estimate.cautions,
        failed=failed,
    )
    return Diagnosis(
        transitions=once.n_transitions,
        episodes=once.n_episodes,
        groups=None if once.group_ids is None else once.n_groups,
        gamma=discount,
        with_policy=policy is not None,
        tails=tails,
        clustering=clusters,
        overlap=covered,
        influence=influence,
        verdict=verdict,
        notes=tuple(dict.fromkeys(str(each.message) for each in found)),
        weights=weights,
        pooling=None if choice is None else choice.pooling,
        average=float(discounted_returns(log, discount).mean()),
        reward=once.reward_name,
    )


def _tails(samples: dict[str, FloatArray], clusters: ExtremalIndex | None) -> dict[str, TailReport]:
    """Return the tails of each sample; those of single rows may come in clusters."""
    theta = 1.0 if clusters is None or not clusters.high < CLUSTERED else clusters.theta
    rows = len(samples["rewards"])
    return {
        name: tail_report(name, values, theta=theta if len(values) == rows else 1.0)
        for name, values in samples.items()
    }


def _evaluated(
    profile: LogProfile,
    policy: Policy | None,
    known: Estimate | None,
    settings: dict[str, Any],
    gamma: float,
    seed: int,
) -> tuple[Estimate | None, str | None]:
    """Return the default method's estimate, or the reason why there is none.

    One that is known already is used if it is of the same log by the same method.
    """
    if policy is None:
        return known, None
    default, rows = named_method("auto", **settings), profile.log.once.n_transitions
    asked = (default, gamma, seed, rows)
    if known and (known.method, known.gamma, known.seed, known.n_transitions) == asked:
        return known, None
    try:
        return evaluate(profile, policy, method=default, gamma=gamma, seed=seed), None
    except (FoldError, LogError, SingularError) as error:
        return None, str(error)


@contextmanager
def _collect_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """Collect tailproof's warnings, which become notes of the diagnosis; pass on all others."""
    notes: list[warnings.WarningMessage] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield notes
    for each in caught:
        if issubclass(each.category, TailproofWarning):
            notes.append(each)
        else:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)


def _samples(
    log: Log, gamma: float, steps: FloatArray, shape: RewardShape, *, weighted: bool
) -> dict[str, FloatArray]:
    """Return samples by name: rewards, weighted rewards, and sums over units."""
    samples = {"rewards": log.rewards}
    if weighted:
        samples["weighted rewards"], sums = steps, np.add.reduceat(steps, log.starts[:-1])
        if shape.unit == "episode":
            samples["weighted sums by episode"] = sums
    else:
        sums = discounted_returns(log, gamma)
        if not log.is_bandit:
            samples["returns"] = sums
    if shape.unit == "group":
        samples["sums by group"] = np.bincount(log.group_of_episode, sums).astype(float)
    return samples
