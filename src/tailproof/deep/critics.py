"""What deep learners give back: critics and policies that speak numpy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray
from tailproof.deep.actors import LOG_STD
from tailproof.deep.checkpoint import CheckpointError, serialise, write_whole
from tailproof.deep.data import Scaling
from tailproof.deep.networks import Shape, Stack
from tailproof.errors import MethodError


@dataclass(frozen=True, eq=False)
class NeuralCritics:
    """Q_k(s, a), the smallest of member k's networks, in the log's unit of reward.

    Attributes
    ----------
    q
        The networks, twins outermost.
    v
        V_k(s) of IQL and SQL; none otherwise.
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
        inputs = torch.from_numpy(self.scaling.states(states)).to(self.v.flat.device)
        with torch.no_grad():
            values = self.v(inputs)[..., 0].double().cpu().numpy()
        return np.asarray(values / self.scaling.reward_scale)

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
        with torch.no_grad():
            values = self.q(torch.from_numpy(inputs).to(self.q.flat.device))  # (T·K, n, out)
            smallest = values.view(self.twins, self.count, *values.shape[1:]).amin(0)
        return np.asarray(smallest.double().cpu().numpy() / self.scaling.reward_scale)

    def save(self, path: str | Path) -> None:
        """Write the critics to ``<path>.safetensors`` and ``<path>.json``."""
        tensors = {"q": self.q.flat, "alive": torch.from_numpy(self.alive)}
        if self.v is not None:
            tensors["v"] = self.v.flat
        widths = [self.q.shape.widths, None if self.v is None else self.v.shape.widths]
        _save(path, "critics", tensors, self.scaling, {"twins": self.twins, "widths": widths})

    @classmethod
    def load(cls, path: str | Path) -> NeuralCritics:
        """Read critics that `save` wrote; executes nothing."""
        tensors, scaling, page = _load(path, "critics")
        alive = tensors["alive"].numpy()
        twins, (q, v) = page["twins"], page["widths"]
        return cls(
            Stack(Shape(twins * len(alive), tuple(q)), tensors["q"]),
            None if v is None else Stack(Shape(len(alive), tuple(v)), tensors["v"]),
            twins,
            scaling,
            alive,
        )


@dataclass(frozen=True, eq=False)
class NeuralPolicy:
    """A deterministic policy π(s) = tanh of a network, in the log's unit of action.

    Calling it with states (n, p) gives actions (n, q).
    """

    stack: Stack
    scaling: Scaling

    kind = "deterministic"

    def __call__(self, states: FloatArray) -> AnyArray:
        """Return the action in each state, (n, q)."""
        outputs = self.outputs(states)[:, : self.scaling.action_width]
        return self.scaling.raw_actions(outputs.tanh().cpu().numpy())

    def outputs(self, states: FloatArray) -> Tensor:
        """Return what the network says, (n, out)."""
        with torch.no_grad():
            return self.stack(torch.from_numpy(self.scaling.states(states)).to(self.stack.flat))[0]

    def save(self, path: str | Path) -> None:
        """Write the policy to ``<path>.safetensors`` and ``<path>.json``, or as ``<name>.onnx``."""
        if Path(path).suffix == ".onnx":
            from tailproof.deep.export import export_policy

            return export_policy(self, path)
        page = {"kind": self.kind, "widths": self.stack.shape.widths}
        return _save(path, "policy", {"policy": self.stack.flat}, self.scaling, page)


@dataclass(frozen=True, eq=False)
class CategoricalPolicy(NeuralPolicy):
    """A softmax over discrete actions; calling it gives the likeliest action."""

    kind = "categorical"

    def __call__(self, states: FloatArray) -> AnyArray:
        """Return the likeliest action in each state, (n,)."""
        return self.outputs(states).argmax(-1).cpu().numpy()

    def probabilities(self, states: FloatArray) -> FloatArray:
        """Return π(a | s), (n, A)."""
        return np.asarray(self.outputs(states).double().softmax(-1).cpu().numpy())


@dataclass(frozen=True, eq=False)
class GaussianPolicy(NeuralPolicy):
    """SAC's squashed Gaussian; calling it gives the action of its mean, `sample` draws."""

    kind = "gaussian"

    def sample(self, states: FloatArray, rng: np.random.Generator) -> AnyArray:
        """Return one action a state, (n, q)."""
        mean, log_std = self.outputs(states).double().cpu().chunk(2, dim=-1)
        noise = torch.from_numpy(rng.standard_normal(mean.shape))
        drawn = mean + log_std.clamp(*LOG_STD).exp() * noise
        return self.scaling.raw_actions(drawn.tanh().numpy())


_KINDS: dict[str, type[NeuralPolicy]] = {
    kind.kind: kind for kind in (NeuralPolicy, CategoricalPolicy, GaussianPolicy)
}


def load_policy(path: str | Path) -> NeuralPolicy:
    """Read a policy that its `save` wrote; executes nothing."""
    tensors, scaling, page = _load(path, "policy")
    stack = Stack(Shape(1, tuple(page["widths"])), tensors["policy"])
    return _KINDS[page["kind"]](stack, scaling)


def split_policies(stack: Stack, scaling: Scaling, kind: str) -> Sequence[NeuralPolicy]:
    """Return a policy for each network of the stack."""
    return [_KINDS[kind](stack.members([k]), scaling) for k in range(stack.shape.count)]


def _save(
    path: str | Path, what: str, tensors: dict[str, Tensor], scaling: Scaling, page: dict[str, Any]
) -> None:
    base = Path(path)
    base.parent.mkdir(parents=True, exist_ok=True)
    written = {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in asdict(scaling).items()
    }
    page = {"format": f"tailproof {what} 1", **page, "scaling": written}
    write_whole(base.with_name(base.name + ".safetensors"), serialise(tensors))
    write_whole(base.with_name(base.name + ".json"), json.dumps(page, indent=1).encode())


def _load(path: str | Path, what: str) -> tuple[dict[str, Tensor], Scaling, dict[str, Any]]:
    base = Path(path)
    try:
        page = json.loads(base.with_name(base.name + ".json").read_bytes())
        tensors = safetensors.torch.load(base.with_name(base.name + ".safetensors").read_bytes())
    except (OSError, json.JSONDecodeError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"{path} cannot be read: {type(error).__name__}: {error}.") from error
    if page.get("format") != f"tailproof {what} 1":
        raise CheckpointError(
            f"{path} holds {page.get('format')!r}; a 'tailproof {what} 1' was expected."
        )
    given: dict[str, Any] = {
        name: np.asarray(value, dtype=float) if isinstance(value, list) else value
        for name, value in page["scaling"].items()
    }
    return tensors, Scaling(**given), page
