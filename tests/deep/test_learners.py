"""The losses of every learner, and their gradients, equal the same losses written plainly."""

from functools import partial

import numpy as np
import pytest
import torch

from tailproof import Mean, MeanMinusStd, Median, Quantile, Replicate, Split
from tailproof.deep import IQL, SAC, SQL, TD3BC, NeuralFQE, Run, losses
from tailproof.deep.data import Scaling
from tailproof.deep.fitting import MemberGroup
from tailproof.deep.learners import ImitationLearner, learner_of, squash
from tailproof.deep.losses import reduce
from tailproof.deep.stack import Stack
from tailproof.errors import MethodError

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


def own_copy(stack):
    return Stack(stack.shape, stack.flat.clone(), trainable=True)


def close(got, expected):
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-6)


def same_gradients(loss, stack, expected, copy):
    """Check the gradients of two losses, by the parameters of a stack and of its copy."""
    close(loss, expected)
    close(
        torch.autograd.grad(loss.sum(), stack.parameters, retain_graph=True),
        torch.autograd.grad(expected.sum(), copy.parameters, retain_graph=True),
    )


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
    learner = learner_of(group_of(chosen, rule, partition, backup))
    for step in range(3):  # so that the target networks lag behind
        learner.update(step)
    batch = learner.table.gather(learner.draws(3))
    found = learner.losses(batch, learner.next_inputs(batch, 3))

    q, v = own_copy(learner.q), own_copy(learner.v)
    with torch.no_grad():
        if backup is None:
            target_q = q_at(learner.target_q, batch, twins, members, discrete).amin(0)
            after = v(batch["next_states"]).squeeze(-1)
        else:
            every = everyone_at(
                learner.target_q, learner.inputs(batch), twins, members
            )  # (K, M, B, out)
            if discrete:
                logged = batch.column("actions").long().expand(members, -1, -1).unsqueeze(-1)
                every = every.gather(-1, logged)
            target_q = reduce(backup, every.squeeze(-1))
            after = reduce(backup, everyone_at(v, batch["next_states"], 1, members).squeeze(-1))
        target = batch.column("rewards") + batch.column("discounts") * after
    value = v(batch["states"].expand(members, -1, -1)).squeeze(-1)
    error = q_at(q, batch, twins, members, discrete) - target
    same_gradients(found["q loss"], learner.q, losses.error_loss(error, huber), q)
    same_gradients(found["v loss"], learner.v, rule.value_loss(target_q - value, value), v)


def imitation(base, log, weights):
    scaling = scaling_of(log)
    return ImitationLearner(base, base.imitation, log, scaling, weights, seed=0)


@pytest.mark.parametrize("squash", [False, True])
@pytest.mark.parametrize("discrete", [False, True])
def test_imitation(log, discrete_log, discrete, squash):
    chosen = discrete_log if discrete else log
    weights = np.random.default_rng(1).exponential(size=(2, chosen.n_transitions))
    learner = imitation(IQL(policy_steps=10, squash=squash, **SMALL), chosen, weights)
    learner.update(0)
    batch = learner.table.gather(learner.draws(1))
    policy = own_copy(learner.stack)
    out = policy(batch["states"].expand(2, -1, -1))
    weight = batch["weights"][0].t()
    if discrete:
        logged = batch.column("actions").long().expand(2, -1)
        expected = losses.cross_entropy_loss(out, logged, weight)
    else:
        action = out.tanh() if squash else out
        expected = losses.regression_loss(action, batch["actions"], weight)
    same_gradients(learner.loss(batch), learner.stack, expected, policy)


def test_an_action_that_is_not_squashed_is_clipped(log, tmp_path):
    onnx = pytest.importorskip("onnxruntime")
    learner = imitation(
        IQL(policy_steps=10, squash=False, **SMALL), log, np.ones((1, log.n_transitions))
    )
    with torch.no_grad():
        learner.stack.layers[-1].weight.mul_(50)
    (policy,) = learner.policies()
    actions = policy(log.states)
    assert np.abs(actions).max() == 1
    inside = np.abs(actions) < 1
    raw = policy.scaling.raw_actions(policy.outputs(log.states).numpy())
    np.testing.assert_allclose(actions[inside], raw[inside])
    policy.save(tmp_path / "policy.onnx")
    session = onnx.InferenceSession(
        str(tmp_path / "policy.onnx"), providers=["CPUExecutionProvider"]
    )
    answers = session.run(None, {"states": log.states.astype(np.float32)})[0]
    np.testing.assert_allclose(answers, actions, rtol=1e-4, atol=1e-4)


def test_imitation_by_likelihood_learns_the_spread_of_the_actions(log):
    base = IQL(batch=128, learning_rate=1e-2, policy="gaussian", policy_steps=300, hidden=(8, 8))
    learner = imitation(base, log, np.ones((1, log.n_transitions)))
    for step in range(300):
        learner.update(step)
    # The logged actions are even on [−1, 1] whatever the state: their standard deviation is 1/√3.
    np.testing.assert_allclose(learner.log_std.detach().exp().numpy(), 3**-0.5, rtol=0.1)


