"""Hints of the library as hints of the command line: arguments become options."""

from __future__ import annotations

import re

#: Keyword arguments of the library that are command-line options.
KEYWORDS = (
    "state|action|reward|episode|step|next_state|terminated|truncated|propensity|group|weight|"
    "available|missing|categorical|categories|gamma|folds|clip|seed|level|base"
)


def as_options(message: str) -> str:
    """Return a message of the library with keyword arguments written as options.

    >>> as_options("Pass terminated=True, or say next_state=['a', 'b'].")
    'Pass --terminated always, or say --next-state a,b.'
    >>> as_options("Use method('mis', folds=6, mean='adaptive-huber'), or Method(..., at=...).")
    'Use --method mis --folds 6 --set mean=adaptive-huber.'
    """
    said = re.sub(r"[;,] or (compose a )?Method\((?:[^()]|\([^()]*\))*\)", "", message)
    said = re.sub(r"\b(?:method=)?method\('([\w+-]+)'((?:, [^()]*)?)\)", _method, said)
    said = re.sub(rf"\b({KEYWORDS})=('[^']*'|\[[^\]]*\]|[\w.-]*\w|\.\.\.)", _option, said)
    said = re.sub(r"\blazy=False\b", "--no-lazy", re.sub(r"\blazy=True\b", "--lazy", said))
    return re.sub(r"(--[\w-]+ \S+), (?=--)", r"\1 ", said)  # can be copied to a command line


def _method(match: re.Match[str]) -> str:
    settings = [each.strip().replace("'", "") for each in match[2].split(",") if "=" in each]
    own = ("folds", "clip", "base")
    words = [
        f"--{each.replace('=', ' ', 1)}" if each.partition("=")[0] in own else f"--set {each}"
        for each in settings
        if not each.endswith("...")
    ]
    return " ".join([f"--method {match[1]}", *words])


def _option(match: re.Match[str]) -> str:
    name, value = match[1], match[2].replace("'", "")
    words = {"True": "always", "False": "-", "...": "COLUMN", "*": "'*'"}
    value = words.get(value, value.strip("[]").replace(", ", ","))
    if value.startswith("-") and len(value) > 1:
        return f"--{name.replace('_', '-')}={value}"  # a separate word would be read as an option
    return f"--{name.replace('_', '-')} {value}"
