"""docs/reproduction.md: prose from page.md, with every table and number from the committed results.

    python -m reproduction page

Fields of the template, such as ``{{claims ope}}``, name a function of `FIELDS` and its words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from reproduction import advantages, evaluation, implicit, learning
from reproduction.cartpole import CLEAN, SHORT, STOPPING, STRICTER, TEXT, with_clean
from reproduction.command import RESULTS, experiment, load
from reproduction.drawing import STYLE, write_figure
from reproduction.experiment import Cell, Results
from reproduction.summary import ERROR, REGRET, SCORE, Summary, summarise
from tailproof.arrays import FloatArray
from tailproof.errors import TailproofError
from tailproof.files import write_whole

TEMPLATE = Path(__file__).parent / "page.md"
PAGE = Path(__file__).parents[1] / "docs" / "reproduction.md"
_FIELD = re.compile(r"\{\{([^}]+)\}\}")
#: Differences that separate what the ridge, the folds and the median do to FQI.
_STEPS = {
    "the ridge of a fold on the whole log": ("fqi-equal", "fqi"),
    "then folds, with a mean in every target": ("ma-fqi", "fqi-equal"),
    "then the median instead of the mean": ("room-fqi", "ma-fqi"),
}

#: Methods whose iterations are shown, by experiment.
_COUNTED = {
    "ope": {
        "fqe": "FQE",
        "roam-dm": "ROAM-DM",
        "roam-fqe": "ROAM-FQE, folds in turn",
        "roam-fqe-at-once": "ROAM-FQE, folds at once",
        STRICTER: "ROAM-FQE at 0.1 %, as in figure 3a",
    },
    "opo": {
        "fqi": "FQI, ridge 20",
        "fqi-equal": "FQI, ridge as a fold's",
        "room-vm": "ROOM-VM",
        "ma-fqi": "a mean in every target, folds in turn",
        "room-fqi": "ROOM-FQI, folds in turn",
        "room-fqi-at-once": "ROOM-FQI, folds at once",
    },
}
#: Estimators of the table of figure 3a.
_ESTIMATORS = {name: look.label.replace("\n", " ") for name, look in evaluation.LOOKS.items()}
_ESTIMATORS |= {STRICTER: "ROAM-FQE at 0.1 %, as in figure 3a"}
#: Learners of the table of figure 3b.
_LEARNERS = {name: look.label for name, look in learning.LOOKS.items()}
_LEARNERS |= {"p-room-vm-released": "P-ROOM-VM, q = 0.4, as released"}
#: Folder, beside the other results, of data sets that ran on fewer seeds and noises.
_FEWER = "walker2d"
#: Studies of the published bases, whose rows stand beside those of a study.
_PUBLISHED = {"d4rl-sql": "sql-published", "iql-table": "iql-published"}


def joined(name: str, folder: Path = RESULTS, *, times: bool = False) -> Results:
    """Return the results of an experiment with those of rows and data sets that ran beside them.

    These are rows of the published bases, and data sets with fewer seeds.
    """
    results = load(name, folder, times=times)
    beside = _PUBLISHED.get(name)
    if beside is not None and (folder / f"{beside}.json").exists():
        more = load(beside, folder)
        settings = {**results.settings, "published": more.settings, "seeds": more.replicates}
        results = replace(results, settings=settings, rows=(*results.rows, *more.rows))
    if not (folder / _FEWER / f"{name}.json").exists():
        return results
    more = load(name, folder / _FEWER)
    found, kappas = more.settings["datasets"], more.settings["kappas"]
    noises, names = ", ".join(f"{kappa:g}" for kappa in kappas), ", ".join(found)
    settings = {
        **results.settings,
        "datasets": {**results.settings["datasets"], **found},
        "few": list(found),
        "fewer": f"at κ = {noises} also {names} with seeds: {more.replicates}",
    }
    return replace(results, settings=settings, rows=(*results.rows, *more.rows))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown.

    >>> print(table(["a", "b"], [["1", "2"]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = [head, ["---"] * len(head), *rows]
    marked = [f"| {' | '.join(cell.replace('|', '∣') for cell in line)} |" for line in lines]
    marked[1] = marked[1].replace(" ", "")
    return "\n".join(marked)


def plus_minus(found: Summary, digits: int = 1) -> str:
    """Return a number with half the width of its interval."""
    half = (found.high - found.low) / 2
    spread = f" ± {half:.{digits}f}" if np.isfinite(half) else ""
    return f"{found.value:.{digits}f}{spread}".replace("-", "−")


def claims(results: Results) -> str:
    """Return all claims with their verdicts; two verdicts where the stopping rule matters."""
    found = experiment(results.name).claims(results)
    found = [claim for claim in found if not claim.timed]
    if not any(claim.stopping for claim in found):
        return table(
            ["the paper says", "here", "measured"],
            [[each.paper, each.verdict, each.found] for each in found],
        )
    rows = []
    for paper in dict.fromkeys(claim.paper for claim in found):
        some = {claim.stopping: claim for claim in found if claim.paper == paper}
        if "" in some:  # compares the two
            rows.append([paper, some[""].verdict, "", some[""].found])
            continue
        first, second = (some[stopping] for stopping in STOPPING)
        measured = first.found
        if second.found != first.found:
            measured += f". **{SHORT['all']}:** {second.found}"
        rows.append([paper, first.verdict, second.verdict, measured])
    return table(["the paper says", *(SHORT[each] for each in STOPPING), "measured"], rows)


def _places(results: Results, kappa: float) -> list[Cell]:
    dfs = results.settings["dfs"]
    return [*({"kappa": kappa, "df": df} for df in dfs), CLEAN]


def _named(cell: Cell) -> str:
    return f"df {cell['df']:g}" if cell["kappa"] else "no noise"


def errors(results: Results) -> str:
    """Return median absolute errors, the paper's log-MSE in brackets, at the smallest κ."""
    places = _places(results, results.settings["kappas"][0])
    rows = []
    for stopping, words in (*SHORT.items(), ("", "no iterations")):
        for name, label in _ESTIMATORS.items():
            if not results.where(method=name, stopping=stopping).any():
                continue
            cells = [
                f"{ERROR.summary(results, method=name, stopping=stopping, **cell).value:.2f} "
                f"({ERROR.paper(results, method=name, stopping=stopping, **cell).value:.1f})"
                for cell in places
            ]
            rows.append([label, words, *cells])
    return table(["", "iterations end by", *map(_named, places)], rows)


