"""Which answers moved? Record the answers of all doors on fixed logs, and compare with them later.

    python -m benchmarks.frozen record FILE [--only PATTERN ...]
    python -m benchmarks.frozen compare [FILE] [--only PATTERN ...] [--texts] [--all]
    python -m benchmarks.frozen check [--quick]

`compare` prints what moved by more than rounding, by door, log and method, and ends with exit code 1 if
a number moved or is gone; changed texts are counted (`--texts` prints them) and are no failure. `check`
runs everything twice: nothing may move. `record --only` replaces a part of a file. A pattern is a part
of DOOR/LOG/METHOD, such as "learn/", "/rows-gaps/" or "evaluate/steps/roam-*". FILE is by default
results/frozen.json.gz, which says of which commit it is.

Sums in another order move a forest or a stopping rule by more than rounding, so that another processor
may give other answers: record there with the old source tree on PYTHONPATH first.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy loads

import argparse
import contextlib
import fnmatch
import gzip
import io
import json
import math
import numbers
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import tailproof as tp
from benchmarks.parts.frozen_logs import MAKERS, Case, case, file

BASELINE = Path(__file__).parent / "results" / "frozen.json.gz"
LEVELS = (0.8, 0.95)
ROUNDING, FLOOR = 1e-9, 1e-11  # relative and absolute differences that are rounding
NETWORKS = 1e-4  # the same for networks, whose numbers are single precision
DIGITS = 13
LONG = 24  # arrays that are longer are summarised
#: Keys of the commands' JSON that are no answers.
IGNORED = ("schema", "versions", "seconds")
QUICK = ("evaluate/rows/*ips", "compare/rows-csv/", "k_path/")

Answers = dict[str, float | str]


@dataclass(frozen=True)
class Unit:
    """One call of a door: DOOR/LOG/METHOD, and a function that yields its answers by name."""

    name: str
    ask: Callable[[], Iterator[tuple[str, Any]]]


def flat(value: Any, name: str = "") -> Iterator[tuple[str, float | str]]:
    """Yield the numbers and texts inside a value, by dotted name; long arrays are summarised."""
    if value is None:
        return
    if isinstance(value, Mapping):
        for key, each in value.items():
            if key not in IGNORED:
                yield from flat(each, f"{name}.{key}" if name else str(key))
    elif isinstance(value, str):
        yield (name, float(value)) if value in ("inf", "-inf", "nan") else (name, value)
    elif isinstance(value, numbers.Number | np.bool_):
        yield name, float(value)  # type: ignore[arg-type]
    elif isinstance(value, np.ndarray | Sequence):
        array = np.asarray(value) if not isinstance(value, np.ndarray) else value
        if array.size > LONG and array.dtype.kind in "biuf":
            yield from _summary(array.astype(float), name)
        else:
            for i, each in enumerate(value):
                yield from flat(each, f"{name}[{i}]")
    else:
        yield name, str(value)


def _summary(array: Any, name: str) -> Iterator[tuple[str, float | str]]:
    """Yield the sizes of an array, moments, and a sum that depends on the order of its entries."""
    values = np.where(np.isfinite(array), array, 0.0).ravel()
    yield f"{name}.size", float(values.size)
    yield f"{name}.finite", float(np.isfinite(array).sum())
    yield f"{name}.mean", math.fsum(values) / values.size
    yield f"{name}.least", float(values.min())
    yield f"{name}.largest", float(values.max())
    yield f"{name}.ordered", math.fsum(values * np.cos(np.arange(values.size))) / values.size


def asked(name: str, ask: Callable[[], Any]) -> Iterator[tuple[str, Any]]:
    """Yield what a call returns, or the error with which the library refuses."""
    try:
        yield name, ask()
    except Exception as error:
        yield f"{name}.refused", _refusal(error)


def _refusal(error: Exception) -> str:
    own = type(error).__module__.startswith("tailproof")
    return f"{'' if own else 'CRASH '}{type(error).__name__}: {error}"


def uncertainty(of: Any) -> Iterator[tuple[str, Any]]:
    """Yield the value, error, intervals and lower bounds of an estimate or a gain."""
    yield "value", of.value
    yield "standard_error", of.standard_error
    for level in LEVELS:
        yield from asked(f"interval {level}", lambda level=level: ends(of.interval(level)))
        yield from asked(f"lower_bound {level}", lambda level=level: bound(of.lower_bound(level)))


def ends(interval: Any) -> dict[str, Any]:
    """Return what an interval says."""
    return {name: getattr(interval, name) for name in ("low", "high", "level", "kind", "note")}


def bound(found: Any) -> dict[str, Any]:
    """Return what a lower bound says."""
    return {name: getattr(found, name) for name in ("value", "level", "kind", "note")}


def of_gain(gain: Any) -> Iterator[tuple[str, Any]]:
    """Yield a gain and its lift."""
    yield from prefixed("gain", uncertainty(gain))
    yield "gain.relative", gain.relative
    if hasattr(gain, "relative_interval"):
        for level in LEVELS:
            yield from asked(
                f"lift {level}", lambda level=level: ends(gain.relative_interval(level))
            )


def prefixed(prefix: str, found: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield the answers with a prefix."""
    return ((f"{prefix}.{name}", value) for name, value in found)


