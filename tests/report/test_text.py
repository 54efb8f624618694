"""Numbers as people read them: laws that every table rests on."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailproof import FQI, Method, PerAction, Polynomial, method
from tailproof.deep.settings import Run
from tailproof.learners.cloning import TreeCloning
from tailproof.report.blocks import Figure, Note, Section, Table
from tailproof.report.terminal import as_text
from tailproof.report.text import details, method_text, minus, number, percent


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


def test_fitted_features_are_named_not_spelt_out():
    base = FQI(features=PerAction(Polynomial(2), 3, 2))
    said = method_text(replace(method("room-fqi"), base=base))
    assert said.startswith("FQI (features Polynomial for each action, 14 in all), split in 5")


def test_a_method_is_said_without_where_it_runs():
    cloned = method("bc-neural", steps=7, run=Run(progress=False))
    assert method_text(cloned) == "BehaviourCloning (steps 7)"
    assert method_text(Method(base=TreeCloning(exact=True))).startswith("TreeCloning (exact)")


def test_details_draw_no_table_that_was_shown():
    shown = Table(("a",), ((1.0,),))
    asked = {"key": "k", "draw": lambda _: None, "alt": "", "caption": ""}
    again, new = (Figure(**asked, numbers=Table(("b",), rows)) for rows in (shown.rows, ((2.0,),)))
    only, both = Section("s", "S", (again,)), Section("t", "T", (Note("x"), again, new))
    folded = Section("u", "U", (new,), folded=True)
    assert details((shown, only, both, folded)) == [Section("t", "T", (Note("x"), new))]


def test_plain_text_breaks_no_line_and_numbers_stand_below_their_titles():
    caption = "a caption that is longer than its table, with 90 % confidence on each side of it"
    said = as_text([Table(("who", "gain"), (("someone", 1.5), ("all", -20.0)), caption=caption)])
    assert said.splitlines() == [
        caption,
        "who       gain",
        "someone  1.500",
        "all        -20",
    ]
