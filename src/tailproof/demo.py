"""The demonstration: heavy-tailed rewards, a known truth, and what each method makes of them."""

from __future__ import annotations

import warnings

from rich.console import Console
from rich.table import Table

from tailproof.catalogue import CATALOGUE, method
from tailproof.errors import LevelError
from tailproof.evaluate import evaluate
from tailproof.means import AdaptiveHuber
from tailproof.noise import StudentT
from tailproof.worlds import CartPole

ROWS = ("fqe", "lstd", "roam-dm", "roam-variant", "roam-fqe", "roam-mis", "roam-dr")


def run(console: Console, *, seed: int = 0) -> None:
    """Log CartPole with Student-t rewards and evaluate its policy by FQE and every ROAM row."""
    world = CartPole()
    truth = world.truth().value
    noise = StudentT(df=1.1)
    log = world.log(episodes=100, noise=noise, seed=seed)
    console.print(
        f"CartPole, {log.n_episodes} episodes of {log.lengths[0]} steps. Rewards lie in [0, 1]; the "
        f"log adds noise ({noise}), so that they run from {log.rewards.min():.0f} to "
        f"{log.rewards.max():.0f}.\n"
        f"How good is the policy, discounted by 0.99? The truth is {truth:.1f}.\n"
    )
    table = Table("method", "estimate", "error", "90 % interval", "how")
    methods = {name: method(name) for name in ROWS}
    methods["pooled weights, adaptive Huber"] = method("mis", mean=AdaptiveHuber())
    for name, chosen in methods.items():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            estimate = evaluate(log, world.target(), method=chosen, gamma=0.99, seed=seed)
        try:
            found = estimate.interval(0.9)
            interval = f"{found.low:.1f} to {found.high:.1f}"
        except LevelError:
            interval = "needs folds"
        if chosen.at == "backup":
            interval = "folds depend"
        about = CATALOGUE[name].about if name in CATALOGUE else "One fit, robust mean of w·r."
        error = estimate.value - truth
        table.add_row(name, f"{estimate.value:.1f}", f"{error:+.1f}", interval, about)
    console.print(table)
