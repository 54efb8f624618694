"""Gains on logs with heavy one-sided rewards: errors, signs, gates, coverage and rankings.

    python -m benchmarks.gains                        populations generated here
    python -m benchmarks.gains --data FOLDER          also hillstrom, randhie, bemtpl97, limeqo, ercot
    python -m benchmarks.gains --table                the table of what was measured so far

Every log draws anew from a population with a known gain. The default is asked without reports. Results
go to `benchmarks/results/gains.json`, 25 logs of each cell at a time; a run that was stopped goes on,
and one that asks for more logs adds them.
The pooling's settings were chosen on the shop, Hillstrom, RAND, claims and LimeQO ("chosen"); the
populations "held out" chose nothing.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from scipy.special import ndtri

from tailproof.estimators.one_step import evaluate_rows
from tailproof.log.log import Log
from tailproof.profile.one_step import OneStepRows

RESULTS = Path(__file__).parent / "results" / "gains.json"
_T = 1.2816  # of a one-sided bound at 90 %
WITHIN = 0.2
_AT_ONCE = 25


@dataclass(frozen=True)
class Draw:
    """One log: states (n, d), actions, rewards, propensities, and the policy's probabilities."""

    states: Any
    actions: Any
    rewards: Any
    propensity: Any
    policy: Any  # (n, A)


@dataclass(frozen=True)
class Cell:
    """A population, its true gain, the true ratios of rate and size (None if unknown), and a draw."""

    name: str
    held_out: bool
    gain: float
    draw: Callable[[np.random.Generator, int], Draw]
    often: float | None = None
    size: float | None = None
    value: float | None = None  # of the policy


def one_step(found: Draw) -> Log:
    """Return the log of a draw."""
    n = len(found.rewards)
    return Log.from_arrays(
        found.states,
        found.actions,
        found.rewards,
        found.states,
        episode=np.arange(n),
        terminated=np.ones(n, dtype=bool),
        propensity=found.propensity,
        action_space=found.policy.shape[1],
    )


SIZES: dict[str, tuple[Callable[[np.random.Generator, int], Any], float]] = {
    "Pareto 1.7": (lambda rng, n: 25 * (1 + rng.pareto(1.7, n)), 25 * (1 + 1 / 0.7)),
    "log-normal 1.6": (lambda rng, n: rng.lognormal(3, 1.6, n), float(np.exp(3 + 1.28))),
    "Lomax 1.5": (lambda rng, n: 40 * rng.pareto(1.5, n), 80.0),
    "Weibull 0.4": (lambda rng, n: 30 * rng.weibull(0.4, n), 30 * 3.3233509704478426),
    "inverse gamma 1.8": (lambda rng, n: 50 / rng.gamma(1.8, 1.0, n), 50 / 0.8),
}


def coin(
    name: str,
    sizes: Callable[[np.random.Generator, int], Any],
    mean: float,
    *,
    rates: tuple[float, float],
    size: float = 1.0,
    sign: int = 1,
    share: float = 0.5,
    held_out: bool = True,
) -> Cell:
    """Return an experiment: rates of events (control, offer), the offer's sizes × `size`.

    `share` of the rows have the offer.
    """
    values = np.array([rates[0] * mean, rates[1] * mean * size])

    def draw(rng: np.random.Generator, n: int) -> Draw:
        a = (rng.random(n) < share).astype(int)
        r = (
            sign
            * (rng.random(n) < np.array(rates)[a])
            * sizes(rng, n)
            * np.where(a == 1, size, 1.0)
        )
        chance = np.where(a == 1, share, 1 - share)
        return Draw(np.zeros((n, 1)), a, r, chance, np.tile([0.0, 1.0], (n, 1)))

    logged = (1 - share) * values[0] + share * values[1]
    often = rates[1] / ((1 - share) * rates[0] + share * rates[1])
    size_ratio = values[1] / logged / often
    gain = sign * (1 - share) * (values[1] - values[0])
    return Cell(name, held_out, gain, draw, often, size_ratio, sign * values[1])