def of_estimate(estimate: Any, *, full: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield all that an estimate answers; with `full`, also its dictionary and other bounds."""
    yield from uncertainty(estimate)
    yield "logged_value", estimate.logged_value
    yield from of_gain(estimate.gain)
    yield "fold_values", estimate.fold_values
    yield "bad_folds", estimate.bad_folds
    yield "unit", str(estimate.unit)
    yield "cautions", list(estimate.cautions)
    if full:
        yield "text", str(estimate)
        for kind in ("order", "t", "guaranteed"):
            ask = partial(estimate.lower_bound, 0.9, kind=kind)
            yield from asked(f"{kind} bound", lambda ask=ask: bound(ask()))
        yield from asked("record", lambda: estimate.to_dict(level=0.9))


def of_policy(policy: Any, states: Any, n_actions: int | None) -> Iterator[tuple[str, Any]]:
    """Yield the probabilities, or the actions, of a policy at fixed states."""
    if hasattr(policy, "probabilities"):
        yield "probabilities", np.asarray(policy.probabilities(states))
    elif callable(policy):
        chosen = np.asarray(policy(states))
        codes = chosen.dtype.kind in "iu" and n_actions is not None
        yield "probabilities", np.eye(n_actions)[chosen] if codes else chosen  # type: ignore[arg-type]


def _options(of: Any) -> dict[str, Any]:
    return {"gamma": of.gamma, "seed": 1}


def _first(of: Case) -> Any:
    return next(iter(of.policies.values()))


def _method(of: Case, given: Any) -> Any:
    """Return the method of a name with the features that the log needs, or what a function makes."""
    if callable(given):
        return given()
    if of.features is None or given == "auto":
        return given
    try:
        return tp.method(given, features=of.features)
    except Exception:  # it has no features
        return given


def _evaluated(log: str, method: Any) -> Iterator[tuple[str, Any]]:
    of = case(log)
    chosen = _method(of, method)
    yield from of_estimate(tp.evaluate(of.log, _first(of), method=chosen, **_options(of)))


def _by_policy(log: str) -> Iterator[tuple[str, Any]]:
    """Yield the default's answers about each policy of a log."""
    of = case(log)
    for i, (name, policy) in enumerate(of.policies.items()):
        try:
            found = tp.evaluate(of.log, policy, **_options(of))
            yield from prefixed(name, of_estimate(found, full=i < 2))
        except Exception as error:
            yield f"{name}.refused", _refusal(error)


def _read(log: str) -> Iterator[tuple[str, Any]]:
    read = case(log).log
    yield "text", repr(read)
    names = ("n_transitions", "n_episodes", "n_groups", "state_names", "is_discrete", "is_bandit")
    arrays = (
        "states",
        "next_states",
        "actions",
        "rewards",
        "terminated",
        "truncated",
        "propensity",
    )
    for name in (*names, *arrays):
        if hasattr(read, name):
            value = getattr(read, name)
            yield name, list(value) if isinstance(value, tuple) else value


def _compared(log: str, method: str = "auto", **more: Any) -> Iterator[tuple[str, Any]]:
    of = case(log)
    more["method"] = _method(of, method)
    policies = dict(list(of.policies.items())[:3])
    found = tp.compare(of.log, policies, **_options(of), **more)
    yield "passes", found.passes
    yield "probability_best", found.probability_best
    yield "gate_level", found.gate_level
    yield "baseline_value", found.baseline_value
    yield "notes", list(found.notes)
    yield "text", str(found)
    for rank, each in enumerate(found.candidates):
        yield f"{each.name}.rank", rank
        yield f"{each.name}.value", each.value
        yield f"{each.name}.passes", each.passes
        yield f"{each.name}.lower_bound", bound(each.lower_bound)
        yield f"{each.name}.gate", bound(each.gain.lower_bound)
        yield from prefixed(each.name, of_gain(each.gain.gain))
    first, last = found.candidates[0].name, found.candidates[-1].name
    between = found.difference(first, last)
    yield "difference.value", between.value
    yield from asked("difference.interval", lambda: ends(between.interval(0.9)))


def _diagnosed(log: str, *, alone: bool) -> Iterator[tuple[str, Any]]:
    of = case(log)
    found = (
        tp.diagnose(of.log, seed=1) if alone else tp.diagnose(of.log, _first(of), **_options(of))
    )
    yield "text", str(found)
    yield "record", found.to_dict()


def _learned(log: str, method: Any, holdout: float | None) -> Iterator[tuple[str, Any]]:
    of = case(log)
    chosen = _method(of, method)
    found = tp.learn(of.log, method=chosen, holdout=holdout, **_options(of))
    yield "text", str(found)
    yield "record", found.to_dict()
    n_actions = getattr(found.action_space, "n", None)
    yield from asked("policy", lambda: dict(of_policy(found.policy, of.states, n_actions)))
    if n_actions is not None:
        starts = np.repeat(of.states[:8], n_actions, axis=0)
        codes = np.tile(np.arange(n_actions), 8)
        yield from asked("critic", lambda: np.asarray(found.critic(starts, codes)))
    if found.held_out is not None and n_actions is not None:
        yield from prefixed("held_out", uncertainty(found.evaluate().estimate))


def _saved(log: str) -> Iterator[tuple[str, Any]]:
    of = case(log)
    learned = tp.learn(of.log, method="room-vm", **_options(of))
    learned.save("room.tailproof")
    again = tp.Learned.load("room.tailproof")
    yield from prefixed("learned", of_policy(again.policy, of.states, 3))
    yield from prefixed("loaded", of_policy(tp.load_policy("room.tailproof"), of.states, 3))
    learned.policy.save("room.onnx")
    yield from prefixed("onnx", of_policy(tp.load_policy("room.onnx"), of.states, 3))
    yield from prefixed("mean", of_policy(learned.with_aggregate(tp.Mean()).policy, of.states, 3))


def _returns(log: str) -> Iterator[tuple[str, Any]]:
    of = case(log)
    per = np.arange(of.log.n_transitions) % 5 + 1.0
    found = tp.returns_under(of.log, _first(of), gamma=of.gamma, per=per)
    for q in (0.1, 0.5, 0.9):
        yield f"quantile {q}", {"value": found.quantile(q).value, **ends(found.quantile(q))}
    for q, upper in ((0.05, False), (0.2, False), (0.1, True)):
        tail = found.cvar(q, upper=upper)
        yield f"cvar {q} {upper}", {"value": tail.value, **ends(tail)}
    yield from asked("ratio", lambda: {"value": found.ratio().value, **ends(found.ratio())})
    yield "cap", found.shift_by_cap("p99")


def _sequence(log: str, method: str) -> Iterator[tuple[str, Any]]:
    of = case(log)
    found = tp.evaluate(of.log, _first(of), method=method, **_options(of))
    for kind in ("asymptotic", "guaranteed"):
        ask = partial(tp.confidence_sequence, found, level=0.9, kind=kind)
        yield from asked(kind, lambda ask=ask: ends(ask()))


def _k_path(log: str) -> Iterator[tuple[str, Any]]:
    of = case(log)
    options = {**_options(of), "method": _method(of, "roam-dm")}
    yield "path", tp.k_path(of.log, _first(of), folds=(1, 3, 5, 9), **options)


def command(line: str) -> Iterator[tuple[str, Any]]:
    """Run a command of the command line in this process, and yield its JSON and exit code."""
    from tailproof.cli import main

    words = line.split()
    words = [
        file(word) if word in ("steps.csv", "offers.csv", "gaps.csv") else word for word in words
    ]
    out, code, argv = io.StringIO(), 0, sys.argv
    sys.argv = ["tailproof", *words]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            main()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.argv = argv
    yield "exit", code
    if out.getvalue():
        yield "json", json.loads(out.getvalue())


@cache
def catalogue() -> dict[str, dict[str, Any]]:
    """Return the rows of the catalogue, as `tailproof methods` lists them."""
    answered = dict(command("methods --json"))
    found: dict[str, dict[str, Any]] = answered["json"]["methods"]
    return found


def is_deep(name: str) -> bool:
    """Return whether a row of the catalogue trains networks."""
    return any(each in name for each in ("iql", "sql", "sac", "td3", "neural"))


def tiny(name: str) -> Any:
    """Return a deep method with networks and a training that are very small."""
    settings: dict[str, Any] = {"steps": 40, "hidden": (8,), "batch": 32}
    try:
        return tp.method(name, policy_steps=40, **settings)
    except Exception:  # only some have a policy of their own to train
        return tp.method(name, **settings)


COMMANDS = (
    "evaluate offers.csv --action offer --reward spend --state age,days,shop --policy column:new",
    "evaluate offers.csv --action offer --reward spend --state age,days,shop --policy rules.py:young "
    "--quantile 0.5 --cvar 0.05 --per sessions --sequential --group household",
    "evaluate offers.csv --action offer --reward spend --state age,days --propensity estimate "
    "--policy always:email --method snips --cost voucher=2.5 --weight weight",
    "evaluate gaps.csv --action offer --reward spend --state age,days,shop --policy column:q_*",
    "evaluate steps.csv --policy always:email --gamma 0.95",
    "evaluate steps.csv --policy uniform --gamma 0.95 --method roam-dm --folds 7 --clip 0.01",
    "compare offers.csv --action offer --reward spend --state age,days,shop --policy a=column:new "
    "--policy b=always:voucher --policy c=uniform",
    "compare steps.csv --policy always:email --policy uniform --gamma 0.95 --baseline uniform",
    "diagnose offers.csv --action offer --reward spend --state age,days,shop",
    "diagnose offers.csv --action offer --reward spend --state age,days,shop --policy column:new",
    "diagnose steps.csv --policy always:email --gamma 0.95",
    "learn offers.csv --action offer --reward spend --state age,days,shop --out out.tailproof",
    "learn gaps.csv --action offer --reward spend --state age,days,shop --method policy-tree",
    "learn steps.csv --gamma 0.9 --method room-fqi",
    *(
        f"evaluate steps.csv --policy uniform --gamma 0.95 --method mis --set mean={mean}"
        for mean in (
            "median-of-means",
            "catoni",
            "lee-valiant",
            "winsorised:0.05",
            "adaptive-huber",
        )
    ),
    "methods",
)
#: Settings that change what a row of the catalogue computes.
VARIANTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("roam-dm", {"folds": 7, "clip": 0.01}),
    ("roam-fqe", {"iterations": 20, "ridge": 0.01}),
    ("lstd", {"features": "splines"}),
    ("fqe", {"clip": "p99"}),
    ("auto", {"features": "polynomial"}),
    ("roam-variant", {"base": "lstd"}),
    ("ma-dm", {"aggregate": tp.Quantile(0.3)}),
    ("roam-mis", {"confidence": 0.8}),
)


