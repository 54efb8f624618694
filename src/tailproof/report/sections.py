"""The sections of a report, in the order of a reader's questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tailproof.data.log import Log, discounted_returns
from tailproof.diagnosis.diagnosis import Diagnosis
from tailproof.evaluation.estimate import Estimate
from tailproof.report.answers import Answer, influence_sentence, tail_table
from tailproof.report.blocks import Block, Bullets, Fact, Facts, Prose, Section, Wide
from tailproof.report.figures import (
    fold_figure,
    influence_figure,
    interval_figure,
    k_path_figure,
    returns_figure,
    weights_figure,
)
from tailproof.report.tables import table
from tailproof.report.tail_figures import hill_figure, residual_figure, survival_figure
from tailproof.report.text import number, percent
from tailproof.report.versions import versions


def verdict_section(diagnosis: Diagnosis, estimate: Estimate | None = None) -> Section:
    """Return why the method (of an estimate, if given) was chosen, and how to improve the answer."""
    verdict = diagnosis.verdict
    chosen = None if estimate is None else estimate.choice
    blocks: list[Block] = [Bullets(verdict.reasons if chosen is None else chosen.reasons)]
    if verdict.improvements:
        blocks += [Prose("What would make the answer better:"), Bullets(verdict.improvements)]
    return Section("verdict", "What the log shows", tuple(blocks), "The log")


def offers_section(found: Answer) -> Section:
    """Return the fold values, all intervals and bounds, and the estimates of other means."""
    estimate = found.estimate
    blocks: list[Block] = [fold_figure(found)] if len(estimate.fold_values) > 1 else []
    blocks.append(interval_figure(found))
    if estimate.bad_folds:
        named = ", ".join(map(str, estimate.bad_folds))
        blocks.append(Bullets((f"Folds that diverged and were left out: {named}.",), "warn"))
    if (chosen := estimate.choice) is not None and chosen.alternatives:
        rows = [(f"chosen: {chosen.estimator}", chosen.value), *chosen.alternatives.items()]
        blocks.append(Wide(table(("mean of the same weighted rewards", "estimate"), rows)))
    return Section("folds", "Other estimates and intervals", tuple(blocks))


def tails_section(log: Log, diagnosis: Diagnosis) -> Section:
    """Return how heavy the tails are."""
    report = diagnosis.tails["rewards"]
    indices = {"right": report.right, "left": report.left}
    paths = [path for path in (report.right_path, report.left_path) if path is not None]
    blocks: list[Block] = [Wide(tail_table(diagnosis))]
    if paths:
        blocks.append(hill_figure(paths, indices))
    blocks.append(survival_figure(log.rewards, (report.right, report.left)))
    blocks.append(Wide(_tail_table(diagnosis.tails.values()), "Every estimate of every tail"))
    return Section("tails", "How heavy the tails are", tuple(blocks), "Tails")


def clustering_section(diagnosis: Diagnosis) -> Section:
    """Return whether extremes occur in clusters."""
    clusters = diagnosis.clustering
    where = {
        "steps of an episode": clusters.within,
        "neighbouring episodes": clusters.across,
        "episodes of a group": clusters.groups,
    }
    rows = [
        (name, index.theta, index.low, index.high, index.exceedances)
        if index.estimable
        else (name, None, None, None, index.exceedances)
        for name, index in where.items()
        if index is not None
    ]
    said = (
        "Extremes come together: what follows them in the same episode or group is the same event, "
        "so sums are robustified, not single steps, and folds keep groups whole."
        if clusters.in_episodes or clusters.in_groups
        else "There is no sign that extremes come together."
    )
    shown = table(
        ("extremes among", "extremal index", "low", "high", "extremes"),
        rows,
        caption="1 means alone, ½ pairs on average; – where there are too few extremes.",
        digits=3,
    )
    return Section(
        "clusters", "Whether extremes come alone", (Prose(said), Wide(shown)), "Clusters"
    )


def k_path_section(diagnosis: Diagnosis) -> Section:
    """Return the estimate against the number of folds."""
    path = diagnosis.k_path
    drift = (
        f"From five folds on the median drifts by {number(path.drift, 3)}, more than chance "
        f"explains: medians of many folds are biased here."
        if path.drifts
        else "From five folds on the median stays within its error."
    )
    title = "The estimate against the number of folds"
    return Section("k-path", title, (Prose(drift), k_path_figure(path)), "Number of folds")


def weights_section(diagnosis: Diagnosis) -> Section | None:
    """Return how well the log covers the policy."""
    overlap = diagnosis.overlap
    if overlap is None:
        return None
    found = overlap.weights
    share = found.effective / found.n
    facts = [
        Fact(
            "effective rows",
            f"{number(found.effective, 3)} of {found.n:,}",
            "of equal weight",
            "warn" if share < 0.1 else "plain",
        ),
        Fact("largest weight", percent(found.largest_share), "of all weight"),
        Fact(
            "Pareto k",
            number(found.pareto.k, 2),
            f"harmless below {found.reliable_k:.2f}",
            "good" if found.reliable else "warn",
        ),
        Fact(
            "never logged",
            percent(overlap.unlogged),
            "of the policy's actions",
            "warn" if overlap.unlogged > 0.01 else "good",
        ),
        Fact("leverage", number(overlap.leverage, 3), "1 is the log itself"),
    ]
    blocks: list[Block] = [Facts(tuple(facts))]
    if diagnosis.weights is not None:
        blocks.append(weights_figure(diagnosis.weights, effective=found.effective))
    return Section("weights", "Weights and overlap", tuple(blocks), "Weights")


def influence_section(log: Log, diagnosis: Diagnosis) -> Section:
    """Return the most influential episodes."""
    influence = diagnosis.influence
    ids = [each.episode for each in influence.episodes]
    blocks: list[Block] = []
    if influence.episodes:
        blocks += [Prose(influence_sentence(diagnosis)), influence_figure(diagnosis)]
    if not log.is_bandit or log.n_episodes > 1:
        returns = discounted_returns(log, diagnosis.gamma)
        noun = diagnosis.noun
        blocks.append(returns_figure(returns, log.episode_ids, marked=ids, noun=noun))
    return Section("influence", f"Which {diagnosis.noun}s decide", tuple(blocks), "Influence")


def residual_section(log: Log, diagnosis: Diagnosis) -> Section | None:
    """Return the largest Bellman residuals over time."""
    found = diagnosis.residuals
    if found is None:
        return None
    worst = []
    for each in found.worst:
        episode = int(np.flatnonzero(log.episode_ids == each.episode)[0])
        worst.append((int(log.starts[episode]) + each.step, str(each.episode), each.residual))
    return Section(
        "residuals",
        "Residuals over the rows",
        (residual_figure(found.monitor, worst),),
        "Residuals",
    )


def settings_section(settings: Mapping[str, Any], *, notes: Sequence[str] = ()) -> Section:
    """Return the settings that reproduce the numbers, and how the log was read."""
    rows = [(name, str(value)) for name, value in settings.items() if value is not None]
    rows += list(versions().items())
    blocks: list[Block] = [Bullets(tuple(notes))] if notes else []
    blocks.append(Wide(table(("setting", "value"), rows)))
    return Section("settings", "Settings and versions", tuple(blocks), "Settings")


def _tail_table(reports: Any) -> Any:
    rows = [
        (
            report.name,
            tail.side,
            tail.method,
            *(
                (tail.alpha, tail.low, tail.high, tail.k)
                if tail.estimable
                else (None, None, None, None)
            ),
        )
        for report in reports
        for tail in (report.left, report.right, *report.others)
    ]
    return table(
        ("of", "tail", "estimator", "index α", "low", "high", "extremes"),
        rows,
        caption="Moments of an order below α exist.",
        digits=3,
    )