def shop(size: float, *, effect: bool, late: bool) -> Cell:
    """Return the shop whose offer works late in the season, with a rule of the day or for all."""
    days = np.arange(200)
    base, mean = 0.08 + 0.1 * (days < 40), 25 * (1 + 1 / 0.7)
    offered = base + (0.12 * (days > 90) - 0.02) * effect
    rule = (days > 120) if late else np.ones(200, dtype=bool)
    under = np.where(rule, offered * size, base) * mean

    def draw(rng: np.random.Generator, n: int) -> Draw:
        day, a = rng.integers(0, 200, n), rng.integers(2, size=n)
        buys = rng.random(n) < np.where(a == 1, offered[day], base[day])
        r = buys * 25 * (1 + rng.pareto(1.7, n)) * np.where(a == 1, size, 1.0)
        policy = np.eye(2)[rule[day].astype(int)]
        return Draw(day[:, None].astype(float), a, r, np.full(n, 0.5), policy)

    gain = float(under.mean() - (offered * size + base).mean() * mean / 2)
    who = "late" if late else "all"
    return Cell(f"shop {who}, sizes ×{size}" + ", no effect" * (not effect), False, gain, draw)


def customers(size: float) -> Cell:
    """Return an offer that goes to large customers, whose orders are larger and as likely.

    An offer lifts purchases from 8 to 11 % and multiplies sizes by `size`; sizes are log-normal
    around three times as much for one customer in four, whom the log offers 20 % and others 60 %.
    """
    scale, chance = np.array([20.0, 60.0]), np.array([0.6, 0.2])
    rates, mean = np.array([0.08, 0.11]), float(np.exp(1.4**2 / 2))

    def draw(rng: np.random.Generator, n: int) -> Draw:
        large = (rng.random(n) < 0.25).astype(int)
        a = (rng.random(n) < chance[large]).astype(int)
        order = scale[large] * rng.lognormal(0, 1.4, n) * np.where(a == 1, size, 1.0)
        states = np.column_stack([large.astype(float), rng.standard_normal((n, 2))])
        propensity = np.where(a == 1, chance[large], 1 - chance[large])
        r = (rng.random(n) < rates[a]) * order
        return Draw(states, a, r, propensity, np.eye(2)[large])

    shares = np.array([0.75, 0.25])
    under = np.array([rates[0], rates[1] * size]) * scale * mean
    offered, control = rates[1] * size * scale * mean, rates[0] * scale * mean
    logged = float(shares @ (chance * offered + (1 - chance) * control))
    value = float(shares @ under)
    name = f"offers to large customers, sizes ×{size}"
    return Cell(name, True, value - logged, draw, value=value)


def huge_weights() -> Cell:
    """Return a policy that is nearly the opposite of the logged rule: few rows with huge weights."""

    def offered(x: Any) -> Any:
        return np.clip(1 / (1 + np.exp(-2 * x)), 0.02, 0.98)

    def rate(x: Any, a: Any) -> Any:
        return 0.25 + 0.1 * a * (x < 0) + 0.1 * (x > 1)

    def draw(rng: np.random.Generator, n: int) -> Draw:
        x = rng.standard_normal(n)
        a = (rng.random(n) < offered(x)).astype(int)
        r = (rng.random(n) < rate(x, a)) * 25 * (1 + rng.pareto(2.5, n))
        propensity = np.where(a == 1, offered(x), 1 - offered(x))
        return Draw(x[:, None], a, r, propensity, np.eye(2)[(x < 0).astype(int)])

    x = np.linspace(-8, 8, 160_001)
    density = np.exp(-x * x / 2) / np.exp(-x * x / 2).sum()
    mean = 25 * (1 + 1 / 1.5)
    value = float(density @ rate(x, (x < 0).astype(int))) * mean
    mixed = offered(x) * rate(x, 1) + (1 - offered(x)) * rate(x, 0)
    gain = value - float(density @ mixed) * mean
    return Cell("few huge weights", True, gain, draw, value=value)


def made() -> Iterator[Cell]:
    """Yield the populations that are generated here."""
    for name, (sizes, mean) in SIZES.items():
        if name == "Pareto 1.7":
            continue
        for size in (1.0, 0.8, 1.2):
            yield coin(f"{name} ×{size}", sizes, mean, rates=(0.1, 0.14), size=size)
        yield coin(f"{name} as cost", sizes, mean, rates=(0.3, 0.24), sign=-1)
        yield coin(f"{name}, no effect", sizes, mean, rates=(0.12, 0.12))
    for name in ("Weibull 0.4", "inverse gamma 1.8"):
        for sign in (1, -1):
            yield coin(
                f"{name}{' as cost' * (sign < 0)}, pilot of 5 %, no effect",
                *SIZES[name],
                rates=(0.12, 0.12),
                sign=sign,
                share=0.05,
            )
    for sizes, mean in (SIZES["Weibull 0.4"], (lambda rng, n: rng.gamma(2.0, 30.0, n), 60.0)):
        name = f"{'Weibull 0.4' if mean > 60 else 'gamma 2'}, pilot of 2 %, no effect"
        yield coin(name, sizes, mean, rates=(0.12, 0.12), share=0.02)
    for size in (1.0, 0.8, 1.2):
        yield customers(size)
    for size in (1.0, 0.8, 1.3):
        for late in (True, False):
            yield shop(size, effect=True, late=late)
    yield shop(1.0, effect=False, late=True)


