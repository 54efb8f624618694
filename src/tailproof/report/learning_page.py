"""The report of a learned policy, judged by episodes that it has not seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tailproof.data.log import Log
from tailproof.data.spaces import Discrete
from tailproof.data.stored import AnyLog, action_counts, parts_of, pieces_of
from tailproof.diagnosis.diagnosis import Diagnosis
from tailproof.learning.learned import Learned
from tailproof.plotting.marks import Tone, name_axes
from tailproof.plotting.rows import draw_bars, rows_axes
from tailproof.plotting.svg import as_svg
from tailproof.policies.simple import action_probabilities
from tailproof.report.answers import Answer
from tailproof.report.blocks import Block, Figure, Points, Prose, Section
from tailproof.report.figures import legend
from tailproof.report.page import Page
from tailproof.report.pages import Context, evaluation_page
from tailproof.report.tables import table
from tailproof.report.text import count, percent


def action_shares(log: AnyLog, policy: Any, *, most: int = 100_000) -> dict[str, dict[str, float]]:
    """Return how often a policy and the log take each action in the logged states.

    Nothing for continuous actions. At most so many rows are asked.
    """
    space = log.action_space
    if not isinstance(space, Discrete):
        return {}
    every = max(1, log.n_transitions // most)
    states = [
        piece.states[-piece.first % every :: every]
        for part in parts_of(log)
        for piece in pieces_of(log, part, ahead=False)
    ]
    chosen = action_probabilities(policy, np.concatenate(states), space.n).mean(axis=0)
    logged = action_counts(log) / log.n_transitions
    return {
        space.label(a): {"policy": float(chosen[a]), "log": float(logged[a])}
        for a in range(space.n)
    }


def learning_page(
    judging: Log,
    learned: Learned,
    found: Answer,
    diagnosis: Diagnosis,
    shares: Mapping[str, Mapping[str, float]],
    context: Context,
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
    shares
        From `action_shares`.
    context
        Where it comes from.
    """
    page = evaluation_page(
        judging, learned.policy, found, diagnosis, context, name="the learned policy"
    )
    said = (
        f"Learned by {learned.method} from {count(learned.n_episodes, 'episode')}, and judged by "
        f"{count(judging.n_episodes, 'other episode')}: on those that taught it a policy looks "
        f"better than it is."
    )
    blocks: list[Block] = [Prose(said)]
    if learned.reasons:
        blocks.append(Points(learned.reasons))
    if shares:
        blocks.append(share_figure(shares))
    section = Section("policy", "What it learned", tuple(blocks), "Policy")
    page = replace(page, sections=(section, *page.sections))
    if learned.improves is None:
        return page
    return replace(
        page,
        verdict=f"{learned.advice()} {page.verdict}",
        mood="good" if learned.improves else "warn",
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
