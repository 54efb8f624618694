"""A learned rule and a targeting curve as pictures and tables: who gets what, and what it earns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tailproof.report.blocks import Block, Figure, Note, Tone, table
from tailproof.report.figures import finite
from tailproof.report.plots import (
    COLOURS,
    FONT,
    LETTER,
    band,
    colour_of,
    dots,
    line,
)
from tailproof.report.text import Quantity, minus, number, percent, signed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tailproof.doors.curve import TargetingCurve
    from tailproof.doors.readable import JudgedRule, RuleLeaf
    from tailproof.robust.intervals import Interval

_LINE = 26.0  # height of a line, and its indentation
_TONES: dict[str, Tone] = {"better": "good", "worse": "warn"}


def rule_blocks(judged: JudgedRule, figure: Figure) -> tuple[Block, ...]:
    """Return the table of a rule, after a sentence if it stands for another policy."""
    said = (Note(judged.sentence),) if judged.sentence else ()
    return (*said, figure.numbers)


def rule_figure(judged: JudgedRule, quantity: Quantity) -> Figure:
    """Return a rule as an outline, and a table with one row per leaf."""
    lines = rule_lines(judged)
    known = any(leaf.segment is not None for leaf in judged.leaves)
    counted = any(leaf.rows is not None for leaf in judged.leaves)
    rows = []
    for leaf in judged.leaves:
        who = " and ".join(leaf.conditions) or "all rows"
        cells: list[str | float | int | None] = [who, leaf.action]
        if counted and leaf.share is not None:
            cells += [leaf.rows, percent(leaf.share)]
        if known:
            cells += [*finite(math.nan if leaf.value is None else quantity.shown(leaf.value))]
            cells += finite(*_gain(leaf, quantity))
        rows.append(cells)
    columns = ["rows with", "action", *(["rows", "share"] if counted else [])]
    columns += ["value", "difference", "from", "to"] if known else []
    caption = "The rule."
    if known:
        caption = (
            f"The rule: {quantity.title} in each leaf and its difference from what was logged there, "
            f"on rows it was not learned from. The intervals hold together with "
            f"{percent(judged.level)} confidence."
        )

    return Figure(
        key="rule",
        draw=lambda axes: draw_rule(axes, judged, quantity),
        height=lambda width: len(_outline(judged, quantity, width)) * _LINE,
        alt=f"The rule: {'; '.join(f'{text}' for _, text, _ in lines)}.",
        caption="The rule as an outline." if known else caption,
        legend=[("good", "better"), ("main", "no difference shown"), ("warn", "worse")]
        if known
        else (),
        numbers=table(columns, rows, caption=caption.rstrip(".")),
    )


def rule_lines(judged: JudgedRule) -> list[tuple[int, str, RuleLeaf | None]]:
    """Return a rule as an outline: depth, condition, and the leaf if the line is one."""
    lines: list[tuple[int, str, RuleLeaf | None]] = []
    before: tuple[str, ...] = ()
    for leaf in judged.leaves:
        path = leaf.conditions or ("all rows",)
        shared = next(
            (k for k, (a, b) in enumerate(zip(before, path, strict=False)) if a != b), len(before)
        )
        last = len(path) - 1
        lines += [(k, path[k], leaf if k == last else None) for k in range(shared, len(path))]
        before = path
    return lines


def leaf_words(leaf: RuleLeaf, quantity: Quantity) -> list[str]:
    """Return the action of a leaf and how often it is taken, and what is known of its gain."""
    said = leaf.action
    if leaf.share is not None:
        said += f", {percent(leaf.share)} of rows"
    value, low, high = _gain(leaf, quantity)
    if not math.isfinite(value):
        return [said]
    ends = f" ({number(low, 3)} to {number(high, 3)})" if math.isfinite(low) else ""
    return [said, f"difference {signed(value)}{ends}"]


def _outline(
    judged: JudgedRule, quantity: Quantity, width: float
) -> list[tuple[int, str, RuleLeaf | None]]:
    """Return the lines of a rule with the words of its leaves, in one or two lines as they fit."""
    lines: list[tuple[int, str, RuleLeaf | None]] = []
    for depth, condition, leaf in rule_lines(judged):
        lines.append((depth, condition, None))
        if leaf is not None:
            words = leaf_words(leaf, quantity)
            one = f"→ {', '.join(words)}"
            fits = depth * _LINE + 10 + LETTER * len(one) < width
            lines += [
                (depth, each, leaf) for each in ([one] if fits else [f"→ {words[0]}", *words[1:]])
            ]
    return lines


def draw_rule(axes: Axes, judged: JudgedRule, quantity: Quantity) -> None:
    """Draw a rule as an outline over the whole picture, with every leaf in its verdict's colour."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    width = 72 * float(figure.get_figwidth())
    lines = _outline(judged, quantity, width)
    starts: dict[int, float] = {}  # where the lines to the children of each depth begin
    for place, (depth, words, leaf) in enumerate(lines):
        x, y = depth * _LINE, place * _LINE
        if leaf is not None:
            verdict = "" if leaf.segment is None else leaf.segment.verdict.word
            tone = colour_of(_TONES.get(verdict, "main"))
            _write(axes, x + (10 if words.startswith("→") else 26), y - 6, minus(words), tone)
            continue
        if depth in starts:
            elbow = x - _LINE / 2
            axes.plot(
                [elbow, elbow, x - 4], [starts[depth], y, y], color=COLOURS["edge"], linewidth=1.5
            )
        _write(axes, x, y, words, COLOURS["ink"])
        starts[depth + 1] = y + _LINE / 3
    axes.set_xlim(-2, width)
    axes.set_ylim((len(lines) - 0.5) * _LINE, -_LINE / 2)
    axes.axis("off")


