"""A paragraph for the methods section of a paper: what was computed, with its settings and sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailproof.estimators.choice import OneStepChoice
from tailproof.report.text import Quantity, count, method_text, percent, versions

if TYPE_CHECKING:
    from tailproof.doors.compare import Comparison
    from tailproof.doors.estimate import Estimate

#: What a text or a kind of interval refers to, and where it was published.
_SOURCES = {
    "doubly robust": "Dudík, Langford and Li (2011), Doubly robust policy evaluation and learning",
    "self-normalised": "Swaminathan and Joachims (2015), The self-normalized estimator for "
    "counterfactual learning",
    "Hall": "Hall (1992), On the removal of skewness by transformation",
    "MOVER": "Zou and Donner (2008), Construction of confidence limits about effect measures",
    "FQE": "Le, Voloshin and Yue (2019), Batch policy learning under constraints",
    "median at": "Zhu, Wan, Qi, Luo and Shi (2024), Robust offline reinforcement learning with "
    "heavy-tailed rewards",
    "sensitivity": "Tan (2006), A distributional approach for causal inference using propensity scores",
}


def methods_text(
    estimate: Estimate, *, level: float = 0.9, comparison: Comparison | None = None
) -> str:
    """Return how an estimate, or all those of a comparison, were made: sentences and sources."""
    chosen, unit = estimate.choice, Quantity.of(estimate.unit)
    rows = f"{count(estimate.n_transitions, 'logged row')}"
    if unit.per == "episode":
        rows += (
            f" in {count(estimate.n_episodes, 'episode')}, discounted by {estimate.gamma:g} a step"
        )
    said = [
        f"Mean {unit.noun} per {unit.per} under each policy was estimated off-policy from {rows} with "
        f"tailproof {versions()['tailproof']} (random seed {estimate.seed})."
    ]
    how = method_text(estimate.method) if chosen is None else chosen.estimator
    said.append(f"The estimator was {how}, averaged over {_units(estimate)}.")
    if estimate.method.clip:
        said.append(f"Rewards were capped before estimation ({estimate.method.clip}).")
    words = [how, method_text(estimate.method)]
    if chosen is not None:
        said += [f"{reason}" for reason in chosen.reasons]
        if chosen.declined is None:
            kind = chosen.interval(level).kind
            words.append(kind)
            said.append(f"Intervals have {percent(level)} confidence ({kind}).")
        else:
            said.append(f"No interval is given: {str(chosen.declined).rstrip('.')}.")
    words.append(getattr(estimate.gain, "kind", "MOVER" if chosen is not None else ""))
    if isinstance(chosen, OneStepChoice) and chosen.hidden_reasons is not None:
        words.append("sensitivity")
    if comparison is not None:
        several = len(comparison.candidates)
        said.append(
            f"{count(several, 'policy')} {'was' if several == 1 else 'were'} compared with the "
            f"{comparison.baseline}; each difference has {percent(comparison.gate_level)} confidence "
            f"(Bonferroni), so that all hold together with {percent(comparison.level)}."
        )
    sources = [source for word, source in _SOURCES.items() if any(word in each for each in words)]
    return " ".join(said) + (f" Sources: {'; '.join(sources)}." if sources else "")


def _units(estimate: Estimate) -> str:
    chosen = estimate.choice
    if chosen is None:
        return count(max(len(estimate.fold_values), 1), "fold")
    return count(chosen.units, chosen.unit)
