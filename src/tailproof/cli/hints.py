"""Messages of the library with keyword arguments written as options."""

from __future__ import annotations

import re
import shlex
from ast import literal_eval

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
    "estimate it with tailproof.critics.behaviour": "estimate it with --propensity estimate",
    "with Log.with_groups": "with --group COLUMN",
    "write it with write_log first": "write it as Parquet first",
}
# a value in a message of the library, where texts are quoted: state=CA is a variable of a column
_VALUE = r"('[^']*'|\"[^\"]*\"|\[[^\]]*\]|-?\d(?:[\w.-]*\w)?|True|False|None|\.\.\.)"
# a word of a command line
_WORD = r"(?:'[^']*'|\S)+?"


def as_options(message: str) -> str:
    """Return a message of the library with keyword arguments written as options.

    >>> as_options("Pass terminated=True, or say next_state=['a', 'b'].")
    'Pass --terminated always, or say --next-state a,b.'
    >>> as_options("Name them, as in reward='Revenue ($)', state='*', or reward='-my cost'.")
    "Name them, as in --reward 'Revenue ($)' --state '*', or --reward='-my cost'."
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
    return re.sub(rf"(--[\w-]+[ =]{_WORD}), (?=--)", r"\1 ", said)  # can be copied


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
    name, value = f"--{match[1].replace('_', '-')}", match[2]
    plain = {"True": "always", "False": "-", "...": "COLUMN"}.get(value)
    if plain is None and value[0] in "'\"[":
        given = literal_eval(value) if "..." not in value else "COLUMN"
        plain = shlex.quote(given if isinstance(given, str) else ",".join(map(str, given)))
    plain = _plain(value) if plain is None else plain
    if plain.lstrip("'").startswith("-") and len(plain) > 1:
        return f"{name}={plain}"  # a separate word would be read as an option
    return f"{name} {plain}"
