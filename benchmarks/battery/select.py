"""Build a benchmark from command-line options."""

from __future__ import annotations

from benchmarks.battery.cells import NOISES, default_settings
from benchmarks.battery.entrants import (
    Estimator,
    Taught,
    default_entrants,
    default_learners,
    entrant_named,
    storage_entrants,
)
from benchmarks.battery.rivals import installed_rivals
from benchmarks.battery.run import SEED, Battery
from examples.storm.seasons import STORIES
from tailproof.errors import TailproofError
from tailproof.methods.catalogue import LEARNING, method

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
    """Return the benchmark for the options of the command; each defaults to all.

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
            taking_part.update([entrant_named(text)])
    sizes = steps or ((2000,) if quick else (2000, 10_000))
    # Learners are evaluated only in worlds with exact values.
    judged = ("tabular", "linear") if learners else WORLDS
    settings = tuple(
        setting
        for setting in default_settings(sizes)
        if setting.world in judged
        and setting.world in wanted
        and not (learners and setting.overlap == "fair")
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


def _noises(parts: tuple[str, ...]) -> tuple[str, ...]:
    found = {part: [name for name in NOISES if part.lower() in name.lower()] for part in parts}
    for part, names in found.items():
        if not names:
            raise TailproofError(
                f"No noise has {part!r} in its name. They are {'; '.join(NOISES)}."
            )
    return tuple(n for n in NOISES if not parts or any(n in names for names in found.values()))
