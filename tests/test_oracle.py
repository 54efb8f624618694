"""The library agrees with the algorithms as a textbook writes them, wherever the log is."""

import importlib.util
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from tailproof.errors import TailproofWarning
from tailproof.log.folds import Split
from tailproof.parallel import Local


def beside(name):
    """Return a module that stands beside this test, and is no test."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # worker processes are sent its functions
    spec.loader.exec_module(module)
    return module


oracle, agreement = beside("oracle"), beside("agreement")


@pytest.fixture(scope="module")
def engines():
    with Local(workers=2, kind="processes") as processes:
        yield {"threads": Local(workers=2), "processes": processes}


@pytest.mark.parametrize(
    "surface",
    ["memory", *(pytest.param(each, marks=pytest.mark.slow) for each in agreement.SURFACES[1:])],
)
def test_the_library_and_the_oracle_agree(surface, engines, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parent)
    first = 1000 * agreement.SURFACES.index(surface)
    count, logs = 0, {"memory": 50, "lazy": 20}.get(surface, 8)
    for seed in range(first, first + logs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TailproofWarning)
            compared, said = agreement.disagreements(
                oracle,
                seed,
                surface=surface,
                path=tmp_path / "log.parquet",
                engine=engines.get(surface),
            )
        assert said == []
        count += compared
    assert count > 6 * logs


@pytest.mark.parametrize("seed", range(20))
def test_folds_are_dealt_as_the_oracle_deals_them(seed):
    plain = oracle.random_log(seed)
    log = agreement.as_log(plain)
    episodes, _ = oracle.split(plain, 4, seed)
    folds = Split(4).assign(log, np.random.default_rng(seed).spawn(2)[0])
    assert [folds.episodes(k).tolist() for k in range(4)] == episodes
