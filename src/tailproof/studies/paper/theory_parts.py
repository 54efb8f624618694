"""The simulations behind `theory`: error quantiles of estimators, and order statistics of folds."""

from __future__ import annotations

import math

import numpy as np
import scipy

from tailproof.arrays import FloatArray, IntArray
from tailproof.critics.lstd import LSTD
from tailproof.doors.evaluate import evaluate
from tailproof.log.log import Log
from tailproof.methods.catalogue import method
from tailproof.noise import Gaussian, Noise, Pareto, StudentT, winsorised_std
from tailproof.policies.forms import Uniform
from tailproof.robust.intervals import theory_folds
from tailproof.studies.paper.cartpole import unheard
from tailproof.studies.paper.experiment import Job, Row
from tailproof.worlds.tabular import TabularMDP

LAWS: dict[str, Noise] = {
    "Gaussian": Gaussian(),
    "t 1.5": StudentT(1.5),
    "Pareto 1.5": Pareto(1.5),
    "−Pareto 1.5": Pareto(1.5, sign=-1),
}
#: Limit of the probability that a fold's mean is at or below the mean; see `share_below_mean`.
SHARES = {"constant": 1.0, "Gaussian": 0.5, "t 1.5": 0.5, "Pareto 1.5": 2 / 3, "−Pareto 1.5": 1 / 3}


def world(gamma_: float) -> tuple[TabularMDP, float]:
    """Return a small MDP with a uniform initial state, and J of its optimal policy."""
    drawn = TabularMDP.random(states=5, actions=2, seed=11)
    even = TabularMDP(drawn.transitions, drawn.rewards, np.full(5, 0.2))
    return even, even.value(even.optimal(gamma=gamma_), gamma=gamma_)


def independent_log(mdp: TabularMDP, count: int, noise: Noise, rng: np.random.Generator) -> Log:
    """Return n independent transitions (assumption 1): uniform states, uniform actions."""
    states = np.eye(mdp.n_states)[rng.integers(mdp.n_states, size=count)]
    actions = rng.integers(mdp.action_space.n, size=count)
    following, rewards, _ = mdp.step(states, actions, rng)
    return Log.from_arrays(
        states,
        actions,
        rewards + noise.sample(count, rng),
        following,
        episode=np.arange(count),
        propensity=np.full(count, Uniform(mdp.action_space.n).probabilities(states[:1])[0, 0]),
        action_space=mdp.action_space,
    )


def evaluation_errors(job: Job) -> list[Row]:
    """Return errors of LSTD, ROAM-DM and ROAM-MIS (theorems 1 and 2) on some logs of n transitions."""
    settings, cell = job.settings, job.cell
    mdp, truth = world(settings["gamma"])
    policy = mdp.optimal(gamma=settings["gamma"])
    rows = []
    for batch in range(settings["logs"]):
        rng = job.rng(batch)
        log = independent_log(mdp, cell["n"], LAWS[settings["law"]], rng)
        for delta in cell["deltas"]:
            folds = theory_folds(delta)
            methods = {
                "lstd": method("lstd"),
                "roam-dm": method("roam-dm", base=LSTD(), folds=folds),
                "roam-mis": method("roam-mis", folds=folds),
            }
            if delta != cell["deltas"][0]:
                del methods["lstd"]  # it has no folds
            for name, chosen in methods.items():
                with unheard():
                    found = evaluate(
                        log,
                        policy,
                        method=chosen,
                        gamma=settings["gamma"],
                        initial_states=np.eye(mdp.n_states),
                        seed=int(rng.integers(2**31)),
                    )
                bound = float(np.quantile(np.abs(found.fold_values - truth), 0.75))
                row = {"method": name, "delta": delta, "folds": folds}
                rows.append({**row, "error": found.value - truth, "bound": bound})
    return rows


