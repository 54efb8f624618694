"""The result of `learn`: a policy, its critics, and its file."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tailproof.arrays import AnyArray, FloatArray, IntArray
from tailproof.critics.base import CriticAlgorithm, ExtractingAlgorithm, Fitted
from tailproof.critics.ensembles import Critics, Ensemble
from tailproof.critics.greedy import (
    CriticPolicy,
    GreedyPolicy,
    critic_policy,
    require_discrete,
)
from tailproof.critics.task import Task
from tailproof.doors.estimate import Estimate
from tailproof.doors.evaluate import evaluate
from tailproof.doors.verdict import Answered
from tailproof.errors import (
    LevelError,
    MethodError,
    PartitionError,
    TailproofError,
    TailproofWarning,
    void,
)
from tailproof.files import NOT_SAVED, SavedFileError, read_value, write_value
from tailproof.learners.judge import Judgement
from tailproof.learners.rules import Rule, columns_by_name, is_rule, rule_of
from tailproof.log.columns import Summaries
from tailproof.log.log import Log
from tailproof.log.spaces import ActionSpace, Discrete
from tailproof.methods.method import Method
from tailproof.policies.forms import Always, EpsilonGreedy, LinearPolicy, action_probabilities
from tailproof.profile.profile import LogProfile
from tailproof.robust.aggregates import Aggregate
from tailproof.robust.intervals import Bound

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tailproof.deep.critics import NeuralPolicy
    from tailproof.deep.history import History
    from tailproof.doors.curve import TargetingCurve
    from tailproof.doors.readable import JudgedRule
    from tailproof.io.encoder import Encoder
    from tailproof.report.blocks import Answer
    from tailproof.worlds.environments import EnvironmentSource, Score


_LEAST = 0.05  # smallest share of the rows for an action to be evaluated


class ConstantAction(NamedTuple):
    """An action by its label, and the value of always taking it."""

    action: str
    value: float


def best_constant(log: Log | LogProfile, *, gamma: float, seed: int = 0) -> ConstantAction | None:
    """Return the action whose value by `evaluate` is the highest; None if none can be evaluated.

    The same rows choose and evaluate it, so its value is biased upwards.

    Examples
    --------
    >>> from tailproof import Log
    >>> rng = np.random.default_rng(1)
    >>> states, actions = rng.normal(size=500), rng.integers(2, size=500)
    >>> log = Log.from_arrays(states, actions, 1.0 * actions, states, episode=range(500))
    >>> best_constant(log, gamma=0.0).action
    '1'
    """
    profile = log if isinstance(log, LogProfile) else LogProfile(log)
    space = profile.log.action_space
    if not isinstance(space, Discrete):
        return None
    shares = profile.log.action_counts / profile.log.n_transitions
    found = []
    for action in np.flatnonzero(shares >= _LEAST).tolist():
        try:
            with warnings.catch_warnings():  # already given for the learned policy
                warnings.simplefilter("ignore", TailproofWarning)
                estimate = evaluate(profile, Always(action, space.n), gamma=gamma, seed=seed)
        except TailproofError:  # always taking this action cannot be evaluated
            continue
        if void(estimate.cautions) is None:
            found.append(ConstantAction(space.label(action), estimate.value))
    return max(found, key=lambda each: each.value, default=None)


KIND, VERSION = "learned policy", 2


@dataclass(frozen=True)
class HeldOut:
    """The value of a learned policy, estimated from held-out episodes."""

    estimate: Estimate
    lower_bound: Bound | None  # of the value; None if there is no valid bound
    why_no_bound: str | None = None

    def __str__(self) -> str:
        value, bound = f"{self.estimate.value:.4g}", self.lower_bound
        by = f"({self.estimate.n_episodes} held-out episodes)"
        if bound is None:
            return f"{value} {by}. {self.why_no_bound}"
        return f"{value}, above {bound.value:.4g} with confidence {bound.level:.3g} {by}"


@dataclass(frozen=True, eq=False)
class Learned(Answered):
    """A policy learned by one method, with the K critics it was taken from.

    Attributes
    ----------
    policy
        The learned policy; a `GreedyPolicy` if actions are discrete and the base fits critics.
    critic
        The members and their aggregate, as one critic: ``critic(states, actions)``.
    history
        The change of each member in every iteration, (iterations, K); for neural bases their training
        record.
    bad_folds
        Members that diverged or were not finite, and were left out.
    method, gamma, seed
        What to pass to `learn` to get the same policy again.
    held_out
        The episodes that `learn(..., holdout=...)` held out.
    reasons
        Why `learn` chose this method, with ``method="auto"``.
    improves
        Whether the policy is significantly better than the logged one, with ``method="auto"``; if
        False, the policy is the logged behaviour. None if nothing was held out to test it.
    judged
        The evaluation of the best candidate on held-out episodes; None if no candidate was tested, and
        for continuous actions, where `reasons` has the test.
    taught
        Marks of the training episodes (`tailproof.log.folds`).
    log_size
        Rows and episodes of the whole log; None if it was loaded.
    past
        The averages of the episode so far that the policy reads after the logged columns, and how they
        are updated (`Summaries`); None if it has no memory. ``past.added_to(log)`` is the log that it
        reads.
    """

    policy: CriticPolicy | LinearPolicy | NeuralPolicy
    critic: Ensemble
    history: FloatArray | History = field(repr=False)
    bad_folds: tuple[int, ...]
    method: Method
    gamma: float
    seed: int
    n_transitions: int
    n_episodes: int
    action_space: ActionSpace
    state_names: tuple[str, ...]
    encoder: Encoder | None = field(default=None, repr=False)
    held_out: Log | None = field(default=None, repr=False, metadata=NOT_SAVED)
    task: Task | None = field(default=None, repr=False, metadata=NOT_SAVED)
    policy_history: History | None = field(default=None, repr=False)
    reasons: tuple[str, ...] = ()
    judged: Judgement | None = None
    improves: bool | None = None
    taught: IntArray | None = field(default=None, repr=False)
    log_size: tuple[int, int] | None = field(default=None, metadata=NOT_SAVED)
    past: Summaries | None = field(default=None, repr=False)

    @property
    def members(self) -> Critics:
        """The K critics."""
        return self.critic.members

    def with_aggregate(self, aggregate: Aggregate) -> Learned:
        """Return the policy of another aggregate of the same critics: MA, ROOM-VM, P-ROOM-VM.

        Examples
        --------
        >>> from tailproof import Mean, learn
        >>> from tailproof.worlds import CartPole
        >>> room = learn(CartPole().log(episodes=20), method="room-vm", gamma=0.99)
        >>> print(room.with_aggregate(Mean()).method)
        FQI, split in 5, mean at pointwise
        """
        if self.method.at == "backup":
            raise MethodError(
                "This method aggregates inside every backup, so another one needs "
                "another fit: call learn with Method(..., aggregate=...) instead."
            )
        method = replace(self.method, aggregate=aggregate)
        critic = Ensemble(self.members, aggregate)
        policy, training = extract_policy(
            method, critic, Fitted(self.members), self.task, seed=self.seed, like=self.policy
        )
        return replace(self, method=method, critic=critic, policy=policy, policy_history=training)

    def evaluate(
        self,
        log: Log | None = None,
        *,
        method: str | Method = "auto",
        level: float = 0.9,
        initial_states: npt.ArrayLike | None = None,
        seed: int | None = None,
    ) -> HeldOut:
        """Estimate the policy's value from episodes that it was not learned from, with a bound.

        On its training episodes a policy looks better than it is, because it has fitted their noise.

        Parameters
        ----------
        log
            Other episodes; by default those that ``learn(..., holdout=...)`` held out.
        method, initial_states, seed
            As in `evaluate`; the default seed is that of `learn`.
        level
            Confidence of the lower bound.

        Examples
        --------
        >>> from tailproof import learn
        >>> from tailproof.worlds import CartPole
        >>> log = CartPole().log(episodes=60, seed=1)
        >>> learned = learn(log, method="room-fqi", gamma=0.9, holdout=0.5)
        >>> found = learned.evaluate(method="roam-dm", level=0.9)
        >>> found.lower_bound.value <= found.estimate.value, found.estimate.n_episodes
        (True, 30)
        """
        judging = self.held_out if log is None else log
        if judging is None:
            raise PartitionError(
                "No episodes were held out to evaluate this policy with. Pass a log of other episodes, "
                "or learn with holdout=0.2."
            )
        if log is not None and self.past is not None:
            judging = self.past.added_to(log)
        estimate = evaluate(
            judging,
            self.policy,
            method=method,
            gamma=self.gamma,
            initial_states=initial_states,
            seed=self.seed if seed is None else seed,
        )
        try:
            return HeldOut(estimate, estimate.lower_bound(level))
        except LevelError as error:
            return HeldOut(estimate, None, str(error))

    def score(self, environment: EnvironmentSource, *, episodes: int = 20, seed: int = 0) -> Score:
        """Play the policy in an environment, and return its mean return with a standard error.

        Parameters
        ----------
        environment
            A Gymnasium id such as ``"Hopper-v5"``, or a callable that makes an environment.
        episodes
            Number of episodes, from different starts. Returns vary much: a claim needs five training
            seeds with twenty episodes each.
        seed
            Seeds the starts.

        Examples
        --------
        >>> from tailproof import learn
        >>> from tailproof.worlds import CartPole
        >>> learned = learn(CartPole().log(episodes=100), method="bc", gamma=0.99)
        >>> found = learned.score("CartPole-v1", episodes=5)
        >>> found.mean > 100, len(found.returns)
        (True, 5)
        """
        from tailproof.worlds.environments import (  # imported only when needed
            require_matching,
            score_of,
        )

        require_matching(environment, len(self.state_names), self.action_space)
        return score_of(environment, self.policy, episodes=episodes, seed=seed)

    def predict(
        self, table: object, *, episode: str | None = None, reward: str | None = None
    ) -> AnyArray:
        """Return the action's label for each row of a table, the likeliest one of a stochastic policy.

        Parameters
        ----------
        table
            A frame, a file or another source with the state columns of the log, in any order and beside
            others. Missing values and unknown categories that the log never had are refused by name.
        episode, reward
            Of a policy with a memory: the column of episodes, whose rows stand in order of time, and
            that of the reward (``"-cost"`` for costs). The last row of an episode needs neither action
            nor reward.

        Examples
        --------
        >>> from tailproof import learn, read_log
        >>> rng = np.random.default_rng(0)
        >>> age, mail = rng.integers(20, 80, 2000), rng.integers(0, 2, 2000)
        >>> table = {"x_age": age, "action": mail, "reward": mail * (age > 50.0) - 0.4 * mail}
        >>> learned = learn(read_log(table), method="policy-tree", gamma=0.0)
        >>> learned.predict({"x_age": [30, 70]})
        array(['0', '1'], dtype=object)
        >>> print(learned.rule.text())
        x_age ≤ 50: 0
        x_age > 50: 1
        """
        labels = np.array(self._labels, dtype=object)
        return np.asarray(labels[self._chances(table, episode, reward).argmax(axis=1)])

    def probabilities(
        self, table: object, *, episode: str | None = None, reward: str | None = None
    ) -> dict[str, FloatArray]:
        """Return π(a|s) of each row of a table, (n,), by the action's label; see `predict`."""
        return dict(zip(self._labels, self._chances(table, episode, reward).T, strict=True))

    @property
    def rule(self) -> Rule:
        """The policy in words, SQL and Python; raises if it is neither a small tree nor a constant."""
        own = None if self.past else self.encoder  # a memory has columns that no table has
        encoder = own or columns_by_name(self.state_names, self.action_space)
        return rule_of(self.policy, encoder)

    @property
    def has_rule(self) -> bool:
        """Whether the policy is a small tree or a constant, and so has a `rule`."""
        return is_rule(self.policy)

    def readable(self, *, depth: int = 2) -> Learned:
        """Return the small tree that takes the same action in most rows that taught this policy.

        A policy that has a `rule` already is returned as it is. The tree was not judged with the
        policy: `judge_rule` says what simplicity costs, and ``learn(readable=True)`` chooses and judges
        trees alone.

        Parameters
        ----------
        depth
            Of the tree: 1, 2 or 3.
        """
        from tailproof.doors.readable import closest_tree

        return closest_tree(self, depth=depth)

    def judge_rule(self, log: Log | None = None, *, level: float = 0.9) -> JudgedRule:
        """Return the policy's rule with the value and the gain of each leaf, by other rows.

        Of a policy without a rule it is the closest small tree, with how often it takes the same
        action and which share of the gain it keeps.

        Parameters
        ----------
        log
            Other episodes; by default those that ``learn(..., holdout=...)`` held out.
        level
            Confidence that the intervals of all leaves hold together.

        Examples
        --------
        >>> from tailproof import learn, read_log
        >>> rng = np.random.default_rng(0)
        >>> age, mail = rng.integers(20, 80, 2000), rng.integers(0, 2, 2000)
        >>> table = {"x_age": age, "action": mail, "reward": mail * (age > 50.0) - 0.4 * mail}
        >>> learned = learn(read_log(table), method="policy-tree", gamma=0.0, holdout=0.3)
        >>> for leaf in learned.judge_rule().leaves:
        ...     print(leaf.conditions, leaf.action, leaf.rows, round(leaf.segment.gain.value, 2))
        ('x_age ≤ 50',) 0 304 0.22
        ('x_age > 50',) 1 296 0.29
        """
        from tailproof.doors.readable import judge_simplified, judged_rule

        judging = self.held_out if log is None else log
        estimate = self.evaluate(judging, level=level).estimate
        if self.has_rule:
            return judged_rule(self.rule, estimate, level=level)
        assert judging is not None  # `evaluate` has refused
        return judge_simplified(self, estimate, LogProfile(judging), level=level)

    def curve(
        self,
        action: str,
        log: Log | LogProfile | None = None,
        *,
        shares: Sequence[float] | None = None,
        level: float = 0.9,
    ) -> TargetingCurve:
        """Return the gain of giving an action to more and more rows, those first that gain most by it.

        Uplift users call it a targeting or Qini curve. Rows are ranked by the policy's own scores and
        judged by rows from which it was not learned.

        Parameters
        ----------
        action
            Its label.
        log
            Other one-step episodes; by default those that ``learn(..., holdout=...)`` held out.
        shares
            Of the rows that get the action; by default 10 %, 20 %, … 100 %. Rows that the policy cannot
            tell apart, as those of one leaf, are all in or all out.
        level
            Confidence that all intervals hold together.
        """
        from tailproof.doors.curve import SHARES, targeting_curve

        judging = self.held_out if log is None else log
        if judging is None:
            raise PartitionError(
                "No episodes were held out to judge by. Pass a log of other episodes, or learn with "
                "holdout=0.3."
            )
        return targeting_curve(self, action, judging, shares=shares or SHARES, level=level)

    @property
    def _labels(self) -> tuple[str, ...]:
        space = require_discrete(self.action_space)
        return tuple(space.label(action) for action in range(space.n))

    @property
    def _own_encoder(self) -> Encoder:
        if self.encoder is None:
            raise MethodError(
                "This policy was learned from arrays, so it knows no columns of a table. Call `policy` "
                "with states, or read the log from a table with read_log."
            )
        return self.encoder

    def _chances(self, table: Any, episode: str | None, reward: str | None) -> FloatArray:
        """Return π(a|s) of each row of a table, (n, A)."""
        n, encoder = require_discrete(self.action_space).n, self._own_encoder
        if self.past is None:
            return action_probabilities(self.policy, encoder.states(table), n)
        from tailproof.io.past import states_with_past  # imports pyarrow

        states = states_with_past(encoder, self.past, table, episode=episode, reward=reward)
        return action_probabilities(self.policy, states, n)

    def epsilon_greedy(self, epsilon: float) -> EpsilonGreedy:
        """Return the policy with uniform exploration: with probability ε a uniformly random action."""
        return EpsilonGreedy(self.policy, epsilon, n_actions=require_discrete(self.action_space).n)

    def softmax(self, temperature: float) -> CriticPolicy:
        """Return π(a|s) ∝ exp(Q(s, a) / temperature)."""
        actions = self.policy.actions if isinstance(self.policy, GreedyPolicy) else ()
        named = {"state_names": self.state_names, "encoder": self.encoder, "taught": self.taught}
        return critic_policy(self.critic, self.action_space, actions, temperature, **named)

    def save(self, path: str | Path) -> None:
        """Write policy, critics and settings to one file, which `Learned.load` reads.

        Linear and neural learners use the same format. The file contains numbers and text, with a
        checksum; loading it executes no code. It contains neither held-out episodes nor the training
        settings of networks (`Run`). Critics by scikit-learn regressors cannot be saved, because they
        would need pickle.
        """
        if Path(path).suffix == ".onnx":
            raise MethodError(
                f"Learned.save writes tailproof's own format. Got {path}; learned.policy.save writes "
                f"an ONNX graph."
            )
        write_value(path, KIND, VERSION, self)

    @classmethod
    def load(cls, path: str | Path, *, features: object = None) -> Learned:
        """Read a file written by `save`. Pass `features` again if they were the user's own.

        Examples
        --------
        >>> import tempfile, os
        >>> from tailproof import Learned, learn
        >>> from tailproof.worlds import CartPole
        >>> log = CartPole().log(episodes=20)
        >>> learned = learn(log, method="room-vm", gamma=0.99)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     learned.save(os.path.join(folder, "policy.tailproof"))
        ...     again = Learned.load(os.path.join(folder, "policy.tailproof"))
        >>> bool((again.policy(log.states) == learned.policy(log.states)).all())
        True
        """
        found = read_value(path, KIND, VERSION, features=features)
        if not isinstance(found, cls) or not hasattr(found.policy, "state_names"):
            raise SavedFileError(
                f"{path} does not hold a learned policy but a {type(found).__name__}."
            )
        known = getattr(found.members, "features", None)
        if getattr(known, "n_actions", None) not in (None, getattr(found.action_space, "n", None)):
            raise SavedFileError(f"{path} is inconsistent: its number of actions differs.")
        return found

    def plot(self, *, of: Literal["rule", "gain"] | None = None, ax: Axes | None = None) -> Axes:
        """Draw the policy; return the Axes.

        Parameters
        ----------
        of
            ``"rule"``: the rule, whose leaves show their gain if episodes were held out; the default
            of policies that have one. ``"gain"``: the gain on held-out episodes, or else the training.
        ax
            Where to draw; by default new Axes.
        """
        from tailproof.report.plots import (  # matplotlib is slow to import
            draw_on_axes,
            plot_learned,
        )
        from tailproof.report.rule import rule_figure
        from tailproof.report.text import Quantity

        if of == "gain" or (of is None and not self.has_rule):
            return plot_learned(self, ax=ax)
        from tailproof.doors.readable import JudgedRule

        log = self.held_out
        judged = JudgedRule.unjudged(self.rule) if log is None else self.judge_rule()
        reward = "reward" if log is None else log.reward_name
        return draw_on_axes(rule_figure(judged, Quantity.named(reward, per="row")), ax)

    def blocks(self) -> Answer:
        """Return the answer as blocks, which notebooks, terminals and pages show."""
        from tailproof.report.answers import learned_answer

        return learned_answer(self)

    def to_dict(self) -> dict[str, object]:
        """Return plain numbers, lists and strings, ready for JSON."""
        return {
            "method": str(self.method),
            "gamma": self.gamma,
            "seed": self.seed,
            "members": self.members.count,
            "bad_folds": list(self.bad_folds),
            "transitions": self.n_transitions,
            "episodes": self.n_episodes,
            "held_out_episodes": 0 if self.held_out is None else self.held_out.n_episodes,
            "improves": self.improves,
            "judged": None if self.judged is None else self.judged.to_dict(),
            "reasons": list(self.reasons),
        }

    def __repr__(self) -> str:
        better = {None: "not judged", True: "improves", False: "logged behaviour kept"}
        judged = better[self.improves]
        return f"<Learned by {self.method} from {self.n_episodes:,} episodes; {judged}>"


