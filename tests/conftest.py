import re
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from benchmarks.battery.linear import LinearMDP
from tailproof import Log
from tailproof.noise import StudentT
from tailproof.worlds import CartPole, TabularMDP

settings.register_profile("default", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("default")


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """Logs that are converted to mapped files leave none behind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TAILPROOF_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def cartpole() -> CartPole:
    return CartPole()


@pytest.fixture(scope="session")
def heavy_log(cartpole: CartPole) -> Log:
    return cartpole.log(episodes=40, noise=StudentT(df=1.5), seed=7)


@pytest.fixture(scope="session")
def tabular() -> TabularMDP:
    return TabularMDP.random(states=4, actions=2, seed=3)


@pytest.fixture(scope="session")
def linear() -> LinearMDP:
    return LinearMDP.random(seed=5)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def wait_until():
    """A function that returns when a condition holds; the limit ends a hang and measures no speed."""

    def wait(condition, seconds=600.0):
        until = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < until, "what was waited for did not happen"
            time.sleep(0.02)

    return wait


@pytest.fixture(scope="session")
def documented():
    """The keys that docs/json.md lists below some titles; those of the evidence only if `full`."""
    text = (Path(__file__).parents[1] / "docs" / "json.md").read_text(encoding="utf-8")

    def keys_below(*titles, full=False):
        keys = set()
        for title in titles:
            pattern = rf"^## {title}\n(.*?)(?=^## |\Z)"
            (section,) = re.findall(pattern, text, re.DOTALL | re.MULTILINE)
            rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", section, re.MULTILINE)
            left_out = ("*sometimes*",) if full else ("*sometimes*", "*full*")
            keys |= {key for key, meaning in rows if not meaning.startswith(left_out)}
        return keys

    return keys_below
