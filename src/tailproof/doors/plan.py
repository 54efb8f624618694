"""How much more data: the gain that a test can show, and the rows that would decide an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from tailproof.doors.estimate import Estimate
from tailproof.doors.source import LogSource, as_log
from tailproof.doors.verdict import Answered
from tailproof.errors import LevelError, LogError
from tailproof.files import plain
from tailproof.log.log import discounted_returns
from tailproof.log.validation import require_squares
from tailproof.methods.fit import check_gamma
from tailproof.progress import staged
from tailproof.robust.planning import Shortfall, arm_bounds, gain_bounds, shortfall
from tailproof.robust.tails import check_level

if TYPE_CHECKING:
    from tailproof.report.blocks import Answer

_GROUPED = (
    "Rows count as independent: if whole groups are assigned to an arm, the test needs more rows."
)
#: How often a planned test decides, by default.
POWER = 0.8


@dataclass(frozen=True, kw_only=True)
class Plan(Answered):
    """The gain that a randomised test with two arms shows, by its size; see `plan`.

    Attributes
    ----------
    curve
        The detectable gain against the rows of each arm.
    rows
        The sizes that were asked for.
    mean
        The mean reward of the log.
    gain
        A gain for which `needed` tells the rows of each arm that show it; None if none was asked for.
    sizes_within, curve_within
        A share by which sizes of extremes differ at most between the arms, and the detectable gain of a
        test that assumes this; None if it was not asked for.
    note
        What the plan leaves out.
    """

    curve: Shortfall
    rows: tuple[int, ...]
    mean: float
    reward: str
    per: str
    gain: float | None = None
    sizes_within: float | None = None
    curve_within: Shortfall | None = None
    note: str = ""

    def detectable(self, rows: int) -> float:
        """Return the gain that a test with so many rows in each arm shows."""
        return self.curve.detectable(rows)

    @property
    def needed(self) -> int | None:
        """The rows of each arm that show the gain; None if none was asked for."""
        return None if self.gain is None else ceil(self.curve.needed(self.gain))

    @property
    def needed_within(self) -> int | None:
        """The rows of each arm that show the gain if sizes of extremes are nearly alike, or None."""
        if self.gain is None or self.curve_within is None:
            return None
        return ceil(self.curve_within.needed(self.gain))

    def blocks(self) -> Answer:
        """Return the answer as blocks, which notebooks, terminals and pages show."""
        from tailproof.report.decisions import plan_blocks

        return plan_blocks(self)

    def to_dict(self) -> dict[str, object]:
        """Return plain numbers and strings, ready for JSON."""
        return {
            "level": self.curve.level,
            "power": self.curve.power,
            "mean": plain(self.mean),
            "detectable": [
                {"rows_per_arm": rows, "gain": plain(self.detectable(rows))} for rows in self.rows
            ],
            "gain": plain(self.gain),
            "rows_needed_per_arm": self.needed,
            "notes": [self.note] if self.note else [],
            "sizes_within": None
            if self.curve_within is None
            else {
                "within": self.sizes_within,
                "detectable": [plain(self.curve_within.detectable(rows)) for rows in self.rows],
                "rows_needed_per_arm": self.needed_within,
            },
        }


@staged("Planning")
def plan(
    log: LogSource,
    *,
    rows: Sequence[int] = (),
    gain: float | None = None,
    sizes_within: float | None = None,
    level: float = 0.9,
    power: float = POWER,
    gamma: float | None = None,
    seed: int = 0,
    **columns: object,
) -> Plan:
    """Return the gain that a randomised test with two arms would show, under the log's own tail.

    Two arms without a difference are drawn from the logged rewards at several sizes, and the lower
    bound of their difference is computed as `compare` does without models of the reward. A gain is
    shown as often as `power` says if it exceeds that quantile of the shortfall. Models of the reward
    can only make the bounds tighter.

    Parameters
    ----------
    log
        Logged rewards (returns of episodes) like those of the planned test.
    rows
        Rows of each arm; by default an eighth of the log to ten times its size.
    gain
        Also the rows that show a gain of this size.
    sizes_within
        Also the gain that is shown if the verdict may assume that sizes of extremes differ by at most
        this share between the arms, as 0.2 (`compare` with `gate_sizes_within`).
    level, power
        Confidence of the verdict, and how often the test shall reach it.
    gamma, seed, columns
        As in `evaluate`.
    """
    check_level(level)
    if not 0 < power < 1:
        raise LevelError(f"power must lie between 0 and 1. Got {power!r}.", argument="power")
    if any(each < 2 for each in rows) or (gain is not None and not 0 < gain < float("inf")):
        raise LogError(
            f"A test needs 2 rows or more in each arm, and a gain above 0. Got {list(rows)}, {gain}.",
            argument="rows" if gain is None or gain > 0 else "gain",
        )
    if sizes_within is not None and not 0 <= sizes_within < float("inf"):
        raise LevelError(
            f"sizes_within must be a share of at least 0. Got {sizes_within!r} instead.",
            argument="sizes_within",
        )
    known = as_log(log, columns, plan)
    require_squares(known.rewards)
    returns = discounted_returns(known, check_gamma(gamma, known))

    def curve_of(change: float | None) -> Shortfall | None:
        draw = arm_bounds(returns, level=level, sizes_within=change)
        return shortfall(draw, len(returns), level=level, power=power, seed=seed)

    curve = curve_of(None)
    within = None if sizes_within is None else curve_of(sizes_within)
    if curve is None or (within is None and sizes_within is not None):
        raise LogError(
            f"{len(returns)} rewards are too few, or too much alike, to plan a test with.",
            argument="log",
        )
    n = len(returns)
    sizes = tuple(rows) or tuple(sorted({max(n // 8, 20), max(n // 2, 20), n, 3 * n, 10 * n}))
    return Plan(
        curve=curve,
        rows=sizes,
        mean=float(returns.mean()),
        reward=known.reward_name,
        per="row" if known.is_bandit else "episode",
        gain=gain,
        sizes_within=sizes_within,
        curve_within=within,
        note=_GROUPED if known.group_ids is not None else "",
    )


def rows_to_decide(
    estimate: Estimate, *, level: float = 0.9, power: float = POWER, seed: int = 0
) -> int | None:
    """Return how many rows (episodes, groups) like these decide a gain as large as the estimated one.

    Resamples of the estimate's own scores show how far bounds fall short of the gain at several sizes.
    None if the method gives no scores, the gain is 0, or other errors than those of a sample limit it.
    """
    choice = estimate.choice
    logged = None if choice is None else choice.logged.influence
    if choice is None or logged is None:
        return None
    gain = estimate.gain.value
    sign = 1.0 if gain > 0 else -1.0
    draw = gain_bounds(sign * choice.influence, sign * logged, level=level)
    curve = shortfall(draw, len(logged), level=level, power=power, seed=seed)
    needed = float("inf") if curve is None else curve.needed(abs(gain))
    # fewer than there are did not show it: what limits this answer is not how many rows it has
    return ceil(needed) if len(logged) < needed < float("inf") else None
