"""Critics and policies of deep learners, with numpy inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray, one_or_many
from tailproof.deep.data import Scaling
from tailproof.deep.stack import Stack
from tailproof.errors import MethodError
from tailproof.files import SavedFileError, read_value, write_value
from tailproof.policies.forms import made_for

if TYPE_CHECKING:
    from tailproof.export.onnx import Graph, Output
    from tailproof.io.encoder import Encoder

POLICY_KIND, POLICY_VERSION = "neural policy", 2
LOG_STD = (-5.0, 2.0)  # beyond these a squashed Gaussian is constant, or takes extreme values only


@dataclass(frozen=True, eq=False)
class NeuralCritics:
    """Q_k(s, a), the smallest of member k's networks, in the log's unit of reward.

    Attributes
    ----------
    q
        The networks; network t·K + k is the t-th of member k.
    v
        V_k(s) of IQL and SQL; None otherwise.
    alive
        Which members did not diverge, (K,).
    """

    q: Stack
    v: Stack | None
    twins: int
    scaling: Scaling
    alive: BoolArray

    @property
    def count(self) -> int:
        """Number of members, K."""
        return self.q.shape.count // self.twins

    def values(self, states: FloatArray, actions: AnyArray) -> FloatArray:
        """Return Q_k(s, a) at n state-action pairs, (K, n)."""
        if self.scaling.n_actions is not None:
            chosen = np.broadcast_to(np.asarray(actions, dtype=np.intp), (self.count, len(states)))
            every = self.action_values(states, self.scaling.n_actions)  # (K, A, n)
            return np.take_along_axis(every, chosen[:, None], axis=1)[:, 0]
        pairs = np.concatenate([self.scaling.actions(actions), self.scaling.states(states)], axis=1)
        return self._smallest(pairs)[..., 0]

    def action_values(self, states: FloatArray, n_actions: int) -> FloatArray:
        """Return Q_k(s, a) at every discrete action, (K, A, n)."""
        if self.scaling.n_actions != n_actions:
            raise MethodError(
                f"These critics were trained on {self.scaling.n_actions or 'continuous'} actions. "
                f"Got n_actions={n_actions}."
            )
        return self._smallest(self.scaling.states(states)).swapaxes(1, 2)

    def state_values(self, states: FloatArray) -> FloatArray:
        """Return V_k(s), (K, n); for IQL and SQL."""
        if self.v is None:
            raise MethodError("These critics have no V(s); IQL's and SQL's have.")
        return self._predicted(self.v, self.scaling.states(states))[..., 0]

    def healthy(self) -> BoolArray:
        """Return which members did not diverge, (K,)."""
        return self.alive

    def subset(self, members: IntArray) -> NeuralCritics:
        """Return only these members."""
        kept = [int(k) for k in members]
        networks = [twin * self.count + k for twin in range(self.twins) for k in kept]
        v = None if self.v is None else self.v.members(kept)
        return NeuralCritics(
            self.q.members(networks), v, self.twins, self.scaling, self.alive[kept]
        )

    def _smallest(self, inputs: FloatArray) -> FloatArray:
        values = self._predicted(self.q, inputs)  # (T·K, n, out)
        return np.asarray(values.reshape(self.twins, self.count, *values.shape[1:]).min(axis=0))

    def _predicted(self, stack: Stack, inputs: FloatArray) -> FloatArray:
        values = stack.predict(torch.from_numpy(inputs).to(stack.flat.device))
        return np.asarray(values.double().cpu().numpy() / self.scaling.reward_scale)


@dataclass(frozen=True, eq=False)
class NeuralPolicy:
    """A deterministic policy π(s) = tanh of a network, in the log's unit of action.

    Calling it with states (n, p) returns actions (n, q). `state_names`, `action_labels` and `encoder`
    are those of the log that it was learned from.
    """

    stack: Stack
    scaling: Scaling
    _: KW_ONLY
    state_names: tuple[str, ...] = ()
    action_labels: tuple[str, ...] | None = None
    encoder: Encoder | None = None

    kind = "deterministic"

    @one_or_many
    def __call__(self, states: FloatArray) -> AnyArray:
        """Return the action in each state, (n, q); for one state (p,), one action (q,)."""
        outputs = self.outputs(states)[:, : self.scaling.action_width]
        return self.scaling.raw_actions(self.bounded(outputs).cpu().numpy())

    def bounded(self, outputs: Tensor) -> Tensor:
        """Return actions within [−1, 1] for the network's outputs."""
        return outputs.tanh()

    def outputs(self, states: FloatArray) -> Tensor:
        """Return the network's outputs, (n, out)."""
        return self.stack.predict(
            torch.from_numpy(self.scaling.states(states)).to(self.stack.flat)
        )[0]

    def save(self, path: str | Path) -> None:
        """Write the policy for `tailproof.load_policy`; as an ONNX graph if the name ends in .onnx."""
        if Path(path).suffix == ".onnx":
            return self._save_graph(Path(path))
        return write_value(path, POLICY_KIND, POLICY_VERSION, self)

    def _save_graph(self, path: Path) -> None:
        """Write an ONNX graph from columns or states to actions, both in the log's units."""
        from tailproof.export.onnx import Graph

        graph = Graph()
        mean, scale = (
            np.float32(each) for each in (self.scaling.state_mean, self.scaling.state_scale)
        )
        hidden = graph.node("Div", graph.node("Sub", "states", mean), scale)
        for index, layer in enumerate(self.stack.layers):
            hidden = graph.node("Relu", hidden) if index else hidden
            product = graph.node("MatMul", hidden, layer.weight.cpu().numpy())
            hidden = graph.node("Add", product, layer.bias.cpu().numpy())
        graph.write(
            path,
            len(self.scaling.state_mean),
            self._outputs_in(graph, graph.node("Squeeze", hidden, [0])),
            {
                **made_for(self),
                "n_actions": self.scaling.n_actions,
                "draws": self.kind == "categorical",
            },
            encoder=self.encoder,
            kind="FLOAT",
        )

    def _outputs_in(self, graph: Graph, outputs: str) -> dict[str, Output]:
        """Add the actions for the network's outputs to a graph; for a Gaussian, those of its mean."""
        width = self.scaling.action_width
        bounded = self._bounded_in(graph, graph.node("Slice", outputs, [0], [width], [1]))
        wide = graph.node("Mul", bounded, np.float32(self.scaling.action_half))
        actions = graph.node("Add", wide, np.float32(self.scaling.action_middle))
        return {"actions": (actions, "FLOAT", ["n", width])}

    def _bounded_in(self, graph: Graph, outputs: str) -> str:
        """Add `bounded` to a graph."""
        return graph.node("Tanh", outputs)