def regrets(results: Results) -> str:
    """Return mean regrets at the smallest κ, both ways."""
    places = _places(results, results.settings["kappas"][0])
    rows = []
    for name, label in _LEARNERS.items():
        for stopping in STOPPING:
            under = results.under(stopping)
            shown = [
                plus_minus(REGRET.summary(under, method=name, **cell), digits=1) for cell in places
            ]
            rows.append([label, SHORT[stopping], *shown])
    return table(["", "iterations end by", *map(_named, places)], rows)


def text_features(results: Results) -> str:
    """Return errors or regrets with the features of the text beside those of the released code."""
    some = results.first(results.settings["with_text_features"])
    measure = REGRET if results.name == "opo" else ERROR
    kappa = results.settings["kappas"][0]
    names = [name.removesuffix(TEXT) for name in some.distinct("method") if name.endswith(TEXT)]
    places = [
        {"kappa": kappa, "df": df}
        for df in results.settings["dfs"]
        if some.where(method=names[0] + TEXT, kappa=kappa, df=df).any()
    ]
    labels = {**_ESTIMATORS, **_LEARNERS}
    rows = []
    for name in names:
        for suffix, words in (("", "released: one model for each action"), (TEXT, "the text's")):
            for stopping in STOPPING:
                under = some.under(stopping)
                shown = [measure.summary(under, method=name + suffix, **cell) for cell in places]
                diverged = [
                    count > 0
                    for cell in places
                    for count in under.values("bad_folds", method=name + suffix, **cell)
                ]
                rows.append(
                    [
                        labels[name],
                        words,
                        SHORT[stopping],
                        *(f"{each.value:.3g}" for each in shown),
                        f"{sum(diverged)} of {len(diverged)}",
                    ]
                )
    head = ["", "features", "iterations end by", *map(_named, places), "logs with diverged folds"]
    return table(head, rows)


def parts(results: Results) -> str:
    """Return what the ridge, the folds and the median each change in the regret, all κ together."""
    dfs = results.settings["dfs"]
    places: list[Cell] = [*({"df": df} for df in dfs), CLEAN]
    rows = []
    for words, (first, second) in _STEPS.items():
        for stopping in STOPPING:
            under = results.under(stopping)
            shown = []
            for cell in places:
                one, two = (REGRET.values(under, method=name, **cell) for name in (first, second))
                shown.append(plus_minus(summarise(one - two)))
            rows.append([words, SHORT[stopping], *shown])
    head = [*(f"df {df:g}" for df in dfs), "no noise"]
    return table(["change in regret", "iterations end by", *head], rows)


def iterations(results: Results) -> str:
    """Return after how many iterations the released rule stops, against df."""
    places = with_clean(results.settings)
    rows = [
        [label, *(f"{learning.iterations(results, name, cell).value:.0f}" for cell in places)]
        for name, label in _COUNTED[results.name].items()
    ]
    head = [
        f"κ {cell['kappa']:g}, {_named(cell)}" if cell["kappa"] else "no noise" for cell in places
    ]
    return table(["iterations", *head], rows)


