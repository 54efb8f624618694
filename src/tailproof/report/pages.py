"""Complete reports, in the order of a reader's questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from tailproof.doors.compare import Comparison
from tailproof.doors.diagnose import Diagnosis, diagnose
from tailproof.doors.estimate import Estimate
from tailproof.doors.evaluate import evaluate
from tailproof.doors.learned import ConstantAction, Learned, best_constant
from tailproof.errors import TailproofError
from tailproof.files import require_replaceable
from tailproof.log.log import Log, discounted_returns
from tailproof.log.stored import AnyLog, action_counts, sample_to_budget
from tailproof.report.answers import (
    Answer,
    comparison_how,
    comparison_notes,
    constant_text,
    gain_bound_of,
    gain_of,
    gate_line,
    influence_sentence,
    learned_by,
    learned_verdict,
    logged_by,
    rank_of,
    ranking_table,
    rivals_of,
    tail_table,
)
from tailproof.report.figures import (
    Block,
    Bullets,
    Fact,
    Facts,
    Prose,
    Section,
    Wide,
    finite,
    fold_figure,
    gain_figure,
    hill_figure,
    influence_figure,
    interval_figure,
    k_path_figure,
    residual_figure,
    returns_figure,
    share_figure,
    survival_figure,
    weights_figure,
)
from tailproof.report.page import Page
from tailproof.report.text import count, number, percent, signed, table, versions


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


@dataclass(frozen=True, kw_only=True)
class Context:
    """The source and settings of a result, for reports.

    Attributes
    ----------
    source
        The log's file or name.
    settings
        The settings that reproduce the result.
    notes, warnings
        Messages collected during the run.
    record
        The numbers for programs.
    """

    source: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    record: dict[str, Any] = field(default_factory=dict)


def evaluation_page(
    log: Log,
    found: Answer,
    diagnosis: Diagnosis,
    context: Context,
    *,
    name: str,
    more: Sequence[str] = (),
) -> Page:
    """Return the report of an evaluation: value and gain, then the evidence.

    Parameters
    ----------
    log
        The log used for the evaluation.
    found
        The estimate with its intervals.
    diagnosis
        The diagnosis of the same log and policy.
    context
        Where it comes from.
    name
        The name of the policy.
    more
        Sentences to add to the answer.
    """
    estimate, bound = found.estimate, found.gain_bound
    influence, *evidence = evidence_sections(log, diagnosis)
    return _page(
        log,
        context,
        diagnosis.gamma,
        title=f"How good is {name}?",
        headline=number(estimate.value),
        headline_note=str(estimate.unit),
        second=found.gain(),
        second_note=f"gain over the logged {number(estimate.logged_value)}; {found.gain_ends()}",
        verdict=f"What it does on the log: {estimate.on_log}." if str(estimate.on_log) else "",
        details=(f"Estimated by {found.how()}.", *found.caveats(), *more),
        facts=Facts(_facts(found)),
        mood="warn" if bound is None else "good" if bound.value > 0 else "plain",
        sections=(verdict_section(diagnosis, estimate), influence),
        folded=(offers_section(found), *evidence),
    )


def _facts(found: Answer) -> tuple[Fact, ...]:
    """Return the cards below the answer: intervals of the value and of the gain."""
    cards = []
    if (ends := found.interval) is not None:
        text = f"{number(ends.low)} to {number(ends.high)}"
        cards.append(Fact("interval of the value", text, f"holds with {percent(ends.level)}"))
    if (bound := found.bound) is not None:
        note = f"holds with {percent(bound.level)}"
        cards.append(Fact("lower bound of the value", number(bound.value), note))
    if (bound := found.gain_bound) is not None:
        note = f"holds with {percent(bound.level)}"
        cards.append(Fact("lower bound of the gain", signed(bound.value), note))
    return tuple(cards)


def diagnosis_page(log: Log, diagnosis: Diagnosis, context: Context) -> Page:
    """Return the report of a diagnosis."""
    verdict = diagnosis.verdict
    facts = (
        Fact("method", verdict.method, verdict.estimator or ""),
        Fact("one observation", verdict.unit, f"{verdict.units:,} of them"),
        Fact("variance of the rewards", diagnosis.tails["rewards"].variance.exists),
        Fact("plain average", number(diagnosis.influence.value), diagnosis.influence.estimator),
    )
    influence, tails, *others = evidence_sections(log, diagnosis)
    heavy = verdict.tails != "light"
    return _page(
        log,
        replace(context, notes=[*context.notes, *diagnosis.notes]),
        diagnosis.gamma,
        title=f"Diagnosis of {context.source}",
        headline="Heavy tails" if heavy else "Light tails",
        verdict=verdict.summary,
        facts=Facts(facts),
        mood="warn" if heavy else "good",
        sections=(verdict_section(diagnosis), influence, tails),
        folded=others,
    )


def comparison_page(
    log: Log, comparison: Comparison, diagnosis: Diagnosis, context: Context
) -> Page:
    """Return the report of a comparison: the ranking, the gains, the gate, and the evidence.

    Parameters
    ----------
    log
        The log used for the comparison.
    comparison
        From `compare`.
    diagnosis
        The diagnosis of the log without a policy, for the sections about tails and influence.
    context
        Where it comes from.
    """
    best, baseline, passes = comparison.proposed, comparison.baseline, comparison.passes
    likely = f"{comparison.best.name}, of {rivals_of(comparison)}"
    influence, *evidence = evidence_sections(log, diagnosis)
    ranking = (Wide(ranking_table(comparison)), Bullets(comparison_notes(comparison)))
    facts = (
        Fact("gate", "passed" if passes else "closed", "", "good" if passes else "warn"),
        Fact("probability of being best", f"{comparison.probability_best:.2f}", likely),
    )
    return _page(
        log,
        context,
        comparison.gamma,
        title=f"Which of {count(len(comparison.candidates), 'policy')} is best?",
        headline=best.name,
        headline_note=f"{rank_of(comparison)}: {number(best.value)} {best.estimate.unit}",
        second=gain_of(best),
        second_note=f"gain over the {baseline} ({number(comparison.baseline_value)}), "
        f"{gain_bound_of(best)}",
        verdict=f"With {percent(comparison.level)} confidence {gate_line(comparison)}.",
        facts=Facts(facts),
        details=comparison_how(comparison),
        mood="good" if passes else "warn",
        sections=(
            Section("ranking", "Ranking", ranking, "Ranking"),
            Section("gains", f"Gain over the {baseline}", (gain_figure(comparison),), "Gain"),
            influence,
        ),
        folded=(*([_folds_section(comparison)] if comparison.has_folds else []), *evidence),
    )


def _folds_section(comparison: Comparison) -> Section:
    names = [each.name for each in comparison.candidates]
    folds = np.stack(
        [*(each.estimate.all_folds for each in comparison.candidates), comparison.baseline_folds],
        axis=1,
    )
    rows = [(k, *finite(*values)) for k, values in enumerate(folds)]
    shown = table(("fold", *names, comparison.baseline), rows)
    return Section("folds", "Every fold of every policy", (Wide(shown),))


def learning_page(
    judging: Log,
    learned: Learned,
    found: Answer,
    diagnosis: Diagnosis,
    context: Context,
    *,
    constant: ConstantAction | None = None,
) -> Page:
    """Return the report of a learned policy.

    Parameters
    ----------
    judging
        The held-out episodes.
    learned
        The learned policy.
    found, diagnosis
        The estimate and the diagnosis of the policy on `judging`.
    context
        Where it comes from.
    constant
        The best single action on `judging`, from `best_constant`.
    """
    held = f"{_size(judging.once)} held out"
    if learned.log_size is not None:
        rows, episodes = learned.log_size
        held = f"{count(rows, 'row')}, {count(episodes, 'episode')}; {held}"
    page = evaluation_page(judging, found, diagnosis, context, name="the learned policy")
    page = replace(page, subtitle=page.subtitle.replace(_size(judging.once), held, 1))
    facts = page.facts.facts if page.facts else ()
    verdict, held_out = (
        learned_verdict(learned, found),
        count(judging.once.n_episodes, "held-out episode"),
    )
    said = learned_by(learned)
    if learned.improves is None:
        said += (
            f", and judged by {held_out}: on those that taught it a policy looks better than it is"
        )
    elif learned.judged is not None or not learned.improves:
        page, facts = _as_decided(page, learned, found), ()
    if constant is not None and constant_text(constant, learned, found):
        note = f"always {constant.action}, by {held_out}"
        facts = (Fact("best constant", number(constant.value), note), *facts)
    blocks: list[Block] = [Prose(f"{said}."), Bullets(learned.reasons)]
    if judging.is_discrete:
        logged = action_counts(judging) / judging.n_transitions
        shares = {
            name: (share, float(logged[action]))
            for action, (name, share) in enumerate(found.estimate.on_log.shares.items())
        }
        blocks.append(share_figure(shares))
    return replace(
        page,
        verdict=verdict,
        details=(page.verdict.replace("on the log", "on the held-out rows", 1), *page.details),
        facts=Facts(facts),
        mood="good" if verdict.startswith("Yes") else "warn",
        sections=(Section("policy", "What it learned", tuple(blocks), "Policy"), *page.sections),
    )


def _as_decided(page: Page, learned: Learned, found: Answer) -> Page:
    """Return the page with the numbers by which the policy was chosen, as in the terminal."""
    estimate, judged = found.estimate, learned.judged
    again = (
        f"The details below evaluate the policy again, by {found.how()} of "
        f"{count(estimate.n_episodes, 'held-out episode')}."
    )
    if not learned.improves or judged is None:
        (value, by), second, note = logged_by(learned, found), "", ""
    else:
        value, by, second = judged.value, "", f"{judged.gain:+.4g}"
        note = (
            f"gain over the logged {number(judged.logged_value)}; above {judged.bound:+.4g} with "
            f"{percent(judged.level)} confidence, by {count(judged.episodes, 'episode')}"
        )
    return replace(
        page,
        headline=number(value),
        headline_note=f"{estimate.unit}{'' if second else f', as logged, {by}'}",
        second=second,
        second_note=note,
        details=(again,),
    )


def _page(
    log: Log, context: Context, gamma: float, *, folded: Sequence[Section], **shown: Any
) -> Page:
    """Return a page with the parts that all reports share."""
    log = log.once
    return Page(
        subtitle=f"{context.source}: {_size(log)}" + (f", γ = {gamma:g}" if gamma else ""),
        warnings=tuple(context.warnings),
        folded=(*folded, settings_section(context.settings, notes=context.notes)),
        record=context.record,
        created=today(),
        **shown,
    )


def _size(log: Log) -> str:
    groups = "" if log.group_ids is None else f" in {count(log.n_groups, 'group')}"
    return f"{count(log.n_transitions, 'row')}, {count(log.n_episodes, 'episode')}{groups}"


def evidence_sections(log: Log, diagnosis: Diagnosis) -> list[Section]:
    """Return the sections that every report of a log shares; weights do not repeat its rows."""
    log = log.once
    sections = [
        influence_section(log, diagnosis),
        tails_section(log, diagnosis),
        clustering_section(diagnosis),
        k_path_section(diagnosis),
        weights_section(diagnosis),
        residual_section(log, diagnosis),
    ]
    return [section for section in sections if section is not None]


def today() -> str:
    """Return the current time as text."""
    return datetime.now(UTC).strftime("%d %B %Y, %H:%M UTC")


#: The results that have a report.
Result = Estimate | Comparison | Diagnosis | Learned


def write_report(
    result: Result,
    path: str | Path,
    *,
    log: AnyLog | None = None,
    level: float = 0.9,
    name: str = "the policy",
) -> Path:
    """Write the report of a result to one HTML file, which opens offline.

    Parameters
    ----------
    result
        What `evaluate`, `compare`, `diagnose` or `learn` returned.
    path
        The file; it is replaced if it exists.
    log
        The log of the result. Needed for a `Diagnosis` and for a result that was stored; others have
        it. That of a `Learned` are its held-out episodes.
    level
        Confidence of the intervals.
    name
        The name of the policy in the title.

    Examples
    --------
    >>> import tempfile
    >>> from tailproof import evaluate, write_report
    >>> from tailproof.worlds import CartPole
    >>> world = CartPole()
    >>> estimate = evaluate(world.log(episodes=40, seed=1), world.target(), gamma=0.9)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(estimate, f"{folder}/report.html").name
    'report.html'
    """
    require_replaceable(Path(path))
    return _page_writing(result, log, level, name).write(path)


def _page_writing(result: Result, log: AnyLog | None, level: float, name: str) -> Page:
    if isinstance(result, Diagnosis):
        shown = _shown(log, 0)
        return diagnosis_page(shown, result, _context(result, shown, level))
    if isinstance(result, Comparison):
        shown = _shown(log or _log_of(result.best.estimate), result.seed)
        diagnosis = diagnose(shown, gamma=result.gamma, seed=result.seed)
        return comparison_page(shown, result, diagnosis, _context(result, shown, level))
    if isinstance(result, Learned):
        shown = _shown(log or result.held_out, result.seed)
        asked: dict[str, Any] = {"gamma": result.gamma, "seed": result.seed}
        found = Answer(evaluate(shown, result.policy, **asked), level)
        diagnosis = diagnose(shown, result.policy, estimate=found.estimate, **asked)
        context = _context(result, shown, level)
        best = best_constant(shown, **asked)
        return learning_page(shown, result, found, diagnosis, context, constant=best)
    if isinstance(result, Estimate):
        shown = _shown(log or _log_of(result), result.seed)
        policy = None if result.task is None else result.task.policy
        diagnosis = diagnose(shown, policy, gamma=result.gamma, seed=result.seed)
        context = _context(result, shown, level)
        return evaluation_page(shown, Answer(result, level), diagnosis, context, name=name)
    raise TailproofError(
        f"A report is of a result of evaluate, compare, diagnose or learn. Got "
        f"{type(result).__name__} instead."
    )


def _log_of(estimate: Estimate) -> Any:
    return None if estimate.task is None else estimate.task.log


def _shown(log: AnyLog | None, seed: int) -> Log:
    if log is None:
        raise TailproofError(
            "A report shows the log, which this result does not have. Pass log=..., the log of the "
            "result."
        )
    return sample_to_budget(log, "The report", seed=seed)


def _context(result: Result, log: Log, level: float) -> Context:
    table = log.table_rows.table
    numbers = result.to_dict(level=level) if isinstance(result, Estimate) else result.to_dict()
    settings = {
        "method": str(getattr(result, "method", "")) or None,
        "gamma": result.gamma,
        "level": level,
        "seed": getattr(result, "seed", None),
    }
    return Context(
        source="the log" if table is None else table.label,
        settings={key: each for key, each in settings.items() if each is not None},
        warnings=result.cautions if isinstance(result, Estimate) else (),
        record={**settings, **numbers, "versions": versions()},
    )