@dataclass(frozen=True, eq=False)
class ClippedPolicy(NeuralPolicy):
    """A deterministic policy: the network's outputs, clipped to the bounds of the actions."""

    kind = "clipped"

    def bounded(self, outputs: Tensor) -> Tensor:
        """Return actions within [−1, 1] for the network's outputs."""
        return outputs.clamp(-1, 1)

    def _bounded_in(self, graph: Graph, outputs: str) -> str:
        """Add `bounded` to a graph."""
        return graph.node("Clip", outputs, np.float32(-1), np.float32(1))


@dataclass(frozen=True, eq=False)
class CategoricalPolicy(NeuralPolicy):
    """A softmax over discrete actions; calling it returns the most likely action."""

    kind = "categorical"

    @property
    def n_actions(self) -> int | None:
        """Number of actions."""
        return self.scaling.n_actions

    @one_or_many
    def __call__(self, states: FloatArray) -> AnyArray:
        """Return the most likely action in each state, (n,); for one state (p,), one action."""
        return self.outputs(states).argmax(-1).cpu().numpy()

    def probabilities(self, states: FloatArray) -> FloatArray:
        """Return π(a | s), (n, A)."""
        return np.asarray(self.outputs(states).double().softmax(-1).cpu().numpy())

    def _outputs_in(self, graph: Graph, outputs: str) -> dict[str, Output]:
        """Add the most likely actions and their probabilities to a graph."""
        assert self.n_actions is not None  # the actions are discrete
        double = graph.node("Cast", outputs, to=graph.onnx.TensorProto.DOUBLE)
        chances = graph.node("Softmax", double, axis=1)
        likeliest = graph.node("ArgMax", outputs, axis=1, keepdims=0)
        return graph.decided(likeliest, chances, self.n_actions, self.action_labels)


@dataclass(frozen=True, eq=False)
class GaussianPolicy(NeuralPolicy):
    """SAC's squashed Gaussian; calling it returns the action of its mean, `sample` draws."""

    kind = "gaussian"

    def sample(self, states: FloatArray, rng: np.random.Generator) -> AnyArray:
        """Return one action per state, (n, q)."""
        mean, log_std = self.outputs(states).double().cpu().chunk(2, dim=-1)
        noise = torch.from_numpy(rng.standard_normal(mean.shape))
        drawn = mean + log_std.clamp(*LOG_STD).exp() * noise
        return self.scaling.raw_actions(drawn.tanh().numpy())


_KINDS: dict[str, type[NeuralPolicy]] = {
    kind.kind: kind for kind in (NeuralPolicy, ClippedPolicy, CategoricalPolicy, GaussianPolicy)
}


def load_policy(path: str | Path) -> NeuralPolicy:
    """Read a policy that `save` wrote, and verify its checksum; nothing is executed."""
    found = read_value(path, POLICY_KIND, POLICY_VERSION)
    if not isinstance(found, NeuralPolicy):
        raise SavedFileError(f"{path} does not hold a policy but a {type(found).__name__}.")
    return found


def split_policies(stack: Stack, scaling: Scaling, kind: str) -> Sequence[NeuralPolicy]:
    """Return one policy per network of the stack."""
    return [_KINDS[kind](stack.members([k]), scaling) for k in range(stack.shape.count)]
