"""Policies from code and files: `module:name`, `file.py:name`, and what `learn` saved."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from difflib import get_close_matches
from functools import reduce
from pathlib import Path
from types import ModuleType
from typing import Any

from tailproof.errors import PolicyError, TailproofError

POLICY_FORMS = (
    "always:ACTION, uniform, logged, column:NAME or column:p_* (what a column says the policy does), "
    "file.py:NAME or module:NAME (a function of states, or a fitted model), a file that `tailproof "
    "learn` saved or an .onnx file, or a mixture such as 0.1*always:email + 0.9*logged"
)
#: Files whose reading would run whatever is in them.
_PICKLES = (".joblib", ".pkl", ".pickle", ".skops")


def load_named(text: str) -> Any:
    """Return the policy in a file, or the object that code has under this name."""
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
        from tailproof.export.load import load

        return load(path)
    module, colon, name = text.rpartition(":")
    if not colon or not module or not name:
        close = get_close_matches(text, ("uniform", "logged"), n=1)
        raise PolicyError(
            f"There is no file {text!r}, and it does not name a function."
            + (f" Did you mean {close[0]!r}?" if close else "")
            + f" A policy is {POLICY_FORMS}."
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
        close = get_close_matches(module, ("always", "column"), n=1)
        raise PolicyError(
            f"There is no module {module!r}."
            + (f" Did you mean '{close[0]}:{name}'?" if close else "")
            + f" Modules are looked for in the current folder and among the installed packages; a "
            f"policy is {POLICY_FORMS}."
        ) from error
    except Exception as error:  # the user's code may raise anything
        raise PolicyError(
            f"{module} could not be imported: {type(error).__name__}: {error}. --debug shows where."
        ) from error
    try:
        policy = reduce(getattr, name.split("."), found)  # model.predict_proba is one, too
    except AttributeError as error:
        public = [
            each
            for each, value in vars(found).items()
            if not each.startswith("_") and not isinstance(value, ModuleType)
        ]
        close = get_close_matches(name, public, n=1)
        raise PolicyError(
            f"{module} has no {name!r}." + (f" Did you mean {close[0]!r}?" if close else "")
        ) from error
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
            f"{module}:{name} is no policy but {type(policy).__name__}. A policy is a function of "
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
