"""Scales and numbers: laws that every axis and every table rests on."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailproof.report.plot import Plot
from tailproof.report.scales import Scale, scale_over
from tailproof.report.text import minus, number, percent

values = st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=30)


@given(values, st.sampled_from(["linear", "log", "signed-log"]))
def test_every_value_has_a_place_and_ticks_lie_in_order_within(found, kind):
    scale = scale_over(found, kind=kind)
    shown = [value for value in found if kind != "log" or value > 0]
    for value in shown:
        assert -1e-6 <= scale(value) <= 1 + 1e-6
    ticks = scale.ticks()
    assert ticks == sorted(ticks)
    assert len(ticks) == len(set(ticks)) <= 16
    for tick in ticks:
        assert -0.02 <= scale(tick) <= 1.02


@given(values)
def test_order_is_kept(found):
    scale = scale_over(found, kind="signed-log")
    ordered = sorted(found)
    places = [scale(value) for value in ordered]
    assert all(a <= b + 1e-12 for a, b in pairwise(places))


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e12, max_value=1e12))
def test_numbers_read_back_to_four_digits(value):
    back = float(number(value).replace(",", ""))
    assert back == pytest.approx(value, rel=6e-4, abs=1e-300)


def test_numbers_that_are_none():
    assert number(math.nan) == "–"
    assert number(-math.inf) == "-∞"
    assert percent(math.nan) == "–"
    assert percent(0.99999) != "100 %"
    assert minus("from -1 to 2021-02-18, --set x") == "from −1 to 2021-02-18, --set x"


def test_a_plot_escapes_and_leaves_gaps():
    plot = Plot(x=Scale(0, 1), y=Scale(0, 1), x_title="<x>")
    plot.line([0, 0.2, 0.4, 0.6, 0.8], [0, 0.1, np.nan, 0.2, 0.3], "main")
    plot.dots([0.5, math.inf], [0.5, 0.5], "warn", tips=['"<b>', ""])
    svg = plot.svg('"alt"')
    assert svg.count("<polyline") == 2
    assert svg.count("<circle") == 1
    assert "<b>" not in svg
    assert "&lt;x&gt;" in svg
    assert "&quot;alt&quot;" in svg