def units() -> Iterator[Unit]:
    """Yield every call whose answers are recorded."""
    for log in MAKERS:
        yield Unit(f"read_log/{log}/", partial(_read, log))
    for log in MAKERS:
        yield from _units_of(log)
    for line in COMMANDS:
        name, source, *_ = (*line.split(), "")
        yield Unit(f"command {name}/{source}/{line}", partial(command, f"{line} --json=full"))


#: Logs that only the default is asked about.
DEFAULT_ONLY = ("rows-policies", "steps-long", "rows-long")
#: Logs that differ from others only in how they are read; only the default learns from them.
COPIES = ("steps-file", "rows-csv", "rows-lines", "rows-database", "rows-parquet", *DEFAULT_ONLY)
COMPARED_BY = {"roam-dm": {"method": "roam-dm"}, "number": {"baseline": 1.0}}


def _units_of(log: str) -> Iterator[Unit]:
    """Yield the calls on one log; methods that cannot work on it refuse, which is recorded too."""
    yield Unit(f"evaluate/{log}/auto", partial(_by_policy, log))
    for name, row in catalogue().items():
        if name == "auto" or is_deep(name) or log in DEFAULT_ONLY:
            continue
        if row["for"] == "evaluate":
            yield Unit(f"evaluate/{log}/{name}", partial(_evaluated, log, name))
        elif log not in COPIES and not log.endswith("continuous"):
            yield Unit(f"learn/{log}/{name}", partial(_learned, log, name, None))
    yield Unit(f"compare/{log}/auto", partial(_compared, log))
    for name, options in COMPARED_BY.items():
        yield Unit(f"compare/{log}/{name}", partial(_compared, log, **options))
    yield Unit(f"diagnose/{log}/", partial(_diagnosed, log, alone=True))
    yield Unit(f"diagnose/{log}/policy", partial(_diagnosed, log, alone=False))
    yield Unit(f"returns_under/{log}/", partial(_returns, log))
    for name in ("auto", "ips", "snips", "bandit-dr"):
        yield Unit(f"confidence_sequence/{log}/{name}", partial(_sequence, log, name))
    yield Unit(f"k_path/{log}/roam-dm", partial(_k_path, log))
    if not log.endswith("continuous"):  # from which `auto` trains networks for minutes
        yield Unit(f"learn/{log}/auto", partial(_learned, log, "auto", None))
        yield Unit(f"learn/{log}/saved", partial(_saved, log))
    for name, settings in VARIANTS if log in ("steps", "rows") else ():
        what = f"{name} {' '.join(settings)}"
        yield Unit(
            f"evaluate/{log}/{what}", partial(_evaluated, log, partial(tp.method, name, **settings))
        )
    if log in ("steps", "steps-continuous"):
        for name in filter(is_deep, catalogue()):
            door = "evaluate" if catalogue()[name]["for"] == "evaluate" else "learn"
            ask: Any = _evaluated if door == "evaluate" else partial(_learned, holdout=None)
            yield Unit(f"{door}/{log}/{name}", partial(ask, log, partial(tiny, name)))


