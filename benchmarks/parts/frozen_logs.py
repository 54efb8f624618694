"""The fixed logs and policies whose answers `frozen.py` records: every kind of log, from fixed seeds.

Everything is written to the current folder, because texts and JSON name files.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet
from sklearn.linear_model import LogisticRegression

import tailproof as tp

ACTIONS = ("none", "email", "voucher")
RULES = """
import numpy as np


def young(states):
    return np.where(states["age"] < 40, "voucher", "none")


class Half:
    def probabilities(self, states):
        return np.tile([0.5, 0.25, 0.25], (len(states), 1))


half = Half()
"""


@dataclass(frozen=True)
class Case:
    """A log, its discount, and policies of some forms; the first of them is used by most doors."""

    log: Any
    policies: dict[str, Any]
    gamma: float | None = None
    states: Any = None  # fixed states at which learned policies are asked, (m, p)
    features: Any = None  # those that linear methods need for continuous actions


class Softmax:
    """π(a | s) ∝ exp(slope · a · s₀): an object with `probabilities`."""

    def __init__(self, slope: float, n_actions: int) -> None:
        self.slope, self.count = slope, n_actions

    def probabilities(self, states: Any) -> Any:
        """Return π(a | s), (n, A)."""
        scores = self.slope * np.outer(np.asarray(states)[:, 0], np.arange(self.count))
        law = np.exp(scores - scores.max(axis=1, keepdims=True))
        return law / law.sum(axis=1, keepdims=True)


class Normal:
    """A continuous policy that can be sampled: s₀ + N(0, 0.5²) in every dimension."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension

    def sample(self, states: Any, rng: Any) -> Any:
        """Return one action per state, (n, q)."""
        return 0.5 * states[:, :1] + 0.5 * rng.normal(size=(len(states), self.dimension))

    def log_prob(self, states: Any, actions: Any) -> Any:
        """Return the log density, (n,)."""
        z = (np.reshape(actions, (len(states), -1)) - 0.5 * states[:, :1]) / 0.5
        return -0.5 * (z**2 + np.log(2 * np.pi * 0.25)).sum(axis=1)


def greedy(states: Any) -> Any:
    """Return action 2 where the first variable is positive, else 0, (n,)."""
    return np.where(np.asarray(states)[:, 0] > 0, 2, 0)


def _by_label(states: Any) -> Any:
    return np.where(np.asarray(states)[:, 0] > 0, "voucher", "none")


def _steps(
    episodes: int, seed: int, *, ends: str, df: float = 2.5, width: int = 3
) -> dict[str, Any]:
    """Return the columns of a sequential log; `ends` is "all", "some", "none" or "clock"."""
    rng = np.random.default_rng(seed)
    columns: dict[str, list[Any]] = {
        name: [] for name in ("episode", "step", "x", "y", "action", "reward", "end", "p")
    }
    logged = Softmax(0.6, 3)
    for episode in range(episodes):
        x = rng.normal(size=width)
        length = 12 if ends == "clock" else int(rng.integers(6, 24))
        dies = ends in ("all", "clock") or (ends == "some" and rng.random() < 0.6)
        for step in range(length):
            law = logged.probabilities(x[None])[0]
            action = int(np.searchsorted(law.cumsum(), rng.random()).clip(0, 2))
            noise = rng.standard_t(df) if df < 9 else rng.normal()
            reward = 1 + 0.5 * x[0] * (action - 1) - 0.2 * x[1] + noise
            y = 0.7 * x + 0.5 * rng.normal(size=width)
            y[0] += 0.3 * (action - 1)
            last = step == length - 1
            row = (episode, step, x, y, action, reward, last and dies, law[action])
            for values, each in zip(columns.values(), row, strict=True):
                values.append(each)
            x = y
    return {name: np.array(values) for name, values in columns.items()}


def _steps_log(columns: dict[str, Any], *, propensity: bool = True, **more: Any) -> tp.Log:
    return tp.Log.from_arrays(
        columns["x"],
        columns["action"],
        columns["reward"],
        columns["y"],
        episode=columns["episode"],
        terminated=columns["end"],
        propensity=columns["p"] if propensity else None,
        action_space=3,
        **more,
    )