def real(folder: Path) -> Iterator[Cell]:
    """Yield the populations of real data."""
    import pyarrow.parquet as pq

    def column(name: str, which: str) -> Any:
        return pq.read_table(folder / f"{name}.parquet", columns=[which]).column(0).to_numpy()

    for name, arm, reward, sign in (
        ("hillstrom", "segment", "spend", 1),
        ("randhie", "plan", "meddol", -1),
    ):
        a = np.unique(column(name, arm).astype(str), return_inverse=True)[1]
        y = sign * column(name, reward).astype(float)
        share = np.bincount(a) / len(a)
        for k in np.argsort(-share)[:3]:
            yield arms(f"{name} arm {k}", a, y, share, int(k))
    amount = column("bemtpl97", "amount").astype(float)
    for deductible, discount in ((150, 20), (500, 50)):
        yield claims(amount, deductible, discount)
    table = pq.read_table(folder / "limeqo_ceb.parquet")
    latency = np.stack([table.column(i).to_numpy() for i in range(1, 9)], axis=1).astype(float)
    for k in (1, 3):
        yield hints(latency, k)
    sources = {
        "Hillstrom sizes": column("hillstrom", "spend"),
        "RAND sizes": column("randhie", "meddol"),
        "Belgian claim sizes": amount,
        "ERCOT price sizes": column("ercot_hubs", "HB_NORTH"),
        "query sizes": _numbers(folder / "limeqo_job.parquet"),
        "RAND mental-care sizes": column("randhie", "mentdol"),
        "day-ahead price sizes": column("ercot_dam_2021_2022", "price"),
    }
    for name, values in sources.items():
        own = values[values > 0].astype(float)

        def sizes(rng: np.random.Generator, n: int, own: Any = own) -> Any:
            return own[rng.integers(len(own), size=n)]

        for size in (1.0, 0.8, 1.2):
            yield coin(f"{name} ×{size}", sizes, own.mean(), rates=(0.08, 0.11), size=size)
        yield coin(f"{name}, no effect", sizes, own.mean(), rates=(0.1, 0.1))


def _numbers(path: Path) -> Any:
    """Return all numbers of a table whose first column is a name, (n,)."""
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    return np.concatenate([each.to_numpy().astype(float) for each in table.columns[1:]])


def arms(name: str, a: Any, y: Any, share: Any, k: int) -> Cell:
    """Return rows of an experiment, drawn with replacement, and the policy of one arm."""

    def draw(rng: np.random.Generator, n: int) -> Draw:
        i = rng.integers(len(y), size=n)
        policy = np.tile(np.eye(len(share))[k], (n, 1))
        return Draw(np.zeros((n, 1)), a[i], y[i], share[a[i]], policy)

    own, events = a == k, y != 0
    often = events[own].mean() / events.mean()
    size = y[own].mean() / y.mean() / often
    return Cell(name, False, float(y[own].mean() - y.mean()), draw, float(often), float(size))


def claims(amount: Any, deductible: float, discount: float) -> Cell:
    """Return an insurer's choice between two deductibles."""

    def pay(a: Any, z: Any) -> Any:
        return np.where(a == 1, -np.maximum(z - deductible, 0) - discount, -z)

    def draw(rng: np.random.Generator, n: int) -> Draw:
        a, z = rng.integers(2, size=n), amount[rng.integers(len(amount), size=n)]
        return Draw(np.zeros((n, 1)), a, pay(a, z), np.full(n, 0.5), np.tile([0.0, 1.0], (n, 1)))

    gain = float((pay(1, amount) - pay(0, amount)).mean() / 2)
    return Cell(f"claims, deductible {deductible}", False, gain, draw)


def hints(latency: Any, k: int) -> Cell:
    """Return query latencies under one of eight hints: the action changes the tail itself."""

    def draw(rng: np.random.Generator, n: int) -> Draw:
        a, q = rng.integers(8, size=n), rng.integers(len(latency), size=n)
        policy = np.tile(np.eye(8)[k], (n, 1))
        return Draw(np.zeros((n, 1)), a, -latency[q, a], np.full(n, 1 / 8), policy)

    return Cell(f"LimeQO hint {k}", False, float(latency.mean() - latency[:, k].mean()), draw)