def answers_of(unit: Unit) -> Answers:
    """Return the answers of one unit, with the warnings that it gives."""
    found: Answers = {}
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            for name, value in unit.ask():
                found |= {each: tidy(what) for each, what in flat(value, name)}
        except Exception as error:
            found["refused"] = tidy(_refusal(error))
    said = sorted({f"{each.category.__name__}: {each.message}" for each in heard})
    return found | {f"warning[{i}]": tidy(text) for i, text in enumerate(said)}


def tidy(value: float | str) -> float | str:
    """Return a number with few digits, and a text without the name of the folder."""
    if isinstance(value, str):
        return value.replace(f"{Path.cwd()}/", "").replace(str(Path.cwd()), ".")
    return float(f"{value:.{DIGITS}g}")


def chosen(patterns: Sequence[str]) -> list[Unit]:
    """Return the units of which a part matches any of the patterns; all without patterns."""
    return [
        unit
        for unit in units()
        if not patterns or any(fnmatch.fnmatch(unit.name, f"*{each}*") for each in patterns)
    ]


def run(patterns: Sequence[str], *, timed: bool = False) -> dict[str, Answers]:
    """Return the answers of the chosen units, in a folder of their own."""
    found: dict[str, Answers] = {}
    here, shown = Path.cwd(), sys.stderr.isatty()
    case.cache_clear()
    file.cache_clear()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            asked_for = chosen(patterns)
            for i, unit in enumerate(asked_for):
                if shown:
                    print(
                        f"\r[{i + 1}/{len(asked_for)}] {unit.name:60.60}", end="", file=sys.stderr
                    )
                began = time.process_time()
                found[unit.name] = answers_of(unit)
                if timed:
                    print(f"{time.process_time() - began:7.2f} s  {unit.name}", file=sys.stderr)
        finally:
            os.chdir(here)
    if shown:
        print("\r" + " " * 80 + "\r", end="", file=sys.stderr)
    return found