def curve_figure(curve: TargetingCurve) -> Figure:
    """Return the gain against the share of rows that get an action, with its band."""
    quantity = Quantity.named(curve.reward, per="row")
    read = [_read(each.gain.value, each.interval, quantity) for each in curve.points]

    def draw(axes: Axes) -> None:
        shares = [0.0, *(100 * each.share for each in curve.points)]
        values, lows, highs = ([0.0, *column] for column in zip(*read, strict=True))
        band(axes, shares, lows, highs, "main")
        line(axes, shares, values, "main")
        dots(axes, shares, values, "main")

    rows = [
        (percent(at.share), *finite(*ends)) for at, ends in zip(curve.points, read, strict=True)
    ]
    return Figure(
        key="curve",
        draw=draw,
        x=f"% of rows with {curve.action}",
        y=f"gain in {quantity.title}",
        alt=f"Gain in {quantity.title} against the share of rows that get {curve.action}.",
        caption=f"Gain in {quantity.title} over giving {curve.action} to nobody, where those who gain "
        f"most get it first. The band holds at all shares together with {percent(curve.level)} "
        f"confidence.",
        numbers=table((f"share with {curve.action}", "gain", "from", "to"), rows),
    )


def _write(axes: Axes, x: float, y: float, text: str, colour: str) -> None:
    axes.text(x, y, text, fontsize=FONT, color=colour, va="center", parse_math=False)


def _gain(leaf: RuleLeaf, quantity: Quantity) -> tuple[float, float, float]:
    """Return the gain of a leaf as it is read, and its interval; NaN where there is none."""
    if leaf.segment is None:
        return math.nan, math.nan, math.nan
    return _read(leaf.segment.gain.value, leaf.segment.interval, quantity)


def _read(
    value: float, interval: Interval | None, quantity: Quantity
) -> tuple[float, float, float]:
    """Return a gain and its interval as they are read; NaN where there is none."""
    if interval is None:
        return quantity.shown(value), math.nan, math.nan
    return (quantity.shown(value), *quantity.ends(interval.low, interval.high))
