"""The whole gradient of every learner equals autograd's of the same loss, written plainly."""

import numpy as np
import pytest
import torch

from tailproof import Mean, MeanMinusStd, Median, Quantile, Replicate, Split
from tailproof.deep import IQL, SAC, SQL, TD3BC, NeuralFQE, losses
from tailproof.deep.actor_critic import ActorCriticLearner, squash
from tailproof.deep.cloning import CloningLearner
from tailproof.deep.critic_learner import FQELearner, ImplicitLearner
from tailproof.deep.data import Scaling
from tailproof.deep.fitting import MemberGroup
from tailproof.deep.networks import Stack
from tailproof.deep.reductions import reduce

BATCH, GAMMA = 16, 0.9
SMALL = {"hidden": (8, 8), "batch": BATCH, "learning_rate": 1e-3}


def scaling_of(log):
    return Scaling.of(log, standardise=True, reward_scale="auto")


def group_of(log, settings, partition, backup=None, extra=None):
    folds = partition.assign(log, np.random.default_rng(0))
    return MemberGroup(
        log,
        GAMMA,
        folds,
        tuple(range(folds.count)),
        scaling_of(log),
        settings,
        backup,
        extra=extra or {},
    )


def differentiable(stack):
    flat = stack.flat.clone().requires_grad_(True)
    return flat, Stack(stack.shape, flat)


def close(got, expected):
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-6)


def q_at(stack, batch, twins, members, discrete, name="states", actions=None):
    """Q of every network at each member's rows, (T, K, B)."""
    if discrete:
        inputs = batch[name]
    else:
        inputs = torch.cat([batch["actions"] if actions is None else actions, batch[name]], -1)
    inputs = inputs.expand(members, -1, -1)
    out = stack(inputs.repeat(twins, 1, 1)).view(twins, members, BATCH, -1)
    if discrete:
        logged = batch.column("actions").long().expand(twins, members, -1).unsqueeze(-1)
        return out.gather(-1, logged).squeeze(-1)
    return out.squeeze(-1)


def everyone_at(stack, inputs, twins, members):
    """The smallest twin of every member at all M·B inputs, (K, M, B, out)."""
    flat = inputs.reshape(-1, inputs.shape[-1])
    return stack(flat).view(twins, members, *inputs.shape[:2], -1).amin(0)


@pytest.mark.parametrize("base", [IQL, SQL])
@pytest.mark.parametrize("huber", [None, 0.5])
@pytest.mark.parametrize("discrete", [False, True])
@pytest.mark.parametrize(
    ("backup", "shared"),
    [
        (None, False),
        (Median(), False),
        (Median(), True),
        (Quantile(0.25), False),
        (Quantile(0.25), True),
    ],
    ids=str,
)
def test_implicit(log, discrete_log, base, huber, discrete, backup, shared):
    chosen = discrete_log if discrete else log
    members, twins = 3, 2
    rule = base(huber=huber, target_rate=0.1, **({"alpha": 0.5} if base is SQL else {}), **SMALL)
    partition = Replicate(members) if shared else Split(members)
    learner = ImplicitLearner(group_of(chosen, rule, partition, backup))
    with torch.no_grad():
        for step in range(3):  # so that the slow copies lag behind
            learner.update(step)
        learner.gradients(3)

    batch = learner.table.gather(learner.draws(3))
    q_flat, q = differentiable(learner.q)
    v_flat, v = differentiable(learner.v)
    with torch.no_grad():
        if backup is None:
            slow = q_at(learner.slow, batch, twins, members, discrete).amin(0)
            after = v(batch["next_states"]).squeeze(-1)
        else:
            every = everyone_at(
                learner.slow, learner.inputs(batch), twins, members
            )  # (K, M, B, out)
            if discrete:
                logged = batch.column("actions").long().expand(members, -1, -1).unsqueeze(-1)
                every = every.gather(-1, logged)
            slow = reduce(backup, every.squeeze(-1))
            after = reduce(backup, everyone_at(v, batch["next_states"], 1, members).squeeze(-1))
        target = batch.column("rewards") + batch.column("discounts") * after
    states = batch["states"].expand(members, -1, -1)
    value = v(states).squeeze(-1)
    error = q_at(q, batch, twins, members, discrete) - target
    critic = losses.error_loss(error, huber)
    loss = critic.sum() + rule.value_loss(slow - value, value).sum()
    loss.backward()
    close(learner.parameters.gradients["q"].flat, q_flat.grad)
    close(learner.parameters.gradients["v"].flat, v_flat.grad)


@pytest.mark.parametrize("discrete", [False, True])
def test_cloning(log, discrete_log, discrete):
    chosen = discrete_log if discrete else log
    weights = np.random.default_rng(1).exponential(size=(2, chosen.n_transitions))
    learner = CloningLearner(
        IQL(**SMALL), chosen, scaling_of(chosen), weights, steps=10, seed=0, hidden=(8, 8)
    )
    with torch.no_grad():
        learner.update(0)
        learner.gradients(1)
    batch = learner.table.gather(learner.draws(1))
    flat, policy = differentiable(learner.stack)
    out = policy(batch["states"].expand(2, -1, -1))
    weight = batch["weights"][0].t()
    if discrete:
        logged = batch.column("actions").long().expand(2, -1)
        losses.cross_entropy_loss(out, logged, weight).sum().backward()
    else:
        losses.regression_loss(out.tanh(), batch["actions"], weight).sum().backward()
    close(learner.parameters.gradient, flat.grad)


