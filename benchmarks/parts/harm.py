"""Does learning without a method do harm, and does it help?

Targets, with seeds that chose nothing:

1. On ten worlds, several logs each: what is returned, a proposal or the clone of the log, is worse than
   the log by more than 5 % of |J| when it is deployed in at most 3 % of logs; what is proposed, or
   promoted by `compare`, is worse than the log in at most 3 %; no exception; better than the log in at
   least 70 % of logs (the target policy always is). The logged behaviour is kept on at least 90 % of
   logs in which no action changes anything.
   In the worlds of `outside.py`, 75 runs: promoted though worse in at most 2 %, better in at least 60 %
   of logs in which that is possible.
2. Hillstrom, 24 splits: not below the best constant by more than a standard error.
3. The judged value lies within its own 90 % interval of the truth in at least 85 % of runs.
5. At most 30 s of CPU for 10,000 rows.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom

from benchmarks.parts.foreign_worlds import FOREIGN_HIDDEN, FOREIGN_MARKOV
from benchmarks.parts.hard_worlds import HARD_WORLDS, NeverScale
from benchmarks.parts.more_worlds import MORE_HIDDEN, MORE_MARKOV
from benchmarks.parts.populations import act, claims, hillstrom, limeqo
from benchmarks.parts.records import Records
from benchmarks.parts.worlds import WORLDS, ABTest, SkewByAction, Tabular, World, draw_log, truth
from tailproof import Log, compare, learn
from tailproof.errors import TailproofError
from tailproof.policies.forms import Always, action_probabilities

LEVEL = 0.9
HARM, WORSE, BETTER, KEPT, HELD, SECONDS = 0.05, 0.03, 0.7, 0.9, 0.85, 30.0
LOGS, SPLITS = 8, 24  # of a world, of Hillstrom
CHANCE = 1e-2  # with few logs, only what chance would explain this rarely counts as a miss
_PLAYED = 2_000  # episodes behind the value of a learned policy
_LEFT = 2e-4  # γ^T of what they leave out


class NoEffect(ABTest):
    """The same coin between two offers that pay alike."""

    def step(self, z, a, rng):  # noqa: ARG002
        """Pay."""
        return z, 0.5 * z[:, 1], np.ones(len(z), bool)


class Idle(SkewByAction):
    """Several steps, three actions that change nothing, t₂ noise."""

    actions = 3

    def step(self, z, a, rng):
        """Move, whatever the action."""
        return super().step(z, np.full(len(a), 0.5), rng)

    def noise(self, z, a, rng):  # noqa: ARG002
        """Draw Student noise with two degrees of freedom."""
        return rng.standard_t(2, len(z))

    def behaviour(self, states):
        """Take any action."""
        return np.full((len(states), 3), 1 / 3)


class SkewedIdle(Idle):
    """The same with log-normal noise."""

    def noise(self, z, a, rng):  # noqa: ARG002
        """Draw log-normal noise."""
        return np.exp(1.2 * rng.standard_normal(len(z))) - np.exp(0.72)


def worlds(
    folder: Path | None,  # noqa: ARG001 every part is asked alike
    records: Records,
    *,
    quick: bool,
    seed: int,
) -> tuple[dict[str, Any], list[str]]:
    """Learn in ten worlds with something to gain."""
    found, missed = _everywhere(WORLDS, records, 1 if quick else LOGS, seed, exact=not quick)
    slowest = max(cell["seconds"] for cell in found["cells"].values())
    if slowest > SECONDS:
        missed.append(f"{slowest:.0f} s for 10,000 rows (at most {SECONDS:.0f})")
    return found, missed


def outside(
    folder: Path | None,  # noqa: ARG001
    records: Records,
    *,
    quick: bool,
    seed: int,
) -> tuple[dict[str, Any], list[str]]:
    """Learn in the worlds of `outside.py` that the default was not made for."""
    kinds = (*HARD_WORLDS, *FOREIGN_HIDDEN, *FOREIGN_MARKOV, *MORE_HIDDEN, *MORE_MARKOV)
    kinds = tuple(kind for kind in kinds if kind is not NeverScale)  # the log of another
    return _everywhere(
        kinds, records, 1 if quick else 3, seed, exact=not quick, promoted=0.02, better=0.6
    )


def _everywhere(
    kinds: Sequence[type[World]],
    records: Records,
    logs: int,
    seed: int,
    *,
    exact: bool,
    promoted: float = WORSE,
    better: float = BETTER,
) -> tuple[dict[str, Any], list[str]]:
    """Learn in some worlds; return the cells, the shares over all of them, and the targets missed."""
    cells = {}
    for kind in kinds:
        rows = np.array(_runs(kind(), kind.__name__, records, logs, seed))
        cells[kind.__name__] = {"log": float(rows[0, 0]), **_shares(rows)}
    pooled = {key: float(np.mean([cell[key] for cell in cells.values()])) for key in _SHARES}
    possible = [cell["better"] for name, cell in cells.items() if not name.endswith("Null")]
    pooled["better"] = float(np.mean(possible))
    count, judged = logs * len(cells), sum(cell["judged"] * logs for cell in cells.values())
    held = sum(cell["held"] * cell["judged"] * logs for cell in cells.values())
    pooled["held"] = held / judged if judged else float("nan")
    missed = [
        f"{what} {pooled[what]:.1%} (at most {limit:.0%})"
        for what, limit in (
            ("worse", WORSE),
            ("proposed though worse", WORSE),
            ("promoted though worse", promoted),
        )
        if _beyond(pooled[what], limit, count, exact=exact)
    ]
    missed += [
        f"{what} {pooled[what]:.1%} (at least {limit:.0%})"
        for what, limit, of in (("better", better, logs * len(possible)), ("held", HELD, judged))
        if of and _beyond(1 - pooled[what], 1 - limit, int(of), exact=exact)
    ]
    return {"cells": cells, "pooled": pooled}, missed


def nulls(
    folder: Path | None,  # noqa: ARG001
    records: Records,
    *,
    quick: bool,
    seed: int,
) -> tuple[dict[str, Any], list[str]]:
    """Learn where no action changes anything."""
    logs = 2 if quick else 20
    cells = {}
    for kind in (NoEffect, Idle, SkewedIdle):
        rows = np.array(_runs(kind(), kind.__name__, records, logs, seed))
        cells[kind.__name__] = {"log": float(rows[0, 0]), **_shares(rows)}
    kept = float(np.mean([1 - cell["proposed"] for cell in cells.values()]))
    missed = []
    if _beyond(1 - kept, 1 - KEPT, logs * len(cells), exact=not quick):
        missed.append(f"kept on {kept:.1%} of logs without effect (at least {KEPT:.0%})")
    return {"cells": cells, "pooled": {"kept": kept}}, missed


def real(
    folder: Path | None, records: Records, *, quick: bool, seed: int
) -> tuple[dict[str, Any], list[str]]:
    """Learn from one half of real populations, and value what was learned on the other."""
    cells: dict[str, dict[str, float]] = {}
    missed: list[str] = []
    if folder is None:
        return {"cells": cells, "pooled": {}}, missed
    for name, split in _splits(folder).items():
        splits = 2 if quick else SPLITS if name == "Hillstrom" else 4
        rows = np.array(
            [
                records.once(f"{name}, split {seed + i}", lambda s=split, k=seed + i: s(k))
                for i in range(splits)
            ]
        )
        value, constant, logged, proposed, seconds = rows.T
        behind = constant - value
        error = float(behind.std(ddof=1)) / np.sqrt(splits) if splits > 1 else float("inf")
        cells[name] = {
            "learned": float(value.mean()),
            "best constant": float(constant.mean()),
            "log": float(logged.mean()),
            "proposed": float(proposed.mean()),
            "behind": float(behind.mean()),
            "standard error": error,
            "seconds": float(seconds.max()),
        }
        if name == "Hillstrom" and not quick and behind.mean() > error:
            missed.append(
                f"Hillstrom: {behind.mean():.3f} below the best constant (se {error:.3f})"
            )
    return {"cells": cells, "pooled": {}}, missed


def show(found: dict[str, Any]) -> None:
    """Print a row for each cell."""
    for name, cell in found["cells"].items():
        print(f"{name:16}", "  ".join(f"{key} {value:.4g}" for key, value in cell.items()))
    print("pooled          ", "  ".join(f"{key} {v:.3g}" for key, v in found["pooled"].items()))


_SHARES = (
    "worse",
    "proposed though worse",
    "promoted though worse",
    "better",
    "proposed",
    "judged",
)


def _runs(world: World, name: str, records: Records, logs: int, seed: int) -> list[list[float]]:
    logged = records.once(f"{name}, logged", lambda: [truth(world, "behaviour")])[0]
    return [
        [logged, *records.once(f"{name}, log {seed + i}", lambda s=seed + i: _run(world, s))]
        for i in range(logs)
    ]


def _run(world: World, seed: int) -> list[float]:
    """Return the value, whether it was proposed, whether its interval held, seconds, the gate."""
    log = draw_log(world, seed)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learned = learn(log, gamma=world.gamma)
    seconds = (time.process_time() - began) * 10_000 / max(log.n_transitions, 10_000)
    value = played(world, learned.policy)
    held = float("nan")
    if learned.improves and learned.judged is not None and learned.judged.low is not None:
        held = float(learned.judged.low <= value <= learned.judged.high)  # type: ignore[operator]
    return [value, float(bool(learned.improves)), held, seconds, promoted(learned, world.gamma)]


def promoted(learned: Any, gamma: float) -> float:
    """Return whether `compare` lets what was learned pass, on the episodes that were kept from it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return float(compare(learned.held_out, {"learned": learned.policy}, gamma=gamma).passes)
        except TailproofError:  # too few episodes for a gate: nothing is promoted
            return 0.0


