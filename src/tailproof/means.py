"""Robust means, under the name that users import: see `tailproof.robust.means`, `robust.pooling`."""

from tailproof.robust.means import *  # noqa: F403
from tailproof.robust.means import __all__ as _means
from tailproof.robust.pooling import TailPooled as TailPooled

__all__ = [*_means, "TailPooled"]
