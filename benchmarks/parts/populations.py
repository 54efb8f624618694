"""Populations whose value under a policy is known exactly, to draw one-step logs from.

Real files are not part of the project: `real_populations(folder)` reads those that are there.

- A randomised experiment (Hillstrom's e-mails, the RAND health insurance plans): the file is the
  population. A customer's stratum is drawn with its frequency, an action by the logging rule, and a row
  of that stratum and action; a policy of the stratum has the mean of strata as its value.
- Full information (motor claims with deductibles, query latencies under every hint): a row is drawn
  and its outcome under the logged action is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tailproof import Log
from tailproof.arrays import FloatArray, IntArray

Rule = Callable[[FloatArray], FloatArray]  # states (n, p) to probabilities (n, A)


@dataclass(frozen=True)
class Acting:
    """A policy with probabilities from a rule."""

    rule: Rule

    def probabilities(self, states: FloatArray) -> FloatArray:
        """Return π(a | s), (n, A)."""
        return self.rule(states)


@dataclass(frozen=True, eq=False)
class Population:
    """Where logs come from.

    Attributes
    ----------
    draw
        n and a generator to states, actions, rewards and propensities.
    policy, truth
        What is evaluated, and its value.
    n_actions
        How many there are.
    logged
        Whether the log tells the propensities.
    law
        Outcomes and their probabilities under the policy and under the log, (N,) each.
    """

    name: str
    draw: Callable[[int, np.random.Generator], tuple[FloatArray, IntArray, FloatArray, FloatArray]]
    policy: Any
    truth: float
    n_actions: int
    logged: bool = True
    law: tuple[FloatArray, FloatArray, FloatArray] | None = None

    def log(self, n: int, seed: list[int]) -> Log:
        """Return a log of n rows."""
        states, actions, rewards, propensity = self.draw(n, np.random.default_rng(seed))
        return Log.from_arrays(
            states, actions, rewards, states, episode=np.arange(n), terminated=np.ones(n, bool),
            propensity=propensity if self.logged else None, action_space=self.n_actions,
        )  # fmt: skip


def act(probabilities: FloatArray, rng: np.random.Generator) -> IntArray:
    """Return one action a row, drawn with these probabilities (n, A)."""
    below = probabilities.cumsum(axis=1) < rng.random(len(probabilities))[:, None]
    return np.minimum(below.sum(axis=1), probabilities.shape[1] - 1)


def chosen(actions: FloatArray, n_actions: int) -> FloatArray:
    """Return deterministic actions as probabilities, (n, A)."""
    return np.eye(n_actions)[np.asarray(actions, dtype=int)]


def full_information(
    name: str,
    states: FloatArray,
    outcomes: FloatArray,
    logging: Rule,
    target: Rule,
    *,
    logged: bool = True,
) -> Population:
    """Return the population of rows with their outcomes (N, A) under every action."""

    def draw(
        n: int, rng: np.random.Generator
    ) -> tuple[FloatArray, IntArray, FloatArray, FloatArray]:
        rows = rng.integers(len(states), size=n)
        propensities = logging(states[rows])
        actions = act(propensities, rng)
        at = np.arange(n), actions
        return states[rows], actions, outcomes[rows][at], propensities[at]

    chance = target(states) / len(states)
    law = outcomes.ravel(), chance.ravel(), logging(states).ravel() / len(states)
    truth = float((chance * outcomes).sum())
    return Population(name, draw, Acting(target), truth, outcomes.shape[1], logged, law)


def randomised(
    name: str,
    states: FloatArray,
    arms: IntArray,
    rewards: FloatArray,
    strata: int,
    logging: FloatArray,
    target: IntArray,
) -> Population:
    """Return the population of a randomised experiment.

    The first columns of `states`, `strata` of them with the values 0 and 1, make the stratum;
    `logging` (S, A) and `target` (S,) are rules of it.
    """
    powers = 2 ** np.arange(strata)

    def stratum(at: FloatArray) -> IntArray:
        return np.asarray(at[:, :strata] @ powers, dtype=int)

    own = stratum(states)
    n_actions = logging.shape[1]
    cells = {
        (s, a): np.flatnonzero((own == s) & (arms == a))
        for s in np.unique(own)
        for a in range(n_actions)
    }

    def draw(
        n: int, rng: np.random.Generator
    ) -> tuple[FloatArray, IntArray, FloatArray, FloatArray]:
        s = own[rng.integers(len(own), size=n)]
        actions = act(logging[s], rng)
        rows = np.empty(n, dtype=int)
        for cell, members in cells.items():
            here = (s == cell[0]) & (actions == cell[1])
            rows[here] = rng.choice(members, size=int(here.sum()))
        return states[rows], actions, rewards[rows], logging[s, actions]

    chance, logged = np.zeros(len(own)), np.zeros(len(own))
    for (s, a), members in cells.items():
        share = (own == s).mean() / max(len(members), 1)
        chance[members] = share * (target[s] == a)
        logged[members] = share * logging[s, a]
    rule = Acting(lambda at: chosen(target[stratum(at)], n_actions))
    truth = float(chance @ rewards)
    return Population(name, draw, rule, truth, n_actions, law=(rewards, chance, logged))


def _table(path: Path) -> Any:
    import pyarrow.parquet as pq

    return pq.read_table(path).to_pandas()


def hillstrom(folder: Path, outcome: str = "spend") -> tuple[FloatArray, IntArray, FloatArray]:
    """Return states (mens, womens, newbie first), segments and spend, or visits."""
    import pandas as pd

    table = _table(folder / "hillstrom.parquet")
    columns = ["mens", "womens", "newbie", "recency", "history", "zip_code", "channel"]
    states = pd.get_dummies(table[columns]).to_numpy(float)
    return states, pd.factorize(table["segment"], sort=True)[0], table[outcome].to_numpy(float)


def rand(folder: Path, outcome: str = "meddol") -> tuple[FloatArray, IntArray, FloatArray]:
    """Return states (female, child first), plans (free, shared, large share) and medical spend."""
    table = _table(folder / "randhie.parquet")
    columns = ["female", "child", "xage", "linc", "num", "disea", "physlm", "mhi", "hlthf"]
    plans = np.digitize(table["coins"], [1, 60])
    return table[columns].to_numpy(float), plans, table[outcome].to_numpy(float)


def claims(folder: Path, outcome: str = "amount") -> tuple[FloatArray, FloatArray]:
    """Return states of policyholders and the amounts they claimed, or their years of exposure."""
    table = _table(folder / "bemtpl97.parquet")
    states = table[["ageph", "bm", "power", "agec", "fleet", "lat"]].to_numpy(float)
    labels = [table[name] == value for name, value in (("sex", "male"), ("fuel", "diesel"))]
    return np.column_stack([states, *labels]).astype(float), table[outcome].to_numpy(float)


def limeqo(folder: Path) -> tuple[FloatArray, FloatArray]:
    """Return a noisy guess of each query's size, and its latency under eight hints."""
    latency = _table(folder / "limeqo_ceb.parquet").iloc[:, 1:].to_numpy(float)
    rng = np.random.default_rng(0)  # part of the population: the same guess every time
    size = np.log(np.median(latency, axis=1))
    states = np.column_stack([size + rng.normal(size=len(size)), rng.normal(size=len(size))])
    return states, latency[:, [0, 1, 2, 4, 6, 7, 9, 11]]


