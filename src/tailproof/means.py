"""Robust means, under the name that users import: see `tailproof.statistics.means`."""

from tailproof.statistics.means import *  # noqa: F403
from tailproof.statistics.means import __all__ as __all__