@dataclass(frozen=True)
class Move:
    """A number that is not what it was."""

    unit: str
    name: str
    before: float | None
    after: float | None

    @property
    def size(self) -> float:
        """The difference relative to the larger number; infinite if one of them is missing."""
        if self.before is None or self.after is None:
            return math.inf
        largest = max(abs(self.before), abs(self.after))
        size = abs(self.before - self.after) / largest if math.isfinite(largest) else math.inf
        return size if math.isfinite(size) else math.inf


def same(before: float, after: float, tolerance: float) -> bool:
    """Return whether two numbers are equal up to rounding; NaN equals NaN."""
    if math.isnan(before) or math.isnan(after):
        return math.isnan(before) and math.isnan(after)
    return math.isclose(before, after, rel_tol=tolerance, abs_tol=FLOOR)


@dataclass
class Differences:
    """What moved, what is gone or new, and which texts changed."""

    moved: list[Move]
    new: Counter[str]  # numbers that were not recorded, by unit
    texts: list[tuple[str, str, str, str]]  # unit, name, before, after
    compared: Counter[str]  # numbers, by unit

    @classmethod
    def between(
        cls, before: dict[str, Answers], after: dict[str, Answers], tolerance: float
    ) -> Differences:
        """Compare two runs; both have the units that they share by the patterns."""
        found = cls([], Counter(), [], Counter())
        for unit in sorted({*before, *after}):
            old, now = before.get(unit, {}), after.get(unit, {})
            deep = is_deep(unit.rpartition("/")[2])
            for name in sorted({*old, *now}):
                found._add(
                    unit, name, old.get(name), now.get(name), NETWORKS if deep else tolerance
                )
        return found

    def _add(
        self,
        unit: str,
        name: str,
        old: float | str | None,
        now: float | str | None,
        tolerance: float,
    ) -> None:
        number = old if isinstance(old, float) else None
        other = now if isinstance(now, float) else None
        if number is not None:
            self.compared[unit] += 1
            if other is None or not same(number, other, tolerance):
                self.moved.append(Move(unit, name, number, other))
        elif other is not None:
            self.new[unit] += 1
        if (isinstance(old, str) or isinstance(now, str)) and old != now:
            texts = ("" if not isinstance(each, str) else each for each in (old, now))
            self.texts.append((unit, name, *texts))  # type: ignore[arg-type]

    def print(self, *, everything: bool, texts: bool) -> None:
        """Print a table by unit, the numbers that are new, and a line for each door."""
        by_unit: dict[str, list[Move]] = {}
        for move in self.moved:
            by_unit.setdefault(move.unit, []).append(move)
        ranked = sorted(by_unit.items(), key=lambda each: -max(move.size for move in each[1]))
        if ranked:
            print(f"{'door/log/method':44} {'moved':>11} {'gone':>5} {'largest':>9}  what")
        for unit, moves in ranked if everything else ranked[:60]:
            gone = sum(move.after is None for move in moves)
            there = [move for move in moves if move.after is not None] or moves
            worst = max(there, key=lambda move: move.size)
            share = f"{len(moves) - gone}/{self.compared[unit]}"
            said = "" if worst.after is None else f" {worst.before:.10g} → {worst.after:.10g}"
            print(f"{unit:44.44} {share:>11} {gone:5} {worst.size:9.1e}  {worst.name}{said}")
        if len(ranked) > 60 and not everything:
            print(f"… and {len(ranked) - 60} more (--all)")
        if texts:
            for unit, name, old, now in self.texts:
                print(f"\n{unit} {name}\n  - {old}\n  + {now}")
        self._print_doors()

    def _print_doors(self) -> None:
        def of(counted: Counter[str]) -> Counter[str]:
            found: Counter[str] = Counter()
            for unit, count in counted.items():
                found[unit.partition("/")[0]] += count
            return found

        moved = of(Counter(move.unit for move in self.moved if move.after is not None))
        gone = of(Counter(move.unit for move in self.moved if move.after is None))
        texts, new = of(Counter(each[0] for each in self.texts)), of(self.new)
        numbers_of = of(self.compared)
        print(f"\n{'door':22} {'numbers':>8} {'moved':>6} {'gone':>6} {'new':>6} {'texts':>6}")
        for door in sorted({*numbers_of, *new, *texts}):
            row = (numbers_of[door], moved[door], gone[door], new[door], texts[door])
            print(f"{door:22} {row[0]:8} " + " ".join(f"{each:6}" for each in row[1:]))
        row = tuple(sum(each.values()) for each in (numbers_of, moved, gone, new, texts))
        print(f"{'all':22} {row[0]:8} " + " ".join(f"{each:6}" for each in row[1:]))


