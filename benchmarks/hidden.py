"""Hidden state: is it found where it is and only there, and do the answers hold?

    python -m benchmarks.hidden [--logs N] [--seed S] [--record FILE]

Four worlds whose logs leave out what matters, and the same worlds with it among the logged columns,
which are Markov. For each: how often hidden state is reported, bias and RMSE of the default, and the
share of 90 % intervals that hold, of those that were given.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy loads

import argparse
import json
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tailproof import Log, evaluate
from tailproof.arrays import FloatArray, IntArray
from tailproof.errors import TailproofWarning

_TRUTH = 20_000  # episodes for the true value


@dataclass(frozen=True)
class World:
    """A world of which `shown` columns are logged."""

    episodes: int
    steps: int
    gamma: float
    shown: int

    def start(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Return first states, (n, p)."""
        raise NotImplementedError

    def step(
        self, z: FloatArray, a: IntArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return next states, rewards, and their means."""
        raise NotImplementedError

    def behaviour(self, s: FloatArray) -> FloatArray:
        """Return the logged probabilities, (n, A)."""
        raise NotImplementedError

    def target(self, s: FloatArray) -> IntArray:
        """Return the actions of the evaluated policy, by the first two columns."""
        raise NotImplementedError

    def log(self, seed: int) -> Log:
        """Return a log of the behaviour."""
        rng = np.random.default_rng([seed, 27])
        z, rows = self.start(self.episodes, rng), []
        for _ in range(self.steps):
            p = self.behaviour(z)
            a = (rng.random(len(z))[:, None] > np.cumsum(p, axis=1)[:, :-1]).sum(axis=1)
            after, reward, _ = self.step(z, a, rng)
            rows.append(
                (z[:, : self.shown], a, reward, after[:, : self.shown], p[np.arange(len(a)), a])
            )
            z = after
        s, a, r, after, p = (np.stack(each, axis=1) for each in zip(*rows, strict=True))
        return Log.from_arrays(
            s.reshape(-1, self.shown), a.ravel(), r.ravel(), after.reshape(-1, self.shown),
            episode=np.repeat(range(self.episodes), self.steps), propensity=p.ravel(),
        )  # fmt: skip

    def truth(self) -> float:
        """Return the value of the target by simulation."""
        rng = np.random.default_rng(99)
        z, total = self.start(_TRUTH, rng), np.zeros(_TRUTH)
        for step in range(int(np.ceil(np.log(1e-4) / np.log(self.gamma)))):
            z, _, mean = self.step(z, self.target(z), rng)
            total += self.gamma**step * mean
        return float(total.mean())


def _either(p: FloatArray) -> FloatArray:
    return np.column_stack([1 - p, p])


def _sigmoid(x: FloatArray) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-x)))


class Illness(World):
    """Illness is hidden, a rough symptom is logged; treatment cures slowly."""

    def start(self, n, rng):  # noqa: D102
        ill = rng.random(n) < 0.35
        return np.column_stack([ill + 0.7 * rng.normal(size=n), rng.uniform(-1, 1, n), ill])

    def step(self, z, a, rng):  # noqa: D102
        age, ill, n = z[:, 1], z[:, 2] > 0, len(z)
        stays = np.where(a == 1, 0.6, 0.95)
        later = rng.random(n) < np.where(ill, stays, np.where(a == 1, 0.05, 0.1 + 0.03 * age))
        mean = -2.0 * ill - 0.5 * a
        shown = later + 0.7 * rng.normal(size=n)
        return np.column_stack([shown, age, later]), mean + 0.8 * rng.standard_t(2.5, n), mean

    def behaviour(self, s):  # noqa: D102
        return _either(0.25 + 0.3 * (s[:, 0] > 1))

    def target(self, s):  # noqa: D102
        return (s[:, 0] > 0.6).astype(int)


class Tired(World):
    """Customers tire of offers and recover; earlier offers alone tell how tired they are."""

    def start(self, n, rng):  # noqa: D102
        return np.column_stack([rng.exponential(1, n), rng.uniform(-1, 1, n), np.zeros(n)])

    def step(self, z, a, rng):  # noqa: D102
        since, season, tired = z.T
        n = len(z)
        buys = _sigmoid(-0.5 + 1.2 * a + 0.3 * season - 0.9 * tired)
        mean = 10 * buys - a
        spent = 10 * (rng.random(n) < buys) * np.exp(0.8 * rng.normal(size=n) - 0.32)
        since = np.where(rng.random(n) < 0.4, 0, since + 0.5)
        season = np.clip(season + 0.2 * rng.normal(size=n), -1, 1)
        return np.column_stack([since, season, 0.85 * tired + 0.5 * a]), spent - a, mean

    def behaviour(self, s):  # noqa: D102
        return _either(0.25 + 0.2 * (s[:, 0] > 1))

    def target(self, s):  # noqa: D102
        return (s[:, 0] > 0.3).astype(int)


class Doses(World):
    """Doses add up in the body and harm later; a marker shows the tumour roughly."""

    def start(self, n, rng):  # noqa: D102
        tumour = rng.normal(1, 0.4, n)
        shown = tumour + 0.3 * rng.normal(size=n)
        return np.column_stack([shown, rng.random(n), tumour, np.zeros(n)])

    def step(self, z, a, rng):  # noqa: D102
        age, tumour, body, n = z[:, 1], z[:, 2], z[:, 3], len(z)
        dose = 0.5 * a
        body = 0.9 * body + dose
        mean = -tumour - 0.25 * (1 + age) * np.maximum(body - 2, 0) ** 1.5
        tumour = np.clip(tumour + 0.12 - 0.35 * dose + 0.1 * rng.normal(size=n), 0, 4)
        shown = tumour + 0.3 * rng.normal(size=n)
        noise = 0.5 * rng.standard_t(3, n)
        return np.column_stack([shown, age, tumour, body]), mean + noise, mean

    def behaviour(self, s):  # noqa: D102
        p = _sigmoid(1.5 * (s[:, 0] - 1))
        return np.column_stack([0.8 - 0.5 * p, 0.1 + 0.2 * p, 0.1 + 0.3 * p])

    def target(self, s):  # noqa: D102
        return np.digitize(s[:, 0], [0.3, 0.8])


class Loyal(World):
    """Discounts win some customers and spoil loyal ones; loyalty is not logged."""

    def start(self, n, rng):  # noqa: D102
        return np.column_stack([rng.gamma(2, 1, n), rng.random(n), rng.random(n) < 0.4])

    def step(self, z, a, rng):  # noqa: D102
        basket, loyal, n = z[:, 0], z[:, 2], len(z)
        mean = (2 + 2 * loyal) * (1 - 0.3 * a) + 2.5 * a * (1 - loyal) - 0.1 * basket
        basket = 0.5 * basket + rng.gamma(2, 0.5 + 0.4 * loyal, n)
        loyal = np.where(rng.random(n) < 0.06 * a, 0, loyal)
        noise = 1.2 * rng.standard_t(2.5, n)
        return np.column_stack([basket, rng.random(n), loyal]), mean + noise, mean

    def behaviour(self, s):  # noqa: D102
        return _either(0.3 + 0.2 * (s[:, 1] > 0.5))

    def target(self, s):  # noqa: D102
        return (s[:, 0] < 3).astype(int)


WORLDS: dict[str, tuple[World, int]] = {  # with the number of columns that tell all
    "illness": (Illness(150, 50, 0.95, 2), 3),
    "tired": (Tired(150, 40, 0.95, 2), 3),
    "doses": (Doses(200, 30, 0.95, 2), 4),
    "loyal": (Loyal(250, 24, 0.9, 2), 3),
}


def measure(world: World, logs: int, seed: int) -> dict[str, float]:
    """Evaluate the target on some logs of a world."""
    truth, found = world.truth(), []
    for number in range(logs):
        log, started = world.log(seed + number), time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TailproofWarning)
            estimate = evaluate(log, world.target, gamma=world.gamma)
        seconds = time.process_time() - started
        said = any(each.code == "hidden_state" for each in estimate.cautions)
        held = width = np.nan
        if estimate.choice.declined is None:
            interval = estimate.interval(0.9)
            held, width = interval.low <= truth <= interval.high, interval.high - interval.low
        found.append((said, estimate.value - truth, held, width, seconds))
    said, errors, held, width, seconds = np.array(found, dtype=float).T
    given = ~np.isnan(held)
    return {
        "logs": logs,
        "said": float(said.mean()),
        "truth": truth,
        "bias": float(errors.mean()),
        "rmse": float(np.sqrt((errors**2).mean())),
        "given": float(given.mean()),
        "held": float(held[given].mean()) if given.any() else float("nan"),
        "width": float(np.median(width[given])) if given.any() else float("nan"),
        "cpu": float(seconds.mean()),
    }


def main() -> None:
    """Measure every world, print a line for each, and write the results."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--logs", type=int, default=20)
    options.add_argument("--seed", type=int, default=2700)
    options.add_argument("--record", type=Path)
    given, results = options.parse_args(), {}
    for name, (world, all_columns) in WORLDS.items():
        for kind, shown in (("hidden", world.shown), ("logged", all_columns)):
            cell = measure(replace(world, shown=shown), given.logs, given.seed)
            results[f"{name}, {kind}"] = {key: round(value, 4) for key, value in cell.items()}
            print(f"{name}, {kind}:", results[f"{name}, {kind}"], flush=True)
            if given.record:
                given.record.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