def uniform(n_actions: int) -> Rule:
    """Return the rule that takes every action alike."""
    return lambda at: np.full((len(at), n_actions), 1 / n_actions)


def real_populations(folder: Path | None, *, units: bool = False) -> Iterator[Population]:
    """Yield the populations whose files are in the folder.

    With `units` the outcome is what a ratio divides by (visits, years of exposure): with the same
    generator the same rows are drawn.
    """
    if folder is None:
        return
    if (folder / "hillstrom.parquet").exists():
        states, arms, spend = hillstrom(folder, "visit" if units else "spend")
        target = np.array([1, 0, 2, 2, 1, 0, 2, 2])  # men's e-mail to men's buyers, and so on
        logging = np.full((8, 3), 1 / 3)
        yield randomised("Hillstrom", states, arms, spend, 3, logging, target)
    if (folder / "randhie.parquet").exists():
        states, plans, dollars = rand(folder, "mdvis" if units else "meddol")
        logging = np.array([[0.5, 0.3, 0.2], [0.3, 0.4, 0.3], [0.4, 0.3, 0.3], [0.2, 0.5, 0.3]])
        target = np.array([1, 0, 1, 2])
        yield randomised("RAND spend", states, plans, dollars, 2, logging, target)
        yield randomised(
            "RAND cost", states, plans, dollars if units else -dollars, 2, logging, target
        )
    if (folder / "bemtpl97.parquet").exists():
        states, amount = claims(folder)
        kept = [np.maximum(amount - deductible, 0) for deductible in (0, 200, 500)]
        young: Rule = lambda at: chosen(np.where(at[:, 0] < 35, 2, at[:, 1] > 5), 3)  # noqa: E731
        careful: Rule = lambda at: np.where(  # noqa: E731
            at[:, [1]] > 5, [[0.2, 0.3, 0.5]], [[0.5, 0.3, 0.2]]
        )
        outcomes = -np.stack(kept, axis=1)
        profit = np.array([260.0, 235.0, 210.0]) + outcomes
        if units:
            outcomes = profit = np.tile(claims(folder, "expo")[1][:, None], 3)
        yield full_information("claims", states, outcomes, careful, young)
        yield full_information("claims, profit", states, profit, careful, young)
    if (folder / "limeqo_ceb.parquet").exists() and not units:
        states, latency = limeqo(folder)
        large: Rule = lambda at: chosen(np.where(at[:, 0] > 1, 4, 1), 8)  # noqa: E731
        yield full_information("LimeQO", states, -latency, uniform(8), large)