def source() -> tuple[Path, str]:
    """Return the folder of the library that is asked, and its commit."""
    folder = Path(tp.__file__).resolve().parent
    git = ["git", "-C", str(folder), "describe", "--always", "--dirty"]
    return folder, subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()


def write(path: Path, answers: dict[str, Answers], commit: str) -> None:
    """Write the answers, with the versions that gave them."""
    about = {"commit": commit, "python": platform.python_version(), "numpy": np.__version__}
    text = json.dumps(
        {"about": about, "answers": answers}, ensure_ascii=False, separators=(",", ":")
    )
    with gzip.GzipFile(path, "wb", mtime=0) as out:  # equal answers make equal files
        out.write(text.encode())


def read(path: Path, patterns: Sequence[str]) -> dict[str, Answers]:
    """Read the recorded answers of the chosen units."""
    recorded: dict[str, Answers] = json.loads(gzip.decompress(path.read_bytes()))["answers"]
    return {
        unit: answers
        for unit, answers in recorded.items()
        if not patterns or any(fnmatch.fnmatch(unit, f"*{each}*") for each in patterns)
    }


def main() -> int:
    """Record, compare or check, and return 1 if a number moved."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("what", nargs="?", choices=("record", "compare", "check"), default="check")
    options.add_argument(
        "file", nargs="?", type=Path, default=BASELINE, help="the recorded answers"
    )
    options.add_argument(
        "--only", nargs="+", default=[], metavar="PATTERN", help="only these units"
    )
    options.add_argument("--quick", action="store_true", help="only a few units")
    options.add_argument("--tolerance", type=float, default=ROUNDING, help="relative difference")
    options.add_argument("--texts", action="store_true", help="print the texts that changed")
    options.add_argument("--all", action="store_true", help="print all units that moved")
    options.add_argument("--times", action="store_true", help="print the CPU seconds of each unit")
    given = options.parse_args()
    path = given.file.resolve()
    patterns = QUICK if given.quick else tuple(given.only)
    folder, commit = source()
    print(f"asking {folder} ({commit})", file=sys.stderr)
    if given.what == "record":
        kept = read(path, ()) if patterns and path.exists() else {}
        write(path, {**kept, **run(patterns, timed=given.times)}, commit)
        return 0
    recorded = read(path, patterns) if given.what == "compare" else run(patterns)
    found = Differences.between(recorded, run(patterns, timed=given.times), given.tolerance)
    found.print(everything=given.all, texts=given.texts)
    return 1 if found.moved else 0


if __name__ == "__main__":
    sys.exit(main())
