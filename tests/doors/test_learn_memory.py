"""Policies that depend on what came earlier in an episode, where the columns do not tell all."""

import numpy as np
import pandas as pd
import pytest

from tailproof import Learned, compare, evaluate, learn, read_log
from tailproof.errors import LogError, MethodError, PolicyError
from tailproof.export.apply import apply
from tailproof.export.onnx import load

EPISODES, STEPS, GAMMA = 200, 20, 0.9
COLUMNS = {"state": ["x"], "action": "offer", "reward": "paid", "episode": "who", "step": "step"}


def steps(rng, act) -> pd.DataFrame:
    """Offers pay 2 to the rested; every one tires, which no column tells."""
    tired, rows, before = np.zeros(EPISODES), [], []
    for step in range(STEPS):
        x = rng.normal(size=EPISODES).round(4)
        offered = act(x, before)
        paid = x + offered * (2 - 5 * tired) + 0.5 * rng.normal(size=EPISODES)
        rows.append(
            pd.DataFrame(
                {"who": range(EPISODES), "step": step, "x": x, "paid": paid,
                 "offer": np.where(offered == 1, "yes", "no")}
            )
        )  # fmt: skip
        before.append((x, offered, paid))
        tired = 0.8 * tired + 0.2 * offered
    return pd.concat(rows).sort_values(["who", "step"], ignore_index=True)


def value(table: pd.DataFrame) -> float:
    return float((GAMMA ** table["step"] * table["paid"]).sum()) / EPISODES


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tailproof.errors.TailproofWarning")
def test_a_memory_earns_what_the_columns_cannot_tell_and_runs_elsewhere(tmp_path):
    rng = np.random.default_rng(1)
    table = steps(rng, lambda x, before: (rng.random(len(x)) < 0.4).astype(int))
    log = read_log(table, **COLUMNS)
    learned = learn(log, gamma=GAMMA, memory=True)
    assert learned.improves
    assert learned.past is not None
    assert "Learned.past" in learned.reasons[-1]
    learned.save(tmp_path / "policy.tailproof")
    again = Learned.load(tmp_path / "policy.tailproof")

    def act(x, before):  # as whoever runs it keeps the averages
        kept = np.tile(again.past.first, (EPISODES, 1))
        for states, actions, rewards in before:
            kept = np.array(
                [
                    again.past.updated(*one)
                    for one in zip(kept, states, actions, rewards, strict=True)
                ]
            )
        return again.policy(np.column_stack([x, kept]))

    played = steps(np.random.default_rng(2), act)
    assert value(played) > learned.judged.low
    assert value(played) > value(table) + 1
    asked = {"episode": "who", "reward": "paid"}
    assert (learned.predict(played, **asked) == played["offer"]).all()  # by episode, from a table

    played.loc[played["step"] == STEPS - 1, ["offer", "paid"]] = None  # what is to be decided
    played.to_csv(tmp_path / "new.csv", index=False)
    done = apply(tmp_path / "policy.tailproof", tmp_path / "new.csv", tmp_path / "d.csv", **asked)
    decided = pd.read_csv(tmp_path / "d.csv")
    assert done.rows == len(played)
    known = played["offer"].notna()
    assert (decided["action"][known] == played["offer"][known]).all()

    learned.policy.save(tmp_path / "policy.onnx")
    wider = learned.past.added_to(log)
    assert (load(tmp_path / "policy.onnx")(wider.states) == learned.policy(wider.states)).all()

    with pytest.raises(MethodError) as error:
        learned.predict(table)
    assert error.value.argument == "episode"
    played.loc[3, "offer"] = None
    with pytest.raises(LogError, match="row 3"):
        learned.predict(played, **asked)
    for policy in (learned.policy, load(tmp_path / "policy.tailproof")):
        with pytest.raises(PolicyError, match=r"give learned\.past\.added_to\(log\)"):
            evaluate(log, policy, gamma=GAMMA)
    with pytest.raises(PolicyError, match=r"give learned\.past\.added_to\(log\)"):
        compare(log, {"new": learned}, gamma=GAMMA)
    answer = evaluate(log, again, gamma=GAMMA)
    assert answer.value == evaluate(wider, learned.policy, gamma=GAMMA).value
    assert answer.value == again.evaluate(log).estimate.value
    interval = answer.interval(0.9)
    assert interval.low < answer.value < interval.high


@pytest.mark.filterwarnings("ignore::tailproof.errors.TailproofWarning")
def test_a_memory_is_for_the_default_without_limits(rng):
    log = read_log(steps(rng, lambda x, before: (x > 0).astype(int)), **COLUMNS)
    for others in ({"method": "room-fqi"}, {"never": ["yes where x > 1"]}):
        with pytest.raises(MethodError) as error:
            learn(log, gamma=GAMMA, memory=True, **others)
        assert error.value.argument == "memory"