def _shares(rows: Any) -> dict[str, float]:
    logged, value, proposed, held, seconds, passed = rows.T
    known = ~np.isnan(held)
    return {
        "learned": float(value.mean()),
        "worse": float((value < logged - HARM * np.abs(logged)).mean()),
        "proposed though worse": float(((proposed > 0) & (value < logged)).mean()),
        "promoted though worse": float(((passed > 0) & (value < logged)).mean()),
        "better": float(((proposed > 0) & (value > logged)).mean()),
        "proposed": float(proposed.mean()),
        "judged": float(known.mean()),
        "held": float(held[known].mean()) if known.any() else 0.0,
        "seconds": float(seconds.max()),
    }


def played(world: World, policy: Any, *, seed: int = 20_262) -> float:
    """Return the value of any policy, exactly or by playing it without noise."""

    def chances(states: Any) -> Any:
        return action_probabilities(policy, states, world.actions)

    if isinstance(world, Tabular):
        return world.exact(chances)
    rng = np.random.default_rng(seed)
    steps = int(np.ceil(np.log(_LEFT) / np.log(world.gamma))) if 0 < world.gamma < 1 else 25
    count = 100_000 if world.one_step or world.gamma == 1 else _PLAYED
    z, who, total = world.start(count, rng), np.arange(count), np.zeros(count)
    for step in range(1 if world.one_step else steps):
        a = act(chances(world.observe(z)), rng)
        z, rewards, ended = world.step(z, a, rng)
        total[who] += world.gamma**step * rewards
        z, who = z[~ended], who[~ended]
        if len(who) == 0:
            break
    return float(total.mean())