def made_populations(*, units: bool = False) -> Iterator[Population]:
    """Yield populations of our own, whose outcomes have a law: the same on every machine.

    With `units` the outcome is what a ratio divides by, see `real_populations`: sessions.
    """
    rng = np.random.default_rng(1)
    size = 200_000
    states = rng.normal(size=(size, 4))
    x, noise = states[:, 0], rng.normal(size=size)
    half: Rule = lambda at: np.full((len(at), 2), 0.5)  # noqa: E731
    far: Rule = lambda at: chosen(np.abs(at[:, 0]) > 1, 2)  # noqa: E731
    spend = np.exp(1.2 * noise + 0.3 * x)
    grown = np.stack([spend, spend * (1 + 0.3 * x**2)], axis=1)
    if units:
        sessions = 1 + np.random.default_rng(2).poisson(np.exp(0.5 * noise))
        grown = np.stack([sessions, sessions], axis=1).astype(float)
    yield full_information("lognormal, effect x²", states, grown, half, far)
    if units:
        return
    chance = 1 / (1 + np.exp(3 - 0.5 * x))
    clicks = rng.random(size)
    bought = np.stack([clicks < chance, clicks < 1.3 * chance], axis=1).astype(float)
    tilted: Rule = lambda at: np.stack([p := 0.2 + 0.6 * (at[:, 0] > 0), 1 - p], axis=1)  # noqa: E731
    yield full_information("binary", states, bought, tilted, far)
    symmetric = np.stack([rng.standard_t(3, size), x**2 + rng.standard_t(3, size)], axis=1)
    yield full_information("t₃, effect x²", states, symmetric, half, far)
    waiting = rng.pareto(1.8, size) * np.exp(0.5 * np.abs(x)) + 0.1
    delay = -np.stack([waiting, 0.8 * waiting + 0.2], axis=1)
    yield full_information("latency, Pareto 1.8", states, delay, tilted, far)
