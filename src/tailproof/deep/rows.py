"""The deep methods of the catalogue. No torch here."""

from __future__ import annotations

from dataclasses import replace

from tailproof.critics.base import Algorithm
from tailproof.deep.bases import IQL, SAC, SQL, TD3BC, BehaviourCloning, NeuralFQE
from tailproof.log.folds import Replicate, Split
from tailproof.methods.catalogue import Row, row
from tailproof.robust.aggregates import MeanMinusStd, Median, Quantile

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
    rows: dict[str, Row] = {}
    for name, base in (("iql", IQL()), ("sql", SQL())):
        kind, zero = type(base).__name__, replace(base, zero_rewards=True)
        baseline = f"{kind} with rewards of zero: a baseline for what the rewards contribute."
        rows |= {
            name: row(f"{kind} on the whole log.", base),
            f"ma-{name}": row(f"Mean of K {kind} critics.", base, Split(5)),
            f"room-vm-{name}": row(f"Median of K {kind} critics.", base, Split(5), Median()),
            f"p-room-vm-{name}": row(
                f"Smallest of K {kind} critics.", base, Split(5), Quantile(0.0)
            ),
            f"zero-reward-{name}": row(baseline, zero),
        }
    return {
        **rows,
        "robust-iql": row(
            "IQL with a Huber loss and a low quantile of five critics in every target.",
            IQL(huber=1.0, twins=1),
            Replicate(5),
            Quantile(0.25),
            "backup",
        ),
        "sac-n": row(
            "Soft actor-critic, smallest of N.", SAC(), Replicate(10), Quantile(0.0), "backup"
        ),
        "sac-n-std": row(
            "Soft actor-critic, mean − 2 std of N.",
            SAC(),
            Replicate(10),
            MeanMinusStd(2.0, ddof=1),
            "backup",
        ),
        "td3+bc": row("TD3 that stays near the log.", TD3BC(), at="backup"),
        "bc-neural": row("Imitate the log with a network.", BehaviourCloning()),
        "percent-bc-neural": row(
            "Imitate the best episodes with a network, ranked robustly.", BehaviourCloning(top=0.3)
        ),
        "neural-fqe": row("Fitted Q-evaluation with a network.", NeuralFQE()),
        "roam-neural-fqe": row(
            "Median of K values, each by a network.", NeuralFQE(), Split(5), Median()
        ),
    }