def _steps_frame(columns: dict[str, Any]) -> pd.DataFrame:
    frame = pd.DataFrame(
        {name: columns[name] for name in ("episode", "step", "reward", "p", "end")}
    )
    for j in range(columns["x"].shape[1]):
        frame[f"x_{j}"], frame[f"next_x_{j}"] = columns["x"][:, j], columns["y"][:, j]
    frame["action"] = np.array(ACTIONS)[columns["action"]]
    return frame.rename(columns={"p": "propensity", "end": "terminated"})


def _steps_policies() -> dict[str, Any]:
    return {
        "softmax": Softmax(1.2, 3),
        "greedy": greedy,
        "always": tp.Always(1),
        "exploring": tp.EpsilonGreedy(greedy, 0.2, n_actions=3),
        "uniform": tp.Uniform(3),
        "text": "0.3*always:1 + 0.7*logged",
    }


def _rows(n: int, seed: int, *, rare: bool = False, losses: bool = False) -> pd.DataFrame:
    """Return a one-step table with numbers, categories, costs, weights, masks and policies."""
    rng = np.random.default_rng(seed)
    age, days = rng.normal(45, 12, n).round(1), rng.exponential(30, n).round(2)
    shop = rng.choice(["north", "south", "web", "fair"], n, p=[0.4, 0.3, 0.25, 0.05])
    law = Softmax(0.5, 3).probabilities(((age - 45) / 12)[:, None])
    action = (rng.random(n)[:, None] > law.cumsum(axis=1)).sum(axis=1).clip(0, 2)
    buys = rng.random(n) < (0.03 + 0.02 * action if rare else 0.5 + 0.1 * action)
    spend = buys * rng.lognormal(1 + 0.2 * (shop == "web") + 0.15 * action * (age < 40), 1.2)
    frame = pd.DataFrame({"age": age, "days": days, "shop": shop})
    frame["offer"] = np.array(ACTIONS)[action]
    frame["spend"] = (-spend if losses else spend).round(4)
    frame["propensity"] = law[np.arange(n), action]
    frame["sessions"] = rng.integers(1, 6, n)
    frame["household"] = rng.integers(0, n // 4, n)
    frame["weight"] = rng.integers(1, 4, n)
    frame["new"] = np.where(age < 40, "voucher", "email")
    target = Softmax(-0.4, 3).probabilities(((age - 45) / 12)[:, None])
    for code, label in enumerate(ACTIONS):
        frame[f"q_{label}"] = target[:, code]
        frame[f"could_{label}"] = (code == action) | (rng.random(n) < 0.8)
    return frame


_COLUMNS: dict[str, Any] = {"state": ["age", "days", "shop"], "action": "offer", "reward": "spend"}
_KNOWN = {**_COLUMNS, "propensity": "propensity"}


def _rows_policies() -> dict[str, Any]:
    return {
        "column": tp.Column("new"),
        "columns": tp.Column("q_*"),
        "always": "always:voucher",
        "mixture": "0.3*always:email + 0.7*logged",
    }


def _table_case(frame: Any, policies: dict[str, Any] | None = None, **reading: Any) -> Case:
    log = tp.read_log(frame, **reading)
    return Case(log, policies or _rows_policies(), None, log.states[:40])


def rows_of_every_policy() -> Case:
    """Return a one-step log, and a policy of every form."""
    frame = _rows(700, 11)
    log = tp.read_log(frame, **_KNOWN)
    model = LogisticRegression(max_iter=500).fit(log.states / 50, frame["new"])
    learned = tp.learn(log, method="fqi")
    learned.save("fqi.tailproof")
    by_frame = tp.on_frame(lambda states: np.where(states["shop"] == "web", "voucher", "email"))
    policies: dict[str, Any] = {
        "function of codes": lambda states: np.where(states[:, 0] < 40, 2, 1),
        "function of labels": lambda states: np.where(states[:, 0] < 40, "voucher", "email"),
        "function of law": lambda states: np.tile([0.2, 0.3, 0.5], (len(states), 1)),
        "probabilities": Softmax(0.01, 3),
        "array": np.arange(len(frame)) % 3,
        "labels": frame["new"].tolist(),
        "series": frame["new"],
        "frame": frame[["q_none", "q_email", "q_voucher"]].rename(columns=lambda name: name[2:]),
        "Column": tp.Column("new"),
        "Columns": tp.Column("q_*"),
        "on_frame": by_frame,
        "model": model,
        "Logged": tp.Logged(),
        "Uniform": tp.Uniform(3),
        "Always": tp.Always(2),
        "Mixture": tp.Mixture(((0.4, tp.Column("new")), (0.6, tp.Logged())), n_actions=3),
        "EpsilonGreedy": tp.EpsilonGreedy(tp.Column("new"), 0.1, n_actions=3),
        "learned": learned.policy,
        "softmax": learned.softmax(2.0),
        "exploring": learned.epsilon_greedy(0.3),
        "loaded": tp.load_policy("fqi.tailproof"),
        "text always": "always:email",
        "text uniform": "uniform",
        "text logged": "logged",
        "text column": "column:new",
        "text columns": "column:q_*",
        "text mixture": "0.5*column:new + 0.5*uniform",
        "text file": "fqi.tailproof",
        "text function": "rules.py:young",
        "text object": "rules.py:half",
    }
    return Case(log, policies, None, log.states[:40])


def _continuous(n: int, seed: int, *, steps: bool) -> Case:
    rng = np.random.default_rng(seed)
    dimension, length = (1, 10) if steps else (2, 1)
    states = rng.normal(size=(n, 2))
    noise = rng.normal(size=(n, dimension))
    actions = 0.3 * states[:, :1] + 0.8 * noise
    density = np.exp(-0.5 * (noise**2 + np.log(2 * np.pi * 0.64)).sum(axis=1))
    rewards = 2 - ((actions - 0.5 * states[:, :1]) ** 2).sum(axis=1) + rng.standard_t(3, n)
    after = 0.6 * states + 0.2 * actions[:, :1] + 0.5 * rng.normal(size=(n, 2))
    log = tp.Log.from_arrays(
        states,
        actions,
        rewards,
        after,
        episode=np.arange(n) // length,
        terminated=np.arange(n) % length == length - 1,
        propensity=density,
    )
    policies = {
        "sampled": Normal(dimension),
        "function": lambda states: np.tile(0.5 * states[:, :1], (1, dimension)),
        "always": tp.Always((0.25,) * dimension),
        "text": "always:" + ",".join(["0.5"] * dimension),
    }
    features = tp.Joint(state_dimension=2, action_dimension=dimension)
    return Case(log, policies, 0.9 if steps else None, states[:40], features)


def _steps_case(columns: dict[str, Any], *, gamma: float = 0.95, **more: Any) -> Case:
    log = _steps_log(columns, **more)
    return Case(log, _steps_policies(), gamma, log.states[:40])


def _grouped() -> Case:
    columns = _steps(60, 2, ends="some")
    group = columns["episode"] // 3
    return _steps_case(columns, propensity=False, group=group)


def _gaps() -> Case:
    frame, rng = _rows(600, 14), np.random.default_rng(15)
    frame.loc[rng.random(600) < 0.1, "age"] = np.nan
    frame.loc[rng.random(600) < 0.1, "shop"] = None
    frame["site"] = rng.integers(100, 140, 600)
    frame["at"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 9000, 600), "h")
    state = ["age", "days", "shop", "site", "at"]
    policies = {name: each for name, each in _rows_policies().items() if name != "mixture"}
    return _table_case(
        frame, policies, **{**_COLUMNS, "state": state, "categorical": "site", "categories": 8}
    )


