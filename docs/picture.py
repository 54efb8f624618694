"""Draw `storm.svg`, the picture of the README: run `python docs/picture.py`."""

from pathlib import Path

from tailproof.plotting.marks import COLOURS, colour_of
from tailproof.plotting.svg import as_svg
from tailproof.report.page import stylesheet
from tailproof.studies.storm.page import TONES, estimates_axes
from tailproof.studies.storm.story import DAYS, HUB, PLAIN, STORMY, WEEKS, play

SHOWN = (PLAIN, DAYS, WEEKS)


def picture() -> str:
    """Return the estimates of one hub's stormy year beside the truth, with its own style."""
    season = play(STORMY, HUB)
    axes = estimates_axes(season, SHOWN)
    for name in SHOWN:
        axes.scatter([], [], s=80, color=colour_of(TONES[name]), label=name)
    axes.scatter([], [], s=60, color=COLOURS["truth"], marker="D", label="truth by replay")
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=4,
        frameon=False,
        fontsize=12.5,
        handletextpad=0.2,
        borderpad=0,
        labelcolor=COLOURS["ink"],
    )
    said = "Estimated value of seven schedules beside the truth. Error in dollars a day: "
    said += ", ".join(f"{name} {season.error(name):.0f}" for name in SHOWN)
    style = stylesheet() + ".plot { background: var(--paper); font-family: sans-serif; }"
    return as_svg(axes, said, style=style) + "\n"


if __name__ == "__main__":
    (Path(__file__).parent / "storm.svg").write_text(picture(), encoding="utf-8")
