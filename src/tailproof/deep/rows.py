"""The deep methods of the catalogue. No torch here."""

from __future__ import annotations

from dataclasses import replace

from tailproof.critics.base import Algorithm, At
from tailproof.deep.bases import IQL, SAC, SQL, TD3BC, BehaviourCloning, NeuralFQE
from tailproof.log.folds import Partition, Replicate, Split, Whole
from tailproof.methods.catalogue import Row
from tailproof.methods.method import Method
from tailproof.robust.aggregates import Aggregate, Mean, MeanMinusStd, Median, Quantile

#: The bases that train networks, by name: ``method("room-vm", base="iql")``.
DEEP_BASES: dict[str, Algorithm] = {
    "iql": IQL(),
    "sql": SQL(),
    "sac": SAC(),
    "td3+bc": TD3BC(),
    "neural-fqe": NeuralFQE(),
}


def deep_rows() -> dict[str, Row]:
    """Return the named methods that train networks.

    ROOM-VM, P-ROOM-VM and MA exist for IQL and SQL, for example ``"room-vm-sql"``.

    Examples
    --------
    >>> print(deep_rows()["p-room-vm-iql"].method)
    IQL, split in 5, quantile 0 at pointwise
    >>> print(deep_rows()["sac-n"].method)
    SAC, replicated 10, quantile 0 at backup
    """
    whole, mean, minimum = Whole(), Mean(), Quantile(0.0)
    rows: dict[str, Row] = {}
    for name, base in (("iql", IQL()), ("sql", SQL())):
        kind, zero = type(base).__name__, replace(base, zero_rewards=True)
        baseline = f"{kind} with rewards of zero: a baseline for what the rewards contribute."
        rows |= {
            name: _row(base, whole, mean, f"{kind} on the whole log."),
            f"ma-{name}": _row(base, Split(5), mean, f"Mean of K {kind} critics."),
            f"room-vm-{name}": _row(base, Split(5), Median(), f"Median of K {kind} critics."),
            f"p-room-vm-{name}": _row(base, Split(5), minimum, f"Smallest of K {kind} critics."),
            f"zero-reward-{name}": _row(zero, whole, mean, baseline),
        }
    return {
        **rows,
        "robust-iql": _row(
            IQL(huber=1.0, twins=1),
            Replicate(5),
            Quantile(0.25),
            "IQL with a Huber loss and a low quantile of five critics in every target.",
            "backup",
        ),
        "sac-n": _row(SAC(), Replicate(10), minimum, "Soft actor-critic, smallest of N.", "backup"),
        "sac-n-std": _row(
            SAC(),
            Replicate(10),
            MeanMinusStd(2.0, ddof=1),
            "Soft actor-critic, mean − 2 std of N.",
            "backup",
        ),
        "td3+bc": _row(TD3BC(), whole, mean, "TD3 that stays near the log.", "backup"),
        "bc-neural": _row(BehaviourCloning(), whole, mean, "Imitate the log with a network."),
        "percent-bc-neural": _row(
            BehaviourCloning(top=0.3),
            whole,
            mean,
            "Imitate the best episodes with a network, ranked robustly.",
        ),
        "neural-fqe": _row(
            NeuralFQE(), whole, mean, "Fitted Q-evaluation with a network.", "value"
        ),
        "roam-neural-fqe": _row(
            NeuralFQE(), Split(5), Median(), "Median of K values, each by a network.", "value"
        ),
    }


def _row(
    base: Algorithm,
    partition: Partition,
    aggregate: Aggregate,
    about: str,
    at: At = "pointwise",
) -> Row:
    return Row(Method(base=base, partition=partition, aggregate=aggregate, at=at), about)