def _masked() -> Case:
    policies = {"uniform": "uniform", "logged": "0.5*logged + 0.5*uniform"}
    return _table_case(_rows(600, 16), policies, **_KNOWN, available="could_*")


def _steps_table() -> Case:
    """Return a sequential table with text, gaps and a cut-off episode, without next states."""
    columns, rng = _steps(70, 8, ends="some"), np.random.default_rng(9)
    frame = _steps_frame(columns).filter(regex="^(?!next_)")
    frame["kind"] = rng.choice(["a", "b", "c"], len(frame))
    frame.loc[rng.random(len(frame)) < 0.05, "x_1"] = np.nan
    log = tp.read_log(frame, state=["x_0", "x_1", "x_2", "kind"])
    policies = {"uniform": "uniform", "labels": _by_label, "always": "always:email"}
    return Case(log, policies, 0.9, log.states[:40])


def _file_case(
    name: str, write: Callable[[pd.DataFrame, str], Any], *, n: int, **more: Any
) -> Case:
    frame = _rows(n, 21)
    write(frame, name)
    return _table_case(name, None, **_KNOWN, **more)


def _steps_file(name: str, *, lazy: bool) -> Case:
    _steps_log(_steps(120, 5, ends="all"), reward_name="profit").to_parquet(name)
    log = tp.read_log(name, lazy=lazy)
    policies = {name: each for name, each in _steps_policies().items() if name != "text"}
    return Case(log, policies, 0.95, np.random.default_rng(0).normal(size=(40, 3)))