def scores(results: Results) -> str:
    """Return the mean score over data sets with its standard error over seeds, for each κ.

    Data sets that ran on fewer seeds are left out.
    """
    names = implicit.present(results)
    few = results.settings.get("few", ())
    full = [name for name in results.settings["datasets"] if name not in few]
    rows = []
    for kappa in results.settings["kappas"]:
        shown = []
        for name in names:
            cells = [SCORE.values(results, method=name, kappa=kappa, dataset=each) for each in full]
            shown.append(_with_error(np.mean(cells, axis=0)))
        rows.append([f"{kappa:g}", *shown])
    return table(["κ", *_columns(results)], rows)


def every_score(results: Results) -> str:
    """Return the scores of each data set and κ."""
    rows = []
    for dataset in results.settings["datasets"]:
        for kappa in results.settings["kappas"]:
            shown = [
                _with_error(SCORE.values(results, method=name, dataset=dataset, kappa=kappa))
                for name in implicit.present(results)
            ]
            if any(shown):
                rows.append([f"{dataset}, {kappa:g}", *shown])
    return table(["data set, κ", *_columns(results)], rows)


def _with_error(values: FloatArray) -> str:
    """Return the mean over seeds with its standard error, if there are seeds."""
    if not len(values):
        return ""
    error = f" ± {values.std(ddof=1) / np.sqrt(len(values)):.0f}" if len(values) > 1 else ""
    return f"{round(float(values.mean()))}{error}".replace("-", "−")


def _columns(results: Results) -> list[str]:
    base = implicit.base_name(results)
    return [implicit.label(name, base) for name in implicit.present(results)]


def agreements(results: Results) -> str:
    """Return the agreement of advantages by base and κ, over data sets."""
    rows = []
    for base in advantages.BASES:
        for kappa in sorted(results.settings["kappas"]):
            shown = [
                plus_minus(
                    summarise(advantages.agreement(results, name, base=base, kappa=kappa)), digits=2
                )
                for name in advantages.LOOKS
            ]
            rows.append([f"{base}, κ = {kappa:g}", *shown])
    return table(["", *(look.label for look in advantages.LOOKS.values())], rows)


def count(results: Results) -> str:
    """Return the number of replicates in words."""
    unit = "seed" if experiment(results.name).deep else "replicate"
    fewer, several = results.settings.get("fewer"), "s" * (results.replicates > 1)
    return f"{results.replicates} {unit}{several}" + (f"; {fewer}" if fewer else "")


def setting(results: Results, name: str) -> str:
    """Return one of the settings of the run."""
    found = results.settings[name]
    return f"{round(found, 1):,}" if isinstance(found, int | float) else str(found)


def regret(results: Results, method: str, stopping: str) -> str:
    """Return a learner's mean regret without noise."""
    return f"{REGRET.summary(results.under(stopping), method=method, **CLEAN).value:.1f}"


def agreement(results: Results, kappa: str, method: str) -> str:
    """Return the mean agreement of a method's advantages at κ, over data sets."""
    found = advantages.agreement(results, method, kappa=float(kappa))
    return f"{found.mean():.2f}".replace("-", "−")


def shows(results: Results) -> str:
    """Return the command and what it shows."""
    found = experiment(results.name)
    data = " --data DIR" if found.deep else ""
    return (
        f"`python -m reproduction {found.name}{data}`: {found.shows}, {count(results)}.\n\n"
        f"![{found.title}](figures/{found.name}.svg)"
    )


def worth(results: Results, kappa: str, method: str) -> str:
    """Return the range over logs of what the weights of a policy are worth, as shares of the log."""
    found = results.values("worth", method=method, kappa=float(kappa))
    return f"{found.min():.2f} to {found.max():.2f}"


FIELDS: dict[str, Callable[..., str]] = {
    "agreement": agreement,
    "agreements": agreements,
    "claims": claims,
    "count": count,
    "errors": errors,
    "every-score": every_score,
    "iterations": iterations,
    "parts": parts,
    "regret": regret,
    "regrets": regrets,
    "scores": scores,
    "setting": setting,
    "shows": shows,
    "text-features": text_features,
    "worth": worth,
}


def page(folder: Path = RESULTS) -> str:
    """Return the page, from the template and the results of a folder."""
    results = cache(lambda name: joined(name, folder))

    def fill(field: re.Match[str]) -> str:
        function, name, *words = field.group(1).split()
        if function not in FIELDS:
            raise TailproofError(
                f"page.md has a field {field.group(0)!r}. Known are {', '.join(FIELDS)}."
            )
        return FIELDS[function](results(name), *words)

    return _FIELD.sub(fill, TEMPLATE.read_text(encoding="utf-8"))


def write_page(folder: Path = RESULTS, to: Path = PAGE) -> Path:
    """Write the page and its figures, and return the page's path."""
    from matplotlib import rc_context

    write_whole(to, page(folder))
    names = dict.fromkeys(
        re.findall(r"\{\{shows ([\w-]+)\}\}", TEMPLATE.read_text(encoding="utf-8"))
    )
    for name in names:
        with rc_context(STYLE):
            drawn = experiment(name).draw(joined(name, folder, times=True))
            write_figure(drawn, to.parent / "figures" / f"{name}.svg")
    return to
