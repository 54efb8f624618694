"""Draw `storm.svg`, the picture of the README: run `python docs/picture.py`."""

from pathlib import Path

from tailproof.demo import DAYS, HUB, PLAIN, STORMY, WEEKS, play
from tailproof.report.story_page import TONES, estimates_plot

from tailproof.report.page import stylesheet

SHOWN = (PLAIN, DAYS, WEEKS)


def picture() -> str:
    """Return the estimates of one hub's stormy year beside the truth, with its own style."""
    season = play(STORMY, HUB)
    plot = estimates_plot(season, SHOWN)
    place = plot.left
    for name in SHOWN:
        plot.dot(place + 6, 10, TONES[name], radius=5)
        plot.text(place + 17, 14, name, style="name")
        place += 34 + 7.1 * len(name)
    plot.diamond(place + 6, 10, "truth")
    plot.text(place + 17, 14, "truth by replay", style="name")
    drawn = plot.svg(
        "Estimated value of seven schedules beside the truth. Error in dollars a day: "
        + ", ".join(f"{name} {season.error(name):.0f}" for name in SHOWN)
    )
    style = stylesheet() + ".plot { background: var(--paper); font-family: sans-serif; }"
    head, body = drawn.split(">", 1)
    return f'{head} xmlns="http://www.w3.org/2000/svg"><style>{style}</style>{body}\n'


if __name__ == "__main__":
    (Path(__file__).parent / "storm.svg").write_text(picture(), encoding="utf-8")
