"""What the library and the oracle each say about a random log, on every surface of the library."""

from contextlib import ExitStack
from functools import partial
from unittest.mock import patch

import numpy as np
import pyarrow.parquet as pq

import tailproof.io.mapped
import tailproof.log.log
from tailproof import LSTD, Log, evaluate, learn, method
from tailproof.errors import FoldError
from tailproof.io import read_log, write_log

STEPS = 4  # Bellman updates: enough to tell methods apart
FOLDS = 3
GAMMA = 0.9
RIDGE = 1e-6  # per observation
SURFACES = ("memory", "lazy", "threads", "processes")


def chosen(chances, states):
    """Return the action that a certain policy takes."""
    return chances(states).argmax(axis=1)


class Law:
    """A policy by its probabilities."""

    def __init__(self, chances):
        self.chances = chances

    def probabilities(self, states):
        return self.chances(states)


def as_log(plain):
    """Return the library's log of plain arrays."""
    labels = np.array(plain["labels"])
    return Log.from_arrays(
        plain["states"],
        plain["actions"],
        plain["rewards"],
        plain["next_states"],
        episode=labels[plain["episode"]],
        group=np.array(plain["groups"])[plain["episode"]] if plain["grouped"] else None,
        terminated=plain["terminated"],
        propensity=plain["propensity"],
    )


def on_disk(log, path):
    """Write a log in small row groups, and open it where it stays on disk."""
    pq.write_table(pq.read_table(write_log(log, path)), path, row_group_size=17)
    return read_log(path, lazy=True)


def parts_of(surface):
    """Let a log be processed in small parts, except in memory, where it is one."""
    rows = tailproof.log.log.PART if surface == "memory" else 40
    stack = ExitStack()
    for module in (tailproof.log.log, tailproof.io.mapped):
        stack.enter_context(patch.object(module, "PART", rows))
    return stack


def expected(oracle, plain, seed, *, bandit):
    """Return what the oracle says, by method."""
    chances, _ = oracle.random_policy(seed, plain)
    gamma = 0.0 if bandit else GAMMA
    one = oracle.Problem(plain, chances, gamma)
    every = np.arange(len(plain["rewards"]))
    if bandit:
        return {
            "ips": one.ips(),
            "snips": one.ips(normalised=True),
            "lstd": one.value(one.lstd(every)),
        }
    folds, fit_rng = oracle.split(plain, FOLDS, seed)
    rows = [one.rows(each) for each in folds]
    thetas = one.fqe(rows, STEPS)
    both = one.fqe(rows, STEPS, backup=oracle.median)
    _, alone = oracle.split(plain, 1, seed)
    parts = [one.rows(each) for each in oracle.halves(plain, range(len(plain["labels"])), alone)]
    in_parts = [[one.rows(e) for e in oracle.halves(plain, each, fit_rng)] for each in folds]
    return {
        "lstd": one.value(one.lstd(every)),
        "fqe": one.value(one.fqe([every], STEPS)[0]),
        "mis": one.mis(every),
        "dr": one.dr(parts),
        "roam-dm": one.median_value(thetas),
        "roam-variant": float(oracle.median(np.array([one.value(each) for each in thetas]))),
        "roam-fqe": one.median_value(both),
        "roam-mis": float(oracle.median(np.array([one.mis(each) for each in rows]))),
        "roam-dr": float(oracle.median(np.array([one.dr(each) for each in in_parts]))),
    }


def found(log, oracle, plain, seed, *, bandit, engine=None):
    """Return what the library says, by method."""
    chances, certain = oracle.random_policy(seed, plain)
    policy = partial(chosen, chances) if certain else Law(chances)
    ask = partial(evaluate, log, policy, gamma=0.0 if bandit else GAMMA, seed=seed, engine=engine)
    if bandit:
        rows = {"ips": "ips", "snips": "snips", "lstd": ridged("lstd")}
        return {name: ask(method=row).value for name, row in rows.items()}
    rows = {
        **{name: ridged(name) for name in ("lstd", "mis", "dr")},
        "fqe": ridged("fqe", iterations=STEPS),
        **{name: ridged(name, folds=FOLDS) for name in ("roam-mis", "roam-dr")},
        **{
            name: ridged(name, folds=FOLDS, iterations=STEPS)
            for name in ("roam-dm", "roam-variant", "roam-fqe")
        },
    }
    return {name: healthy(partial(ask, method=row)) for name, row in rows.items()}


def ridged(name, **settings):
    """Return a named method with the oracle's ridge, in its critic too."""
    row = method(name, ridge=RIDGE, **settings)
    return row.with_settings(critic=LSTD(ridge=RIDGE)) if hasattr(row.base, "critic") else row


