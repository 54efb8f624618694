"""Two years of real electricity prices, including one winter storm.

Day-ahead prices of five ERCOT hubs, 2021 and 2022, CC BY 4.0; `data/ercot_hubs.md` documents their
source and changes. The winter storm Uri, 12–20 February 2021, is 1.2 % of the days.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailproof.errors import LogError

HOURS = 24
HUBS = ("HB_HOUSTON", "HB_NORTH", "HB_PAN", "HB_SOUTH", "HB_WEST")
STORM = (np.datetime64("2021-02-12"), np.datetime64("2021-02-20"))


@dataclass(frozen=True, eq=False)
class Prices:
    """Hourly prices of some hubs on some days.

    Parameters
    ----------
    hubs
        Names of the H hubs.
    days
        The D days.
    dollars
        Price in $/MWh of hub, day and hour.

    Examples
    --------
    >>> prices = read_prices()
    >>> prices.dollars.shape
    (5, 729, 24)
    >>> float(prices.select(hubs=["HB_NORTH"], year=2021).dollars.max())
    8998.99
    >>> float(prices.select(hubs=["HB_NORTH"], year=2021, storm=False).dollars.max())
    1495.8
    """

    hubs: tuple[str, ...]
    days: NDArray[np.datetime64]  # (D,)
    dollars: NDArray[np.float64]  # (H, D, 24)

    @property
    def dates(self) -> NDArray[np.str_]:
        """ISO date of each day, such as 2021-02-15."""
        return np.datetime_as_string(self.days, unit="D")  # (D,)

    @property
    def weeks(self) -> NDArray[np.str_]:
        """ISO week of each day, such as 2021-W07: Monday to Sunday."""
        calendar = [day.isocalendar() for day in self.days.tolist()]
        return np.array([f"{day.year}-W{day.week:02d}" for day in calendar])  # (D,)

    @property
    def storm(self) -> NDArray[np.bool_]:
        """Whether each day belongs to the winter storm Uri."""
        first, last = STORM
        return (self.days >= first) & (self.days <= last)  # (D,)

    def select(
        self, *, hubs: Sequence[str] | None = None, year: int | None = None, storm: bool = True
    ) -> "Prices":
        """Keep some hubs, one year, or the days without the storm.

        Parameters
        ----------
        hubs
            Hubs to keep, in this order; by default all.
        year
            Calendar year to keep; by default all.
        storm
            False drops the days of the storm.
        """
        rows = self._rows(hubs)
        keep = np.ones(len(self.days), bool) if storm else ~self.storm  # (D,)
        if year is not None:
            years = self.days.astype("datetime64[Y]").astype(int) + 1970
            if year not in years:
                known = ", ".join(str(known) for known in np.unique(years))
                raise LogError(f"There are no prices of the year {year!r}. Choose one of {known}.")
            keep &= years == year
        chosen = tuple(self.hubs[row] for row in rows)
        return Prices(chosen, self.days[keep], self.dollars[rows][:, keep])

    def _rows(self, hubs: Sequence[str] | None) -> list[int]:
        if hubs is None:
            return list(range(len(self.hubs)))
        if isinstance(hubs, str):
            raise LogError(f"'hubs' must be a sequence of names. Got {hubs!r}; write [{hubs!r}].")
        for hub in hubs:
            if hub not in self.hubs:
                known = ", ".join(self.hubs)
                raise LogError(f"There is no hub {hub!r} in these prices. Choose from {known}.")
        return [self.hubs.index(hub) for hub in hubs]


@cache
def read_prices() -> Prices:
    """Read the prices included in the package: 729 days × 24 hours × 5 hubs.

    Hour h, counted from 0, is the file's `hour_ending` h + 1. The two hours that do not exist, when
    clocks go forward in spring, repeat the hour before. The first day is left out. The arrays are
    shared by all callers and read-only.

    Examples
    --------
    >>> prices = read_prices()
    >>> str(prices.dates[0]), str(prices.dates[-1]), int(prices.storm.sum())
    ('2021-01-02', '2022-12-31', 9)
    """
    table = _table()
    dates = table["delivery_date"].to_numpy().astype("datetime64[D]")
    days, row = np.unique(dates, return_inverse=True)
    hour = table["hour_ending"].to_numpy().astype(int) - 1
    dollars = np.full((len(HUBS), len(days), HOURS), np.nan)
    for index, hub in enumerate(HUBS):
        # Prices are quoted in cents; rounding removes the error of the file's single precision.
        dollars[index, row, hour] = np.round(table[hub].to_numpy().astype(float), 2)
    for day, missing in np.argwhere(np.isnan(dollars[0])):
        dollars[:, day, missing] = dollars[:, day, missing - 1]
    days, dollars = days[1:], dollars[:, 1:]
    days.flags.writeable = dollars.flags.writeable = False
    return Prices(HUBS, days, dollars)


def _table() -> Any:
    from pyarrow import parquet  # slow to import, needed only here

    return parquet.read_table(Path(__file__).parent / "data" / "ercot_hubs.parquet")
