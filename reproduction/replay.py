"""Write the pendulum's logs of `python -m reproduction sac-n`: random torques, and one like a replay.

``python -m reproduction.replay FOLDER`` writes FOLDER/pendulum-random.parquet, 100 episodes of even
torques, and FOLDER/pendulum-mixed.parquet: 40 of these and 20 each of SAC-N after 2,000, 4,000 and
6,000 steps on them. Two minutes on one core.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tailproof import Log, learn, method
from tailproof.errors import ConvergenceWarning
from tailproof.log.spaces import as_space
from tailproof.policies.text import policy_from_text
from tailproof.worlds.environments import make_environment
from tailproof.worlds.rollout import rollout

STEPS = (2_000, 4_000, 6_000)


def played(policy: str, *, episodes: int, seed: int) -> Log:
    """Return a log of Pendulum-v1 by a policy."""
    environment: Any = make_environment("Pendulum-v1")
    acting = policy_from_text(policy, as_space(environment.action_space, np.empty(0)))
    log = rollout(environment, acting, episodes=episodes, seed=seed, progress=False)
    environment.close()
    return log


def joined(logs: list[Log]) -> Log:
    """Return the episodes of several logs as one log."""
    states, actions, rewards, following, ends = (
        np.concatenate([getattr(log, name) for log in logs])
        for name in ("states", "actions", "rewards", "next_states", "terminated")
    )
    lengths = np.concatenate([log.lengths for log in logs])
    episode = np.repeat(np.arange(len(lengths)), lengths)
    return Log.from_arrays(states, actions, rewards, following, episode=episode, terminated=ends)


def main() -> None:
    """Write both logs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    random = played("uniform", episodes=100, seed=0)
    random.to_parquet(folder / "pendulum-random.parquet")
    parts = [random.take(np.arange(40))]
    with tempfile.TemporaryDirectory() as scratch:
        for place, steps in enumerate(STEPS):
            row = method("sac-n", steps=steps, hidden=(64, 64), batch=128, learning_rate=1e-3)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # half taught on purpose
                learned = learn(random, gamma=0.99, method=row, seed=7)
            path = Path(scratch) / f"{steps}.policy"
            learned.save(path)
            parts.append(played(str(path), episodes=20, seed=100 + place))
            mean = np.bincount(parts[-1].episode_of_row, parts[-1].rewards).mean()
            print(f"{steps:,} steps: {mean:.0f} an episode")
    joined(parts).to_parquet(folder / "pendulum-mixed.parquet")


if __name__ == "__main__":
    main()