def mean_quantiles(job: Job) -> list[Row]:
    """Return the 1 − δ quantiles of the errors of the mean and of the median of means.

    Also the bound of the proofs: the ¾ quantile Δ of the error of a block's mean.
    """
    settings, rng = job.settings, job.rng()
    draws = LAWS[job.cell["law"]].sample((settings["samples"], settings["sample_size"]), rng)
    rows = []
    for delta in settings["deltas"]:
        blocks = block_means(draws, theory_folds(delta))
        for name, errors, level in (
            ("mean", draws.mean(axis=1), 1 - delta),
            ("median of means", np.median(blocks, axis=1), 1 - delta),
            ("bound", blocks, 0.75),
        ):
            size = float(np.quantile(np.abs(errors), level))
            rows.append({"method": name, "delta": delta, "size": size})
    return rows


def block_means(draws: FloatArray, blocks: int) -> FloatArray:
    """Return the means of consecutive blocks of each row, (B, n) to (B, K)."""
    starts = np.arange(blocks) * draws.shape[1] // blocks
    sizes = np.diff([*starts, draws.shape[1]])
    return np.asarray(np.add.reduceat(draws, starts, axis=1) / sizes)


def orders_of_folds(job: Job) -> list[Row]:
    """Return how often the j-th smallest of K fold means is at or below μ, and theorem 3's event.

    With rewards of mean μ = 1, the theorem as printed says that μ − M·N^(−α/(1+α)) ≥ μ̂_q, where
    M = (E|R|^(1+α))^(1/(1+α)), has a probability of at least 1 − exp(−2K(2q − 1)²).
    """
    settings, rng, cell = job.settings, job.rng(), job.cell
    size, folds = settings["fold_size"], cell["folds"]
    shape = (settings["experiments"], folds, size)
    law = LAWS.get(cell["law"])
    rewards = np.ones(shape) if law is None else 1 + law.sample(shape, rng)
    means = np.sort(rewards.mean(axis=2), axis=1)  # (B, K)
    rows = []
    for q in settings["quantiles"]:
        j = max(1, math.ceil(q * folds - 1e-9))
        margin = printed_margin(cell["law"], size)
        rows.append(
            {
                "q": q,
                "j": j,
                "below": float((means[:, j - 1] <= 1).mean()),
                "share": float((means <= 1).mean()),
                "printed": 1 - math.exp(-2 * folds * (2 * q - 1) ** 2),
                "event": None if margin is None else float((1 - margin >= means[:, j - 1]).mean()),
            }
        )
    return rows


def true_level(folds: IntArray, j: FloatArray, share: FloatArray) -> FloatArray:
    """Return P(Bin(K, p₀) ≥ j), the corrected probability of theorem 3."""
    return np.asarray(1 - scipy.special.bdtr(j - 1, folds, share))


def printed_margin(law: str, size: int) -> float | None:
    """Return M·N^(−α/(1+α)) of theorem 3 with λ = 1, where the moment has a closed form.

    Constant rewards of one have the moment 1 at any α, Gaussian ones of mean 1 the second moment 2.
    For t at df 1.5, E|1 + ν|^p ≥ E|ν|^p (ν is symmetric) gives a margin that is, if anything, too
    small, and the event too likely.
    """
    if law == "constant":
        return 1 / math.sqrt(size)
    if law == "Gaussian":
        return math.sqrt(2 / size)
    if law == "t 1.5":
        p, df = 1.25, 1.5
        gamma, scale = math.gamma, 1 / winsorised_std(df)
        moment = df ** (p / 2) * gamma((p + 1) / 2) * gamma((df - p) / 2)
        moment *= scale**p / (math.sqrt(math.pi) * gamma(df / 2))
        return float(moment ** (1 / p) * size ** -((p - 1) / p))
    return None


PARTS = {
    "n": evaluation_errors,
    "delta": evaluation_errors,
    "mean": mean_quantiles,
    "order": orders_of_folds,
}
