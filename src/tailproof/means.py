"""Robust means, under the name that users import: see `tailproof.robust.means`."""

from tailproof.robust.means import *  # noqa: F403
from tailproof.robust.means import __all__ as __all__