@pytest.mark.parametrize("backup", [Quantile(0.0), MeanMinusStd(2.0), Median()], ids=str)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("members", [1, 4, 5])
def test_soft_actor_critic(log, backup, shared, members):
    settings = SAC(target_rate=0.1, **SMALL)
    partition = Replicate(members) if shared else Split(members)
    learner = learner_of(group_of(log, settings, partition, backup))
    for step in range(3):
        learner.update(step)
    batch, noise = learner.table.gather(learner.draws(3)), learner.normals(3)
    q, policy = own_copy(learner.q), own_copy(learner.actor.stack)
    temperature = learner.actor.log_temperature.exp().detach()
    following, states = batch["next_states"], batch["states"].reshape(-1, 3)
    with torch.no_grad():
        action, log_density = squash(policy(following.reshape(-1, 3))[0], noise[0])
        pairs = torch.cat([action.view(*following.shape[:2], 2), following], -1)
        after = reduce(backup, everyone_at(learner.target_q, pairs, 1, members).squeeze(-1))
        after = after - (temperature * log_density).view_as(after)
        target = batch.column("rewards") + batch.column("discounts") * after
    expected = losses.error_loss(q_at(q, batch, 1, members, False) - target)
    same_gradients(learner.losses(batch, noise[0])["q loss"], learner.q, expected, q)

    action, log_density = squash(policy(states)[0], noise[1])
    value = reduce(backup, q(torch.cat([action, states], -1)).squeeze(-1))
    expected = losses.soft_policy_loss(log_density, value, temperature).view(1)
    found = learner.actor.losses(learner.judge, states, noise[1], batch["actions"].flatten(0, 1))
    same_gradients(found["policy loss"], learner.actor.stack, expected, policy)
    close(found["entropy"], -log_density.detach().mean().view(1))


@pytest.mark.parametrize("target", [-50.0, 50.0])
def test_the_temperature_rises_while_the_entropy_is_too_low(log, target):
    settings = SAC(target_entropy=target, **SMALL)
    learner = learner_of(group_of(log, settings, Replicate(2), Quantile(0.0)))
    for step in range(3):
        learner.update(step)
    risen = float(learner.actor.log_temperature.detach().exp()) > settings.temperature
    assert risen == (target > 0)


def test_cloned_actor_critic(log):
    settings = TD3BC(target_rate=0.1, **SMALL)
    learner = learner_of(group_of(log, settings, Replicate(1)))
    for step in range(3):
        learner.update(step)
    batch, noise = learner.table.gather(learner.draws(3)), learner.normals(3)
    q, policy = own_copy(learner.q), own_copy(learner.actor.stack)
    following, states = batch["next_states"], batch["states"][0]
    with torch.no_grad():
        action = learner.actor.target(following[0])[0].tanh()
        action = (action + (0.2 * noise[0]).clamp(-0.5, 0.5)).clamp(-1, 1)
        after = everyone_at(learner.target_q, torch.cat([action.unsqueeze(0), following], -1), 2, 1)
        target = batch.column("rewards") + batch.column("discounts") * after[0, ..., 0]
    expected = losses.error_loss(q_at(q, batch, 2, 1, False) - target)
    same_gradients(learner.losses(batch, noise[0])["q loss"], learner.q, expected, q)

    action = policy(states)[0].tanh()
    value = q(torch.cat([action, states], -1)).squeeze(-1).amin(0)
    expected = losses.cloned_policy_loss(action, batch["actions"][0], value, 2.5).view(1)
    found = learner.actor.losses(learner.judge, states, noise[1], batch["actions"][0])
    same_gradients(found["policy loss"], learner.actor.stack, expected, policy)


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
    learner = learner_of(group_of(chosen, settings, Split(members), backup, extra))
    for step in range(3):
        learner.update(step)
    batch = learner.table.gather(learner.draws(3))
    q = own_copy(learner.q)
    with torch.no_grad():
        following = batch["next_states"]
        if not discrete:  # step 3 takes the second of the two draws
            following = torch.cat([batch["next_actions"][..., 2:], following], -1)
        if backup is None:
            every = learner.target_q(following)
            after = (every * batch["policy"]).sum(-1) if discrete else every.squeeze(-1)
        else:
            every = everyone_at(learner.target_q, following, 1, members)
            every = (every * batch["policy"]).sum(-1) if discrete else every.squeeze(-1)
            after = reduce(backup, every)
        after = after.clamp(learner.low, learner.high)
        target = batch.column("rewards") + batch.column("discounts") * after
    expected = losses.error_loss(q_at(q, batch, 1, members, discrete) - target)
    found = learner.losses(batch, learner.next_inputs(batch, 3))["q loss"]
    same_gradients(found, learner.q, expected, q)


def test_a_layer_norm_makes_v_ignore_the_scale_of_its_first_layer(log):
    settings = IQL(layer_norm=True, **SMALL)
    learner = learner_of(group_of(log, settings, Split(2)))
    states = torch.randn(1, 5, 3)
    before = learner.state_values(states)
    with torch.no_grad():
        for part in learner.v.layers[0][:2]:
            part.mul_(7)
    torch.testing.assert_close(learner.state_values(states), before, rtol=1e-3, atol=1e-4)
    assert learner.critics().v.shape.normalised


@pytest.mark.parametrize(
    ("base", "partition", "backup"),
    [(IQL, Split(2), None), (SAC, Replicate(2), Quantile(0.0))],
    ids=["iql", "sac"],
)
def test_traced_losses_are_the_same(log, base, partition, backup, monkeypatch):
    """As far as tracing them goes: what the C++ compiler makes of the trace is torch's affair."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    learners = []
    for compiles in (False, True):
        settings = base(run=Run(compile=compiles), **SMALL)
        learner = learner_of(group_of(log, settings, partition, backup))
        for step in range(3):
            learner.update(step)
        learners.append(learner)
    close(learners[1].q.flat, learners[0].q.flat)


def test_a_missing_compiler_is_named(log, monkeypatch):
    def fails(function, **options):
        def call(*given):
            raise torch._dynamo.exc.TorchDynamoException("No working C++ compiler found")

        return call

    monkeypatch.setattr(torch, "compile", fails)
    settings = IQL(run=Run(compile=True), **SMALL)
    learner = learner_of(group_of(log, settings, Split(2)))
    with pytest.raises(MethodError, match=r"compile=True needs a compiler .*No working C\+\+"):
        learner.update(0)