def healthy(ask):
    """Return the value, or None where members diverged."""
    try:
        estimate = ask()
    except FoldError:
        return None
    return None if estimate.bad_folds else estimate.value


def expands(oracle, plain, seed):
    """Return whether FQE has no limit on the whole log, and on any fold."""
    chances, _ = oracle.random_policy(seed, plain)
    one = oracle.Problem(plain, chances, GAMMA)
    folds, _ = oracle.split(plain, FOLDS, seed)
    whole = one.radius(np.arange(len(plain["rewards"]))) > 1
    return whole, any(one.radius(one.rows(each)) > 1 for each in folds)


def grows(oracle, plain, seed):
    """Return whether every update of FQI is larger than the one before, on any fold."""
    chances, _ = oracle.random_policy(seed, plain)
    one = oracle.Problem(plain, chances, GAMMA)
    folds, _ = oracle.split(plain, FOLDS, seed)
    rows = [one.rows(each) for each in folds]
    thetas = np.array([one.fqi(rows, steps, 2.5e-3) for steps in range(STEPS + 1)])
    moves = np.abs(np.diff(thetas, axis=0)).max(axis=2)  # (steps, K)
    return bool((np.diff(moves, axis=0) > 0).all(axis=0).any())


def learned_expected(oracle, plain, seed):
    """Return Q at the log's states after FQI, ROOM-VM and ROOM-FQI, by method, (n, A)."""
    chances, _ = oracle.random_policy(seed, plain)
    one = oracle.Problem(plain, chances, GAMMA)
    folds, _ = oracle.split(plain, FOLDS, seed)
    rows = [one.rows(each) for each in folds]
    ridge, states = 2.5e-3, plain["states"]
    every = [np.arange(len(states))]

    def q(thetas):
        return oracle.median(np.array([one.action_values(each, states) for each in thetas]))

    return {
        "fqi": q(one.fqi(every, STEPS, ridge)),
        "room-vm": q(one.fqi(rows, STEPS, ridge)),
        "room-fqi": q(one.fqi(rows, STEPS, ridge, backup=oracle.median)),
    }


def learned_found(log, plain, seed, engine=None):
    """Return Q at the log's states of the library's learners, by method."""
    rows = {
        "fqi": method("fqi", iterations=STEPS),
        "room-vm": method("room-vm", folds=FOLDS, iterations=STEPS),
        "room-fqi": method("room-fqi", folds=FOLDS, iterations=STEPS),
    }
    values = {}
    for name, row in rows.items():
        learned = learn(log, method=row, gamma=GAMMA, seed=seed, engine=engine)
        values[name] = None
        if not learned.bad_folds:
            values[name] = learned.critic.action_values(plain["states"], plain["n_actions"])
    return values


def shaken(plain, seed):
    """Return the log with states changed in their last digits, to see how much rounding moves."""
    rng = np.random.default_rng([seed, 2])
    moved = {
        name: plain[name] * (1 + 1e-15 * rng.standard_normal(plain[name].shape))
        for name in ("states", "next_states")
    }
    return {**plain, **moved}


def disagreements(oracle, seed, *, surface, path, engine=None):
    """Return how many numbers were compared, and in words those that differ by more than rounding.

    Rounding is a millionth of the scale of the answer. Where a system is so nearly singular that the
    last digits of the states move the oracle itself by more, it is a hundred times what they move.
    """
    bandit = seed % 3 == 0
    plain = oracle.random_log(seed, bandit=bandit)
    log = as_log(plain)
    with parts_of(surface):
        if surface == "lazy" and not bandit:
            log = on_disk(log, path)
        values = found(log, oracle, plain, seed, bandit=bandit, engine=engine)
        asks = [(partial(expected, oracle, bandit=bandit), values)]
        if not bandit and seed % 2:
            learned = learned_found(log, plain, seed, engine)
            asks.append((partial(learned_expected, oracle), learned))
    compared, said = 0, []
    for ask, got in asks:
        for name, value in ask(plain=plain, seed=seed).items():
            compared += 1
            if got[name] is None:
                whole, part = expands(oracle, plain, seed)
                if "room" in name:
                    part = grows(oracle, plain, seed)
                if not (whole if name == "fqe" else part):
                    said.append(f"seed {seed}, {surface}, {name}: refused, but nothing diverges")
                continue
            scale = np.abs(plain["rewards"]).mean() + np.abs(value).max()
            off = float(np.abs(np.asarray(got[name]) - value).max())
            if off <= 1e-6 * scale:
                continue
            moved = ask(plain=shaken(plain, seed), seed=seed)[name]
            if not off <= 100 * float(np.abs(np.asarray(moved) - value).max()):
                said.append(f"seed {seed}, {surface}, {name}: off by {off:g} of {scale:g}")
    return compared, said