def _rows_on_disk() -> Case:
    frame = _rows(3000, 22)
    folder = Path("rows_folder")
    folder.mkdir(exist_ok=True)
    for part in range(3):
        kept = frame.iloc[1000 * part : 1000 * (part + 1)]
        table = pa.Table.from_pandas(kept[["age", "days", "offer", "spend", "propensity"]])
        parquet.write_table(table, folder / f"{part}.parquet", row_group_size=400)
    log = tp.read_log(str(folder), **{**_KNOWN, "state": ["age", "days"]}, episode=False, lazy=True)
    policies = {"always": "always:voucher", "labels": _by_label, "softmax": Softmax(0.02, 3)}
    return Case(log, policies, None, frame[["age", "days"]].to_numpy()[:40])


def _write_lines(frame: pd.DataFrame, name: str) -> None:
    lines = [json.dumps(row) for row in frame.to_dict("records")]
    Path(name).write_text("\n".join(lines), encoding="utf-8")


def _write_database(frame: pd.DataFrame, name: str) -> None:
    connection = sqlite3.connect(name)
    frame.to_sql("offers", connection, index=False, if_exists="replace")
    connection.close()


#: How to make each log; one-step logs are called rows…, sequential ones steps….
MAKERS: dict[str, Callable[[], Case]] = {
    "steps": lambda: _steps_case(_steps(60, 1, ends="all")),
    "steps-grouped": _grouped,
    "steps-endless": lambda: _steps_case(_steps(60, 3, ends="none", df=9), gamma=0.9),
    "steps-clock": lambda: _steps_case(_steps(70, 4, ends="clock"), gamma=1.0),
    "steps-table": _steps_table,
    "steps-file": partial(_steps_file, "steps.parquet", lazy=False),
    "steps-on-disk": partial(_steps_file, "steps_lazy.parquet", lazy=True),
    "steps-continuous": lambda: _continuous(800, 6, steps=True),
    "rows": lambda: _table_case(_rows(800, 10), **_KNOWN),
    "rows-unknown": lambda: _table_case(_rows(800, 10), **_COLUMNS, propensity=False),
    "rows-rare": lambda: _table_case(_rows(1500, 12, rare=True), **_KNOWN, group="household"),
    "rows-losses": lambda: _table_case(_rows(600, 13, losses=True), **_KNOWN),
    "rows-gaps": _gaps,
    "rows-weighted": lambda: _table_case(_rows(500, 17), **_KNOWN, weight="weight"),
    "rows-masked": _masked,
    "rows-cost": lambda: _table_case(_rows(600, 18), **_KNOWN, cost={"voucher": 2.5, "email": 0.1}),
    "rows-continuous": lambda: _continuous(600, 7, steps=False),
    "rows-on-disk": _rows_on_disk,
    "rows-csv": partial(_file_case, "rows.csv", lambda frame, name: frame.to_csv(name), n=400),
    "rows-lines": partial(_file_case, "rows.jsonl", _write_lines, n=300),
    "rows-database": partial(_file_case, "rows.db", _write_database, n=300),
    "rows-parquet": partial(
        _file_case, "rows.parquet", lambda frame, name: frame.to_parquet(name), n=400
    ),
    "rows-policies": rows_of_every_policy,
    # enough rows beyond the thresholds for everything that is said about extremes
    "steps-long": lambda: _steps_case(_steps(200, 41, ends="all", df=1.8)),
    "rows-long": lambda: _table_case(_rows(3000, 42), **_KNOWN, group="household"),
}


@cache
def case(name: str) -> Case:
    """Return a log by name, made once."""
    Path("rules.py").write_text(RULES, encoding="utf-8")
    return MAKERS[name]()


@cache
def file(name: str) -> str:
    """Return a file for the command line, written once: "steps.csv", "offers.csv" or "gaps.csv"."""
    Path("rules.py").write_text(RULES, encoding="utf-8")
    if name == "steps.csv":
        _steps_frame(_steps(60, 31, ends="all")).to_csv(name, index=False)
    else:
        frame = _rows(500, 32)
        if name == "gaps.csv":
            rng = np.random.default_rng(33)
            frame.loc[rng.random(500) < 0.1, "age"] = np.nan
            frame.loc[rng.random(500) < 0.1, "shop"] = None
        frame.to_csv(name, index=False)
    return name
