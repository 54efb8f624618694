"""Policies given as text, for the command line and Python: simple ones, code and files."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Iterable, Mapping
from functools import reduce
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tailproof.arrays import is_number
from tailproof.errors import PolicyError, TailproofError, did_you_mean, listed
from tailproof.log.spaces import ActionSpace, Continuous, Discrete
from tailproof.policies.forms import (
    Always,
    Column,
    EpsilonGreedy,
    Logged,
    Mixture,
    Uniform,
    UniformBox,
)

POLICY_FORMS = (
    "always:ACTION (always:0.5 for real numbers), uniform, logged, column:NAME or column:p_* (what "
    "a column says the policy does), "
    "file.py:NAME or module:NAME (a function of states, or a fitted model), a file that `tailproof "
    "learn` saved or an .onnx file, or a mixture such as 0.1*always:email + 0.9*logged"
)
#: File types whose loading can execute arbitrary code.
_PICKLES = (".joblib", ".pkl", ".pickle", ".skops")
_SHARE = re.compile(r"\s*([0-9.]+(?:e-?[0-9]+)?)\s*\*\s*(.+?)\s*", re.IGNORECASE | re.DOTALL)
_TERMS = re.compile(r"\s\+\s|\+(?=\s*[0-9.]+\s*\*)")


def policy_from_text(text: str, space: ActionSpace) -> Any:
    """Return the policy described by a text, over these actions; `POLICY_FORMS` lists the forms.

    Examples
    --------
    >>> policy_from_text("0.1*always:email + 0.9*uniform", Discrete(2, ("email", "none"))).parts
    ((0.1, Always(action=0, n_actions=2)), (0.9, Uniform(n_actions=2)))
    """
    text = text.strip()
    if _SHARE.fullmatch(text):
        return _mixture(text, space)
    if text == "uniform":
        if isinstance(space, Continuous) and space.low is not None and space.high is not None:
            return UniformBox(space.low, space.high)
        return Uniform(_discrete(text, space).n)
    if text == "logged":
        return Logged()
    if text.startswith("always:"):
        label = text.removeprefix("always:")
        if isinstance(space, Continuous):
            return Always(_vector(label, space))
        return Always(action_code(label, space), space.n)
    if text.startswith("column:") and len(text) > len("column:"):
        return Column(text.removeprefix("column:"))
    return _load(text, space)


def policy_columns(policies: Iterable[object]) -> tuple[str, ...]:
    """Return the columns, or patterns of them, that policies are read from.

    >>> policy_columns(["0.5*column:q_* + 0.5*logged", Column("new"), "always:email"])
    ('q_*', 'new')
    """
    found: tuple[str, ...] = ()
    for policy in policies:
        if isinstance(policy, str):
            for term in _TERMS.split(policy):
                share = _SHARE.fullmatch(term)
                what, is_column, name = (share[2] if share else policy).partition("column:")
                found += (name.strip(),) if is_column and not what.strip() else ()
        elif isinstance(policy, Column):
            found += (policy.name,)
        elif isinstance(policy, Mapping):
            found += policy_columns(policy.values())
        elif isinstance(policy, Mixture):
            found += policy_columns(part for _, part in policy.parts)
        elif isinstance(policy, EpsilonGreedy):
            found += policy_columns((policy.policy,))
    return found


def name_and_policy(text: str) -> tuple[str, str]:
    """Return the name and the policy of NAME=POLICY; without a name the policy's text is its name.

    >>> name_and_policy("new=rules.py:mine"), name_and_policy("always:a=b")
    (('new', 'rules.py:mine'), ('always:a=b', 'always:a=b'))
    """
    name, equals, policy = text.partition("=")
    if equals and name and policy and not re.search(r"[:*/\\]", name) and not Path(text).exists():
        return name.strip(), policy.strip()
    return text, text


def action_code(label: str, given: ActionSpace) -> int:
    """Return the code of an action given by its label or its number."""
    space = _discrete(f"always:{label}", given)
    known = space.names
    if label in known:
        return known.index(label)
    raise PolicyError(
        f"There is no action {label!r} in the log. It has {listed(known)}."
        f"{did_you_mean(label, known)}"
    )


def _vector(text: str, space: Continuous) -> tuple[float, ...]:
    """Return the numbers of a continuous action, separated by commas."""
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if len(found) != space.dimension or not np.isfinite(found).all():
        example = ",".join(["0.5"] * space.dimension)
        raise PolicyError(
            f"The actions of this log are continuous ({space}): write always:{example}. Got "
            f"always:{text}."
        )
    return found


def _mixture(text: str, space: ActionSpace) -> Mixture:
    parts = []
    for term in _TERMS.split(text):
        match = _SHARE.fullmatch(term)
        if match is None:
            raise PolicyError(
                f"Every part of a mixture needs its share, as in 0.1*always:email + 0.9*logged. "
                f"Got {term!r}."
            )
        if not is_number(match[1]):
            raise PolicyError(f"A share must be a number between 0 and 1. Got {match[1]!r}.")
        parts.append((float(match[1]), policy_from_text(match[2], space)))
    return Mixture(tuple(parts), _discrete(text, space).n)


def _discrete(text: str, space: ActionSpace) -> Discrete:
    if isinstance(space, Discrete):
        return space
    raise PolicyError(
        f"{text} needs discrete actions. These are continuous ({space}); name a function instead."
    )


def _load(text: str, space: ActionSpace) -> Any:
    """Return the policy in a file, or the object of this name in a module."""
    path = Path(text)
    if path.suffix in _PICKLES:
        raise PolicyError(
            f"{text} is a pickle, and reading one runs whatever code is in it, so it is never read "
            f"unasked. Load it in a file of your own, say rules.py: import joblib; "
            f"model = joblib.load({text!r}); and pass rules.py:model."
        )
    if path.exists() and not path.is_dir():
        if path.suffix == ".py":
            raise PolicyError(
                f"{text} is code: say which policy in it is meant, as in {text}:policy."
            )
        from tailproof.export.onnx import load

        return load(path)
    module, colon, name = text.rpartition(":")
    if not colon or not module or not name:
        actions = space.names if isinstance(space, Discrete) else ()
        meant = did_you_mean(text, ("uniform", "logged"))
        meant = meant or did_you_mean(text, actions, "always:{}")
        raise PolicyError(
            f"There is no file {text!r}, and it does not name a function.{meant} A policy is "
            f"{POLICY_FORMS}."
        )
    return _imported(module, name)


def _imported(module: str, name: str) -> Any:
    try:
        found = _file(Path(module)) if module.endswith(".py") else _module(module)
    except TailproofError:
        raise
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise PolicyError(
                f"The module {module!r} needs {error.name!r}, which is not installed."
            ) from error
        meant = did_you_mean(module, ("always", "column"), f"{{}}:{name}")
        raise PolicyError(
            f"There is no module {module!r}.{meant}"
            f" Modules are looked for in the current folder and among the installed packages; a "
            f"policy is {POLICY_FORMS}."
        ) from error
    except Exception as error:  # user code may raise any error
        raise PolicyError(
            f"{module} could not be imported: {type(error).__name__}: {error}. --debug shows where."
        ) from error
    try:
        policy = reduce(getattr, name.split("."), found)  # also dotted names: model.predict_proba
    except AttributeError as error:
        public = [
            each
            for each, value in vars(found).items()
            if not each.startswith("_") and not isinstance(value, ModuleType)
        ]
        raise PolicyError(f"{module} has no {name!r}.{did_you_mean(name, public)}") from error
    if isinstance(policy, type):
        raise PolicyError(
            f"{module}:{name} is a class. Name an object of it or a function of states: write "
            f"policy = {name}(...) in the module and pass {module}:policy."
        )
    if not (
        callable(policy)
        or any(hasattr(policy, each) for each in ("probabilities", "sample", "predict", "function"))
    ):
        raise PolicyError(
            f"{module}:{name} is not a policy but {type(policy).__name__}. A policy is a function of "
            f"states to actions, a fitted model with predict, or an object with "
            f"probabilities(states) or sample(states, rng)."
        )
    return policy


def _module(name: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    return importlib.import_module(name)


def _file(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise PolicyError(f"There is no file {str(path)!r} to take a policy from.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