def measured(cell: Cell, n: int, reps: range) -> dict[str, list[float]]:
    """Return sums over the logs of one population at one size, and their number, by name."""
    found: dict[str, Any] = {}

    def add(name: str, values: Any) -> None:
        counted = np.append(np.asarray(values, dtype=float), 1.0)
        found[name] = found.get(name, 0.0) + counted

    for rep in reps:
        drawn = cell.draw(np.random.default_rng([2053, crc32(cell.name.encode()), rep, n]), n)
        rows = OneStepRows.of(one_step(drawn), rep)
        choice = evaluate_rows(rows, rows.in_order(drawn.policy))
        gain, path = choice.gain, choice.pooling
        w = (drawn.policy[np.arange(n), drawn.actions]) / drawn.propensity
        w = w / w.mean()
        plain = float((w * drawn.rewards).mean())
        row = w * (drawn.rewards - plain) - (drawn.rewards - drawn.rewards.mean())
        snips, error = plain - float(drawn.rewards.mean()), float(row.std()) / np.sqrt(n)
        labelled = gain if path is None else gain.sizes_within(WITHIN)
        add("squared errors", [(x - cell.gain) ** 2 for x in (gain.value, snips)])
        add("right sign", [np.sign(x) == np.sign(cell.gain) for x in (gain.value, snips)])
        bounds = [x.lower_bound(0.9).value for x in (gain, labelled)]
        add("passes", [bound > 0 for bound in (*bounds, snips - _T * error)])
        intervals = {
            "default": (gain.interval(0.9), cell.gain),
            "sizes within 20 %": (labelled.interval(0.9), cell.gain),
        }
        if gain.parts is not None and cell.often is not None and cell.size is not None:
            parts = gain.parts
            intervals |= {
                "how often": (parts.often.relative_interval(), cell.often - 1),
                "how large": (parts.size.relative_interval(), cell.size - 1),
                "tipping point": (parts.tipping_interval(), 1 / cell.often - 1),
            }
            reach = cell.often * cell.size - 1
            logged = cell.gain / reach if abs(reach) > 1e-9 else 0.0
            more = logged * (cell.often - 1)
            intervals |= {
                "how often, in reward": (parts.often.interval(), more),
                "how large, in reward": (parts.size.interval(), cell.gain - more),
            }
        if cell.value is not None:
            found_interval = choice.interval(0.9)
            intervals["value"] = found_interval, cell.value
            width = 2 * ndtri(0.95) * float((w * (drawn.rewards - plain)).std()) / np.sqrt(n)
            add("width over t's", (found_interval.high - found_interval.low) / max(width, 1e-300))
        for name, (interval, truth) in intervals.items():
            add(name, interval.low <= truth <= interval.high)
    return {name: each.tolist() for name, each in found.items()}


_RANKERS = ("default", "SNIPS", "DR", "conversion")
RANKINGS = {
    "conversion tells": ((0.10, 0.11, 0.12, 0.15), (1.0, 1.0, 1.0, 1.0)),
    "more and smaller orders": ((0.10, 0.12, 0.14, 0.20), (1.0, 1.1, 1.0, 0.5)),
    "sizes ±10 %": ((0.10, 0.11, 0.13, 0.14), (1.1, 0.9, 1.05, 0.95)),
}


def ranked(name: str, n: int, reps: range) -> dict[str, list[float]]:
    """Return in how many logs each estimator ranks the best of four actions first, and of how many."""
    rates, scale = map(np.array, RANKINGS[name])
    best = int(np.argmax(rates * scale))
    first = dict.fromkeys(_RANKERS, 0)
    for rep in reps:
        rng = np.random.default_rng([2054, crc32(name.encode()), rep, n])
        a = rng.integers(4, size=n)
        sizes = 25 * (1 + rng.pareto(1.7, n)) * scale[a]
        r = (rng.random(n) < rates[a]) * sizes
        drawn = Draw(np.zeros((n, 1)), a, r, np.full(n, 0.25), np.tile(np.eye(4)[0], (n, 1)))
        rows = OneStepRows.of(one_step(drawn), rep)
        choices = [
            evaluate_rows(rows, rows.in_order(np.tile(np.eye(4)[k], (n, 1)))) for k in range(4)
        ]
        by = {
            "default": [each.value for each in choices],
            "SNIPS": [r[a == k].mean() for k in range(4)],
            "DR": [each.alternatives["doubly robust"] for each in choices],
            "conversion": [(r[a == k] > 0).mean() for k in range(4)],
        }
        for who, values in by.items():
            first[who] += int(np.argmax(values)) == best
    return {who: [count, len(reps)] for who, count in first.items()}


