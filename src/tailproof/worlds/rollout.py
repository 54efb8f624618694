"""Run a policy in a world or a Gymnasium environment, and log the transitions."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray
from tailproof.errors import PolicyError, TailproofError
from tailproof.log.log import Log
from tailproof.log.spaces import ActionSpace, Discrete, as_space
from tailproof.noise import Noise, add_noise
from tailproof.parameters import COUNT, require
from tailproof.policies.forms import Policy, bound, draw, is_deterministic
from tailproof.progress import progress_bar

if TYPE_CHECKING:
    import gymnasium
    from gymnasium.vector import VectorEnv

    from tailproof.worlds import World

Seed = int | np.random.SeedSequence | np.random.Generator


def rollout(
    world: World | gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any],
    policy: Policy,
    *,
    episodes: int,
    steps: int | None = None,
    seed: Seed = 0,
    progress: bool | None = None,
) -> Log:
    """Run a policy for some episodes and return the log.

    Random actions are drawn independently at every episode and step. If the policy has
    `probabilities(states)` or `log_prob(states, actions)`, the log has propensities.

    Parameters
    ----------
    world
        A `World`, a `gymnasium.Env` or a `gymnasium.vector.VectorEnv`. The environment is reset
        here, stays open, and its observations are flattened into states.
    policy
        A callable from states (n, p) to actions, an object with `probabilities(states)`, or one
        with `sample(states, rng)`.
    episodes
        Number of episodes, E.
    steps
        Longest episode; longer ones are truncated. By default the world's `horizon`; an environment
        runs until it ends by itself.
    seed
        An integer, a seed sequence or a generator. The same seed gives the same log.
    progress
        Whether to show a progress bar. By default one appears on a terminal after two seconds.

    Examples
    --------
    >>> from tailproof.worlds import CartPole
    >>> world = CartPole()
    >>> log = rollout(world, world.behaviour(epsilon=0.5), episodes=3, steps=20)
    >>> log.n_transitions, sorted(set(log.propensity.round(3).tolist()))
    (60, [0.25, 0.75])
    """
    require(COUNT, TailproofError, episodes=episodes, steps=1 if steps is None else steps)
    if hasattr(world, "start") and hasattr(world, "step"):
        simulated = cast("World", world)
        return _world_log(simulated, policy, episodes, steps or simulated.horizon, seed, progress)
    if hasattr(world, "reset") and hasattr(world, "step"):
        return _environment_log(world, policy, episodes, steps, seed, progress)
    raise TailproofError(
        f"rollout needs a World (with start and step) or a Gymnasium environment (with reset and "
        f"step). Got {type(world).__name__}; build the environment first, as in "
        f"gymnasium.make('CartPole-v1')."
    )


def noisy_rollout(
    world: World, policy: Policy, noise: Noise | None, *, seed: Seed, **options: Any
) -> Log:
    """Return the `rollout` with noise on its rewards; trajectories do not depend on the noise."""
    rng = np.random.default_rng(seed)
    clean = rollout(world, policy, seed=rng, **options)
    return clean if noise is None else add_noise(clean, noise, seed=rng.spawn(1)[0])


def simulated_returns(
    world: World, policy: Policy, *, episodes: int, steps: int, gamma: float, seed: Seed = 0
) -> FloatArray:
    """Return Σ_t γ^t r_t of each simulated episode, (E,), without keeping the transitions.

    With the same seed, deterministic policies use the same random numbers, as long as no episode
    terminates.

    Examples
    --------
    >>> from tailproof.worlds import CartPole
    >>> world = CartPole()
    >>> returns = simulated_returns(
    ...     world, world.target(), episodes=5, steps=10, gamma=1.0, seed=3
    ... )
    >>> bool(((9 < returns) & (returns < 10)).all())
    True
    """
    returns = np.zeros(episodes)
    for time_step, move in enumerate(_moves(world, policy, episodes, steps, seed)):
        returns[move.alive] += gamma**time_step * move.rewards
    return returns


def draw_actions(
    policy: Policy, states: FloatArray, space: ActionSpace, rng: np.random.Generator
) -> tuple[AnyArray, FloatArray | None]:
    """Draw one action per state, (n,) or (n, q), with its probability or density, (n,).

    The probabilities are None if the policy has neither `probabilities` nor `log_prob`.
    """
    rows = np.arange(len(states))
    acts = bound(policy, space)
    if isinstance(space, Discrete) and not is_deterministic(policy):
        table = acts.probabilities(states)  # (n, A)
        actions = draw(np.cumsum(table, axis=1), rng)
        return actions, table[rows, actions]
    if isinstance(space, Discrete) and hasattr(policy, "sample"):
        actions = bound(lambda states: policy.sample(states, rng), space).choose(states)
    else:
        actions = acts.sample(states, rng)  # (n,) or (n, q)
    if not acts.has_density:
        return actions, None
    densities = np.exp(acts.log_prob(states, actions))
    if densities.shape != (len(states),):
        raise PolicyError(
            f"policy.log_prob must return one number per state, shape ({len(states)},). "
            f"Got {densities.shape} instead."
        )
    return actions, densities


class _Move(NamedTuple):
    alive: slice | IntArray  # the m episodes that still run
    states: FloatArray  # (m, p)
    actions: AnyArray  # (m,) or (m, q)
    propensity: FloatArray | None  # (m,)
    rewards: FloatArray  # (m,)
    next_states: FloatArray  # (m, p)
    terminated: BoolArray  # (m,)


def _moves(world: World, policy: Policy, episodes: int, steps: int, seed: Seed) -> Iterator[_Move]:
    # Two streams, so that the policy's draws do not change the world's.
    world_rng, policy_rng = np.random.default_rng(seed).spawn(2)
    alive: slice | IntArray = slice(None)
    states = world.start(episodes, world_rng)
    for _ in range(steps):
        actions, propensity = draw_actions(policy, states, world.action_space, policy_rng)
        next_states, rewards, terminated = world.step(states, actions, world_rng)
        yield _Move(alive, states, actions, propensity, rewards, next_states, terminated)
        if terminated.any():
            alive = np.arange(episodes)[alive][~terminated]
            next_states = next_states[~terminated]
            if len(alive) == 0:
                return
        states = next_states


def _world_log(
    world: World, policy: Policy, episodes: int, steps: int, seed: Seed, progress: bool | None
) -> Log:
    columns: dict[str, Any] = {}
    recorded = np.zeros((episodes, steps), dtype=bool)
    with progress_bar("rollout", steps, shown=progress, after=2) as advance:
        for time_step, move in enumerate(_moves(world, policy, episodes, steps, seed)):
            recorded[move.alive, time_step] = True
            for name, values in move._asdict().items():
                if name == "alive" or values is None:
                    continue
                if name not in columns:
                    columns[name] = np.empty((episodes, steps, *values.shape[1:]), values.dtype)
                columns[name][move.alive, time_step] = values
            advance(1)
    complete = bool(recorded.all())
    flat = {
        name: values.reshape(episodes * steps, *values.shape[2:]) if complete else values[recorded]
        for name, values in columns.items()
    }
    return Log.from_arrays(
        **flat,
        episode=np.repeat(np.arange(episodes), recorded.sum(axis=1)),
        action_space=world.action_space,
        state_names=getattr(world, "state_names", None),
    )


def _environment_log(
    environment: Any,
    policy: Policy,
    episodes: int,
    steps: int | None,
    seed: Seed,
    progress: bool | None,
) -> Log:
    from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

    vector = (
        environment
        if isinstance(environment, VectorEnv)
        else SyncVectorEnv([lambda: environment], autoreset_mode=AutoresetMode.NEXT_STEP)
    )
    mode = AutoresetMode(vector.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP))
    given: Any = vector.single_action_space
    space = as_space(given, np.empty(0))
    policy_rng, seeding = np.random.default_rng(seed).spawn(2)
    rows: list[tuple[Any, ...]] = []
    first_seed: int | None = int(seeding.integers(2**31))
    with progress_bar("rollout", episodes, shown=progress, after=2) as advance:
        # Rounds of one episode per sub-environment: taking the episodes that end first would be
        # biased towards short ones.
        for first in range(0, episodes, vector.num_envs):
            wanted = min(vector.num_envs, episodes - first)
            running = np.arange(vector.num_envs) < wanted
            observations, _ = vector.reset(seed=first_seed)
            first_seed = None
            taken = 0
            while running.any():
                states = _states(vector, observations)  # (n, p)
                actions, propensity = draw_actions(policy, states, space, policy_rng)
                shaped = actions.reshape(vector.num_envs, *given.shape).astype(given.dtype)
                observations, rewards, terminated, truncated, infos = vector.step(shaped)
                taken += 1
                over = np.asarray(terminated) | np.asarray(truncated)
                next_states = _next_states(vector, observations, infos, over, mode)
                likely = () if propensity is None else (propensity,)
                seen = (states, actions, rewards, next_states, terminated, *likely)
                rows += [(first + i, *(each[i] for each in seen)) for i in np.flatnonzero(running)]
                ended = running & (over if steps is None or taken < steps else True)
                running &= ~ended
                advance(int(ended.sum()))
                if mode == AutoresetMode.DISABLED and over.any():
                    observations, _ = vector.reset(options={"reset_mask": over})
    names = ("episode", "states", "actions", "rewards", "next_states", "terminated", "propensity")
    columns = zip(*sorted(rows, key=itemgetter(0)), strict=True)
    arrays: dict[str, Any] = {
        name: np.asarray(values) for name, values in zip(names, columns, strict=False)
    }
    return Log.from_arrays(**arrays, action_space=space)


def _states(vector: Any, observations: Any) -> FloatArray:
    from tailproof.io.minari import flatten  # with pyarrow, which worlds do not need

    states = flatten(vector.single_observation_space, observations)
    return states.copy()  # environments may use their buffers again


def _next_states(
    vector: Any, observations: Any, infos: dict[str, Any], over: BoolArray, mode: Any
) -> FloatArray:
    from gymnasium.spaces import flatten as flatten_one
    from gymnasium.vector import AutoresetMode

    states = _states(vector, observations)
    if mode == AutoresetMode.SAME_STEP:  # the observations are already those of the next episode
        for i in np.flatnonzero(over):
            final = flatten_one(vector.single_observation_space, infos["final_obs"][i])
            states[i] = np.asarray(final)
    return states
