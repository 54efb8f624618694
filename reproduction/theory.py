"""Theorems 1 to 3 by simulation: rates in n and δ, the failure of the mean, and quantiles of folds."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from reproduction import drawing
from reproduction.cartpole import unheard
from reproduction.drawing import Look
from reproduction.experiment import Cell, Claim, Experiment, Job, Results, Row, Settings
from reproduction.summary import Summary, summarise, verdict
from tailproof.arrays import FloatArray, IntArray
from tailproof.critics.lstd import LSTD
from tailproof.doors.evaluate import evaluate
from tailproof.log.log import Log
from tailproof.methods.catalogue import method
from tailproof.noise import Gaussian, Noise, Pareto, StudentT, winsorised_std
from tailproof.policies.forms import Uniform
from tailproof.robust.intervals import theory_folds
from tailproof.worlds.tabular import TabularMDP

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INDEX = 1.5  # of the tails of "Pareto 1.5" and "t 1.5": 1 + α in the paper's notation
RATE = (INDEX - 1) / INDEX  # α/(1 + α)
RIDGE = 1e-6  # per observation: what it does is below every error here
LOOKS = {
    "lstd": Look("LSTD, whole log", drawing.BLACK, "s"),
    "roam-dm": Look("ROAM-DM (LSTD), K = ⌈8 log(2/δ)⌉", drawing.BLUE),
    "roam-mis": Look("ROAM-MIS, the same K", drawing.GREEN, "x", "--"),
    "mean": Look("sample mean", drawing.BLACK, "s"),
    "median of means": Look("median of means, K = ⌈8 log(2/δ)⌉", drawing.BLUE),
    "bound": Look("the proof's bound: ¾ quantile of a block", drawing.RED, "", ":"),
}
EVALUATORS = ("lstd", "roam-dm", "roam-mis")
MEANS = ("mean", "median of means")


LAWS: dict[str, Noise] = {
    "Gaussian": Gaussian(),
    "t 1.5": StudentT(1.5),
    "Pareto 1.5": Pareto(1.5),
    "−Pareto 1.5": Pareto(1.5, sign=-1),
}
#: Limit of the probability that a fold's mean is at or below the mean; see `share_below_mean`.
SHARES = {"constant": 1.0, "Gaussian": 0.5, "t 1.5": 0.5, "Pareto 1.5": 2 / 3, "−Pareto 1.5": 1 / 3}


def world(gamma_: float) -> tuple[TabularMDP, float]:
    """Return a small MDP with a uniform initial state, and J of its optimal policy."""
    drawn = TabularMDP.random(states=5, actions=2, seed=11)
    even = TabularMDP(drawn.transitions, drawn.rewards, np.full(5, 0.2))
    return even, even.value(even.optimal(gamma=gamma_), gamma=gamma_)


def independent_log(mdp: TabularMDP, count: int, noise: Noise, rng: np.random.Generator) -> Log:
    """Return n independent transitions (assumption 1): uniform states, uniform actions."""
    states = np.eye(mdp.n_states)[rng.integers(mdp.n_states, size=count)]
    actions = rng.integers(mdp.action_space.n, size=count)
    following, rewards, _ = mdp.step(states, actions, rng)
    return Log.from_arrays(
        states,
        actions,
        rewards + noise.sample(count, rng),
        following,
        episode=np.arange(count),
        propensity=np.full(count, Uniform(mdp.action_space.n).probabilities(states[:1])[0, 0]),
        action_space=mdp.action_space,
    )


def evaluation_errors(job: Job) -> list[Row]:
    """Return errors of LSTD, ROAM-DM and ROAM-MIS (theorems 1 and 2) on some logs of n transitions."""
    settings, cell = job.settings, job.cell
    mdp, truth = world(settings["gamma"])
    policy = mdp.optimal(gamma=settings["gamma"])
    rows = []
    for batch in range(settings["logs"]):
        rng = job.rng(batch)
        log = independent_log(mdp, cell["n"], LAWS[settings["law"]], rng)
        for delta in cell["deltas"]:
            folds = theory_folds(delta)
            methods = {
                "lstd": method("lstd", ridge=RIDGE),
                "roam-dm": method("roam-dm", base=LSTD(ridge=RIDGE), folds=folds),
                "roam-mis": method("roam-mis", folds=folds, ridge=RIDGE),
            }
            if delta != cell["deltas"][0]:
                del methods["lstd"]  # it has no folds
            for name, chosen in methods.items():
                with unheard():
                    found = evaluate(
                        log,
                        policy,
                        method=chosen,
                        gamma=settings["gamma"],
                        initial_states=np.eye(mdp.n_states),
                        seed=int(rng.integers(2**31)),
                        logged=False,
                    )
                bound = float(np.quantile(np.abs(found.fold_values - truth), 0.75))
                row = {"method": name, "delta": delta, "folds": folds}
                rows.append({**row, "error": found.value - truth, "bound": bound})
    return rows


def mean_quantiles(job: Job) -> list[Row]:
    """Return the 1 − δ quantiles of the errors of the mean and of the median of means.

    Also the bound of the proofs: the ¾ quantile Δ of the error of a block's mean.
    """
    settings, rng = job.settings, job.rng()
    draws = LAWS[job.cell["law"]].sample((settings["samples"], settings["sample_size"]), rng)
    rows = []
    for delta in settings["deltas"]:
        blocks = block_means(draws, theory_folds(delta))
        for name, errors, level in (
            ("mean", draws.mean(axis=1), 1 - delta),
            ("median of means", np.median(blocks, axis=1), 1 - delta),
            ("bound", blocks, 0.75),
        ):
            size = float(np.quantile(np.abs(errors), level))
            rows.append({"method": name, "delta": delta, "size": size})
    return rows


def block_means(draws: FloatArray, blocks: int) -> FloatArray:
    """Return the means of consecutive blocks of each row, (B, n) to (B, K)."""
    starts = np.arange(blocks) * draws.shape[1] // blocks
    sizes = np.diff([*starts, draws.shape[1]])
    return np.asarray(np.add.reduceat(draws, starts, axis=1) / sizes)


def orders_of_folds(job: Job) -> list[Row]:
    """Return how often the j-th smallest of K fold means is at or below μ, and theorem 3's event.

    With rewards of mean μ = 1, the theorem as printed says that μ − M·N^(−α/(1+α)) ≥ μ̂_q, where
    M = (E|R|^(1+α))^(1/(1+α)), has a probability of at least 1 − exp(−2K(2q − 1)²).
    """
    settings, rng, cell = job.settings, job.rng(), job.cell
    size, folds = settings["fold_size"], cell["folds"]
    shape = (settings["experiments"], folds, size)
    law = LAWS.get(cell["law"])
    rewards = np.ones(shape) if law is None else 1 + law.sample(shape, rng)
    means = np.sort(rewards.mean(axis=2), axis=1)  # (B, K)
    rows = []
    for q in settings["quantiles"]:
        j = max(1, math.ceil(q * folds - 1e-9))
        margin = printed_margin(cell["law"], size)
        rows.append(
            {
                "q": q,
                "j": j,
                "below": float((means[:, j - 1] <= 1).mean()),
                "share": float((means <= 1).mean()),
                "printed": 1 - math.exp(-2 * folds * (2 * q - 1) ** 2),
                "event": None if margin is None else float((1 - margin >= means[:, j - 1]).mean()),
            }
        )
    return rows


def true_level(folds: IntArray, j: FloatArray, share: FloatArray) -> FloatArray:
    """Return P(Bin(K, p₀) ≥ j), the corrected probability of theorem 3."""
    return np.asarray(1 - scipy.special.bdtr(j - 1, folds, share))


def printed_margin(law: str, size: int) -> float | None:
    """Return M·N^(−α/(1+α)) of theorem 3 with λ = 1, where the moment has a closed form.

    Constant rewards of one have the moment 1 at any α, Gaussian ones of mean 1 the second moment 2.
    For t at df 1.5, E|1 + ν|^p ≥ E|ν|^p (ν is symmetric) gives a margin that is, if anything, too
    small, and the event too likely.
    """
    if law == "constant":
        return 1 / math.sqrt(size)
    if law == "Gaussian":
        return math.sqrt(2 / size)
    if law == "t 1.5":
        p, df = 1.25, 1.5
        gamma, scale = math.gamma, 1 / winsorised_std(df)
        moment = df ** (p / 2) * gamma((p + 1) / 2) * gamma((df - p) / 2)
        moment *= scale**p / (math.sqrt(math.pi) * gamma(df / 2))
        return float(moment ** (1 / p) * size ** -((p - 1) / p))
    return None


PARTS = {
    "n": evaluation_errors,
    "delta": evaluation_errors,
    "mean": mean_quantiles,
    "order": orders_of_folds,
}


def cells(settings: Settings) -> list[Cell]:
    """Return the four parts: errors against n, against δ, of scalar means, and orders of folds."""
    at = settings["delta"]
    return [
        *({"part": "n", "n": n, "deltas": [at]} for n in settings["sizes"]),
        {"part": "delta", "n": settings["fixed_size"], "deltas": list(settings["log_deltas"])},
        *({"part": "mean", "law": law} for law in settings["mean_laws"]),
        *(
            {"part": "order", "law": law, "folds": folds}
            for law in settings["order_laws"]
            for folds in settings["numbers_of_folds"]
        ),
    ]


def run(job: Job) -> list[Row]:
    """Run one part."""
    return PARTS[job.cell["part"]](job)


def error_sizes(results: Results, part: str, name: str) -> list[Summary]:
    """Return the 1 − δ quantile of |error| over all logs at every n or δ, with its interval."""
    settings = results.settings
    deltas, sizes = settings["log_deltas"], settings["sizes"]
    places: list[tuple[float, Cell]] = [(settings["delta"], {"n": n}) for n in sizes]
    if part == "delta":  # LSTD has no folds that depend on δ
        places = [(delta, {} if name == "lstd" else {"delta": delta}) for delta in deltas]

    def quantile(values: FloatArray, delta: float) -> FloatArray:
        return np.asarray(np.quantile(np.abs(values), 1 - delta, axis=-1))

    return [
        summarise(
            results.values("error", part=part, method=name, **where), partial(quantile, delta=delta)
        )
        for delta, where in places
    ]


def fold_bounds(results: Results, name: str) -> list[Summary]:
    """Return the ¾ quantile of a fold's |error| at every δ, which the theorems' proofs use."""
    return [
        summarise(results.values("bound", part="delta", method=name, delta=delta))
        for delta in results.settings["log_deltas"]
    ]


def mean_sizes(results: Results, name: str, law: str) -> list[Summary]:
    """Return the error quantile of a scalar mean at every δ."""
    return [
        summarise(results.values("size", part="mean", law=law, method=name, delta=delta))
        for delta in results.settings["deltas"]
    ]


def draw(results: Results) -> Figure:
    """Draw the four parts."""
    figure, axes = drawing.new_figure(2, 2, width=9.4, height=7.4)
    parts = (_draw_rate, _draw_levels, _draw_mean)
    for axis, part in zip(axes.flat, parts, strict=False):
        axis.set(xscale="log", yscale="log", xlabel="1/δ", ylabel="1 − δ quantile of |error|")
        part(axis, results)
        axis.legend()
        drawing.plain_ticks(axis)
    axes[1, 0].set_ylim(top=axes[1, 0].get_ylim()[1] * 12)  # room for the legend
    _draw_orders(axes[1, 1], results)
    settings = results.settings
    return drawing.captioned(
        figure,
        f"{results.replicates} × {settings['logs']} logs of independent transitions of a 5-state MDP "
        f"(γ = {settings['gamma']:g}, {settings['law']}); means of {settings['sample_size']:,} draws, "
        f"{results.replicates} × {settings['samples']}; folds of {settings['fold_size']} draws, "
        f"{results.replicates} × {settings['experiments']}; bars: 95 % intervals.",
    )


def _draw_rate(axis: Axes, results: Results) -> None:
    sizes = results.settings["sizes"]
    for name in EVALUATORS:
        drawing.curve(axis, sizes, error_sizes(results, "n", name), LOOKS[name])
    start = error_sizes(results, "n", "roam-dm")[0].value
    line = [start * (n / sizes[0]) ** -RATE for n in sizes]
    axis.plot(sizes, line, color=drawing.RED, linestyle=":", label=f"n^−{RATE:.2f}, theorem 2")
    axis.set(
        xlabel="number of transitions n",
        ylabel=f"{1 - results.settings['delta']:.0%} quantile of |error|",
        title="theorems 1 and 2: the rate in n",
    )


def _draw_levels(axis: Axes, results: Results) -> None:
    deltas = results.settings["log_deltas"]
    levels = [1 / delta for delta in deltas]
    for name in EVALUATORS:
        drawing.curve(axis, levels, error_sizes(results, "delta", name), LOOKS[name])
    drawing.curve(axis, levels, fold_bounds(results, "roam-dm"), LOOKS["bound"])
    size = results.settings["fixed_size"]
    axis.set_title(f"theorems 1 and 2: the price of confidence, n = {size:,}")


def _draw_mean(axis: Axes, results: Results) -> None:
    deltas = results.settings["deltas"]
    for law, dashes in zip(results.settings["mean_laws"], ("-", "--", ":"), strict=False):
        for name in (*MEANS, "bound"):
            shown = replace(LOOKS[name], label=f"{LOOKS[name].label}, {law}", dashes=dashes)
            found = mean_sizes(results, name, law)
            drawing.curve(axis, [1 / d for d in deltas], found, shown)
    axis.set_title("the failure of the sample mean")


def _draw_orders(axis: Axes, results: Results) -> None:
    colors = (drawing.GREY, drawing.BLACK, drawing.BLUE, drawing.GREEN, drawing.RED)
    laws = results.settings["order_laws"]
    for law, marker, color in zip(laws, "osD^v", colors, strict=False):
        below, printed, event = (
            orders(results, column, law) for column in ("below", "printed", "event")
        )
        true = corrected(results, law)
        axis.scatter(true, below, marker=marker, color=color, s=18, label=f"P(μ̂₍ⱼ₎ ≤ μ), {law}")
        if np.isfinite(event).any():
            shown = axis.scatter(printed, event, marker=marker, s=22, label=f"as printed, {law}")
            shown.set(facecolor="none", edgecolor=color)
    axis.plot([0, 1], [0, 1], color=drawing.GREY, linewidth=0.8)
    axis.set(
        xlabel="probability that the theorem gives",
        ylabel="measured share",
        title="theorem 3: corrected, P(Bin(K, p₀) ≥ j), and as printed",
    )
    axis.legend(fontsize=7.5, loc="upper left")


def orders(results: Results, column: str, law: str) -> FloatArray:
    """Return a column of the order statistics, averaged over replicates, one for each (K, q)."""
    return np.array(
        [
            results.values(column, part="order", law=law, folds=folds, q=q).mean()
            for folds in results.settings["numbers_of_folds"]
            for q in results.settings["quantiles"]
        ]
    )


def corrected(results: Results, law: str) -> FloatArray:
    """Return P(Bin(K, p₀) ≥ j) for each (K, q), with the p₀ that the folds of this law have."""
    settings = results.settings
    folds = np.repeat(settings["numbers_of_folds"], len(settings["quantiles"]))
    return true_level(folds, orders(results, "j", law), orders(results, "share", law))


def slope(x: Any, summaries: list[Summary]) -> float:
    """Return the exponent of a power law through some error quantiles."""
    fitted = np.polyfit(np.log(x), np.log([each.value for each in summaries]), 1)
    return float(fitted[0])


def judge(results: Results) -> list[Claim]:
    """Judge the theorems."""
    return [*_rates(results), *_levels(results), _failure(results), *_orders(results)]


def _rates(results: Results) -> list[Claim]:
    sizes = results.settings["sizes"]
    said = {"roam-mis": "Theorem 1: ROAM-MIS", "roam-dm": "Theorem 2: ROAM-DM with LSTD"}
    plain = slope(sizes, error_sizes(results, "n", "lstd"))
    claims = []
    for name, text in said.items():
        found = slope(sizes, error_sizes(results, "n", name))
        claims.append(
            Claim(
                f"{text} has an error of order n^(−α/(1+α))",
                verdict([found <= -RATE + 0.05]),
                f"measured exponent {found:.2f}, theory {-RATE:.2f} for tails of index {INDEX:g}; "
                f"plain LSTD has {plain:.2f}",
            )
        )
    return claims


def _levels(results: Results) -> list[Claim]:
    deltas = np.array(results.settings["log_deltas"])
    plain = error_sizes(results, "delta", "lstd")
    robust = {name: error_sizes(results, "delta", name) for name in EVALUATORS[1:]}
    steep = slope(1 / deltas, plain)
    within, said = [], []
    for name, found in robust.items():
        bounds = fold_bounds(results, name)
        power = slope(np.log(2 / deltas), bounds)
        kept = all(one.value <= bound.value for one, bound in zip(found, bounds, strict=True))
        within.append(kept and power <= RATE + 0.1)
        said.append(
            f"{LOOKS[name].label.split(',')[0]} grows {found[-1].value / found[0].value:.2f}-fold from "
            f"δ = {deltas[0]:g} to {deltas[-1]:g}, {'below' if kept else 'not below'} its bound, which "
            f"goes with log(2/δ)^{power:.2f} (theory {RATE:.2f})"
        )
    ahead = [
        f"{delta:g}"
        for delta, one, other in zip(deltas, plain, robust["roam-dm"], strict=True)
        if one.value > other.value
    ]
    return [
        Claim(
            "Theorems 1 and 2: with K = ⌈8 log(2/δ)⌉ the error is of order log(1/δ)^(α/(1+α))",
            verdict(within),
            "; ".join(said),
        ),
        Claim(
            "LSTD's error grows polynomially in 1/δ, so that ROAM is better at high confidence",
            verdict([steep > 0.5 / INDEX, bool(ahead)]),
            f"measured exponent {steep:.2f}, theory 1/(1+α) = {1 / INDEX:.2f}; ROAM-DM is ahead at δ = "
            + (", ".join(ahead) or "none of the levels tried"),
        ),
    ]


def _failure(results: Results) -> Claim:
    deltas = np.array(results.settings["deltas"])
    said, fails = [], []
    for law in results.settings["mean_laws"]:
        plain, robust = (mean_sizes(results, name, law) for name in MEANS)
        steep = slope(1 / deltas, plain)
        growth = [found[-1].value / found[0].value for found in (plain, robust)]
        factor = plain[-1].value / robust[-1].value
        said.append(
            f"{law}: from δ = {deltas[0]:g} to {deltas[-1]:g} the mean's error grows "
            f"{growth[0]:.1f}-fold, like (1/δ)^{steep:.2f} (theory {1 / INDEX:.2f}), the median of "
            f"means' {growth[1]:.1f}-fold; at δ = {deltas[-1]:g} the mean's is {factor:.1f} times as "
            f"large"
        )
        fails.append(factor > 1 and steep > 0.5 / INDEX)
    return Claim(
        "The sample mean's error depends on δ exponentially worse than the median of means'",
        verdict(fails),
        "; ".join(said),
    )


def _orders(results: Results) -> list[Claim]:
    laws = results.settings["order_laws"]
    event, printed, below = (
        np.array([orders(results, column, law) for law in laws])  # (laws, pairs of K and q)
        for column in ("event", "printed", "below")
    )
    level = np.array([corrected(results, law) for law in laws])
    tried = np.isfinite(event)
    kept = int((event[tried] >= printed[tried]).sum())
    gaps = np.abs(below - level).max(axis=1)
    shares = {law: results.values("share", part="order", law=law).mean() for law in laws}
    even = laws.index("t 1.5")
    over = printed[even] > below[even] + 0.005
    return [
        Claim(
            "Theorem 3: the q-quantile of the folds is below Q* by a margin, with probability at least "
            "1 − exp(−2K(2q − 1)²)",
            verdict((event[tried] >= printed[tried]).tolist()),
            f"in {kept} of {int(tried.sum())} cells; measured probabilities up to "
            f"{event[tried].max():.2f}, printed ones from {printed[tried].min():.2f}; with constant "
            f"rewards the event never happens",
        ),
        Claim(
            "Theorem 3 without the margin, at its printed level (p₀ = ½)",
            verdict((~over).tolist()),
            f"the printed level exceeds the measured share in {int(over.sum())} of {len(over)} cells: "
            f"its exponent is four times Hoeffding's",
        ),
        Claim(
            "Corrected theorem 3: P(μ̂_(j) ≤ μ) = P(Bin(K, p₀) ≥ j)",
            verdict((gaps < 0.02).tolist()),
            f"measured shares within {max(gaps):.3f}; p₀ "
            + ", ".join(
                f"{share:.2f} (limit {SHARES[law]:.2f}) {law}" for law, share in shares.items()
            ),
        ),
    ]


THEORY = Experiment(
    "theory",
    "theorems 1 to 3",
    "Do the error bounds describe what happens?",
    cells,
    run,
    draw,
    judge,
    settings={
        "gamma": 0.9,
        "law": "Pareto 1.5",
        "logs": 10,
        "delta": 0.05,
        "sizes": (1000, 2000, 4000, 8000, 16000, 32000),
        "fixed_size": 20_000,
        "log_deltas": (0.3, 0.1, 0.03, 0.01),
        "mean_laws": ("Pareto 1.5", "t 1.5"),
        "deltas": (0.3, 0.1, 0.03, 0.01, 0.003),
        "samples": 2000,
        "sample_size": 5000,
        "order_laws": ("constant", "Gaussian", "t 1.5", "Pareto 1.5", "−Pareto 1.5"),
        "numbers_of_folds": (5, 10, 20),
        "quantiles": (0.1, 0.2, 0.3, 0.4),
        "experiments": 200,
        "fold_size": 200,
    },
    quick={
        "logs": 5,
        "sizes": (500, 1000),
        "fixed_size": 500,
        "log_deltas": (0.3, 0.1),
        "deltas": (0.3, 0.1),
        "samples": 200,
        "sample_size": 200,
        "numbers_of_folds": (5,),
        "fold_size": 20,
    },
)
