"""Robust means of weighted rewards or residuals over a log that is read in chunks.

Sums over episodes or groups take one pass and one number per episode. Means over steps keep all
samples in memory if there are few; otherwise they take as many passes as the mean needs (`streams`).
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tailproof.algorithms.default.units import EpisodeLengths, Unit, mean_of_sums, unit_mean
from tailproof.algorithms.linear.statistics import Design
from tailproof.algorithms.rows import Rows, Segment
from tailproof.arrays import FloatArray
from tailproof.data.partition import Folds
from tailproof.errors import MethodError
from tailproof.statistics.means import Mean
from tailproof.statistics.streaming import Reduction, converse, streamed

HELD = 1 << 20  # most samples kept in memory, if the mean can be computed in passes
MOST_HELD = 1 << 26  # the same for other means, which need several times 8 bytes per sample


@dataclass(frozen=True)
class Weighing:
    """Defines a sample: w = φᵀdirection times the reward, or times the residual of φᵀθ, or w alone."""

    direction: FloatArray  # (J, d) n A⁻ᵀg of each member
    theta: FloatArray | None = None  # (J, d)
    alone: bool = False

    def samples(self, rows: Rows, gamma: float) -> Iterator[tuple[Segment, FloatArray]]:
        """Yield each segment of the rows with its samples."""
        for segment in rows.segments:
            samples = rows.values(segment, self.direction[segment.member])
            if not self.alone:
                target = rows.rewards[segment.rows]
                if self.theta is not None:
                    own = self.theta[segment.member]
                    target = target + gamma * rows.next_values(own, segment.rows)
                    target = target - rows.values(segment, own)
                samples = samples * target
            yield segment, samples


def mean_weights(design: Design, direction: FloatArray) -> FloatArray:
    """Return Σφᵀdirection over the rows of each member, (K,): the mean weight."""
    questions: list[Reduction | None] = [np.sum] * design.folds.count
    design = replace(design, keep=False, with_next_states=False)
    return np.array(_ask(design, Weighing(direction, alone=True), 1, questions))


def robust_means(
    design: Design,
    weighing: Weighing,
    folds: Folds,
    *,
    mean: Mean,
    unit: Unit,
    rng: np.random.Generator,
) -> FloatArray:
    """Return the mean of the samples of each fold, (K,).

    The members of the design are the folds, or their parts, in the order of the folds; every fold has
    the same number of parts.
    """
    log, parts = design.task.log, design.folds.count // folds.count
    design = replace(design, keep=False, with_next_states=weighing.theta is not None)
    every = EpisodeLengths.of(log)
    if not np.isfinite(weighing.direction).all():
        return np.full(folds.count, np.nan)
    conversations = [streamed(mean, int(count)) for count in folds.counts @ every.lengths]
    if unit == "step" and log.n_transitions > HELD:
        if all(each is not None for each in conversations):
            ask = partial(_ask, design, weighing, parts)
            return np.array(converse(conversations, ask))  # type: ignore[arg-type]
        if log.n_transitions > MOST_HELD:
            raise MethodError(
                f"{mean} must have all {log.n_transitions} samples in memory at once. Use a mean "
                f"that is found in passes, such as AdaptiveHuber() or Catoni(), or unit='episode'."
            )
    found: Found = design.reduce(partial(find_samples, weighing, unit), operator.add)
    values = np.empty(folds.count)
    for k in range(folds.count):
        chosen = folds.episodes(k)
        own = found.values if len(found.values) == 1 else found.values[k * parts : (k + 1) * parts]
        samples, shape = own.sum(axis=0), every.take(chosen)  # each row is in one part of the fold
        if unit == "step":
            samples = samples[every.rows(chosen)]
            values[k] = unit_mean(samples, shape, mean=mean, unit=unit, rng=rng)
        else:
            values[k] = mean_of_sums(samples[chosen], shape, mean=mean, unit=unit, rng=rng)
    return values


@dataclass(frozen=True)
class Found:
    """Samples of consecutive steps, or sums over consecutive episodes, from `first` on."""

    first: int
    values: FloatArray  # (J, m), or (1, m) where every row has one member

    def __add__(self, other: Found) -> Found:
        """Join two results; values of the same episode are added. An empty result changes nothing."""
        if not self.values.shape[1] or not other.values.shape[1]:
            return other if not self.values.shape[1] else self
        size = other.first + other.values.shape[1] - self.first
        both = np.zeros((len(self.values), size))
        both[:, : self.values.shape[1]] = self.values
        both[:, other.first - self.first :] += other.values
        return Found(self.first, both)


def find_samples(weighing: Weighing, unit: Unit, design: Design, part: Any) -> Found:
    """Return the samples of one part, or their sums over episodes."""
    members = design.folds.count if design.shares_rows else 1
    found = Found(0, np.zeros((members, 0)))
    for rows in design.rows(part):
        values = np.zeros((members, len(rows.chunk)))
        for segment, own in weighing.samples(rows, design.task.gamma):
            places = segment.rows if rows.order is None else rows.order[segment.rows]
            seen = 1.0 if segment.counts is None else segment.counts > 0
            values[segment.member if members > 1 else 0, places] = own * seen
        first, episode = rows.chunk.first, rows.chunk.episode
        if rows.chunk.kept is not None:
            values, episode = values[:, rows.chunk.kept], episode[rows.chunk.kept]
        if unit != "step":
            first = int(episode[0])
            values = np.stack([np.bincount(episode - first, weights=each) for each in values])
        found += Found(first, values)
    return found


@dataclass(frozen=True)
class Answers:
    """The results of the reductions over some rows, one for each fold."""

    found: tuple[Any, ...]

    def __add__(self, other: Answers) -> Answers:
        pairs = zip(self.found, other.found, strict=True)
        return Answers(tuple(b if a is None else a if b is None else a + b for a, b in pairs))


def _ask(
    design: Design, weighing: Weighing, parts: int, questions: list[Reduction | None]
) -> tuple[Any, ...]:
    """Return the result of one reduction for each fold, in one pass over the data."""
    answers: Answers = design.reduce(partial(_answer, weighing, parts, questions), operator.add)
    return answers.found


def _answer(
    weighing: Weighing, parts: int, questions: list[Reduction | None], design: Design, part: Any
) -> Answers:
    total = Answers((None,) * len(questions))
    for rows in design.rows(part):
        own: list[list[FloatArray]] = [[] for _ in questions]
        for segment, values in weighing.samples(rows, design.task.gamma):
            if segment.counts is not None:
                values = np.repeat(values, segment.counts.astype(np.intp))
            own[segment.member // parts].append(values)
        found = (
            question(np.concatenate(values)) if question is not None and values else None
            for question, values in zip(questions, own, strict=True)
        )
        total += Answers(tuple(found))
    return total
