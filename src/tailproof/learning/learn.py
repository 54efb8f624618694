"""Offline policy optimisation: which policy would have been best?"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tailproof.algorithms.backups import logged_actions
from tailproof.algorithms.base import ExtractingAlgorithm
from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray, IntArray
from tailproof.data.given import LogSource, as_log
from tailproof.data.log import Log
from tailproof.data.marks import episode_marks
from tailproof.data.partition import shuffled_groups
from tailproof.data.spaces import Discrete
from tailproof.data.stored import AnyLog, sample_to_budget
from tailproof.engines import Engine, running
from tailproof.ensemble.critics import Critics, Ensemble
from tailproof.errors import CoverageWarning, LogError, MethodError, PartitionError
from tailproof.judgement.states import warn_of_misleading_states
from tailproof.learning.careful.learning import CarefulLearning
from tailproof.learning.learned import Learned, extract_policy
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
from tailproof.parameters import one_setting, seed_of
from tailproof.policies.greedy import critic_policy
from tailproof.statistics.tails.sample import check_level

_CAREFUL = 0.25  # share of the groups that the default holds out to test the learned policy
_JUDGED = 0.2  # the same for continuous actions


def learn(
    log: LogSource,
    *,
    method: str | Method = "auto",
    gamma: float | None = None,
    seed: int | None = None,
    random_state: int | None = None,
    holdout: float | None = None,
    at_least: float = 0.9,
    engine: str | Engine | None = None,
    n_jobs: int | None = None,
    advance: Callable[[], Any] = lambda: None,
    **columns: Any,
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
    policy by FQI, split in 5, median at backup; 80 episodes, γ = 0.99
    >>> learned.policy(log.states[:3]).shape
    (3,)
    """
    log = as_log(log, columns, learn)
    seed = seed_of(seed, random_state)
    if isinstance(log, Log) and log.table_rows.available is not None:
        raise LogError(
            "learn does not know yet which actions are available where, and its policy would take "
            "others. Read the log without available=...."
        )
    with running(one_setting(engine=engine, n_jobs=n_jobs)) as where:
        if method == "auto":
            check_level(at_least)
            learned = _learn_by_default(log, gamma, seed, holdout, at_least, where, advance)
        else:
            learned = _learned(log, _learning_method(method), gamma, seed, holdout or 0.0, where)
    counted = log.once if isinstance(log, Log) else log
    return replace(learned, log_size=(counted.n_transitions, counted.n_episodes))


def _learned(
    log: AnyLog, chosen: Method, gamma: float | None, seed: int, holdout: float, engine: Engine
) -> Learned:
    if hasattr(chosen.base, "for_log"):
        chosen = replace(chosen, base=chosen.base.for_log(log))
    taught, held_out = split_off(log, holdout, seed=seed)
    data = prepare(taught, chosen, engine, seed=seed)
    discount = check_gamma(gamma, data)
    warn_of_a_hidden_horizon(data, discount)
    warn_of_misleading_states(data)
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
    taught = episode_marks(task.log) if isinstance(task.log, Log) else None
    counted = data.once if isinstance(data, Log) else data
    like = None
    if not extracting:
        named = {"state_names": data.state_names, "taught": taught}
        like = critic_policy(critic, data.action_space, actions, **named)
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
        task=task,
        policy_history=training,
        reasons=fitted.notes,
        taught=taught,
    )


def _learn_by_default(
    log: AnyLog,
    gamma: float | None,
    seed: int,
    holdout: float | None,
    at_least: float,
    engine: Engine,
    advance: Callable[[], Any],
) -> Learned:
    """Learn with `CarefulLearning` from discrete actions, with networks from continuous ones."""
    if not log.is_discrete:
        from tailproof.deep.choosing import learn_continuous  # torch is needed only here

        share = _JUDGED if holdout is None else holdout
        return learn_continuous(
            log, gamma=gamma, seed=seed, holdout=share, at_least=at_least, engine=engine
        )
    data = sample_to_budget(log, "learn", seed=seed)
    discount = check_gamma(gamma, data)
    require_known_rest(data, discount)
    warn_of_a_hidden_horizon(data, discount)
    warn_of_misleading_states(data)
    _actions_to_choose_from(data)

    def teach(task: Task, chosen: Method) -> Learned:
        if not chosen.clip:
            return _taught(task, chosen)
        return _taught(replace(task, log=prepare(task.log, chosen, engine, seed=seed)), chosen)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)  # given above, once for all parts
        return CarefulLearning(
            log=data,
            gamma=discount,
            seed=seed,
            holdout=_CAREFUL if holdout is None else holdout,
            at_least=at_least,
            teach=teach,
            advance=advance,
        ).learn()


def split_off(log: AnyLog, share: float, *, seed: int) -> tuple[Any, Any]:
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
    order = shuffled_groups(log, np.random.default_rng([seed, 2]))
    away = np.isin(log.group_of_episode, order[:kept_away])
    return log.take(np.flatnonzero(~away)), log.take(np.flatnonzero(away))


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


def _actions_to_choose_from(log: AnyLog) -> IntArray:
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
    """Return each member's own estimate of its value, the mean of max_a Q_k(s₀, a), (K,)."""
    log, starts = task.log, task.starts()[0]
    with np.errstate(invalid="ignore", over="ignore"):  # diverged members are removed later
        if log.is_discrete:
            values = critics.action_values(starts, log.n_actions)
            values = values[:, list(actions)] if actions else values
            return np.asarray(values.max(axis=1).mean(axis=1))
        # continuous actions need a log in memory
        assert isinstance(log, Log)
        return np.asarray(critics.values(log.states, log.actions).mean(axis=1))
