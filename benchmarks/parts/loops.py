"""The usual way to train K learners: modules, one after the other."""

from __future__ import annotations

import copy
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.parts.workload import ACTIONS, BATCH, ROWS, STATES
from tailproof.deep.critics import LOG_STD
from tailproof.deep.data import Transitions, row_draws
from tailproof.deep.losses import squashed_log_density


def perceptron(*widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for wide, out in pairwise(widths):
        layers += [nn.Linear(wide, out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def follow(slow: nn.Module, fast: nn.Module) -> None:
    with torch.no_grad():
        for kept, moved in zip(slow.parameters(), fast.parameters(), strict=True):
            kept.mul_(1 - 0.005).add_(moved, alpha=0.005)


class LoopedIQL:
    """The usual way: K learners of modules, autograd and torch's Adam, one after the other."""

    def __init__(self, data: Transitions, members: int, hidden: tuple[int, ...]) -> None:
        self.data, self.learners = data, []
        self.draws = row_draws(np.array_split(np.arange(ROWS), members), range(members), BATCH)
        for _ in range(members):
            twins = nn.ModuleList(perceptron(STATES + ACTIONS, *hidden, 1) for _ in range(2))
            value = perceptron(STATES, *hidden, 1)
            adam_q = torch.optim.Adam(twins.parameters(), lr=3e-4)
            adam_v = torch.optim.Adam(value.parameters(), lr=3e-4)
            self.learners.append((twins, copy.deepcopy(twins), value, adam_q, adam_v))

    def update(self, step: int) -> None:
        """Take one gradient step of every member."""
        batch = self.data.gather(self.draws(step))
        for k, (twins, slow, value, adam_q, adam_v) in enumerate(self.learners):
            pairs, states = batch["pairs"][k], batch["states"][k]
            with torch.no_grad():
                target = torch.min(slow[0](pairs), slow[1](pairs))
                after = value(batch["next_states"][k])
                goal = batch["rewards"][k] + batch["discounts"][k] * after
            advantage = target - value(states)
            loss = (torch.abs(0.7 - (advantage < 0).float()) * advantage**2).mean()
            adam_v.zero_grad()
            loss.backward()
            adam_v.step()
            loss = sum(nn.functional.mse_loss(q(pairs), goal) for q in twins) / 2
            adam_q.zero_grad()
            loss.backward()
            adam_q.step()
            follow(slow, twins)


class LoopedSAC:
    """SAC-N as a loop over N critic modules and autograd."""

    def __init__(self, data: Transitions, members: int, hidden: tuple[int, ...]) -> None:
        self.data = data
        self.draws = row_draws([np.arange(ROWS)], [0], BATCH)
        self.critics = [perceptron(STATES + ACTIONS, *hidden, 1) for _ in range(members)]
        self.slow = [copy.deepcopy(critic) for critic in self.critics]
        self.actor = perceptron(STATES, *hidden, 2 * ACTIONS)
        self.log_temperature = torch.zeros(1, requires_grad=True)
        learned = [p for q in self.critics for p in q.parameters()]
        self.adam = torch.optim.Adam(learned, lr=3e-4)
        self.adam_actor = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.adam_temperature = torch.optim.Adam([self.log_temperature], lr=3e-4)

    def act(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Return actions and the log of their density."""
        mean, log_std = self.actor(states).chunk(2, -1)
        log_std, noise = log_std.clamp(*LOG_STD), torch.randn(len(states), ACTIONS)
        raw = mean + log_std.exp() * noise
        return raw.tanh(), squashed_log_density(raw, noise, log_std)

    def update(self, step: int) -> None:
        """Take one gradient step."""
        batch = self.data.gather(self.draws(step))
        pairs, states, following = batch["pairs"][0], batch["states"][0], batch["next_states"][0]
        with torch.no_grad():
            action, density = self.act(following)
            after = torch.cat([action, following], -1)
            lowest = torch.stack([q(after)[:, 0] for q in self.slow]).amin(0)
            lowest = lowest - self.log_temperature.exp() * density
            goal = batch.column("rewards")[0] + batch.column("discounts")[0] * lowest
        loss = torch.stack([(q(pairs)[:, 0] - goal).square().mean() for q in self.critics]).sum()
        self.adam.zero_grad()
        loss.backward()
        self.adam.step()
        action, density = self.act(states)
        judged = torch.cat([action, states], -1)
        value = torch.stack([q(judged)[:, 0] for q in self.critics]).amin(0)
        self.adam_actor.zero_grad()
        (self.log_temperature.exp().detach() * density - value).mean().backward()
        self.adam_actor.step()
        self.adam_temperature.zero_grad()
        (-self.log_temperature * (density.detach() - ACTIONS)).mean().backward()
        self.adam_temperature.step()
        for kept, moved in zip(self.slow, self.critics, strict=True):
            follow(kept, moved)
