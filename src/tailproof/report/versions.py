"""The package versions that computed a result."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("tailproof", "numpy", "scipy", "scikit-learn", "pyarrow")


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # run from a source folder without installation
            found[name] = "unknown"
    return {**found, "python": platform.python_version()}
