"""Conversion of settings to JSON and back, for a fixed list of tailproof's own types."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

import numpy as np

from tailproof.critics.fitted_q import FQI
from tailproof.critics.linear import Absolute, PerObservation
from tailproof.critics.lstd import LSPI
from tailproof.critics.rewards import ConstantRewards, HuberRewards, TamedRewards
from tailproof.errors import MethodError
from tailproof.features import Additive, Basis, Joint, PerAction, Polynomial, Standardise
from tailproof.files import SavedFileError
from tailproof.learners.cloning import Cloning, RegressionCloning, TreeCloning
from tailproof.learners.improvement import Constant, ForestFQI, OneStep, WithinSupport
from tailproof.learners.one_step import PolicyScores, PolicyTree
from tailproof.log.folds import Bootstrap, OutOfBag, Replicate, Split, Whole
from tailproof.log.spaces import Continuous, Discrete
from tailproof.methods.method import Method
from tailproof.robust.aggregates import Mean, MeanMinusStd, Median, Quantile, TrimmedMean

_TYPES: tuple[type, ...] = (
    *(Mean, Median, Quantile, TrimmedMean, MeanMinusStd),
    *(Whole, Split, Bootstrap, OutOfBag, Replicate),
    *(FQI, LSPI, Cloning, RegressionCloning, Absolute, PerObservation),
    *(HuberRewards, ConstantRewards, TamedRewards),
    *(Constant, OneStep, ForestFQI, WithinSupport, TreeCloning, PolicyTree, PolicyScores),
    *(PerAction, Additive, Polynomial, Basis, Standardise, Joint, Discrete, Continuous, Method),
)
_KNOWN: dict[str, Any] = {each.__name__: each for each in _TYPES}


@cache
def _deep() -> dict[str, Any]:
    """Return the bases that train networks; their `run` settings are not saved."""
    from tailproof.deep.bases import BehaviourCloning
    from tailproof.deep.rows import DEEP_BASES
    from tailproof.deep.settings import EarlyStopping

    types = (*map(type, DEEP_BASES.values()), BehaviourCloning, EarlyStopping)
    return {each.__name__: each for each in types}


def _type(name: Any) -> Any:
    return _KNOWN.get(name) or _deep().get(name)


def to_plain(value: Any) -> Any:
    """Return settings as JSON types.

    The user's own features are stored as their text only; other foreign objects raise an error.

    Examples
    --------
    >>> to_plain(Quantile(0.1))
    {'type': 'Quantile', 'q': 0.1, 'rule': 'linear'}
    >>> from_plain(to_plain(Quantile(0.1)))
    Quantile(q=0.1, rule='linear')
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple):
        return {"type": "tuple", "items": [to_plain(each) for each in value]}
    name = type(value).__name__
    if is_dataclass(value) and _type(name) is type(value):
        kept = [each.name for each in fields(value) if each.name != "run"]
        return {"type": name, **{each: to_plain(getattr(value, each)) for each in kept}}
    if hasattr(value, "size") and callable(value):
        return {"type": "own features", "text": repr(value)}
    raise MethodError(
        f"{value!r} cannot be saved: a saved file holds only tailproof's own settings, so that loading "
        f"it executes nothing. Keep the result in memory, or export its policy with "
        f"policy.save('name.onnx')."
    )


def from_plain(plain: Any, *, features: Any = None) -> Any:
    """Rebuild the argument of `to_plain`; `features` replaces the user's own features."""
    if not isinstance(plain, dict):
        return plain
    items = dict(plain)
    name = items.pop("type", None)
    if name == "tuple":
        return tuple(from_plain(each, features=features) for each in items["items"])
    if name == "own features":
        if features is None:
            raise SavedFileError(
                f"The file was saved with features of your own, {items.get('text')}. They are code, "
                f"which a saved file does not hold: pass them again as features=."
            )
        return features
    known = _type(name)
    if known is None:
        raise SavedFileError(f"The file names {name!r}, which this tailproof does not know.")
    try:
        return known(**{key: from_plain(each, features=features) for key, each in items.items()})
    except TypeError as error:
        raise SavedFileError(f"The file's {name} does not fit this tailproof: {error}.") from error
