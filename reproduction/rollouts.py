"""Write rollouts of trained agents in D4RL's layout: what stands in for D4RL's files here.

``python -m reproduction.rollouts AGENTS FOLDER --domain walker2d`` plays the agents of
AGENTS/*_Walker2d-v3.npz (actor weights of DLR-RM/rl-trained-agents) and writes
FOLDER/walker2d-expert-tqc-v4.npz, -medium-ppo-v4.npz and -mixed-v4.npz, 100,000 rows each. The mixed
one has an equal part of five agents. They are not D4RL's data.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reproduction.tasks import ENVIRONMENTS
from tailproof.arrays import AnyArray, FloatArray
from tailproof.errors import TailproofError
from tailproof.worlds.environments import make_environment

#: The agents of the mixed file, in the order of its column `agent`.
MIXED = ("a2c", "trpo", "ppo", "sac", "tqc")
EXPERT = "tqc"
#: Agents that score about half of the expert.
MEDIUM = {"halfcheetah": "ppo", "hopper": "sac", "walker2d": "ppo"}
#: How the files of agents name the environments.
_NAMES = {"halfcheetah": "HalfCheetah-v3", "hopper": "Hopper-v3", "walker2d": "Walker2d-v3"}
_TIME_LIMIT = 1000


class Agent:
    """A trained Gaussian actor of two hidden layers, squashed by tanh or clipped to [−1, 1].

    Parameters
    ----------
    path
        An .npz file with weights (out, in), biases, `log_std` or the layer of it, where observations
        were normalised their mean and variance, and `meta`, JSON.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise TailproofError(f"There is no agent at {path}.")
        with np.load(path, allow_pickle=False) as file:
            self.arrays: dict[str, FloatArray] = {name: file[name] for name in file.files}
        self.meta: dict[str, Any] = json.loads(str(self.arrays.pop("meta")))

    def __call__(self, observation: FloatArray, step: int, rng: np.random.Generator) -> FloatArray:
        """Draw an action, (q,)."""
        known, hidden = self.arrays, observation
        if self.meta["time_feature"]:
            hidden = np.append(hidden, 1 - step / _TIME_LIMIT)
        if "obs_mean" in known:
            scale = np.sqrt(known["obs_var"] + self.meta["eps"])
            limit = self.meta["clip_obs"]
            hidden = np.clip((hidden - known["obs_mean"]) / scale, -limit, limit)
        for layer in "01":
            hidden = known[f"W{layer}"] @ hidden + known[f"b{layer}"]
            hidden = np.tanh(hidden) if self.meta["hidden_activation"] == "tanh" else hidden.clip(0)
        mean = known["W_out"] @ hidden + known["b_out"]
        squashed = "W_logstd" in known
        spread = known["W_logstd"] @ hidden + known["b_logstd"] if squashed else known["log_std"]
        drawn = mean + np.exp(np.clip(spread, -20, 2)) * rng.standard_normal(len(mean))
        return np.asarray(np.tanh(drawn) if squashed else np.clip(drawn, -1, 1))


Acting = Callable[[FloatArray, int, np.random.Generator], FloatArray]


def played(domain: str, agent: Acting, rows: int, rng: np.random.Generator) -> dict[str, AnyArray]:
    """Return `rows` transitions in D4RL's layout; the last episode is cut off at the last row."""
    environment: Any = make_environment(ENVIRONMENTS[domain])
    found: dict[str, list[Any]] = {
        name: [] for name in ("observations", "actions", "rewards", "terminals", "timeouts")
    }
    last: list[FloatArray] = []
    observation, step = environment.reset(seed=int(rng.integers(2**31)))[0], 0
    for row in range(rows):
        action = agent(observation, step, rng)
        after, reward, ended, cut, _ = environment.step(action)
        step += 1
        cut = bool(cut or row == rows - 1) and not ended
        entries = (observation, action, reward, ended, cut)
        for name, entry in zip(found, entries, strict=True):
            found[name].append(entry)
        observation = after
        if ended or cut:
            last.append(after)
            observation, step = environment.reset()[0], 0
    environment.close()
    kinds = {"terminals": bool, "timeouts": bool}
    arrays = {name: np.array(each, kinds.get(name, np.float32)) for name, each in found.items()}
    return {**arrays, "final_observations": np.array(last, np.float32)}


def write(agents: Path, folder: Path, domain: str, *, rows: int, seed: int = 0) -> list[Path]:
    """Write a domain's three files, and return their paths."""
    plans = {
        f"expert-{EXPERT}": (EXPERT,),
        f"medium-{MEDIUM[domain]}": (MEDIUM[domain],),
        "mixed": MIXED,
    }
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, (name, names) in enumerate(plans.items()):
        rngs = np.random.default_rng([seed, number]).spawn(len(names))
        actors = [Agent(agents / f"{each}_{_NAMES[domain]}.npz") for each in names]
        parts = [
            played(domain, actor, rows // len(names), rng)
            for actor, rng in zip(actors, rngs, strict=True)
        ]
        arrays: dict[str, Any] = {
            key: np.concatenate([part[key] for part in parts]) for key in parts[0]
        }
        arrays["agent"] = np.repeat(np.arange(len(names), dtype=np.int8), rows // len(names))
        paths.append(folder / f"{domain}-{name}-v4.npz")
        np.savez_compressed(paths[-1], **arrays)
    return paths


def main(words: Sequence[str] | None = None) -> None:
    """Write the files and print their paths."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("agents", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--domain", choices=list(_NAMES), default="walker2d")
    parser.add_argument("--rows", type=int, default=100_000)
    given = parser.parse_args(words)
    for path in write(given.agents, given.folder, given.domain, rows=given.rows):
        print(path)


if __name__ == "__main__":
    main()
