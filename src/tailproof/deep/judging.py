"""How policies of continuous actions are evaluated where nobody names a method. No torch here."""

from __future__ import annotations

from tailproof.data.partition import Split
from tailproof.deep.bases import NeuralFQE
from tailproof.deep.settings import Run
from tailproof.ensemble.aggregate import Median
from tailproof.methods.method import Method

STEPS, HIDDEN, FOLDS = 5_000, (64, 64), 5


def neural_judge(
    groups: int, *, folds: int = FOLDS, steps: int = STEPS, hidden: tuple[int, ...] = HIDDEN
) -> Method:
    """Return the median of K neural FQE, each of the episodes of a fold: seconds, not hours.

    Parameters
    ----------
    groups
        How many groups of episodes there are to split.

    Examples
    --------
    >>> print(neural_judge(3))
    NeuralFQE, split in 3, median at value
    """
    base = NeuralFQE(steps=steps, hidden=hidden, learning_rate=1e-3, run=Run(progress=False))
    return Method(base=base, partition=Split(min(folds, groups)), aggregate=Median(), at="value")
