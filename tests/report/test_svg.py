"""Pictures for a page: marks stand where their numbers say, in colours that the page decides."""

import re
from importlib.resources import files
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailproof.report.plots import (
    COLOURS,
    IntervalRow,
    band,
    dots,
    draw_bars,
    draw_intervals,
    line,
    name_axes,
    page_axes,
    rows_axes,
    rule,
)
from tailproof.report.svg import as_svg

HOSTILE = '"<b>&$x$ $\\frac{'


def parsed(axes, alt="a picture"):
    return ElementTree.fromstring(as_svg(axes, alt))


def circles(root):
    return [(float(each.get("cx")), float(each.get("cy"))) for each in root.iter("circle")]


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=12, unique=True),
    st.sampled_from(["linear", "asinh"]),
)
def test_points_stand_in_their_order_within_the_frame(values, scale):
    axes = page_axes(200, width=400, left=50, right=10, top=20, bottom=40)
    axes.set_xscale(scale)
    dots(axes, values, np.arange(len(values)), "main")
    places = circles(parsed(axes))
    assert len(places) == len(values)
    assert all(50 - 0.1 <= x <= 390 + 0.1 and 20 - 0.1 <= y <= 160 + 0.1 for x, y in places)
    ordered = [x for _, x in sorted(zip(values, (x for x, _ in places), strict=True))]
    assert all(a <= b for a, b in pairwise(ordered))
    assert all(a[1] > b[1] for a, b in pairwise(places))  # y grows upwards


def test_a_place_is_that_of_the_value():
    axes = page_axes(140, width=260, left=50, right=10, top=20, bottom=20)
    axes.set(xlim=(0, 100), ylim=(0, 10))
    dots(axes, [0, 25, 100], [0, 5, 10], "warn", tips=["a", "b", "c"], radius=5)
    root = parsed(axes)
    assert circles(root) == [(50, 120), (100, 70), (250, 20)]
    assert [each.get("data-tip") for each in root.iter("circle")] == ["a", "b", "c"]
    assert {each.get("r") for each in root.iter("circle")} == {"5"}


def test_whatever_a_log_says_is_text_and_nothing_else():
    axes = rows_axes([HOSTILE])
    draw_intervals(axes, [IntervalRow(name=HOSTILE, value=1.0, low=0.0, high=2.0, tip=HOSTILE)])
    name_axes(axes, x=HOSTILE, y=HOSTILE)
    rule(axes, x=1.0, label=HOSTILE)
    root = parsed(axes, HOSTILE)
    assert root.get("aria-label") == HOSTILE
    assert root.get("role") == "img"
    assert [each.text for each in root.iter("text")].count(HOSTILE) == 4
    assert next(root.iter("circle")).get("data-tip") == HOSTILE
    assert not list(root.iter("b"))


def test_colours_are_the_page_s_own_in_light_and_nothing_needs_a_style_attribute():
    css = (files("tailproof.report") / "template" / "colours.css").read_text(encoding="utf-8")
    light = dict(re.findall(r"--([\w-]+): (#\w{6})", css.partition("@media")[0]))
    known = {name: colour for name, colour in COLOURS.items() if name != "truth"}
    assert {name: light[name] for name in known} == known
    assert len(set(COLOURS.values())) == len(COLOURS)
    axes = page_axes()
    line(axes, [1, 2, 3], [1, 2, 1], "third", dashed=True)
    band(axes, [1, 2, 3], [0, 1, 0], [2, 3, 2], "good")
    draw_bars(axes, ["a", "b"], [(["main", "warn"], [1.0, -2.0], ["", ""])])
    svg = as_svg(axes, "alt")
    assert set(re.findall(r'(?:fill|stroke)="([^"]+)"', svg)) <= {
        "none",
        *(f"var(--{name})" for name in COLOURS),
    }
    assert not re.search(r"style=|\bid=|url\(|href", svg)
    for tone in ("third", "good", "main", "warn"):
        assert f"var(--{tone})" in svg


def test_a_gap_and_a_missing_value_leave_nothing():
    axes = page_axes()
    line(axes, [0, 1, 2, 3, 4], [0, 1, np.nan, 2, 3], "main")
    dots(axes, [0.5, np.inf], [0.5, 0.5], "warn", tips=["here", "nowhere"])
    root = parsed(axes)
    drawn = next(each for each in root.iter("g") if each.get("class") == "line main")
    assert next(drawn.iter("path")).get("d").count("M") == 2
    assert [each.get("data-tip") for each in root.iter("circle")] == ["here"]


def test_the_same_picture_is_the_same_text():
    def drawn():
        axes = rows_axes(["a", "b"])
        draw_intervals(
            axes,
            [IntervalRow(name="a", value=1, low=0, high=np.inf), IntervalRow(name="b", value=2)],
        )
        return as_svg(axes, "alt")

    assert drawn() == drawn()


def test_bars_start_at_zero_and_are_as_long_as_their_numbers():
    axes = rows_axes(["a", "b"])
    draw_bars(axes, ["a", "b"], [(["main"] * 2, [2.0, -1.0], ["", ""])], notes=["2", "−1"])
    assert [(bar.get_x(), bar.get_width()) for bar in axes.patches] == [(0, 2), (0, -1)]
    texts = [each.text for each in parsed(axes).iter("text")]
    assert {"a", "b", "2", "−1"} <= set(texts)


@pytest.mark.parametrize("low", [np.nan, -np.inf])
def test_a_row_without_a_bound_has_no_whisker(low):
    axes = rows_axes(["a"])
    draw_intervals(axes, [IntervalRow(name="a", value=1.0, low=low, high=np.inf)])
    assert "bar main" not in as_svg(axes, "alt")
