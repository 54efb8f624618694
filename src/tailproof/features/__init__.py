"""Feature maps φ(s, a): the paper's, and richer ones for logs that need them."""

from tailproof.features.ladder import NAMES, as_features, named_features, table_for
from tailproof.features.maps import (
    Additive,
    Basis,
    Blocks,
    Dense,
    Features,
    Fourier,
    Joint,
    PerAction,
    Polynomial,
    Standardise,
    Table,
    Trees,
    at_actions,
    at_every_action,
    default_features,
    mixed_features,
)

__all__ = [
    "NAMES",
    "Additive",
    "Basis",
    "Blocks",
    "Dense",
    "Features",
    "Fourier",
    "Joint",
    "PerAction",
    "Polynomial",
    "Standardise",
    "Table",
    "Trees",
    "as_features",
    "at_actions",
    "at_every_action",
    "default_features",
    "mixed_features",
    "named_features",
    "table_for",
]
