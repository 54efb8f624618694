import numpy as np
import pytest

from tailproof import DR, FQE, FQI, Log, evaluate, learn, method
from tailproof.critics.base import PLACES, Capabilities
from tailproof.deep import IQL
from tailproof.errors import MethodError
from tailproof.estimators.importance import BanditDR, EpisodeDR
from tailproof.methods.catalogue import names

METHODS = [method(name) for name in names()]


def log():
    states = np.arange(24.0)
    return Log.from_arrays(states, [0, 1] * 12, states, states + 1, episode=np.arange(24) // 6)


def always(states):
    return np.zeros(len(states), dtype=int)


@pytest.mark.parametrize("chosen", METHODS, ids=str)
def test_every_row_says_what_its_base_can_do(chosen):
    found = chosen.base.capabilities
    assert isinstance(found, Capabilities)
    assert set(found.at) <= set(PLACES)
    assert chosen.at in found.at
    assert found.evaluates != found.learns


@pytest.mark.parametrize(
    "chosen", [each for each in METHODS if not each.base.capabilities.evaluates], ids=str
)
def test_bases_that_look_for_a_policy_evaluate_none(chosen):
    with pytest.raises(MethodError, match="looks for a policy and cannot evaluate a given one"):
        evaluate(log(), always, method=chosen, gamma=0.9)


@pytest.mark.parametrize(
    "chosen", [each for each in METHODS if not each.base.capabilities.learns], ids=str
)
def test_bases_that_evaluate_learn_nothing(chosen):
    if isinstance(chosen.base, type(method("auto").base)):
        return  # the default of `learn` is careful
    with pytest.raises(MethodError, match="evaluates a policy and cannot look for one"):
        learn(log(), method=chosen, gamma=0.9)


@pytest.mark.parametrize("base", [DR, EpisodeDR, BanditDR])
@pytest.mark.parametrize("critic", [FQI(), IQL(), 3])
def test_a_critic_of_a_given_policy_is_needed(base, critic):
    with pytest.raises(MethodError, match="critics of a given policy"):
        base(critic=critic)
    assert base(critic=FQE()).critic == FQE()
