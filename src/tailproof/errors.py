"""Errors and warnings.

Every message says what is wrong, which value was received and what to do. All errors derive from
`TailproofError`, which is a `ValueError`.
"""

import importlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

_PASSWORD = re.compile(r"(\w:/{1,2}[^/?#@\s:]*:)\S+@")  # one slash where a path was made of a URI
_SECRET = re.compile(
    r"(?i)([?&;#](?:[\w-]*(?:password|pwd|secret|token|key|signature|sig|credential|auth))=)"
    r"[^&;\s'\"]+"
)


def without_secrets(text: str) -> str:
    """Return a text with the passwords and tokens of its URIs replaced by ***.

    >>> without_secrets("s3://me:hunter2@bucket/log?region=eu&secret_key=abc is not there.")
    's3://me:***@bucket/log?region=eu&secret_key=*** is not there.'
    """
    return _SECRET.sub(r"\1***", _PASSWORD.sub(r"\1***@", text))


class TailproofError(ValueError):
    """Base class of the errors that tailproof raises about its inputs.

    `argument` is the name of the argument that is wrong, if it is one; the command line makes the
    name of the option from it.
    """

    def __init__(self, message: object = "", *, argument: str | None = None) -> None:
        super().__init__(without_secrets(str(message)))
        self.argument = argument


class LogError(TailproofError):
    """The logged data cannot be used as it is."""


def require_module(
    module: str, install: str, what: str, error: type[TailproofError] = TailproofError
) -> Any:
    """Import an optional module; if it is missing, raise an error with the install command."""
    try:
        return importlib.import_module(module)
    except ImportError as missing:
        raise error(
            f"{what} needs {missing.name or module}, which is not installed: pip install {install}."
        ) from missing


class ColumnError(LogError):
    """No column of a table is named for a part of a log, or looks like it."""


class StorageError(LogError):
    """A file could not be read or written; a retry may succeed."""


class PolicyError(TailproofError):
    """A policy returned something that is not a policy over the log's actions."""


class MethodError(TailproofError):
    """A method is invalid, or does not have the given setting."""


class PartitionError(TailproofError):
    """The log is too small for the requested number of folds."""


class LevelError(TailproofError):
    """The data are too few for the requested confidence level."""


class FoldError(TailproofError):
    """Too many folds failed to trust the remaining ones."""


class SingularError(TailproofError):
    """A linear system has no unique solution."""


class EngineError(TailproofError):
    """Workers could not be started, or died repeatedly."""


class TailproofWarning(UserWarning):
    """Base class of tailproof's warnings: the result is valid, but may be misread."""


class FoldWarning(TailproofWarning):
    """Some folds failed and were left out."""


class CoverageWarning(TailproofWarning):
    """The policy takes actions that the log does not cover."""


class StateWarning(TailproofWarning):
    """A state column seems to use a number as a code for missing values."""


class WeightWarning(TailproofWarning):
    """The mean of the importance weights is not 1, or propensities contradict the logged actions."""


class HorizonWarning(TailproofWarning):
    """All episodes end at the same step, and the state does not show how many steps are left."""


class EngineWarning(TailproofWarning):
    """An engine could not be used, or another would take less time."""


class ConvergenceWarning(TailproofWarning):
    """Critics were trained for too few steps: their values still change."""


class SingularWarning(TailproofWarning):
    """A linear system is singular without the ridge."""


class QuantileWarning(TailproofWarning):
    """A quantile of so few values that it equals their minimum."""


class TaughtWarning(TailproofWarning):
    """A policy is evaluated on episodes that it was trained on."""


#: Why an answer may not hold: the log does not cover the policy; rewards depend on what no state shows;
#: a state column holds codes for missing values; propensities contradict the logged actions; the
#: estimate lies outside what is possible; the policy leads to states unlike the logged ones; models of
#: the value disagree; there are too few independent episodes; the method gives no interval; a guarded
#: outcome is harmed; rows may not be independent.
CautionCode = Literal[
    "overlap",
    "hidden_state",
    "missing_code",
    "propensities",
    "extrapolation",
    "leaves_log",
    "models_disagree",
    "too_few",
    "no_interval",
    "guardrail",
    "clusters",
]


@dataclass(frozen=True)
class Caution:
    """Why an answer may not hold, in a sentence; where it `voids` it, the value means nothing."""

    code: CautionCode
    text: str
    voids: bool = False

    def __str__(self) -> str:
        return self.text

    @property
    def category(self) -> type[TailproofWarning]:
        """The warning that says it."""
        categories = {
            "overlap": CoverageWarning,
            "leaves_log": CoverageWarning,
            "propensities": WeightWarning,
        }
        return categories.get(self.code, StateWarning)


def void(cautions: Iterable[Caution]) -> Caution | None:
    """Return the first caution that voids an answer, or None."""
    return next((each for each in cautions if each.voids), None)


def listed(names: Sequence[str], most: int = 12) -> str:
    """Return a text with the first `most` names and the number of others."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def did_you_mean(name: str, names: Sequence[str], form: str = "{}") -> str:
    """Return a question with the closest name, after a space; empty if no name is close.

    >>> did_you_mean("emial", ["email", "none"])
    " Did you mean 'email'?"
    """
    close = get_close_matches(name, names, n=1)
    return f" Did you mean {form.format(close[0])!r}?" if close else ""
