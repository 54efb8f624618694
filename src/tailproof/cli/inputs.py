"""From the words of a command line to logs, policies and methods."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailproof.algorithms.bandit import IPS, BanditDR
from tailproof.cli.options import LogOptions, MethodOptions
from tailproof.cli.session import Session
from tailproof.data.spaces import ActionSpace, Continuous, Discrete
from tailproof.data.stored import AnyLog, LazyLog, in_memory
from tailproof.engines import Engine
from tailproof.errors import PolicyError, TailproofError
from tailproof.files.atomic import require_replaceable
from tailproof.methods.catalogue import method as named_method
from tailproof.methods.method import Method
from tailproof.policies.naming import for_log
from tailproof.policies.simple import Always, Uniform, UniformBox
from tailproof.sources.propensities import with_estimated_propensities

if TYPE_CHECKING:
    from tailproof.sources import Reading

POLICY_FORMS = (
    "module:function or file.py:function (of states to actions), an .onnx file, a policy that "
    "`tailproof learn` saved, always:ACTION, or uniform"
)


def read_the_log(
    options: LogOptions,
    session: Session,
    *,
    engine: Engine | None = None,
    outputs: Sequence[Path | None] = (),
) -> Reading:
    """Read the log, or open it where it is too large, and say how it was understood.

    `outputs` are files that the command will write: refused now if they are none, or the log itself.
    """
    from tailproof.sources import read  # brings pyarrow, which --help can do without

    _require_outputs([path for path in outputs if path is not None], options.log)
    with session.working(f"Reading {options.log}"):
        reading = read(
            options.log,
            lazy=options.lazy,
            budget=options.bytes_allowed,
            engine=engine,
            **options.parts(),
        )
    if isinstance(reading.log, LazyLog):
        session.note(f"The log stays on disk and is read in pieces: {reading.log!r}.")
    if reading.columns is not None:
        session.note(f"Read as {reading.columns.describe()}.")
    for note in reading.notes:
        session.note(note)
    for caution in reading.cautions:
        session.warned(caution)
    if options.estimates_propensity:
        named = str(options.propensity).partition(":")[2]
        reading = with_propensities(reading, session, classifier=named or None)
    return reading


def _require_outputs(outputs: Sequence[Path], log: str) -> None:
    source = Path(os.path.realpath(log))
    targets = [require_replaceable(path) for path in outputs]
    for path, target in zip(outputs, targets, strict=True):
        same = target.exists() and source.exists() and target.samefile(source)
        if same or (target.exists() and target.is_relative_to(source)):
            raise TailproofError(
                f"{path} is the log, or a part of it, and would be replaced. Name another file."
            )
    if len(set(targets)) < len(targets):
        raise TailproofError(f"One file cannot hold two results. Got {outputs[0]} for both.")


def with_propensities(
    reading: Reading, session: Session, *, classifier: str | None = None
) -> Reading:
    """Return the log with estimated propensities, and say that they are estimated."""
    with session.working("Estimating propensities"):
        log, report = with_estimated_propensities(
            in_memory(reading.log, "A model of the propensities"), classifier=classifier
        )
    session.note(report.describe())
    return replace(reading, log=log)


def needs_propensities(method: Method, log: AnyLog) -> bool:
    """Return whether a method weighs by propensities that the log does not have."""
    return isinstance(method.base, IPS | BanditDR) and not log.has_propensity


def chosen_method(options: MethodOptions) -> Method:
    """Return the method with its settings."""
    return named_method(options.method, **options.changes())


def policy_for(text: str, log: AnyLog) -> Any:
    """Return the policy that a command line names, as it acts on a log."""
    return for_log(load_policy(text, log.action_space), log)


def load_policy(text: str, space: ActionSpace) -> Any:
    """Return the policy that a command line names; its forms are `POLICY_FORMS`."""
    if text == "uniform":
        if isinstance(space, Continuous) and space.low is not None and space.high is not None:
            return UniformBox(space.low, space.high)
        return Uniform(_discrete(text, space).n)
    if text.startswith("always:"):
        return Always(action_code(text.removeprefix("always:"), space), _discrete(text, space).n)
    path = Path(text)
    if path.exists():
        return _saved(path)
    module, colon, name = text.rpartition(":")
    if not colon:
        raise PolicyError(
            f"There is no file {text!r}, and it does not name a function. A policy is "
            f"{POLICY_FORMS}."
        )
    return _imported(module, name)


def action_code(label: str, given: ActionSpace) -> int:
    """Return the code of an action that is named by its label or its number."""
    space = _discrete(f"always:{label}", given)
    known = [space.label(code) for code in range(space.n)]
    if label in known:
        return known.index(label)
    close = get_close_matches(label, known, n=1)
    raise PolicyError(
        f"There is no action {label!r} in the log. It has {', '.join(known[:12])}"
        f"{', …' if len(known) > 12 else ''}." + (f" Did you mean {close[0]!r}?" if close else "")
    )


def _discrete(text: str, space: ActionSpace) -> Discrete:
    if isinstance(space, Discrete):
        return space
    raise PolicyError(
        f"{text} needs discrete actions. These are continuous ({space}); name a function instead."
    )


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
        raise PolicyError(
            f"There is no module {module!r}. Modules are looked for in the current folder and "
            f"among the installed packages; a policy is {POLICY_FORMS}."
        ) from error
    except Exception as error:  # the user's code may raise anything
        raise PolicyError(
            f"{module} could not be imported: {type(error).__name__}: {error}. --debug shows where."
        ) from error
    try:
        policy = getattr(found, name)
    except AttributeError as error:
        public = [each for each in vars(found) if not each.startswith("_")]
        close = get_close_matches(name, public, n=1)
        raise PolicyError(
            f"{module} has no {name!r}." + (f" Did you mean {close[0]!r}?" if close else "")
        ) from error
    if isinstance(policy, type):
        raise PolicyError(
            f"{module}:{name} is a class. Name an object of it or a function of states: write "
            f"policy = {name}(...) in the module and pass {module}:policy."
        )
    if not (callable(policy) or hasattr(policy, "probabilities") or hasattr(policy, "sample")):
        raise PolicyError(
            f"{module}:{name} is no policy but {type(policy).__name__}. A policy is a function of "
            f"states to actions, or an object with probabilities(states) or sample(states, rng)."
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


def _saved(path: Path) -> Any:
    from tailproof.export.load import load

    return load(path)
