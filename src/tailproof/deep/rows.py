"""The deep rows of the catalogue. No torch here."""

from __future__ import annotations

from dataclasses import replace

from tailproof.algorithms.base import Algorithm, At
from tailproof.data.partition import Partition, Replicate, Split, Whole
from tailproof.deep.bases import IQL, SAC, SQL, TD3BC, BehaviourCloning, NeuralFQE
from tailproof.ensemble.aggregate import Aggregate, Mean, MeanMinusStd, Median, Quantile
from tailproof.methods.catalogue import Row
from tailproof.methods.method import Method

#: The bases that train networks, by name: ``method("room-vm", base="iql")``.
DEEP_BASES: dict[str, Algorithm] = {
    "iql": IQL(),
    "sql": SQL(),
    "sac": SAC(),
    "td3+bc": TD3BC(),
    "neural-fqe": NeuralFQE(),
}


def deep_rows() -> dict[str, Row]:
    """Return the named methods that learn with networks.

    ROOM-VM, P-ROOM-VM and MA are there over IQL and over SQL, such as ``"room-vm-sql"``.

    Examples
    --------
    >>> print(deep_rows()["p-room-vm-iql"].method)
    IQL, split in 5, quantile 0 at pointwise
    >>> print(deep_rows()["sac-n"].method)
    SAC, replicated 10, quantile 0 at backup
    """
    return {
        **_implicit_rows("iql", IQL()),
        **_implicit_rows("sql", SQL()),
        **_other_rows(),
    }


def _implicit_rows(name: str, base: IQL | SQL) -> dict[str, Row]:
    """Return a base that learns in the sample, its ROOM rows, and itself without rewards."""
    kind = type(base).__name__
    return {
        name: _row(base, Whole(), Mean(), "pointwise", f"{kind} on the whole log."),
        f"ma-{name}": _row(base, Split(5), Mean(), "pointwise", f"Mean of K {kind} critics."),
        f"room-vm-{name}": _row(
            base, Split(5), Median(), "pointwise", f"Median of K {kind} critics."
        ),
        f"p-room-vm-{name}": _row(
            base, Split(5), Quantile(0.0), "pointwise", f"Smallest of K {kind} critics."
        ),
        f"zero-reward-{name}": _row(
            replace(base, zero_rewards=True),
            Whole(),
            Mean(),
            "pointwise",
            f"{kind} with rewards of zero: what the rewards must beat.",
        ),
    }


def _other_rows() -> dict[str, Row]:
    return {
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
        "bc-neural": _row(
            BehaviourCloning(), Whole(), Mean(), "pointwise", "Imitate the log with a network."
        ),
        "percent-bc-neural": _row(
            BehaviourCloning(top=0.3),
            Whole(),
            Mean(),
            "pointwise",
            "Imitate the best episodes with a network, ranked robustly.",
        ),
        "neural-fqe": _row(
            NeuralFQE(), Whole(), Mean(), "value", "Fitted Q-evaluation with a network."
        ),
        "roam-neural-fqe": _row(
            NeuralFQE(), Split(5), Median(), "value", "Median of K values, each by a network."
        ),
    }


def _row(base: Algorithm, partition: Partition, aggregate: Aggregate, at: At, about: str) -> Row:
    return Row(Method(base=base, partition=partition, aggregate=aggregate, at=at), about)
