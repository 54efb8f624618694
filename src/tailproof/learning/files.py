"""File contents of a learned policy (linear, trees or neural): a JSON description and arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from tailproof.algorithms.learners.state_critics import StateCritics
from tailproof.arrays import AnyArray
from tailproof.ensemble.critics import Critics, LinearCritics
from tailproof.errors import MethodError
from tailproof.files.container import SavedFileError
from tailproof.methods.specs import from_plain, to_plain
from tailproof.policies.greedy import GreedyPolicy, SoftmaxPolicy
from tailproof.policies.linear import LinearPolicy

#: A description for JSON, and arrays.
Parts = tuple[dict[str, Any], dict[str, AnyArray]]


class Restored(NamedTuple):
    """Critics, the policy if it is not their greedy one, and the training history."""

    critics: Critics
    policy: Any
    history: Any
    policy_history: Any


def parts_of(policy: Any, members: Any, history: Any, policy_history: Any) -> Parts:
    """Return header and arrays of a policy and its critics; raise if they cannot be saved."""
    header: dict[str, Any]
    if isinstance(members, StateCritics):
        inner, arrays = members.parts()
        header = {"scores": inner, "actions": list(policy.actions)}
        if isinstance(policy, SoftmaxPolicy):
            header["temperature"] = policy.temperature
        return header, {**_under("scores", arrays), "history": history}
    if hasattr(policy, "parts") and hasattr(members, "parts"):
        return _neural_parts(policy, members, history, policy_history)
    if not isinstance(members, LinearCritics) or not isinstance(
        policy, GreedyPolicy | LinearPolicy
    ):
        raise MethodError(
            f"Only linear critics, trees and networks can be saved. {type(members).__name__} need a "
            f"format of their own (scikit-learn's is pickle, which would execute code when it is "
            f"loaded). Keep the result in memory, save `policy` if it can be, or learn with ridge "
            f"features."
        )
    header = {"features": to_plain(members.features)}
    arrays = {"theta": members.theta, "diverged": members.diverged, "history": history}
    if isinstance(policy, GreedyPolicy):
        return {**header, "actions": list(policy.actions)}, arrays
    named = _under("policy", {each.name: getattr(policy, each.name) for each in fields(policy)})
    return {**header, "linear policy": sorted(named)}, {**arrays, **named}


def restored(header: Mapping[str, Any], arrays: Mapping[str, AnyArray], features: Any) -> Restored:
    """Rebuild the arguments of `parts_of`; pass `features` if they were the user's own."""
    if "neural" in header:
        return _restored_neural(header, arrays)
    if "scores" in header:
        found = StateCritics.from_parts(header["scores"], _within(arrays, "scores"))
        return Restored(found, None, arrays["history"], None)
    known = from_plain(header["features"], features=features)
    theta, diverged = arrays["theta"], arrays["diverged"]
    if theta.ndim != 2 or theta.shape[1] != known.size or diverged.shape != theta.shape[:1]:
        raise SavedFileError(
            f"It does not fit together: {known.size} features, but parameters of shape "
            f"{theta.shape}. Pass the features that it was learned with."
        )
    policy = None
    if "linear policy" in header:
        policy = LinearPolicy(**_within(arrays, "policy"))
    return Restored(LinearCritics(known, theta, diverged), policy, arrays["history"], None)


def _neural_parts(policy: Any, members: Any, history: Any, policy_history: Any) -> Parts:
    header: dict[str, Any] = {}
    arrays: dict[str, AnyArray] = {}
    for name, thing in (("policy", policy), ("critics", members)):
        header[name], inside = thing.parts()
        arrays |= _under(name, inside)
    for name, measured in (("history", history), ("policy history", policy_history)):
        if measured is not None:
            header[name] = True
            arrays |= _under(name, measured.arrays())
    return {"neural": header}, arrays


def _restored_neural(header: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> Restored:
    from tailproof.deep.critics import NeuralCritics, policy_from_parts
    from tailproof.deep.history import History

    said = header["neural"]
    measured = [
        History.from_arrays(_within(arrays, name)) if said.get(name) else None
        for name in ("history", "policy history")
    ]
    return Restored(
        NeuralCritics.from_parts(said["critics"], _within(arrays, "critics")),
        policy_from_parts(said["policy"], _within(arrays, "policy")),
        *measured,
    )


def _under(name: str, arrays: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    return {f"{name}/{key}": value for key, value in arrays.items()}


def _within(arrays: Mapping[str, AnyArray], name: str) -> dict[str, AnyArray]:
    return {
        key.removeprefix(f"{name}/"): np.asarray(value)
        for key, value in arrays.items()
        if key.startswith(f"{name}/")
    }
