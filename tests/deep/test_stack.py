"""Stacked perceptrons are their modules, and Adam is torch's."""

import pickle

import pytest
import torch

from tailproof.deep.stack import Adam, Shape, Stack, cosine, finite

WIDTHS = [(3, 8, 8, 1), (3, 8, 2), (3, 1), (2, 5, 6, 7, 4)]


def stack(shape, seeds=None):
    return Stack.random(shape, range(shape.count) if seeds is None else seeds, stream=0)


def modules(made):
    """The same perceptrons as torch modules."""
    found = []
    for k in range(made.shape.count):
        parts = []
        for layer in made.layers:
            linear = torch.nn.Linear(layer.weight.shape[1], layer.weight.shape[2])
            linear.weight.data, linear.bias.data = layer.weight[k].data.t(), layer.bias[k, 0].data
            parts.append(linear)
            if layer.scale is not None:
                norm = torch.nn.LayerNorm(linear.out_features)
                norm.weight.data, norm.bias.data = layer.scale[k, 0].data, layer.shift[k, 0].data
                parts.append(norm)
            parts.append(torch.nn.ReLU())
        found.append(torch.nn.Sequential(*parts[:-1]))
    return found


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("widths", WIDTHS)
def test_a_stack_is_its_modules_and_so_are_its_gradients(widths, normalised):
    made = stack(Shape(4, widths, normalised))
    with torch.no_grad():
        for layer in made.layers:
            if layer.scale is not None:
                layer.scale.uniform_(0.5, 2.0)
                layer.shift.normal_()
    inputs = torch.randn(4, 9, widths[0], requires_grad=True)
    alone = modules(made)
    expected = torch.stack([each(rows) for each, rows in zip(alone, inputs, strict=True)])
    outputs = made(inputs)
    torch.testing.assert_close(outputs, expected)
    torch.testing.assert_close(made.predict(inputs, rows=4), expected.detach())

    upstream = torch.randn_like(outputs)
    first = (made.layers[0].weight, inputs)
    by_weight, by_inputs = torch.autograd.grad((outputs * upstream).sum(), first)
    (expected * upstream).sum().backward()
    torch.testing.assert_close(by_weight, torch.stack([each[0].weight.grad.t() for each in alone]))
    torch.testing.assert_close(by_inputs, inputs.grad)


def test_rows_for_all_networks_are_given_once():
    made = stack(Shape(4, (3, 8, 1)))
    inputs = torch.randn(6, 3)
    torch.testing.assert_close(made(inputs), made(inputs.expand(4, 6, 3)))


def test_a_fixed_view_shares_its_parameters_and_passes_gradients_to_the_inputs_only():
    made = stack(Shape(2, (3, 8, 1)))
    fixed, inputs = made.fixed(), torch.randn(5, 3, requires_grad=True)
    fixed(inputs).sum().backward()
    assert inputs.grad is not None
    assert all(part.grad is None for part in (*made.parameters, *fixed.parameters))
    made.flat.mul_(2)
    torch.testing.assert_close(fixed(inputs), made(inputs))


def test_members_start_where_they_would_alone():
    together = stack(Shape(3, (4, 6, 1)))
    for k in range(3):
        assert torch.equal(together.members([k]).flat, stack(Shape(1, (4, 6, 1)), [k]).flat)
    twins = stack(Shape(6, (4, 6, 1)), range(3))
    assert torch.equal(twins.members([0, 1, 2]).flat, together.flat)
    assert not torch.equal(twins.members([3]).flat, together.members([0]).flat)


@pytest.mark.parametrize("normalised", [False, True])
def test_stacks_split_join_and_pickle(normalised):
    made = stack(Shape(4, (3, 5, 2), normalised))
    inputs = torch.randn(6, 3)
    assert torch.equal(Stack.join([made.members([0, 1]), made.members([2, 3])]).flat, made.flat)
    assert torch.equal(pickle.loads(pickle.dumps(made)).predict(inputs), made.predict(inputs))


def test_a_member_is_finite_if_all_its_networks_are():
    made = stack(Shape(6, (3, 5, 2)), range(3))
    with torch.no_grad():
        made.layers[1].bias[4] = float("nan")
    assert finite(made.parameters, 3).tolist() == [True, False, True]


def test_adam_is_torchs():
    start = [torch.randn(4, 5), torch.randn(7)]
    ours = [part.clone().requires_grad_() for part in start]
    theirs = [part.clone().requires_grad_() for part in start]
    optimiser, reference = Adam(ours, 1e-2), torch.optim.Adam(theirs, lr=1e-2)

    def loss(parts, step):
        return sum(((part - 1) ** 4 + step * part).sum() for part in parts)

    for step in range(20):
        optimiser.minimise(loss(ours, step), rate=cosine(step, 20))
        reference.param_groups[0]["lr"] = 1e-2 * cosine(step, 20)
        reference.zero_grad()
        loss(theirs, step).backward()
        reference.step()
    torch.testing.assert_close(ours, theirs)


def test_the_cosine_is_that_of_torchs_schedule():
    parameter = torch.zeros(1, requires_grad=True)
    optimiser = torch.optim.Adam([parameter], lr=1.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 7)
    for step in range(25):  # beyond its end it rises again
        assert cosine(step, 7) == pytest.approx(schedule.get_last_lr()[0], abs=1e-6)
        optimiser.step()
        schedule.step()
