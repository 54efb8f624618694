"""The groups of options that commands share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from tailproof import means
from tailproof.errors import LogError, MethodError
from tailproof.methods.catalogue import names

COLUMNS = "Columns of the log (guessed from usual names, and said, where not given)"
METHOD = "Method"
MEMORY = "Logs larger than memory"
#: Let the log choose.
AUTO = "auto"
#: Propensities that nobody logged.
ESTIMATE = "estimate"


def _column(flag: str, text: str) -> Any:
    return typer.Option(flag, help=text, metavar="COLUMN", rich_help_panel=COLUMNS)


@dataclass(frozen=True)
class LogOptions:
    """Where the log is and which column plays which part."""

    log: Annotated[
        str,
        typer.Argument(
            help="A Parquet, CSV, JSON-lines, Excel, Arrow, SQLite, DuckDB or HDF5 (D4RL) file, a "
            "query (duckdb://shop.db?query=SELECT ...), a folder of Parquet files (or its URI, such as "
            "s3://bucket/folder), or a Minari data set.",
            metavar="LOG",
            show_default=False,
        ),
    ]
    state: Annotated[
        str | None,
        _column("--state", "State columns a,b,c or patterns x_*. Text is one-hot encoded."),
    ] = None
    action: Annotated[
        str | None,
        _column("--action", "What was done: labels or whole numbers; decimals are continuous."),
    ] = None
    reward: Annotated[str | None, _column("--reward", "What it earned.")] = None
    episode: Annotated[
        str | None,
        _column("--episode", "Rows of one episode share it. - makes every row an episode."),
    ] = None
    step: Annotated[str | None, _column("--step", "Orders the rows of an episode.")] = None
    next_state: Annotated[
        str | None,
        _column("--next-state", "Next states; derived from the next row where absent."),
    ] = None
    propensity: Annotated[
        str | None,
        _column(
            "--propensity",
            "Probability with which the logged action was taken; 'estimate' or 'estimate:boosting' "
            "estimates it.",
        ),
    ] = None
    terminated: Annotated[
        str | None,
        _column("--terminated", "Whether the episode ended for good here; 'always': at its end."),
    ] = None
    truncated: Annotated[
        str | None, _column("--truncated", "Whether the recording stopped here.")
    ] = None
    group: Annotated[
        str | None,
        _column("--group", "What must stay in one fold: a week, a user, a site."),
    ] = None
    weight: Annotated[
        str | None, _column("--weight", "Sample weight: a row of weight 2 counts twice.")
    ] = None
    available: Annotated[
        str | None,
        _column(
            "--available",
            "Which actions could be taken: available_* (true or false, the star is the action), or a "
            "column of lists.",
        ),
    ] = None
    missing: Annotated[
        str,
        typer.Option(
            help="Missing states: category (a category or the median, with an indicator), median, "
            "drop-episode or error.",
            rich_help_panel=COLUMNS,
        ),
    ] = "category"
    categorical: Annotated[
        str | None,
        _column("--categorical", "State columns of numbers that are names: a,b,c."),
    ] = None
    categories: Annotated[
        int,
        typer.Option(
            help="Variables that a text column may become; rarer texts are put together.",
            min=2,
            rich_help_panel=COLUMNS,
        ),
    ] = 32
    cost: Annotated[
        list[str] | None,
        typer.Option(
            help="What an action costs, off the reward wherever it is taken: --cost voucher=2.5.",
            metavar="ACTION=AMOUNT",
            rich_help_panel=COLUMNS,
            show_default=False,
        ),
    ] = None
    lazy: Annotated[
        bool | None,
        typer.Option(
            "--lazy/--no-lazy",
            help="Leave Parquet data where they are and read them piece by piece; by default if they "
            "do not fit the budget.",
            rich_help_panel=MEMORY,
            show_default=False,
        ),
    ] = None
    budget: Annotated[
        float | None,
        typer.Option(
            help="GB that a log may take; a quarter of the machine's memory by default.",
            min=0.0,
            rich_help_panel=MEMORY,
            show_default=False,
        ),
    ] = None

    @property
    def estimates_propensity(self) -> bool:
        """Whether propensities are to be estimated."""
        return self.propensity is not None and self.propensity.partition(":")[0] == ESTIMATE

    @property
    def bytes_allowed(self) -> int | None:
        """The budget in bytes."""
        return None if self.budget is None else int(1e9 * self.budget)

    def parts(self) -> dict[str, Any]:
        """Return the parts as `sources.read` wants them."""
        named = {
            "state": _several(self.state),
            "action": _several(self.action),
            "reward": self.reward,
            "episode": self.episode,
            "step": self.step,
            "next_state": _several(self.next_state),
            "propensity": False if self.estimates_propensity else self.propensity,
            "truncated": self.truncated,
            "group": self.group,
            "weight": self.weight,
            "available": _several(self.available),
            "terminated": True if self.terminated == "always" else self.terminated,
        }
        return {part: False if given == "-" else given for part, given in named.items()}

    def tidying(self) -> dict[str, Any]:
        """Return how to make numbers of the columns, as `sources.read` wants it."""
        categorical = _several(self.categorical) or ()
        return {
            "missing": self.missing,
            "categorical": categorical,
            "categories": self.categories,
            "cost": dict(map(_cost, self.cost or ())),
        }


def _cost(text: str) -> tuple[str, float]:
    action, equals, amount = text.rpartition("=")
    try:
        if equals and action:
            return action.strip(), float(amount)
    except ValueError:
        pass
    raise LogError(f"--cost takes ACTION=AMOUNT, as in --cost voucher=2.5. Got {text!r}.")


def _several(given: str | None) -> str | list[str] | None:
    if given is None or "," not in given:
        return given
    return [name.strip() for name in given.split(",") if name.strip()]


def _complete_method(incomplete: str) -> list[str]:
    return [name for name in names() if name.startswith(incomplete)]


Gamma = Annotated[
    float | None,
    typer.Option(
        help="Discount of the next step's reward. A log of one-step episodes needs none; 1 needs "
        "every episode to terminate.",
        rich_help_panel=METHOD,
        show_default=False,
    ),
]


def level_option(text: str) -> Any:
    """Return an option that takes a confidence."""
    return typer.Option(help=text, rich_help_panel=METHOD, callback=_level)


def _level(given: float) -> float:
    if 0 < given < 1:
        return given
    share = f"write {given / 100:g} for {given:g} %" if 1 < given < 100 else "such as 0.9"
    raise typer.BadParameter(f"{given:g} is not between 0 and 1: {share}.")


Level = Annotated[float, level_option("Confidence to ask of intervals and bounds.")]
Seed = Annotated[int, typer.Option(help="Everything random starts here.", rich_help_panel=METHOD)]
Report = Annotated[
    Path | None,
    typer.Option(
        help="Also write a self-contained HTML report here.",
        rich_help_panel="Output",
        dir_okay=False,
        metavar="FILE.html",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class MethodOptions:
    """A row of the catalogue, and what to change about it."""

    method: Annotated[
        str,
        typer.Option(
            help="auto looks at the log and chooses; `tailproof methods` lists the others.",
            rich_help_panel=METHOD,
            autocompletion=_complete_method,
        ),
    ] = AUTO
    folds: Annotated[
        int | None,
        typer.Option(help="Number of folds K.", rich_help_panel=METHOD, show_default=False),
    ] = None
    base: Annotated[
        str | None,
        typer.Option(
            help="Another base: fqe, lstd, mis, dr or ips; iql or sql for networks.",
            rich_help_panel=METHOD,
            show_default=False,
        ),
    ] = None
    clip: Annotated[
        str | None,
        typer.Option(
            help="Winsorise rewards first: at this quantile of either side, as 0.01, or at a "
            "percentile of those that are not 0, as p99.9 (upper cap) or p0.1 (lower cap).",
            rich_help_panel=METHOD,
            show_default=False,
        ),
    ] = None
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Any other setting of the base, as --set ridge=0.001 --set mean=adaptive-huber.",
            metavar="NAME=VALUE",
            rich_help_panel=METHOD,
            show_default=False,
        ),
    ] = None

    def changes(self) -> dict[str, Any]:
        """Return the keyword arguments of `tailproof.methods.method`."""
        clip = None if self.clip is None else _literal(self.clip)
        given = {"folds": self.folds, "base": self.base, "clip": clip}
        changed = {name: value for name, value in given.items() if value is not None}
        for text in self.setting or ():
            name, equals, value = text.partition("=")
            if not equals or not name:
                raise MethodError(f"--set takes name=value, as in --set ridge=0.001. Got {text!r}.")
            changed[name.strip().replace("-", "_")] = setting_value(value.strip())
        return changed


def setting_value(text: str) -> Any:
    """Return a number, a truth value, a robust mean by its name, or the text itself.

    >>> setting_value("0.5"), setting_value("30"), setting_value("no"), setting_value("episode")
    (0.5, 30, False, 'episode')
    >>> setting_value("adaptive-huber"), setting_value("trimmed:0.05")
    (AdaptiveHuber(), TrimmedMean(fraction=0.05))
    """
    name, _, first = text.partition(":")
    if name in MEANS:
        kind = MEANS[name]
        return kind(_literal(first)) if first else kind(**MEAN_DEFAULTS.get(name, {}))
    return _literal(text)


MEANS: dict[str, Any] = {
    "mean": means.SampleMean,
    "median-of-means": means.MedianOfMeans,
    "permuted-median-of-means": means.PermutedMedianOfMeans,
    "catoni": means.Catoni,
    "lee-valiant": means.LeeValiant,
    "trimmed": means.TrimmedMean,
    "winsorised": means.Winsorised,
    "adaptive-huber": means.AdaptiveHuber,
}
MEAN_DEFAULTS = {"trimmed": {"fraction": 0.02}, "winsorised": {"fraction": 0.02}}


def _literal(text: str) -> Any:
    if text.lower() in ("true", "yes", "false", "no"):
        return text.lower() in ("true", "yes")
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text
