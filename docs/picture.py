"""Draw pictures of the documentation from its stories and examples: run `python docs/picture.py`."""

import json
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from examples.storm.story import DAYS, HUB, PLAIN, STORMY, TONES, WEEKS, estimates_axes, season_of
from tailproof.report.figures import pooling_figure
from tailproof.report.html import stylesheet
from tailproof.report.plots import COLOURS, colour_of, on_page, page_axes
from tailproof.report.svg import as_svg

SHOWN = (PLAIN, DAYS, WEEKS)


def alone(axes: Axes, said: str) -> str:
    """Return a picture as a file of its own, with the style of a page."""
    style = stylesheet() + ".plot { background: var(--paper); font-family: sans-serif; }"
    return as_svg(axes, said, style=style) + "\n"


def picture() -> str:
    """Return the estimates of one hub's stormy year beside the truth, with its own style."""
    season = season_of(STORMY, HUB)
    axes = estimates_axes(season, SHOWN)
    for name in SHOWN:
        axes.scatter([], [], s=80, color=colour_of(TONES[name]), label=name)
    axes.scatter([], [], s=60, color=COLOURS["truth"], marker="D", label="truth by replay")
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1, 1),
        ncols=4,
        frameon=False,
        fontsize=11,
        columnspacing=1.0,
        handletextpad=0.2,
        borderpad=0,
        labelcolor=COLOURS["ink"],
    )
    said = "Estimated value of seven schedules beside the truth. Error in dollars a day: "
    said += ", ".join(f"{name} {season.error(name):.0f}" for name in SHOWN)
    return alone(axes, said)


def retail() -> str:
    """Return the gains of the rules in `examples/retail.ipynb`, with its own style."""
    here = Path(__file__).parents[1] / "examples" / "retail.ipynb"
    cells = json.loads(here.read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]).replace(".plot()", ""), names)
    comparison = names["comparison"]
    axes = page_axes(height=260, left=130)
    comparison.plot(ax=axes)
    said = "Gain over what was logged and its lower bound: "
    said += ", ".join(
        f"{each.name} {each.gain.value:.2f}, above {each.gain.lower_bound.value:.2f}"
        for each in comparison.candidates
    )
    return alone(axes, said)


def gains() -> str:
    """Return the path of pooled gains of the example in `gains.md`, with its own style."""
    page = (Path(__file__).parent / "gains.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec(page.split("```python\n")[1].split("```")[0], names)
    figure = pooling_figure(names["estimate"].gain.pooling)
    return alone(on_page(figure, 700), figure.alt)


if __name__ == "__main__":
    drawn = {"storm.svg": picture, "retail.svg": retail, "figures/gains-path.svg": gains}
    for name, draw in drawn.items():
        (Path(__file__).parent / name).write_text(draw(), encoding="utf-8")