def run(cells: list[Cell], sizes: tuple[int, ...], logs: int, path: Path) -> None:
    """Measure every cell, 25 logs of each at a time, that the file does not hold yet."""
    found = json.loads(path.read_text()) if path.exists() else {}
    cases: dict[str, Callable[[range], dict[str, list[float]]]] = {}
    for n in sizes:
        cases |= {f"{name}, n={n}": partial(ranked, name, n) for name in RANKINGS}
        cases |= {f"{cell.name}, n={n}": partial(measured, cell, n) for cell in cells}
    weights = huge_weights()
    cells = [*cells, weights]
    cases[f"{weights.name}, n=1000"] = partial(measured, weights, 1_000)
    known = {cell.name: (cell.held_out, cell.gain) for cell in cells}
    for first in range(0, logs, _AT_ONCE):
        for key, measure in cases.items():
            kept = found.setdefault(key, {"logs": 0})
            if kept["logs"] > first:
                continue
            held_out, gain = known.get(key.rsplit(", n=", 1)[0], (None, None))
            more = measure(range(first, min(first + _AT_ONCE, logs)))
            sums = {
                name: np.add(kept.get(name, np.zeros(len(each))), each).tolist()
                for name, each in more.items()
            }
            kept |= {"held_out": held_out, "gain": gain, **sums}
            kept["logs"] = min(first + _AT_ONCE, logs)
            path.write_text(json.dumps(found, indent=None).replace("}, ", "},\n") + "\n")


def shares(of: dict[str, Any], name: str) -> Any:
    """Return the means of what was summed under a name."""
    *sums, count = of[name]
    return np.array(sums) / count


def show(path: Path) -> None:
    """Print the figures by group, and each cell's ratio of errors."""
    found = json.loads(path.read_text())
    for held_out in (False, True):
        cells = {k: v for k, v in found.items() if v["held_out"] is held_out}
        if not cells:
            continue
        squared = {k: shares(v, "squared errors") for k, v in cells.items()}
        ratio = {k: float(np.sqrt(own / plain)) for k, (own, plain) in squared.items()}
        logs = [v["logs"] for v in cells.values()]
        print(f"{'held out' if held_out else 'chosen'}: {len(cells)} cells of {min(logs)}+ logs")
        worst = max(ratio, key=lambda key: ratio[key])
        mean = np.exp(np.log(list(ratio.values())).mean())
        print(f"  RMSE over SNIPS's: {mean:.2f}, worst {ratio[worst]:.2f} ({worst})")
        effect = [v for v in cells.values() if v["gain"] != 0]
        signs = np.mean([shares(v, "right sign") for v in effect], axis=0)
        print(f"  right sign: default {signs[0]:.0%}, SNIPS {signs[1]:.0%}")
        for what, some in (
            ("true gains", [v for v in effect if v["gain"] > 0]),
            ("nulls", [v for v in cells.values() if v["gain"] == 0]),
        ):
            if some:
                passes = [shares(v, "passes") for v in some]
                mean, most = np.mean(passes, axis=0), np.max(passes, axis=0)
                print(
                    f"  {what} that pass: default {mean[0]:.0%} (most {most[0]:.0%}), labelled "
                    f"{mean[1]:.0%} ({most[1]:.0%}), SNIPS with t {mean[2]:.0%} ({most[2]:.0%})"
                )
        for name in (
            "default",
            "sizes within 20 %",
            "value",
            "how often",
            "how large",
            "how often, in reward",
            "how large, in reward",
            "tipping point",
        ):
            # where few logs have parts, those with many events were picked
            asked = {k: v for k, v in cells.items() if name in v and v[name][-1] > 0.8 * v["logs"]}
            held = {k: float(shares(v, name)[0]) for k, v in asked.items()}
            if held:
                least = min(held, key=lambda key: held[key])
                mean = np.mean(list(held.values()))
                print(f"  {name} holds {mean:.0%}, least {held[least]:.0%} ({least})")
    for key, first in found.items():
        if first["held_out"] is None:
            said = {who: f"{shares(first, who)[0]:.0%}" for who in _RANKERS}
            print(key, f"({first['logs']} logs)", said)


def main() -> None:
    """Measure, or print what was measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--logs", type=int, default=60)
    parser.add_argument("--rows", type=int, nargs="+", default=[2_000, 10_000])
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    if not given.table:
        cells = [*(real(given.data) if given.data else ()), *made()]
        run(cells, tuple(given.rows), given.logs, given.results)
    if not given.results.exists():
        parser.error(f"nothing was measured yet: there is no file {given.results}")
    show(given.results)


if __name__ == "__main__":
    main()
