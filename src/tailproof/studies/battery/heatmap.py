"""A heat map of ratios as SVG: on the page, and as a file of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from tailproof.arrays import FloatArray
from tailproof.report.text import number

ROW, LEFT, TOP = 24.0, 190.0, 96.0
TIE = 1.05  # ratios up to this count as best
WORST = 10.0  # ratios from this on have the darkest colour

_STYLE = """\
svg{--paper:#fff;--ink:#1a1f26;--soft:#57606c;--edge:#dde1e7;--warn:#b4500b;--good:#0d7a5f;\
background:var(--paper);font-family:system-ui,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}\
@media(prefers-color-scheme:dark){svg{--paper:#1b2027;--ink:#e8ebef;--soft:#a3adb9;--edge:#333b46;\
--warn:#f6a05c;--good:#5ccaa9}}\
text{fill:var(--ink);font-size:12.5px}.name{fill:var(--ink)}.axis{stroke:var(--edge)}\
.bar.warn{fill:var(--warn)}.bar.good{fill:var(--good)}"""


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    ratios: FloatArray,
    *,
    alt: str,
    breaks: Sequence[int] = (),
    standalone: bool = False,
) -> str:
    """Return a picture of ratios of at least 1: green where best, the browner the worse.

    Parameters
    ----------
    rows, columns
        Labels, R and M of them.
    ratios
        (R, M).
    alt
        What it shows, in a sentence.
    breaks
        Rows above which a line is drawn.
    standalone
        Bring the colours along, for a file of its own.
    """
    step = max(46.0, min(64.0, 660.0 / len(columns)))
    width, height = LEFT + step * len(columns) + 46, TOP + ROW * len(rows) + 8
    parts = [f"<style>{_STYLE}</style>"] if standalone else []
    for j, column in enumerate(columns):
        x = LEFT + (j + 0.5) * step
        parts.append(
            f'<text class="name" transform="translate({x:.1f} {TOP - 8:g}) rotate(-42)">'
            f"{escape(column)}</text>"
        )
    for i, row in enumerate(rows):
        y = TOP + i * ROW
        if i in breaks:
            parts.append(
                f'<line class="axis" x1="0" y1="{y:g}" x2="{LEFT + step * len(columns):g}" y2="{y:g}"/>'
            )
        parts.append(
            f'<text class="name" x="{LEFT - 8:g}" y="{y + 16.5:g}" text-anchor="end">{escape(row)}'
            "</text>"
        )
        for j, column in enumerate(columns):
            parts.append(_cell(LEFT + j * step, y, step, float(ratios[i, j]), f"{column}, {row}"))
    namespace = ' xmlns="http://www.w3.org/2000/svg"' if standalone else ""
    return (
        f'<svg class="plot"{namespace} viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="{escape(alt)}">{"".join(parts)}</svg>'
    )


def ratio_text(ratio: float) -> str:
    """Return a ratio in few letters.

    >>> ratio_text(1.034), ratio_text(12.3), ratio_text(4321.0), ratio_text(float("inf"))
    ('1.03', '12', '4.3k', '∞')
    """
    if not math.isfinite(ratio):
        return "∞" if ratio == math.inf else "–"
    if ratio >= 1000:
        return f"{ratio / 1000:.2g}k"
    return f"{ratio:.2f}" if ratio < 9.995 else f"{ratio:.0f}"


def _cell(x: float, y: float, width: float, ratio: float, about: str) -> str:
    tone = "good" if ratio <= TIE else "warn"
    heat = min(math.log(max(ratio, 1.0)) / math.log(WORST), 1.0) if ratio == ratio else 0.0
    opacity = 0.45 if tone == "good" else 0.06 + 0.6 * heat
    return (
        f'<rect class="bar {tone}" x="{x + 1:.1f}" y="{y + 1:.1f}" width="{width - 2:.1f}" '
        f'height="{ROW - 2:g}" rx="2" fill-opacity="{opacity:.2f}" '
        f'data-tip="{escape(about)}: {escape(number(ratio))}"/>'
        f'<text class="name" x="{x + width / 2:.1f}" y="{y + 16.5:.1f}" text-anchor="middle" '
        f'pointer-events="none">{ratio_text(ratio)}</text>'
    )
