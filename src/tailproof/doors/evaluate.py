"""`evaluate`: the value of a policy, with its uncertainty."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tailproof.arrays import AnyArray, FloatArray, IntArray, as_array, require_finite
from tailproof.critics.custom import Custom
from tailproof.critics.lstd import LSTD
from tailproof.critics.task import Task, summarise_policy, without_copies
from tailproof.doors.estimate import (
    Estimate,
    LoggedValue,
    MemberValues,
    ValueUnit,
    combine,
    why_no_interval,
)
from tailproof.doors.source import LogSource, as_profile
from tailproof.errors import TailproofError, void
from tailproof.estimators.choice import Choice, ScoreAlgorithm, too_few_units
from tailproof.estimators.ladder import is_settled
from tailproof.features import Features, Joint, PerAction
from tailproof.features.ladder import as_features
from tailproof.log.folds import Split, Whole, warn_of_taught_episodes
from tailproof.log.log import Log, discounted_returns
from tailproof.log.spaces import Discrete
from tailproof.methods.catalogue import as_method
from tailproof.methods.fit import (
    check_gamma,
    fit_members,
    prepare,
    require_healthy,
    require_known_rest,
    warn_of_a_hidden_horizon,
)
from tailproof.methods.method import Method
from tailproof.parallel import Engine, Local, running
from tailproof.parameters import one_setting, seed_of
from tailproof.policies.binding import Policy, for_log
from tailproof.policies.text import policy_columns
from tailproof.profile.checks import too_few_rows
from tailproof.profile.profile import LogProfile
from tailproof.progress import staged
from tailproof.robust.means import Mean, SampleMean, apply_mean
from tailproof.robust.pooling import TailPooled


def fit_folds(task: Task, method: Method) -> tuple[MemberValues, FloatArray | None]:
    """Evaluate the policy of a task, whose log is prepared for the method, on the method's folds.

    Beside the value, return the row weights of a single member, (n,), if it has any.
    """
    members = fit_members(task, method, np.random.default_rng(task.seed))
    critics = point_values = point_weights = None
    values: FloatArray
    if members.fitted is not None:
        critics, points = members.fitted.critics, task.initial_points()
        point_weights = points.weights
        with np.errstate(invalid="ignore", over="ignore"):  # diverged members are removed below
            point_values = critics.values(points.states, points.actions)  # (K, P)
            values = point_values @ point_weights
        healthy = critics.healthy() & np.isfinite(values)
    else:
        assert members.numbers is not None
        values = members.numbers.values
        healthy = np.isfinite(values)
    require_healthy(healthy, values, task.log, members.folds)
    if critics is not None and point_values is not None and not healthy.all():
        critics, point_values = critics.subset(np.flatnonzero(healthy)), point_values[healthy]
    weights = () if members.numbers is None else members.numbers.weights
    pointwise = method.at == "pointwise"
    found = MemberValues(
        value=combine(method, values[healthy], point_values, point_weights),
        all_folds=np.where(healthy, values, np.nan),
        declined=why_no_interval(method, int(healthy.sum())),
        critics=critics,
        point_values=point_values if pointwise else None,
        point_weights=point_weights if pointwise else None,
    )
    return found, weights[0] if len(weights) == 1 else None


def score_log(task: Task, method: Method, profile: LogProfile) -> Choice | None:
    """Return the value with the scores of the whole log; None if the method has folds, or no scores."""
    whole = isinstance(method.partition, Split | Whole) and method.folds == 1
    if not (whole and isinstance(method.base, ScoreAlgorithm)):
        return None
    _, rng = np.random.default_rng(task.seed).spawn(2)  # the first is for folds
    with np.errstate(over="ignore", invalid="ignore"):
        choice = method.base.score(task, profile, rng=rng)
    if choice is None:
        return None
    choice = replace(choice, declined=choice.declined or too_few_units(task.log))
    value = np.array([choice.value])
    require_healthy(np.isfinite(value), value, task.log, Whole().assign(task.log, rng))
    if choice.on_log is None:
        return replace(choice, on_log=summarise_policy(task, choice.weights))
    if choice.weights is None or len(choice.weights) != task.log.n_transitions:
        return choice
    return replace(choice, on_log=without_copies(choice.on_log, task.log, choice.weights))


_REPRESENTATIVES = 16  # number of logged continuous actions over which features are averaged


def logged_value(
    log: Log, *, method: Method, gamma: float, seed: int = 0, engine: Engine | None = None
) -> LoggedValue:
    """Estimate E Σ_t γ^t r_t of the logged policy on the folds of a method.

    The folds are those that `evaluate` makes with the same method and seed.
    """
    data = prepare(log, method, seed=seed)
    if not is_settled(data, gamma):
        return _continued(data, method=method, gamma=gamma, seed=seed, engine=engine)
    partition_rng, rng = np.random.default_rng(seed).spawn(2)
    folds = method.partition.assign(data, partition_rng)
    returns = discounted_returns(data, gamma)
    given = getattr(method.base, "mean", SampleMean())
    # pooling keeps the mean of the log at every threshold
    mean: Mean = SampleMean() if isinstance(given, TailPooled) else given
    by_group = getattr(method.base, "unit", "step") == "group"
    values = np.empty(folds.count)
    for k in range(folds.count):
        own = folds.episodes(k)
        samples, groups = returns[own], data.group_of_episode[own]
        if by_group:
            groups, place = np.unique(groups, return_inverse=True)
            samples = np.bincount(place, samples).astype(float)
        value = apply_mean(mean, samples, groups=groups, rng=rng)
        values[k] = value * len(samples) / len(own)
    return LoggedValue(value=float(method.aggregate(values)), all_folds=values, how="returns")


def _continued(
    log: Log, *, method: Method, gamma: float, seed: int, engine: Engine | None
) -> LoggedValue:
    done = replace(
        log,
        actions=np.zeros(log.n_transitions, dtype=np.intp),
        action_space=Discrete(1, ("what was done",)),
        propensity=None if log.propensity is None else np.ones(log.n_transitions),
    )
    found, _ = fit_folds(
        Task(done, gamma, _only_action, done.first_states, seed=seed, engine=engine or Local()),
        replace(method, base=_for_states(method.base, log), clip=0.0),
    )
    return LoggedValue(value=found.value, all_folds=found.all_folds, how="continued")


def _only_action(states: FloatArray) -> IntArray:
    return np.zeros(len(states), dtype=np.intp)


def _for_states(base: Any, log: Log) -> Any:
    """Return a base that learns V(s) with the state's part of the features of Q(s, a).

    A function of the user's own knows the log's actions, and LSTD stands in for it.
    """
    if isinstance(base, Custom):
        return LSTD()
    changes: dict[str, Any] = {}
    features = getattr(base, "features", None)
    if isinstance(features, str):
        features = as_features(features, log)
    if isinstance(features, PerAction):
        changes["features"] = replace(features, n_actions=1)
    elif isinstance(features, Joint):
        changes["features"] = None  # the default: products of the state, without the action
    elif features is not None:
        changes["features"] = AverageFeatures(features, *_usual_actions(log))
    if hasattr(base, "critic"):
        changes["critic"] = _for_states(base.critic, log)
    return replace(base, **changes) if changes else base


def _usual_actions(log: Log) -> tuple[AnyArray, FloatArray]:
    """Return actions and weights that represent those of the log."""
    if log.is_discrete:
        return np.arange(log.n_actions), log.action_counts / log.n_transitions
    every = max(1, log.n_transitions // _REPRESENTATIVES)
    chosen = np.array(log.actions[::every])
    return chosen, np.full(len(chosen), 1 / len(chosen))


@dataclass(frozen=True, eq=False)
class AverageFeatures:
    """ψ(s) = Σ_a weight_a φ(s, a): features of the state from those of state and action."""

    features: Features
    actions: AnyArray  # (A,) or (A, q)
    weights: FloatArray  # (A,)

    @property
    def size(self) -> int:
        """Number of features, d."""
        return self.features.size

    def __call__(self, states: FloatArray, actions: AnyArray) -> FloatArray:  # noqa: ARG002
        """Return ψ at n states, (n, d); there is only one action."""
        psi = np.zeros((len(states), self.size))
        for action, weight in zip(self.actions, self.weights, strict=True):
            if weight > 0:
                psi += weight * self.features(states, np.repeat(action[None], len(states), axis=0))
        return psi


@staged("Evaluating")
def evaluate(
    log: LogSource,
    policy: Policy,
    *,
    method: str | Method = "auto",
    gamma: float | None = None,
    initial_states: npt.ArrayLike | None = None,
    logged: bool = True,
    seed: int | None = None,
    random_state: int | None = None,
    engine: str | Engine | None = None,
    n_jobs: int | None = None,
    **columns: object,
) -> Estimate:
    """Estimate J(π) = E[Σ γᵗ rₜ] of a policy from logged data.

    Parameters
    ----------
    log
        The logged transitions, in memory or on disk (`read_log(..., lazy=True)`). The default method
        and others that need all transitions at once load a log that is on disk if its budget allows;
        beyond it, the default works on a sample of episodes and warns, and others refuse.
    policy
        A callable states → actions, an object with ``probabilities(states)``, or, for continuous
        actions, one with ``sample(states, rng)``. Actions are codes 0..A−1, or the log's labels as
        text. Also a column of the log's table (`Column`), an array with one action per row, a rule
        over named columns (`on_frame`), a fitted scikit-learn model, or text as on the command line
        (``"always:email"``, ``"0.1*always:email + 0.9*logged"``), or a `Learned`, whose memory, if it
        has one, is kept along the log. A policy that names its states and
        actions is matched with the log by these names, see `tailproof.policies.binding`; it gets copies
        of the states, which it may change.
    method
        A name of the catalogue (`tailproof methods` lists them), `method(name, ...)` or a `Method`.
    gamma
        The discount. 1 needs every episode to terminate; a log of one-step episodes needs none.
    initial_states
        Where the policy starts, (m, p); by default the first states of the episodes.
    logged
        Whether the logged policy's value is estimated too, for the gain over it. Methods with folds
        need a second fit for it where episodes were cut off; the default method always has it.
    seed
        Seeds the partition and everything else that is drawn.
    random_state
        Another name for `seed`, as in scikit-learn.
    engine
        Where passes over the log run: ``"local"`` for one thread per core, ``"ray"`` for a cluster, or
        an `Engine`; by default the calling thread. It changes the running time, never the
        result.
    n_jobs
        Instead of `engine`: the number of threads, −1 for one per core, as in scikit-learn.
    columns
        Where `log` is a frame, a file or another source of a log: how to read it, as in `read_log`
        (``action="offer", reward="spend", state=["age", "shop"]``).

    Examples
    --------
    >>> from tailproof import evaluate
    >>> from tailproof.noise import StudentT
    >>> from tailproof.worlds import CartPole
    >>> world = CartPole()
    >>> log = world.log(episodes=60, noise=StudentT(df=1.2), seed=1)
    >>> estimate = evaluate(log, world.target(), method="roam-dm", gamma=0.99)
    >>> estimate.fold_values.shape
    (5,)
    """
    profile = as_profile(log, columns, evaluate, beside=policy_columns([policy]))
    if (past := getattr(policy, "past", None)) is not None:  # learned, with a memory
        profile = LogProfile(past.added_to(profile.log))  # asked again what it hides
    seed, chosen = seed_of(seed, random_state), as_method(method)
    with running(one_setting(engine=engine, n_jobs=n_jobs)) as where:
        data = profile.of(prepare(profile.log, chosen, seed=seed))
        starts = _starts(data.log, initial_states)
        return estimate_policy(
            data,
            policy,
            chosen,
            gamma=gamma,
            initial_states=starts,
            seed=seed,
            engine=where,
            logged=logged,
        )


def estimate_policy(
    profile: LogProfile,
    policy: Policy,
    method: Method,
    *,
    gamma: float | None,
    initial_states: FloatArray | None = None,
    seed: int = 0,
    engine: Engine | None = None,
    logged: LoggedValue | bool = True,
) -> Estimate:
    """Evaluate a policy on a log that is prepared for the method, as `evaluate` does.

    `logged` is the logged policy's value on the folds of the method, if it is known already, or whether
    to estimate it.
    """
    log, base = profile.log, method.base.capabilities
    discount = check_gamma(gamma, log)
    if base.bootstraps:
        require_known_rest(log, discount)
    if not base.adds_columns:
        warn_of_a_hidden_horizon(profile, discount)
    rows = None
    if initial_states is None:
        initial_states, rows = log.first_states, log.first_rows
    acts = for_log(policy, log)
    task = Task(
        log,
        discount,
        acts,
        initial_states,
        seed=seed,
        engine=engine or Local(),
        initial_rows=rows,
    )
    hidden = (
        profile.hidden_state(seen=base.adds_columns) if base.bootstraps and discount > 0 else ()
    )
    cautions = [*profile.coverage(task), *profile.cautions, *hidden]
    for each in cautions:
        warnings.warn(str(each), each.category, stacklevel=3)
    warn_of_taught_episodes(acts, log)
    counted = log.once
    about: dict[str, Any] = {
        "method": method,
        "gamma": discount,
        "seed": seed,
        "n_transitions": counted.n_transitions,
        "n_episodes": counted.n_episodes,
        "unit": ValueUnit.of(log, discount),
        # neither the engine nor the initial states are kept with every estimate
        "task": replace(task, engine=Local(), initial_states=None, initial_rows=None),
    }
    choice = score_log(task, method, profile)
    if choice is not None:
        assert choice.on_log is not None
        why = choice.declined
        leaves = why is not None and why.code == "leaves_log"
        for each in too_few_rows(choice.on_log) if why is None else (why,) * leaves:
            warnings.warn(str(each), each.category, stacklevel=3)
            cautions.append(each)
        answer = replace(choice, declined=choice.declined or void(cautions))
        about |= {"answer": answer, "on_log": choice.on_log}
        return Estimate(cautions=tuple(cautions), **about)
    members, row_weights = fit_folds(task, method)
    if logged is True:
        unclipped = replace(method, clip=0.0)  # the log is clipped already
        logged = logged_value(log, method=unclipped, gamma=discount, seed=seed, engine=engine)
    declined = members.declined or void(cautions)
    return Estimate(
        answer=replace(members, declined=declined, logged=logged or None),
        on_log=summarise_policy(task, row_weights),
        cautions=tuple(cautions),
        **about,
    )


def k_path(
    log: Log,
    policy: Policy,
    *,
    method: str | Method = "roam-dm",
    folds: Sequence[int] = (1, 3, 5, 9, 15, 21, 31),
    **options: Any,
) -> dict[int, float]:
    """Return the estimate for each number of folds that the log allows.

    A flat path indicates that the folds' distribution is symmetric, so that robustness adds no bias; a
    path that drifts with K indicates that the rewards are skewed and that a large K is biased.

    Parameters
    ----------
    log, policy, method, options
        As in `evaluate`.
    folds
        The numbers of folds to try.
    """
    chosen = as_method(method)
    return {
        count: evaluate(
            log, policy, method=replace(chosen, partition=Split(count)), logged=False, **options
        ).value
        for count in folds
        if count <= log.n_groups
    }


def _starts(log: Log, initial_states: npt.ArrayLike | None) -> FloatArray | None:
    """Return the given initial states, checked."""
    if initial_states is None:
        return None
    starts = as_array("initial_states", initial_states, TailproofError)
    if starts.dtype.kind not in "fiub":
        raise TailproofError(f"initial_states must be numbers. Got dtype {starts.dtype} instead.")
    starts = starts.astype(float)
    dimension = len(log.state_names)
    if starts.ndim != 2 or starts.shape[1] != dimension or len(starts) == 0:
        raise TailproofError(
            f"initial_states must have the shape (m, {dimension}) with m ≥ 1. "
            f"Got {starts.shape} instead."
        )
    require_finite("initial_states", starts, TailproofError)
    return starts
