import numpy as np
import pytest

from tailproof import Log, evaluate, learn
from tailproof.errors import StateWarning
from tailproof.policies.forms import Always
from tailproof.profile.checks import missing_codes


def one_step_log(rng, code=None):
    states = np.column_stack([rng.integers(4, size=600), rng.normal(50, 10, 600)]).astype(float)
    if code is not None:
        states[:12, 1] = code
    actions = rng.integers(2, size=600)
    return Log.from_arrays(
        states, actions, actions + rng.normal(size=600), states,
        episode=range(600), state_names=("site", "age"),
    )  # fmt: skip


@pytest.mark.parametrize("code", [-999.0, 9999.0])
def test_codes_for_missing_values_are_pointed_out(code: float, rng):
    coded = one_step_log(rng, code)
    with pytest.warns(StateWarning, match=rf"column age is {code:.0f} in 12 of 600 rows"):
        estimate = evaluate(coded, Always(1, n_actions=2))
    assert (estimate.cautions[-1].code, estimate.cautions[-1].voids) == ("missing_code", False)
    assert missing_codes(one_step_log(rng)) == ()
    with pytest.warns(StateWarning, match="column age"):
        learn(coded, method="constant", gamma=0.0)


def test_numbers_that_only_look_like_codes_are_left_alone():
    rng = np.random.default_rng(1)
    income = np.append(rng.uniform(0, 90_000, 300), [9_999.0] * 3)
    level = np.append(rng.normal(0, 800, 302), [-999.0])
    states = np.column_stack([income, level])
    log = Log.from_arrays(states, np.zeros(303, int), income, states, episode=range(303))
    assert missing_codes(log) == ()
