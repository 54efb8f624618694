"""Groups of command options: dataclasses whose defaults define each option for typer."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tailproof.errors import EngineError, LogError, MethodError
from tailproof.policies.text import POLICY_FORMS as FORMS

if TYPE_CHECKING:
    from tailproof.methods.method import Method
    from tailproof.parallel import Engine

#: The forms of a policy, for help texts in Markdown.
POLICY_FORMS = FORMS.replace("*", r"\*")
COLUMNS = "Columns of the log (guessed from usual names, and said, where not given)"
METHOD = "Method"
MEMORY = "Logs larger than memory"
OUTPUT = "Output"
ENGINE = "Engine (changes how long it takes, never the result)"
#: Choose the method by the log.
AUTO = "auto"


def option(text: str, *flags: str, default: Any = None, panel: str = METHOD, **more: Any) -> Any:
    """Return an option with its help; `flags` replace the name of its field."""
    return typer.Option(default, *flags, help=text, rich_help_panel=panel, **more)


def column_option(text: str) -> Any:
    """Return an option that names columns."""
    return option(text, panel=COLUMNS, metavar="COLUMN")


def level_option(text: str, *, default: float = 0.9) -> Any:
    """Return an option that takes a confidence."""
    return option(text, default=default, callback=_level)


def _level(given: float) -> float:
    if 0 < given < 1:
        return given
    share = f"write {given / 100:g} for {given:g} %" if 1 < given < 100 else "such as 0.9"
    raise typer.BadParameter(f"{given:g} is not between 0 and 1: {share}.")


GAMMA = option(
    "Discount of the next step's reward. A log of one-step episodes needs none; 1 needs every "
    "episode to terminate."
)
LEVEL = level_option("Confidence of intervals and bounds.")
SEED = option("Random seed.", default=0)
REPORT = option(
    "Also write a self-contained HTML report here.",
    panel=OUTPUT,
    dir_okay=False,
    metavar="FILE.html",
)


def share_of(text: str) -> float:
    """Return a share that is written as 20% or 0.2.

    >>> share_of("20%"), share_of("0.2")
    (0.2, 0.2)
    """
    try:
        number = text.strip()
        found = float(number[:-1]) / 100 if number.endswith("%") else float(number)
    except ValueError:
        found = math.nan
    if not 0 <= found < math.inf:
        raise typer.BadParameter(f"{text!r} is not a share of at least 0, such as 20% or 0.2.")
    return found


SIZES_WITHIN = option(
    "Also the difference if sizes of extremes differ by at most this share between policies, as 20%: "
    "a shorter interval that holds only then.",
    parser=share_of,
    metavar="SHARE",
)
GATE_SIZES_WITHIN = option(
    "Let the gate assume that sizes of extremes differ by at most this share between policies, as 20%: "
    "it passes more true gains, and false ones where sizes differ more.",
    parser=share_of,
    metavar="SHARE",
)
TIMES = option(
    "Also the total over so many rows (episodes, where they have several steps).",
    panel=OUTPUT,
    min=1,
    metavar="N",
)


@dataclass(frozen=True)
class AnswerOptions:
    """The options of all commands with an answer, and the file of its report."""

    gamma: float | None = GAMMA
    level: float = LEVEL
    seed: int = SEED
    times: int | None = TIMES
    methods_text: bool = option(
        "Also a paragraph for the methods section of a paper, with settings and sources.",
        "--methods-text",
        default=False,
        panel=OUTPUT,
    )
    report: Path | None = REPORT


@dataclass(frozen=True)
class LogOptions:
    """The log and its columns."""

    log: str = typer.Argument(
        help="A Parquet, CSV, JSON-lines, Excel, Arrow, SQLite, DuckDB, HDF5 or .npz (D4RL) file, a "
        "query (duckdb://shop.db?query=SELECT ...), a folder of Parquet files (or its URI, such as "
        "s3://bucket/folder), or a Minari data set.",
        metavar="LOG",
    )
    state: str | None = column_option(
        "State columns a,b,c or patterns x_*. Text is one-hot encoded."
    )
    action: str | None = column_option(
        "What was done: labels or whole numbers; decimals are continuous."
    )
    reward: str | None = column_option("Reward column; -NAME where less is better.")
    episode: str | None = column_option(
        "The same for all rows of an episode (several columns: a,b). - makes every row an episode."
    )
    step: str | None = column_option("Orders the rows of an episode.")
    next_state: str | None = column_option("Next states; derived from the next row where absent.")
    propensity: str | None = column_option(
        "Probability with which the logged action was taken, or p_* for one column for each action "
        "(the star is the action); 'estimate' or 'estimate:boosting' estimates it."
    )
    terminated: str | None = column_option(
        "Whether the episode ended for good here; 'always': at its end."
    )
    truncated: str | None = column_option("Whether the recording stopped here.")
    group: str | None = column_option(
        "Rows that belong together (a week, a user, a site): they count as one observation."
    )
    weight: str | None = column_option("Sample weight: a row of weight 2 counts twice.")
    available: str | None = column_option(
        "Which actions could be taken: available_* (true or false, the star is the action), or a "
        "column of lists."
    )
    missing: str = option(
        "Missing states: category (a category or the median, with an indicator), median or error. "
        "drop-episode: as category, and leave out episodes with missing rewards or actions.",
        default="category",
        panel=COLUMNS,
    )
    categorical: str | None = column_option(
        "Columns whose numbers are names, not amounts: a,b,c; the action's too, such as a few prices."
    )
    categories: int = option(
        "Most categories of a text column; rarer texts are merged.",
        default=32,
        panel=COLUMNS,
        min=2,
    )
    cost: list[str] = option(
        "What an action costs, subtracted from the reward where it is taken: --cost voucher=2.5.",
        default=[],
        panel=COLUMNS,
        metavar="ACTION=AMOUNT",
    )
    lazy: bool | None = option(
        "Convert Parquet data once to files that are mapped and read piece by piece; by default if "
        "they do not fit the budget.",
        "--lazy/--no-lazy",
        panel=MEMORY,
    )
    budget: float | None = option(
        "Largest memory in GB for a log and the work on it: what needs more uses a sample, and says "
        "so. By default a quarter of the memory.",
        panel=MEMORY,
        min=0.0,
    )
    cache: Path | None = option(
        "Directory of the converted files; by default that of the user's cache.",
        panel=MEMORY,
    )

    @property
    def estimates_propensity(self) -> bool:
        """Whether to estimate propensities."""
        return self.propensity is not None and self.propensity.partition(":")[0] == "estimate"

    def reading(self) -> dict[str, Any]:
        """Return the keyword arguments of `sources.read`."""
        parts = {
            "state": _several(self.state),
            "action": _several(self.action),
            "reward": self.reward,
            "episode": _several(self.episode),
            "step": self.step,
            "next_state": _several(self.next_state),
            "propensity": False if self.estimates_propensity else _several(self.propensity),
            "truncated": self.truncated,
            "group": self.group,
            "weight": self.weight,
            "available": _several(self.available),
            "terminated": self.terminated,
        }
        return {
            **{part: False if given == "-" else given for part, given in parts.items()},
            "missing": self.missing,
            "categorical": _several(self.categorical) or (),
            "categories": self.categories,
            "cost": dict(map(_cost, self.cost)),
            "lazy": self.lazy,
            "cache": self.cache,
            "budget": None if self.budget is None else int(1e9 * self.budget),
        }


def _cost(text: str) -> tuple[str, float]:
    action, _, amount = text.rpartition("=")
    try:
        if action:
            return action.strip(), float(amount)
    except ValueError:
        pass
    raise LogError(f"--cost takes ACTION=AMOUNT, as in --cost voucher=2.5. Got {text!r}.")


def _several(given: str | None) -> str | list[str] | None:
    if given is None or "," not in given:
        return given
    return [name.strip() for name in given.split(",") if name.strip()]


def _complete_method(incomplete: str) -> list[str]:
    from tailproof.methods.catalogue import names

    return [name for name in names() if name.startswith(incomplete)]


@dataclass(frozen=True)
class MethodOptions:
    """A method of the catalogue, and changes of its settings."""

    method: str = option(
        "auto looks at the log and chooses; `tailproof methods` lists the others.",
        default=AUTO,
        autocompletion=_complete_method,
    )
    folds: int | None = option("Number of folds K.")
    base: str | None = option(
        "Another base: fqe, lstd, mis, dr or ips; iql, sql or neural-fqe for networks."
    )
    clip: str | None = option(
        "Cap rewards first (winsorise): at this quantile of either side, as 0.01, or at a percentile "
        "of those that are not 0, as p99.9 (upper cap) or p0.1 (lower cap)."
    )
    setting: list[str] = option(
        "Any other setting of the base, as --set ridge=0.001 --set mean=adaptive-huber.",
        "--set",
        default=[],
        metavar="NAME=VALUE",
    )

    def changes(self) -> dict[str, Any]:
        """Return the keyword arguments of `tailproof.methods.method`."""
        clip = None if self.clip is None else _literal(self.clip)
        given = {"folds": self.folds, "base": self.base, "clip": clip}
        changed = {name: value for name, value in given.items() if value is not None}
        for text in self.setting:
            name, equals, value = text.partition("=")
            if not equals or not name:
                raise MethodError(f"--set takes name=value, as in --set ridge=0.001. Got {text!r}.")
            changed[name.strip().replace("-", "_")] = setting_value(value.strip())
        return changed

    def chosen(self) -> Method:
        """Return the method with its settings."""
        from tailproof.methods.catalogue import method as named_method

        return named_method(self.method, **self.changes())


#: Robust means by name, and the class of each.
MEANS = {
    "mean": "SampleMean",
    "median-of-means": "MedianOfMeans",
    "permuted-median-of-means": "PermutedMedianOfMeans",
    "catoni": "Catoni",
    "lee-valiant": "LeeValiant",
    "trimmed": "TrimmedMean",
    "winsorised": "Winsorised",
    "adaptive-huber": "AdaptiveHuber",
    "tail-pooled": "TailPooled",
}


def setting_value(text: str) -> Any:
    """Return a number, a boolean, a robust mean by name, or the text itself.

    >>> setting_value("0.5"), setting_value("30"), setting_value("no"), setting_value("episode")
    (0.5, 30, False, 'episode')
    >>> setting_value("adaptive-huber"), setting_value("trimmed:0.05")
    (AdaptiveHuber(), TrimmedMean(fraction=0.05))
    """
    name, _, first = text.partition(":")
    if name not in MEANS:
        return _literal(text)
    from tailproof import means

    make = getattr(means, MEANS[name])
    if name in ("trimmed", "winsorised"):
        return make(fraction=_literal(first or "0.02"))
    return make(*([_literal(first)] if first else []))


def _literal(text: str) -> Any:
    if text.lower() in ("true", "yes", "false", "no"):
        return text.lower() in ("true", "yes")
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text


@dataclass(frozen=True)
class EngineOptions:
    """The engine for passes over a log."""

    engine: str | None = option(
        "local: the cores of this machine; ray: a cluster.", panel=ENGINE, metavar="local|ray"
    )
    address: str | None = option(
        "Address of the Ray cluster: auto for the one of this machine, or HOST:PORT. Without it, "
        "Ray is started here and ends with the command.",
        panel=ENGINE,
    )
    workers: int | None = option(
        "Threads on this machine: by default one for each core with --engine local, otherwise one.",
        panel=ENGINE,
        min=1,
    )
    checkpoint: Path | None = option(
        "A folder that keeps progress: the same command, started again, continues from there.",
        panel=ENGINE,
        file_okay=False,
    )

    @contextmanager
    def running(self) -> Iterator[Engine]:
        """Yield the engine, and close it at the end; Ray's own messages go to stderr."""
        if self.engine not in (None, "local", "ray"):
            raise EngineError(f"--engine must be local or ray. Got {self.engine!r} instead.")
        if self.address is not None and self.engine != "ray":
            raise EngineError("--address is that of a Ray cluster: say --engine ray as well.")
        if self.engine == "ray" and self.workers is not None:
            raise EngineError("--workers is for this machine; a Ray cluster knows its cores.")
        from tailproof.parallel import Local, Ray

        if self.engine == "ray":
            with (
                redirect_stdout(sys.stderr),
                Ray(address=self.address, checkpoint=self.checkpoint) as cluster,
            ):
                yield cluster
            return
        workers = self.workers or (0 if self.engine == "local" else 1)
        with Local(workers=workers, checkpoint=self.checkpoint) as local:
            yield local
