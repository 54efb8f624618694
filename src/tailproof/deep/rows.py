"""The deep rows of the catalogue. No torch here."""

from __future__ import annotations

from typing import NamedTuple

from tailproof.aggregate import Aggregate, Mean, MeanMinusStd, Median, Quantile
from tailproof.algorithms.base import At
from tailproof.deep.bases import IQL, SAC, SQL, TD3BC, BehaviourCloning
from tailproof.method import Method
from tailproof.partition import Partition, Replicate, Split, Whole


class DeepRow(NamedTuple):
    """One named method and a sentence about it."""

    method: Method
    about: str


def deep_rows() -> dict[str, DeepRow]:
    """Return the named methods that learn with networks.

    ROOM-VM, P-ROOM-VM and MA are there over IQL and over SQL, such as ``"room-vm-sql"``.

    Examples
    --------
    >>> print(deep_rows()["p-room-vm-iql"].method)
    IQL, split in 5, quantile 0 at pointwise
    >>> print(deep_rows()["sac-n"].method)
    SAC, replicated 10, quantile 0 at backup
    """
    rows: dict[str, DeepRow] = {}
    for name, base in (("iql", IQL()), ("sql", SQL())):
        kind = type(base).__name__
        rows |= {
            name: _row(base, Whole(), Mean(), "pointwise", f"{kind} on the whole log."),
            f"ma-{name}": _row(base, Split(5), Mean(), "pointwise", f"Mean of K {kind} critics."),
            f"room-vm-{name}": _row(
                base, Split(5), Median(), "pointwise", f"Median of K {kind} critics."
            ),
            f"p-room-vm-{name}": _row(
                base, Split(5), Quantile(0.0), "pointwise", f"Smallest of K {kind} critics."
            ),
            f"zero-reward-{name}": _row(
                type(base)(zero_rewards=True),
                Whole(),
                Mean(),
                "pointwise",
                f"{kind} with rewards of zero: what the rewards must beat.",
            ),
        }
    rows |= {
        "robust-iql": _row(
            IQL(huber=1.0, twins=1),
            Replicate(5),
            Quantile(0.25),
            "backup",
            "IQL with a Huber loss and a low quantile of five critics in every target.",
        ),
        "sac-n": _row(
            SAC(), Replicate(10), Quantile(0.0), "backup", "Soft actor-critic, smallest of N."
        ),
        "sac-n-std": _row(
            SAC(),
            Replicate(10),
            MeanMinusStd(2.0),
            "backup",
            "Soft actor-critic, mean − 2 std of N.",
        ),
        "td3+bc": _row(TD3BC(), Whole(), Mean(), "backup", "TD3 that stays near the log."),
        "bc-neural": _row(BehaviourCloning(), Whole(), Mean(), "pointwise", "Imitate the log."),
    }
    return rows


def _row(base: object, partition: Partition, aggregate: Aggregate, at: At, about: str) -> DeepRow:
    method = Method(base=base, partition=partition, aggregate=aggregate, at=at)  # type: ignore[arg-type]
    return DeepRow(method, about)
