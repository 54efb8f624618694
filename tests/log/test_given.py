"""The doors take frames and files as they take logs."""

import numpy as np
import pandas as pd
import pytest

from tailproof import Log, compare, diagnose, evaluate, learn, read_log
from tailproof.errors import LogError


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    offer = rng.choice(["email", "none"], 300)
    age = rng.uniform(20, 70, 300)
    spend = (offer == "email") * (age > 40) + rng.standard_normal(300)
    return pd.DataFrame({"age": age, "offer_type": offer, "spend": spend, "new": "email"})


PARTS = {"state": "age", "action": "offer_type", "reward": "spend"}


def test_a_frame_is_evaluated_as_its_log_is(frame, tmp_path):
    expected = evaluate(read_log(frame, **PARTS), "always:email").value
    frame.to_csv(tmp_path / "log.csv", index=False)
    assert evaluate(frame, "always:email", **PARTS).value == expected
    assert evaluate(frame, "column:new", **PARTS).value == expected
    assert evaluate(frame, frame["new"], **PARTS).value == expected
    assert evaluate(tmp_path / "log.csv", "always:email", **PARTS).value == pytest.approx(expected)


def test_so_do_the_other_doors(frame):
    assert diagnose(frame, **PARTS).transitions == 300
    assert compare(frame, {"email": "always:email"}, **PARTS).best.name == "email"
    assert learn(frame, method="fqi", **PARTS).policy is not None


def test_columns_of_a_log_that_has_been_read_are_refused(frame):
    log = read_log(frame, **PARTS)
    with pytest.raises(LogError, match="evaluate was given a log that has been read already"):
        evaluate(log, "always:email", reward="spend")
    with pytest.raises(
        TypeError, match=r"evaluate\(\) has no argument 'gama'. Did you mean 'gamma'"
    ):
        evaluate(log, "always:email", gama=0.9)
    with pytest.raises(TypeError, match=r"no argument 'rewrd'. Did you mean 'reward'"):
        evaluate(frame, "always:email", rewrd="spend")
    with pytest.raises(TypeError, match=r"a setting of the method\. Pass .*'auto', clip="):
        evaluate(frame, "always:email", clip="p99")


def test_a_log_comes_back_from_its_frame(frame):
    log = Log.from_frame(frame, **PARTS)
    again = Log.from_frame(log.to_frame(), state="age", terminated="terminated")
    assert again.action_space == log.action_space
    np.testing.assert_array_equal(again.states, log.states)
    np.testing.assert_array_equal(again.rewards, log.rewards)
