"""Policies as text: what a command line and Python both accept."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from tailproof.data.spaces import ActionSpace, Continuous, Discrete
from tailproof.errors import PolicyError
from tailproof.policies.answers import labels_of
from tailproof.policies.by_row import Column, Logged
from tailproof.policies.loading import load_named
from tailproof.policies.simple import Always, Mixture, Uniform, UniformBox

_SHARE = re.compile(r"\s*([0-9.]+(?:e-?[0-9]+)?)\s*\*\s*(.+?)\s*", re.IGNORECASE | re.DOTALL)


def policy_from_text(text: str, space: ActionSpace) -> Any:
    """Return the policy that a text names, over these actions; `POLICY_FORMS` lists its forms.

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
        return Always(action_code(text.removeprefix("always:"), space), _discrete(text, space).n)
    if text.startswith("column:") and len(text) > len("column:"):
        return Column(text.removeprefix("column:"))
    return load_named(text)


def name_and_policy(text: str) -> tuple[str, str]:
    """Return the name and the policy of NAME=POLICY; without a name the policy is its own.

    >>> name_and_policy("new=rules.py:mine"), name_and_policy("always:a=b")
    (('new', 'rules.py:mine'), ('always:a=b', 'always:a=b'))
    """
    name, equals, policy = text.partition("=")
    if equals and name and policy and not re.search(r"[:*/\\]", name) and not Path(text).exists():
        return name.strip(), policy.strip()
    return text, text


def action_code(label: str, given: ActionSpace) -> int:
    """Return the code of an action that is named by its label or its number."""
    space = _discrete(f"always:{label}", given)
    known = labels_of(space)
    if label in known:
        return known.index(label)
    close = get_close_matches(label, known, n=1)
    raise PolicyError(
        f"There is no action {label!r} in the log. It has {', '.join(known[:12])}"
        f"{', …' if len(known) > 12 else ''}." + (f" Did you mean {close[0]!r}?" if close else "")
    )


def _mixture(text: str, space: ActionSpace) -> Mixture:
    parts = []
    for term in re.split(r"\s\+\s|\+(?=\s*[0-9.]+\s*\*)", text):
        match = _SHARE.fullmatch(term)
        if match is None:
            raise PolicyError(
                f"Every part of a mixture needs its share, as in 0.1*always:email + 0.9*logged. "
                f"Got {term!r}."
            )
        parts.append((_share(match[1]), policy_from_text(match[2], space)))
    return Mixture(tuple(parts), _discrete(text, space).n)


def _share(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise PolicyError(f"A share must be a number between 0 and 1. Got {text!r}.") from error


def _discrete(text: str, space: ActionSpace) -> Discrete:
    if isinstance(space, Discrete):
        return space
    raise PolicyError(
        f"{text} needs discrete actions. These are continuous ({space}); name a function instead."
    )