def test_cloning_by_likelihood_learns_the_spread_of_the_actions(log):
    base = IQL(batch=128, learning_rate=1e-2, policy="gaussian")
    even = np.ones((1, log.n_transitions))
    learner = CloningLearner(base, log, scaling_of(log), even, steps=300, seed=0, hidden=(8, 8))
    with torch.no_grad():
        for step in range(300):
            learner.update(step)
    # The logged actions are even on [−1, 1] whatever the state: their standard deviation is 1/√3.
    np.testing.assert_allclose(learner.log_std.exp().numpy(), 3**-0.5, rtol=0.1)
    assert {"spread.parameters", "spread.first"} <= set(learner.tensors())


@pytest.mark.parametrize("backup", [Quantile(0.0), MeanMinusStd(2.0), Median()], ids=str)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("members", [1, 4, 5])
def test_soft_actor_critic(log, backup, shared, members):
    settings = SAC(target_rate=0.1, **SMALL)
    partition = Replicate(members) if shared else Split(members)
    learner = ActorCriticLearner(group_of(log, settings, partition, backup))
    with torch.no_grad():
        for step in range(3):
            learner.update(step)
        batch, noise = learner.table.gather(learner.draws(3)), learner.normals(3)
        learner.critic_gradients(batch, noise[0])
        learner.actor.gradients(*learner.judge(batch, noise[1]))

    q_flat, q = differentiable(learner.q)
    p_flat, policy = differentiable(learner.actor.stack)
    log_temperature = learner.actor.log_temperature.clone().requires_grad_(True)
    following, states = batch["next_states"], batch["states"].reshape(-1, 3)
    with torch.no_grad():
        drawn = squash(policy(following.reshape(-1, 3))[0], noise[0])
        pairs = torch.cat([drawn.action.view(*following.shape[:2], 2), following], -1)
        after = reduce(backup, everyone_at(learner.slow, pairs, 1, members).squeeze(-1))
        after = after - (log_temperature.exp() * drawn.log_density).view_as(after)
        target = batch.column("rewards") + batch.column("discounts") * after
    losses.error_loss(q_at(q, batch, 1, members, False) - target).sum().backward()
    close(learner.parameters.gradient, q_flat.grad)

    drawn = squash(policy(states)[0], noise[1])
    value = reduce(backup, learner.q(torch.cat([drawn.action, states], -1)).squeeze(-1))
    temperature = log_temperature.exp().detach()
    losses.soft_policy_loss(drawn.log_density, value, temperature).sum().backward()
    close(learner.actor.parameters.gradient, p_flat.grad)
    (-log_temperature * (drawn.log_density.detach() - 2.0)).mean().backward()
    close(learner.actor._by_temperature, log_temperature.grad)


def test_cloned_actor_critic(log):
    learner = ActorCriticLearner(group_of(log, TD3BC(target_rate=0.1, **SMALL), Replicate(1)))
    with torch.no_grad():
        for step in range(3):
            learner.update(step)
        batch, noise = learner.table.gather(learner.draws(3)), learner.normals(3)
        learner.critic_gradients(batch, noise[0])
        learner.actor.gradients(*learner.judge(batch, noise[1]))

    q_flat, q = differentiable(learner.q)
    p_flat, policy = differentiable(learner.actor.stack)
    following, states = batch["next_states"], batch["states"][0]
    with torch.no_grad():
        action = learner.actor.slow(following[0])[0].tanh()
        action = (action + (0.2 * noise[0]).clamp(-0.5, 0.5)).clamp(-1, 1)
        after = everyone_at(learner.slow, torch.cat([action.unsqueeze(0), following], -1), 2, 1)
        target = batch.column("rewards") + batch.column("discounts") * after[0, ..., 0]
    losses.error_loss(q_at(q, batch, 2, 1, False) - target).sum().backward()
    close(learner.parameters.gradient, q_flat.grad)

    action = policy(states)[0].tanh()
    value = learner.q(torch.cat([action, states], -1)).squeeze(-1).amin(0)
    losses.cloned_policy_loss(action, batch["actions"][0], value, 2.5).backward()
    close(learner.actor.parameters.gradient, p_flat.grad)


@pytest.mark.parametrize("discrete", [False, True])
@pytest.mark.parametrize("backup", [None, Mean(), Median()], ids=str)
def test_neural_fqe(log, discrete_log, discrete, backup):
    chosen, members = (discrete_log if discrete else log), 3
    rng = np.random.default_rng(2)
    if discrete:
        extra = {"policy": rng.dirichlet(np.ones(3), size=chosen.n_transitions)}
    else:
        extra = {"next_actions": rng.uniform(-1, 1, (chosen.n_transitions, 4))}
    settings = NeuralFQE(target_rate=0.1, **SMALL)
    learner = FQELearner(group_of(chosen, settings, Split(members), backup, extra))
    with torch.no_grad():
        for step in range(3):
            learner.update(step)
        learner.gradients(3)
    batch = learner.table.gather(learner.draws(3))
    flat, q = differentiable(learner.q)
    with torch.no_grad():
        following = batch["next_states"]
        if not discrete:  # step 3 takes the second of the two draws
            following = torch.cat([batch["next_actions"][..., 2:], following], -1)
        if backup is None:
            every = learner.slow(following)
            after = (every * batch["policy"]).sum(-1) if discrete else every.squeeze(-1)
        else:
            every = everyone_at(learner.slow, following, 1, members)
            every = (every * batch["policy"]).sum(-1) if discrete else every.squeeze(-1)
            after = reduce(backup, every)
        after = after.clamp(*learner.bounds)
        target = batch.column("rewards") + batch.column("discounts") * after
    losses.error_loss(q_at(q, batch, 1, members, discrete) - target).sum().backward()
    close(learner.parameters.gradient, flat.grad)
