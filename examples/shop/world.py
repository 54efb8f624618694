"""A shop whose truth is known: customers, offers, and orders of which a few are enormous."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
Columns = dict[str, npt.NDArray[Any]]
#: From the columns `idle_weeks` and `loyalty` to an offer for each customer.
Rule = Callable[[Mapping[str, Any]], npt.NDArray[Any]]

OFFERS = ("none", "email", "voucher")
SENT = (0.4, 0.4, 0.2)  # probability of each offer, whoever the customer
WEEKS = np.arange(12)  # since the last order, all equally frequent
LOYALTY = np.arange(101) / 100  # its values, all equally frequent
TAIL = 1.6  # tail index of the baskets: their mean exists and their variance does not
SMALLEST = 30.0  # euros
MARGIN = 0.3
EMAIL, VOUCHER = 0.02, 6.0  # euros for an email that is sent, for a voucher that is used


def probability_of_order(who: Mapping[str, Any], offer: npt.NDArray[Any]) -> FloatArray:
    """Return the probability that a customer orders after an offer."""
    idle = who["idle_weeks"] >= 6
    email = np.where(idle, 0.0, 0.025)  # reminds those who ordered lately
    voucher = np.where(idle, 0.11, 0.01)  # brings back those who did not
    lift = np.where(offer == "email", email, np.where(offer == "voucher", voucher, 0.0))
    return np.asarray(0.03 + 0.06 * who["loyalty"] + lift)


def truth(rule: Rule | str) -> float:
    """Return the true mean profit per customer, in euros: of a rule, an offer, or "logged"."""
    if rule == "logged":
        return sum(share * truth(offer) for offer, share in zip(OFFERS, SENT, strict=True))
    weeks, loyalty = (each.ravel() for each in np.meshgrid(WEEKS, LOYALTY))
    who = {"idle_weeks": weeks, "loyalty": loyalty}
    offer = np.full(weeks.shape, rule) if isinstance(rule, str) else rule(who)
    return float(_profit(who, offer, SMALLEST * TAIL / (TAIL - 1)).mean())


def _profit(
    who: Mapping[str, Any],
    offer: npt.NDArray[Any],
    basket: float | FloatArray,
    ordered: npt.NDArray[Any] | None = None,
) -> FloatArray:
    """Return the profit of each customer; the expected one if it is not said who ordered."""
    orders = probability_of_order(who, offer) if ordered is None else ordered
    return np.asarray(
        orders * (MARGIN * basket - VOUCHER * (offer == "voucher")) - EMAIL * (offer == "email")
    )


def customers(n: int, *, seed: int) -> Columns:
    """Return a log of n customers: what each was sent, and the profit that followed."""
    rng = np.random.default_rng(seed)
    who = {"idle_weeks": rng.choice(WEEKS, n), "loyalty": rng.choice(LOYALTY, n)}
    sent = rng.choice(len(OFFERS), n, p=SENT)
    offer = np.asarray(OFFERS)[sent]
    ordered = rng.random(n) < probability_of_order(who, offer)
    basket = SMALLEST * (1 + rng.pareto(TAIL, n))
    return {
        "customer": 10_000 + np.arange(n),
        **who,
        "offer": offer,
        "propensity": np.asarray(SENT)[sent],
        "profit_eur": _profit(who, offer, basket, ordered).round(2),
    }