def with_names(
    policy: Any, state_names: tuple[str, ...], encoder: Encoder | None, space: ActionSpace
) -> Any:
    """Return a policy with the names, labels and encoder of its log, as far as it has such fields."""
    labels = space.labels if isinstance(space, Discrete) else None
    known = {"state_names": state_names, "encoder": encoder, "action_labels": labels}
    own = {each.name for each in fields(policy)} if is_dataclass(policy) else set()
    return replace(policy, **{name: value for name, value in known.items() if name in own})


def extract_policy(
    method: Method, critic: Ensemble, fitted: Fitted, task: Task | None, *, seed: int, like: Any
) -> tuple[Any, Any]:
    """Return the policy of an ensemble, and its training record, which is None if greedy."""
    base: CriticAlgorithm | Any = method.base
    if isinstance(base, ExtractingAlgorithm):
        if task is None:
            raise MethodError(
                f"{type(base).__name__} trains its policy on the log, which a loaded result does not "
                f"have; learn again."
            )
        rng = np.random.default_rng([seed, 1])
        extracted = base.extract(task, fitted, aggregate=method.aggregate, rng=rng)
        log = task.log
        policy = with_names(extracted.policy, log.state_names, log.encoder, log.action_space)
        return policy, extracted.training
    return replace(like, critic=critic), None
