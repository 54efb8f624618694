"""Hints of the library as hints of the command line: arguments become options."""

from __future__ import annotations

import re

#: Keyword arguments of the library that are command-line options.
KEYWORDS = (
    "state|action|reward|episode|step|next_state|terminated|truncated|propensity|group|weight|"
    "available|missing|categorical|categories|gamma|method|folds|clip|seed|level|base|holdout|"
    "at_least|steps|hidden|device|workers"
)
#: Keyword arguments of methods that have no option of their own.
SETTINGS = "target_rate|ridge|mean|unit|top|rank|model|form|iterations"
#: What else is written otherwise on the command line.
PHRASES = {
    "estimate it with tailproof.sources.propensities": "estimate it with --propensity estimate",
    "with Log.with_groups": "with --group COLUMN",
    "write it with write_log first": "write it as Parquet first",
}
_VALUE = r"('[^']*'|\[[^\]]*\]|[\w.-]*\w|\.\.\.)"


def as_options(message: str) -> str:
    """Return a message of the library with keyword arguments written as options.

    >>> as_options("Pass terminated=True, or say next_state=['a', 'b'].")
    'Pass --terminated always, or say --next-state a,b.'
    >>> as_options("Use method('mis', folds=6, mean='adaptive-huber'), or Method(..., at=...).")
    'Use --method mis --folds 6 --set mean=adaptive-huber.'
    >>> as_options("Use steps=3_000; target_rate='auto' follows.")
    'Use --steps 3000; --set target_rate=auto follows.'
    """
    for phrase, instead in PHRASES.items():
        message = message.replace(phrase, instead)
    said = re.sub(r"[;,] or (compose a )?Method\((?:[^()]|\([^()]*\))*\)", "", message)
    said = re.sub(r"\b(?:method=)?method\('([\w+-]+)'((?:, [^()]*)?)\)", _method, said)
    said = re.sub(rf"(?<![\w-])({KEYWORDS})={_VALUE}", _option, said)
    said = re.sub(rf"(?<!--set )\b({SETTINGS})={_VALUE}", _setting, said)
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


def _setting(match: re.Match[str]) -> str:
    return f"--set {match[1]}={_plain(match[2])}"


def _plain(value: str) -> str:
    return re.sub(r"(?<=\d)_(?=\d)", "", value.replace("'", ""))


def _option(match: re.Match[str]) -> str:
    name, value = match[1], _plain(match[2])
    words = {"True": "always", "False": "-", "...": "COLUMN", "*": "'*'"}
    value = words.get(value, value.strip("[]").replace(", ", ","))
    if value.startswith("-") and len(value) > 1:
        return f"--{name.replace('_', '-')}={value}"  # a separate word would be read as an option
    return f"--{name.replace('_', '-')} {value}"
