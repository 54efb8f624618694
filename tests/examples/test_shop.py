import sys

import numpy as np
import pytest

from examples.shop import __main__ as shop
from examples.shop import rules, world


def test_the_logged_truth_is_that_of_the_offers_by_their_shares():
    shares = dict(zip(world.OFFERS, world.SENT, strict=True))
    assert world.truth("logged") == pytest.approx(
        sum(share * world.truth(offer) for offer, share in shares.items())
    )


def test_waking_the_idle_is_the_best_rule():
    values = {offer: world.truth(offer) for offer in world.OFFERS}
    assert world.truth(rules.wake) > max(*values.values(), world.truth(rules.reward_loyalty))


def test_the_truth_is_that_of_a_long_log_with_ordinary_baskets(monkeypatch):
    monkeypatch.setattr(world, "TAIL", 20.0)  # the average converges where no order is enormous
    log = world.customers(400_000, seed=1)
    assert log["profit_eur"].mean() == pytest.approx(world.truth("logged"), rel=0.02)
    assert shop.average_of(rules.wake, log) == pytest.approx(world.truth(rules.wake), rel=0.02)


def test_averages_promise_more_than_they_keep():
    promised, worth = [], []
    for seed in range(30):
        rule, promise = shop.best_by_average(world.customers(5_000, seed=seed))
        promised.append(promise)
        worth.append(world.truth(rule))
    assert np.mean(promised) > np.mean(worth)
    assert max(worth) <= world.truth(rules.wake) + 1e-9


@pytest.mark.slow
def test_the_demonstration_tells_the_story_in_80_columns(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setitem(sys.modules, "pandas", None)  # `make demo` installs the core alone
    shop.run(tmp_path, n=6_000, logs=3)
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 80
    assert "truth" in said
    assert (tmp_path / "report.html").stat().st_size > 10_000
    files = {"shop.csv", "rules.py", "policy.tailproof", "report.html", "decisions.csv"}
    assert {each.name for each in tmp_path.iterdir()} >= files
