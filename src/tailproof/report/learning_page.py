"""The report of a learned policy, judged by episodes that it has not seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tailproof.data.log import Log
from tailproof.data.stored import action_counts
from tailproof.diagnosis.diagnosis import Diagnosis
from tailproof.learning.constants import ConstantAction
from tailproof.learning.learned import Learned
from tailproof.plotting.marks import Tone, name_axes
from tailproof.plotting.rows import draw_bars, rows_axes
from tailproof.plotting.svg import as_svg
from tailproof.report.answers import Answer, learned_verdict
from tailproof.report.blocks import Fact, Facts, Figure, Points, Prose, Section
from tailproof.report.figures import legend
from tailproof.report.page import Page
from tailproof.report.pages import Context, evaluation_page
from tailproof.report.tables import table
from tailproof.report.text import count, number, percent


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
        The episodes that it was not learned from.
    learned
        The policy.
    found, diagnosis
        Of the policy on `judging`.
    context
        Where it comes from.
    constant
        The best single action on `judging`, from `best_constant`.
    """
    page = evaluation_page(judging, found, diagnosis, context, name="the learned policy")
    said = (
        f"Learned by {learned.method} from {count(learned.n_episodes, 'episode')}, and judged by "
        f"{count(judging.n_episodes, 'other episode')}: on those that taught it a policy looks "
        f"better than it is."
    )
    verdict = learned_verdict(learned, found)
    best = "always " + constant.action if constant else ""
    facts = (Fact("best constant", number(constant.value), best),) if constant else ()
    logged = action_counts(judging) / judging.n_transitions
    shares = {
        name: {"policy": share, "log": float(logged[action])}
        for action, (name, share) in enumerate(found.estimate.on_log.shares.items())
    }
    blocks = (Prose(said), Points(learned.reasons), share_figure(shares))
    section = Section("policy", "What it learned", blocks, "Policy")
    return replace(
        page,
        verdict=verdict,
        details=(page.verdict, *page.details),
        facts=Facts((*facts, *(page.facts.facts if page.facts else ()))),
        mood="good" if verdict.startswith("Yes") else "warn",
        sections=(section, *page.sections),
    )


def share_figure(shares: Mapping[str, Mapping[str, float]], *, most: int = 20) -> Figure:
    """Return how often the policy and the log take each action."""
    rows = sorted(shares.items(), key=lambda each: -max(each[1].values()))[:most]
    names = [name for name, _ in rows]
    both: tuple[tuple[str, Tone], ...] = (("policy", "main"), ("log", "second"))
    axes = rows_axes(names, row=32, right=24)
    draw_bars(
        axes,
        names,
        [
            (
                [tone] * len(rows),
                [100 * share[who] for _, share in rows],
                [f"{name}: the {who} {percent(share[who])}" for name, share in rows],
            )
            for who, tone in both
        ],
    )
    axes.set_xlim(0, 100)
    name_axes(axes, x="% of the logged states")
    said = "; ".join(f"{name} {percent(share['policy'])}" for name, share in rows)
    return Figure(
        key="actions",
        caption="How often the policy takes each action in the logged states, and how often the "
        "log took it.",
        svg=as_svg(axes, f"Shares of actions of the policy: {said}."),
        legend=legend([("main", "the policy"), ("second", "the log")]),
        numbers=table(
            ("action", "policy", "log"),
            [
                (name, percent(share["policy"]), percent(share["log"]))
                for name, share in shares.items()
            ],
        ),
    )
