"""The prices: every hour of 729 days, selections that split them, attribution."""

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

from examples.storm import prices
from examples.storm.prices import read_prices
from tailproof.errors import LogError


def test_prices_cover_every_hour_of_729_days():
    prices = read_prices()
    assert prices.dollars.shape == (5, 729, 24)
    assert np.isfinite(prices.dollars).all()
    days = [date(2021, 1, 2) + timedelta(days=i) for i in range(729)]
    assert prices.days.tolist() == days
    assert prices.dates.tolist() == [day.isoformat() for day in days]


@pytest.mark.parametrize("day", ["2021-03-14", "2022-03-13"])
def test_the_hour_lost_in_spring_repeats_the_one_before(day):
    prices = read_prices()
    index = prices.dates.tolist().index(day)
    assert (prices.dollars[:, index, 2] == prices.dollars[:, index, 1]).all()


def test_prices_are_read_once_and_cannot_be_changed():
    prices = read_prices()
    assert read_prices() is prices
    with pytest.raises(ValueError, match="read-only"):
        prices.dollars[0, 0, 0] = 0.0


def test_hours_count_from_midnight():
    north = read_prices().select(hubs=["HB_NORTH"], year=2021).dollars[0]
    hours_of_peaks = np.bincount(np.argmax(north, axis=1), minlength=24)
    assert hours_of_peaks[14:21].sum() > 0.5 * len(north)  # afternoon and early evening


def test_selections_split_the_days():
    prices = read_prices()
    years = [prices.select(year=year) for year in (2021, 2022)]
    assert [len(part.days) for part in years] == [364, 365]
    assert (np.concatenate([part.dollars for part in years], axis=1) == prices.dollars).all()
    calm = prices.select(storm=False)
    assert len(calm.days) == 720
    assert not calm.storm.any()
    assert prices.dates[prices.storm].tolist() == [f"2021-02-{day}" for day in range(12, 21)]


def test_select_keeps_the_order_of_hubs():
    prices = read_prices()
    chosen = prices.select(hubs=["HB_WEST", "HB_NORTH"])
    assert chosen.hubs == ("HB_WEST", "HB_NORTH")
    assert (chosen.dollars == prices.dollars[[4, 1]]).all()


def test_the_prices_are_attributed():
    text = (Path(prices.__file__).parent / "data" / "ercot_hubs.md").read_text()
    assert "CC BY 4.0" in text
    assert "ERCOT" in text


def test_a_single_hub_must_still_be_a_list():
    with pytest.raises(LogError, match=r"sequence of names. Got 'HB_NORTH'; write \['HB_NORTH'\]"):
        read_prices().select(hubs="HB_NORTH")
