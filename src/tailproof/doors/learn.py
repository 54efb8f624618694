"""`learn`: a policy from a log; by default candidates are judged on episodes that taught none."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tailproof.arrays import FloatArray, IntArray
from tailproof.critics.base import ExtractingAlgorithm
from tailproof.critics.ensembles import Critics, Ensemble
from tailproof.critics.fitted_q import logged_actions
from tailproof.critics.greedy import critic_policy
from tailproof.critics.task import Task
from tailproof.doors.careful import CarefulLearning, Form, learn_with_memory
from tailproof.doors.learned import Learned, extract_policy
from tailproof.doors.source import LogSource, as_profile
from tailproof.errors import (
    CoverageWarning,
    LevelError,
    LogError,
    MethodError,
    PartitionError,
)
from tailproof.learners.limits import Limits
from tailproof.log.budget import sample_to_budget
from tailproof.log.folds import episode_marks, split_groups
from tailproof.log.log import Log
from tailproof.log.spaces import Discrete
from tailproof.log.validation import require_squares
from tailproof.methods.catalogue import as_method
from tailproof.methods.fit import (
    check_gamma,
    fit_members,
    prepare,
    require_healthy,
    require_known_rest,
    warn_of_the_log,
)
from tailproof.methods.method import Method
from tailproof.parallel import Engine, running
from tailproof.parameters import one_setting, seed_of
from tailproof.profile.profile import LogProfile
from tailproof.progress import staged
from tailproof.robust.tails import check_level
from tailproof.rules import RULES

_CAREFUL = 0.25  # share of the groups that the default holds out to test the learned policy
_STARTS = 1_000  # by whose values a diverged member is found
_JUDGED = 0.2  # the same for continuous actions


@staged("Learning")
def learn(
    log: LogSource,
    *,
    method: str | Method = "auto",
    gamma: float | None = None,
    seed: int | None = None,
    random_state: int | None = None,
    holdout: float | None = None,
    at_least: float = 0.9,
    readable: bool = False,
    at_most: Mapping[str, float | tuple[float, str]] | Sequence[str] = (),
    never: Sequence[str] = (),
    gate_sizes_within: float | None = None,
    memory: bool = False,
    engine: str | Engine | None = None,
    n_jobs: int | None = None,
    advance: Callable[[], object] = lambda: None,
    **columns: object,
) -> Learned:
    """Learn a policy from logged data.

    The policy chooses only among logged actions: there is no data on the others, and a
    `CoverageWarning` names them.

    Parameters
    ----------
    log
        The logged transitions, in memory or on disk. On disk, the linear methods (FQI, LSPI and their
        folds) make one pass over the log per iteration.
    method
        A name of the catalogue's learning rows (`tailproof methods` lists them), `method(name, ...)` or
        a `Method` whose base learns: `FQI`, `LSPI`, …. With ``"auto"``, candidates from simple
        to flexible are trained on half of the episodes; the one with the highest lower bound of its
        gain over the log is chosen on a quarter and tested on the last quarter (one-step logs are
        cross-fitted, so that all episodes test). If it is not significantly better than the logged
        policy, `Learned.improves` is False and the policy is the cloned logged behaviour
        (`docs/learning.md`).
    gamma
        The discount. 1 needs every episode to terminate; a log of one-step episodes needs none.
    seed
        Seeds the partition and everything else that is drawn.
    random_state
        Another name for `seed`, as in scikit-learn.
    holdout
        Share of the episodes (or groups, if the log has them) to hold out from learning, for
        `Learned.evaluate`. By default 0, and a quarter for ``method="auto"`` (a fifth where actions
        are continuous).
    at_least
        For ``method="auto"``: the confidence with which a policy must be better than the logged one to
        be proposed. 1 − `at_least` is the risk of proposing a worse one. For continuous actions at
        least 0.95.
    readable
        Learn a rule that can be read: a small tree or a single action. What is learned otherwise is
        replaced by the small tree closest to it before it is chosen and judged; see
        `Learned.readable`.
    at_most
        The largest share of rows that may get an action, ``{"voucher": 0.2}``, or the largest mean cost
        of a row with the state column of its cost, ``{"voucher": (1.5, "price")}``: the rows that gain
        most for a unit of it get the action. Of one-step logs; on new rows the share holds as far as
        they are like those of the log.
    never
        Rows in which an action must not be taken: ``["discount where region=north"]``, by a state
        column of text, truth values or numbers (= != < <= > >=). The actions that a log says are not
        available (``available=``) are never taken there, if these columns are state columns too.
    gate_sizes_within
        For ``method="auto"``: let the tests assume that sizes of extremes differ by at most this share
        between policies, as 0.2, where rewards have one heavy tail (`docs/gains.md`): more true gains
        pass, and false ones where sizes differ more. By default they assume nothing about sizes.
    memory
        Where the logged columns do not tell all that matters: let the policy depend on averages of what
        came earlier in the episode too, which whoever runs it must keep (`Learned.past` has them and
        their update; `Learned.predict` and `tailproof apply` compute them from a table). By default it
        depends on the logged columns only, and the averages merely judge it.
    engine
        Where passes over the log run; see `evaluate`.
    n_jobs
        Instead of `engine`: the number of threads, −1 for one per core, as in scikit-learn.
    advance
        For ``method="auto"``: called after each candidate, for a progress bar.
    columns
        Where `log` is a frame, a file or another source of a log: how to read it, as in `read_log`
        (``action="offer", reward="spend", state=["age", "shop"]``).

    Examples
    --------
    >>> from tailproof import learn
    >>> from tailproof.noise import StudentT
    >>> from tailproof.worlds import CartPole
    >>> world = CartPole()
    >>> log = world.log(episodes=100, noise=StudentT(df=1.5), seed=1)
    >>> learned = learn(log, method="room-fqi", gamma=0.99, holdout=0.2)
    >>> print(learned)
    The policy is learned and not tested: no episodes were held out.
    Learned by FQI, split in 5, median at backup from 80 episodes.
    >>> learned.policy(log.states[:3]).shape
    (3,)
    """
    profile = as_profile(log, columns, learn)
    seed, log = seed_of(seed, random_state), profile.log
    form = Form(readable, Limits.of(at_most, never, log))
    if memory and (form.limits or method != "auto" or not log.is_discrete):
        raise MethodError(
            "A memory is for the default method, discrete actions and policies without limits: leave "
            "out memory=True, or the method and the limits.",
            argument="memory",
        )
    if gate_sizes_within is not None:
        if method != "auto" or not log.is_discrete:
            raise MethodError(
                "gate_sizes_within is for the tests of the default method with discrete actions: leave "
                "it out, or the method.",
                argument="gate_sizes_within",
            )
        if not 0 <= gate_sizes_within < np.inf:
            raise LevelError(
                f"gate_sizes_within must be a share of at least 0. Got {gate_sizes_within!r} instead."
            )
    with running(one_setting(engine=engine, n_jobs=n_jobs)) as where:
        if method == "auto":
            check_level(at_least)
            learned = _learn_by_default(
                profile,
                gamma,
                seed,
                holdout,
                where,
                memory=memory,
                at_least=at_least,
                form=form,
                sizes_within=gate_sizes_within,
                advance=advance,
            )
        else:
            learned = _learned(
                profile, _learning_method(method), gamma, seed, holdout or 0.0, where
            )
            learned = form(learned)
    counted = log.once
    return replace(learned, log_size=(counted.n_transitions, counted.n_episodes))


def _learned(
    profile: LogProfile,
    chosen: Method,
    gamma: float | None,
    seed: int,
    holdout: float,
    engine: Engine,
) -> Learned:
    log = profile.log
    if hasattr(chosen.base, "for_log"):
        chosen = replace(chosen, base=chosen.base.for_log(log))
    taught, held_out = split_off(log, holdout, seed=seed)
    data = prepare(taught, chosen, seed=seed)
    discount = check_gamma(gamma, data)
    warn_of_the_log(profile.of(data), discount)
    task = Task(data, discount, None, data.first_states, seed=seed, engine=engine)
    return replace(_taught(task, chosen), held_out=held_out)


def _taught(task: Task, chosen: Method) -> Learned:
    """Fit a method to the log of a task, and extract its policy."""
    data, seed = task.log, task.seed
    extracting = isinstance(chosen.base, ExtractingAlgorithm)
    actions = () if extracting else tuple(_actions_to_choose_from(data).tolist())
    members = fit_members(task, chosen, np.random.default_rng(seed))
    assert members.fitted is not None  # `_learning_method` lets only critic algorithms through
    critics = members.fitted.critics
    values = _member_values(critics, task, actions)
    healthy = critics.healthy() & np.isfinite(values)
    require_healthy(healthy, values, data, members.folds)
    if not healthy.all():
        critics = critics.subset(np.flatnonzero(healthy))
    critic = Ensemble(critics, chosen.aggregate)
    fitted = replace(members.fitted, critics=critics)
    taught = episode_marks(task.log)
    counted = data.once
    like = None
    if not extracting:
        like = critic_policy(
            critic,
            data.action_space,
            actions,
            state_names=data.state_names,
            encoder=data.encoder,
            taught=taught,
        )
    policy, training = extract_policy(chosen, critic, fitted, task, seed=seed, like=like)
    return Learned(
        policy=policy,
        critic=critic,
        history=getattr(fitted, "training", fitted.history),
        bad_folds=tuple(int(k) for k in np.flatnonzero(~healthy)),
        method=chosen,
        gamma=task.gamma,
        seed=seed,
        n_transitions=counted.n_transitions,
        n_episodes=counted.n_episodes,
        action_space=data.action_space,
        state_names=data.state_names,
        encoder=data.encoder,
        task=task,
        policy_history=training,
        reasons=fitted.notes,
        taught=taught,
    )


def _learn_by_default(
    profile: LogProfile,
    gamma: float | None,
    seed: int,
    holdout: float | None,
    engine: Engine,
    *,
    memory: bool,
    at_least: float,
    form: Form,
    **settings: Any,
) -> Learned:
    """Learn with `CarefulLearning` from discrete actions, with networks from continuous ones."""
    log = profile.log
    if not log.is_discrete:
        from tailproof.deep.choosing import learn_continuous  # torch is needed only here

        if form.readable:
            raise MethodError(
                "A readable rule decides between discrete actions. The actions of this log are "
                "continuous.",
                argument="readable",
            )
        share = _JUDGED if holdout is None else holdout
        return learn_continuous(
            log, gamma=gamma, seed=seed, holdout=share, at_least=at_least, engine=engine
        )
    data = sample_to_budget(log, "learn", most=RULES.learn_rows, seed=seed)
    discount = check_gamma(gamma, data)
    require_squares(data.rewards)
    require_known_rest(data, discount)
    profile = profile.of(data)
    warn_of_the_log(profile, discount, adds_columns=True)
    _actions_to_choose_from(data)

    def fit(task: Task, chosen: Method) -> Learned:
        if not chosen.clip:
            return _taught(task, chosen)
        return _taught(replace(task, log=prepare(task.log, chosen, seed=seed)), chosen)

    careful = CarefulLearning(
        profile=profile,
        gamma=discount,
        seed=seed,
        holdout=_CAREFUL if holdout is None else holdout,
        at_least=at_least,
        form=form,
        fit=fit,
        **settings,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)  # given above, once for all parts
        return learn_with_memory(careful) if memory else careful.learn()


def split_off(log: Log, share: float, *, seed: int) -> tuple[Log, Log | None]:
    """Return the log without a random share of its groups, and the log of that share.

    Examples
    --------
    >>> from tailproof.worlds import CartPole
    >>> learning, judging = split_off(CartPole().log(episodes=10, steps=5), 0.2, seed=0)
    >>> learning.n_episodes, judging.n_episodes
    (8, 2)
    """
    if not 0 <= share < 1:  # NaN fails too
        raise PartitionError(f"holdout must lie in [0, 1). Got {share!r} instead.")
    if share == 0:
        return log, None
    kept_away = max(1, round(share * log.n_groups))
    if kept_away >= log.n_groups:
        unit = "episodes" if log.group_ids is None else "groups"
        raise PartitionError(
            f"holdout={share:g} of {log.n_groups} {unit} leaves none to learn from; use a smaller "
            f"share or a longer log."
        )
    rng = np.random.default_rng([seed, 2])
    kept = split_groups(log, np.arange(log.n_groups) >= kept_away, rng)
    return log.take(np.flatnonzero(kept)), log.take(np.flatnonzero(~kept))


def _learning_method(method: str | Method) -> Method:
    chosen = as_method(method)
    name = type(chosen.base).__name__
    if not chosen.base.capabilities.learns:
        raise MethodError(
            f"{name} evaluates a policy and cannot look for one. Learn with FQI() or LSPI(), for "
            f"instance method='room-fqi', or call evaluate."
        )
    if chosen.at == "value":
        if chosen.folds > 1:
            raise MethodError(
                f"A policy cannot be taken from {chosen.folds} numbers: learning combines members at "
                f"'pointwise' or 'backup'. Got at='value'."
            )
        chosen = replace(chosen, at="pointwise")
    return chosen


def _actions_to_choose_from(log: Log) -> IntArray:
    """Return the logged actions; warn of unlogged ones, and raise if there is only one."""
    logged = logged_actions(log)
    space = log.action_space
    assert isinstance(space, Discrete)  # `logged_actions` has refused continuous ones
    if len(logged) == 1:
        raise LogError(
            f"There is nothing to choose between: of {space.n} actions the log takes only "
            f"{space.label(int(logged[0]))}. Learning needs episodes in which other actions were "
            f"tried."
        )
    missing = sorted(set(range(space.n)) - set(logged.tolist()))
    if missing:
        names = ", ".join(space.label(action) for action in missing)
        warnings.warn(
            f"The log never takes action{'s' if len(missing) > 1 else ''} {names}. Nothing is known of "
            f"their value: the critics leave them out of every backup, and the policy never chooses "
            f"them.",
            CoverageWarning,
            stacklevel=3,
        )
    return logged


def _member_values(critics: Critics, task: Task, actions: tuple[int, ...]) -> FloatArray:
    """Return each member's own estimate of its value, the mean of max_a Q_k(s₀, a), (K,).

    It shows whether a member diverged; a thousand starts suffice.
    """
    log, starts = task.log, task.starts()[0]
    starts = starts[:: max(1, len(starts) // _STARTS)]
    with np.errstate(invalid="ignore", over="ignore"):  # diverged members are removed later
        if log.is_discrete:
            values = critics.action_values(starts, log.n_actions)
            values = values[:, list(actions)] if actions else values
            return np.asarray(values.max(axis=1).mean(axis=1))
        return np.asarray(critics.values(log.states, log.actions).mean(axis=1))
