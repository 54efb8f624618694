"""From the words of a command line to a battery."""

from __future__ import annotations

from tailproof.errors import TailproofError
from tailproof.methods.catalogue import LEARNING, method
from tailproof.studies.battery.cells import NOISES, Setting, default_settings
from tailproof.studies.battery.entrants import (
    Estimator,
    default_entrants,
    entrant_named,
    storage_entrants,
)
from tailproof.studies.battery.learners import Taught, default_learners
from tailproof.studies.battery.rivals import installed_rivals
from tailproof.studies.battery.run import SEED, Battery
from tailproof.studies.battery.stories import STORIES

WORLDS = ("cartpole", "tabular", "linear", "storage")
QUICK_REPLICATES, QUICK_DRAWS, DRAWS = 4, 1, 12


def chosen_battery(
    *,
    entrants: tuple[str, ...] = (),
    only: bool = False,
    learners: bool = False,
    rivals: bool = False,
    worlds: tuple[str, ...] = (),
    noises: tuple[str, ...] = (),
    steps: tuple[int, ...] = (),
    replicates: int = 100,
    quick: bool = False,
    seed: int | None = None,
) -> Battery:
    """Return the battery that these words ask for; every default is the whole.

    Parameters
    ----------
    entrants
        Names of methods, or ``file.py:function``, besides the default entrants.
    only
        Leave the default entrants out.
    learners
        Bench learners instead of estimators.
    rivals
        Add the other libraries that are installed.
    worlds, noises, steps
        Which to keep; noises by a part of their name.
    replicates
        Logs of each cell.
    quick
        4 logs of each cell, of 2,000 steps, and one of each hub of the storage world.
    seed
        Where everything random starts.

    Examples
    --------
    >>> small = chosen_battery(quick=True, worlds=("tabular",), noises=("Pareto",))
    >>> len(small.items()), small.noises
    (12, ('Pareto 2.5', '−Pareto 2.5', 'Pareto 1.5', '−Pareto 1.5'))
    """
    unknown = [world for world in worlds if world not in WORLDS]
    if unknown:
        raise TailproofError(f"There is no world {unknown[0]!r}. Known are {', '.join(WORLDS)}.")
    wanted = worlds or WORLDS
    taking_part: dict[str, Estimator] = {}
    if not only:
        taking_part = default_learners() if learners else default_entrants()
    if rivals:
        taking_part |= installed_rivals()
    for text in entrants:
        if learners and text in LEARNING:
            taking_part[text] = Taught(method(text))
        else:
            name, entrant = entrant_named(text)
            taking_part[name] = entrant
    sizes = steps or ((2000,) if quick else (2000, 10_000))
    settings = tuple(
        setting for setting in _settings(sizes, learners=learners) if setting.world in wanted
    )
    beside = storage_entrants() if not (learners or only) else {}
    return Battery(
        entrants=taking_part,
        settings=settings,
        noises=_noises(noises),
        stories=tuple(STORIES) if "storage" in wanted else (),
        replicates=QUICK_REPLICATES if quick else replicates,
        draws=QUICK_DRAWS if quick else DRAWS,
        story_entrants={name: each for name, each in beside.items() if name not in taking_part},
        asks="policy" if learners else "value",
        seed=SEED if seed is None else seed,
    )


def _settings(sizes: tuple[int, ...], *, learners: bool) -> tuple[Setting, ...]:
    if not learners:
        return default_settings(sizes)
    # Learners are judged where the worth of what they learn is exact.
    return tuple(
        Setting(world, overlap, size)
        for size in sizes
        for world in ("tabular", "linear")
        for overlap in ("good", "poor")
    )


def _noises(parts: tuple[str, ...]) -> tuple[str, ...]:
    if not parts:
        return tuple(NOISES)
    for part in parts:
        if not any(part.lower() in name.lower() for name in NOISES):
            raise TailproofError(
                f"No noise has {part!r} in its name. They are {'; '.join(NOISES)}."
            )
    return tuple(name for name in NOISES if any(part.lower() in name.lower() for part in parts))
