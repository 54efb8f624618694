import pickle

import pytest
import torch

from tailproof.deep.networks import Adam, Parameters, Pass, Shape, Stack, concatenate, initialise


def stack(shape, seeds=None):
    made = Stack(shape, torch.empty(shape.parameters))
    initialise(made, range(shape.count) if seeds is None else seeds, stream=0)
    return made


def by_modules(made, inputs):
    """The same perceptrons as torch modules, one after the other."""
    results = []
    for k in range(made.shape.count):
        layers = []
        for weight, bias in zip(made.weights, made.biases, strict=True):
            linear = torch.nn.Linear(weight.shape[1], weight.shape[2])
            linear.weight.data, linear.bias.data = weight[k].t(), bias[k, 0]
            layers += [linear, torch.nn.ReLU()]
        results.append(torch.nn.Sequential(*layers[:-1])(inputs[k]))
    return torch.stack(results)


@pytest.mark.parametrize("widths", [(3, 8, 8, 1), (3, 8, 2), (3, 1), (2, 5, 6, 7, 4)])
def test_a_stack_is_its_modules(widths):
    made = stack(Shape(4, widths))
    inputs = torch.randn(4, 9, widths[0])
    torch.testing.assert_close(made(inputs), by_modules(made, inputs))
    torch.testing.assert_close(Pass(made, 9).forward(inputs), by_modules(made, inputs))
    torch.testing.assert_close(made(inputs[0], rows=4), made(inputs[:1].repeat(4, 1, 1)))


@pytest.mark.parametrize("widths", [(3, 8, 8, 1), (3, 8, 2), (3, 1), (2, 5, 6, 7, 4)])
def test_backward_equals_autograd(widths):
    shape = Shape(4, widths)
    parameters = Parameters({"before": Shape(2, (2, 2)), "net": shape})
    made = parameters.stacks["net"]
    made.flat.copy_(stack(shape).flat)
    inputs = torch.randn(4, 9, widths[0])
    upstream = torch.randn(4, 9, widths[-1])
    sent = Pass(made, 9, parameters.gradients["net"])
    sent.forward(inputs)
    by_inputs = sent.backward(upstream, to_inputs=2)

    flat = made.flat.clone().requires_grad_(True)
    wanted = inputs.clone().requires_grad_(True)
    Stack(shape, flat)(wanted).mul(upstream).sum().backward()
    torch.testing.assert_close(parameters.gradients["net"].flat, flat.grad)
    torch.testing.assert_close(by_inputs, wanted.grad[..., :2])
    assert (parameters.gradients["before"].flat == 0).all()


def test_backward_of_some_rows_leaves_the_others_out():
    shape = Shape(2, (3, 8, 1))
    parameters = Parameters({"net": shape})
    parameters.stacks["net"].flat.copy_(stack(shape).flat)
    inputs, upstream = torch.randn(2, 10, 3), torch.randn(2, 10, 1)
    sent = Pass(parameters.stacks["net"], 10, parameters.gradients["net"])
    sent.forward(inputs)
    sent.backward(upstream[:, :4])
    first = parameters.gradient.clone()
    upstream[:, 4:] = 0
    sent.backward(upstream)
    torch.testing.assert_close(first, parameters.gradient)


def test_members_start_where_they_would_alone():
    together = stack(Shape(3, (4, 6, 1)))
    for k in range(3):
        assert torch.equal(together.members([k]).flat, stack(Shape(1, (4, 6, 1)), [k]).flat)
    twins = stack(Shape(6, (4, 6, 1)), range(3))
    assert torch.equal(twins.members([0, 1, 2]).flat, together.flat)
    assert not torch.equal(twins.members([3]).flat, together.members([0]).flat)


def test_stacks_split_join_and_pickle():
    made = stack(Shape(4, (3, 5, 2)))
    inputs = torch.randn(6, 3)
    parts = [made.members([0, 1]), made.members([2, 3])]
    assert torch.equal(concatenate(parts).flat, made.flat)
    assert torch.equal(pickle.loads(pickle.dumps(made))(inputs), made(inputs))


def test_adam_is_torchs():
    start = torch.randn(50)
    ours, gradient = start.clone(), torch.empty(50)
    optimiser = Adam(ours, gradient, 1e-2)
    theirs = torch.nn.Parameter(start.clone())
    reference = torch.optim.Adam([theirs], lr=1e-2)
    for step in range(20):
        gradient.copy_((ours - 1) ** 3 + step)
        theirs.grad = (theirs.detach() - 1) ** 3 + step
        with torch.no_grad():
            optimiser.step()
        reference.step()
    torch.testing.assert_close(ours, theirs.detach())