def _splits(folder: Path) -> dict[str, Callable[[int], list[float]]]:
    """Return what to do with a seed for each population whose file is there."""
    found: dict[str, Callable[[int], list[float]]] = {}
    if (folder / "hillstrom.parquet").exists():
        states, arms, spend = hillstrom(folder)
        found["Hillstrom"] = lambda seed: _experiment(states, arms, spend, seed)
    if (folder / "bemtpl97.parquet").exists():
        holders, amount = claims(folder)
        kept = np.stack([np.maximum(amount - each, 0) for each in (0, 200, 500)], axis=1)
        profit = np.array([260.0, 235.0, 210.0]) - kept
        found["claims, profit"] = lambda seed: _complete(holders, profit, seed)
    if (folder / "limeqo_ceb.parquet").exists():
        queries, latency = limeqo(folder)
        found["LimeQO"] = lambda seed: _complete(queries, -latency, seed)
    return found


def _experiment(states: Any, arms: Any, rewards: Any, seed: int) -> list[float]:
    """Learn from half of a randomised experiment; the other half values by inverse propensities."""
    rng = np.random.default_rng(seed)
    own = rng.permutation(len(arms)) % 2 == 0
    count = int(arms.max()) + 1
    learned, seconds = _timed(_one_step(states[own], arms[own], rewards[own], 1 / count, count))
    rest, taken, paid = states[~own], arms[~own], rewards[~own]

    def value(policy: Any) -> float:
        weights = action_probabilities(policy, rest, count)[np.arange(len(rest)), taken]
        return float((weights * paid).sum() / weights.sum())

    best = max(range(count), key=lambda a: float(rewards[own & (arms == a)].mean()))
    chosen = value(learned.policy) if learned.improves else float(paid.mean())
    proposed = float(bool(learned.improves))
    return [chosen, value(Always(best)), float(paid.mean()), proposed, seconds]


def _complete(states: Any, outcomes: Any, seed: int, most: int = 10_000) -> list[float]:
    """Learn from one outcome of each row; all outcomes of other rows give the truth."""
    rng = np.random.default_rng(seed)
    order, count = rng.permutation(len(states)), outcomes.shape[1]
    own, rest = order[: min(most, len(order) // 2)], order[len(order) // 2 :]
    actions = rng.integers(count, size=len(own))
    log = _one_step(states[own], actions, outcomes[own, actions], 1 / count, count)
    learned, seconds = _timed(log)

    def value(policy: Any) -> float:
        law = action_probabilities(policy, states[rest], count)
        return float((law * outcomes[rest]).sum(axis=1).mean())

    best = int(np.argmax([log.rewards[actions == a].mean() for a in range(count)]))
    logged = float(outcomes[rest].mean())
    chosen = value(learned.policy) if learned.improves else logged
    return [chosen, value(Always(best)), logged, float(bool(learned.improves)), seconds]


def _one_step(states: Any, actions: Any, rewards: Any, propensity: float, count: int) -> Log:
    n = len(actions)
    return Log.from_arrays(
        states, actions, rewards, states, episode=np.arange(n), terminated=np.ones(n, bool),
        propensity=np.full(n, propensity), action_space=count,
    )  # fmt: skip


def _timed(log: Log) -> tuple[Any, float]:
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learned = learn(log)
    return learned, (time.process_time() - began) * 10_000 / max(log.n_transitions, 10_000)


def _beyond(share: float, limit: float, count: int, *, exact: bool) -> bool:
    """Return whether a share is above its limit, with few logs beyond chance."""
    if exact:
        return share > limit
    return bool(binom.sf(round(share * count) - 1, count, limit) < CHANCE)
