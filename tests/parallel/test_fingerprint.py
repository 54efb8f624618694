"""What a result depends on has one fingerprint, until any of it changes."""

import importlib
import os
import subprocess
import sys

import numpy as np
import pytest

from tailproof import evaluate
from tailproof.checkpoint import fingerprint
from tailproof.io import read_log
from tailproof.parallel import Local


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """Return a function that writes modules, and one that fingerprints what another process sees."""
    folder = tmp_path / "code"
    folder.mkdir()

    def write(package="", **sources):
        for name, text in sources.items():
            path = folder / package / f"{name}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)

    def ask(expression="rules.mine", first="import rules"):
        given = "from tailproof.checkpoint import fingerprint"
        code = f"{first}\n{given}\nprint(fingerprint({expression}))"
        paths = os.pathsep.join([str(folder), *sys.path])
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    return write, ask


@pytest.mark.slow
def test_the_source_of_a_function_and_of_what_it_imports_counts(modules):
    write, ask = modules
    write(
        rules="from helper import f\ndef mine(s): return f(s)",
        helper="def f(s):\n    import late\n    return late.X",
        late="X = 1",
        other="Y = 1",
    )
    first = ask()
    assert ask() == first
    write(other="Y = 2")
    assert ask() == first  # nobody imports it
    seen = {first}
    for name, text in {
        "rules": "from helper import f\ndef mine(s): return 1 + f(s)",
        "helper": "def f(s):\n    import late\n    return late.X + 1",
        "late": "X = 2",
    }.items():
        write(**{name: text})
        seen.add(ask())
    assert len(seen) == 4


def test_a_package_counts_as_a_whole(modules):
    write, ask = modules
    rules = "from .deep import X\ndef mine(s): return X"
    write("pkg", __init__="", rules=rules, deep="X = 1")
    first = ask("pkg.rules.mine", "import pkg.rules")
    write("pkg", deep="X = 2")
    assert ask("pkg.rules.mine", "import pkg.rules") != first


def test_objects_partials_and_closures_count(modules):
    write, ask = modules
    write(rules="class Mine:\n    def __call__(self, s): return 1\nmine = Mine()")
    asks = ["rules.mine", "{'a': [rules.mine]}", "(lambda: rules.mine)"]
    first = [ask(each) for each in asks]
    write(rules="class Mine:\n    def __call__(self, s): return 2\nmine = Mine()")
    assert all(ask(each) != before for each, before in zip(asks, first, strict=True))


def test_values_count():
    assert fingerprint((np.arange(9.0), "a")) == fingerprint((np.arange(9.0), "a"))
    assert fingerprint(np.arange(9.0)) != fingerprint(np.arange(9.0) + 1e-12)
    assert fingerprint(np.arange(9.0)) != fingerprint(np.arange(9))


def test_a_checkpoint_does_not_survive_an_edit_of_the_policy(cartpole, tmp_path, monkeypatch):
    log = cartpole.log(episodes=20, steps=20, seed=0)
    log.to_parquet(tmp_path / "log.parquet")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    found = []
    for action in (0, 1, 0):
        (tmp_path / "edited_rules.py").write_text(
            f"import numpy as np\ndef mine(s): return np.full(len(s), {action})\n"
        )
        importlib.invalidate_caches()
        sys.modules.pop("edited_rules", None)
        policy = importlib.import_module("edited_rules").mine
        engine = Local(checkpoint=tmp_path / "progress")
        lazy = read_log(tmp_path / "log.parquet", lazy=True)
        pair = [
            evaluate(lazy, policy, method="lstd", gamma=0.5, engine=each).value
            for each in (engine, None)
        ]
        assert pair[0] == pair[1]
        found.append(pair[0])
    assert found[0] != found[1]
    assert found[0] == found[2]
    del sys.modules["edited_rules"]


def test_a_checkpoint_does_not_survive_a_file_replaced_by_one_of_the_same_size_and_time(
    cartpole, tmp_path
):
    path, before = tmp_path / "log.parquet", None
    log = cartpole.log(episodes=20, steps=20, seed=0)
    for rewards in (log.rewards, log.rewards[::-1].copy()):
        log.with_rewards(rewards).to_parquet(path)
        if before is not None:
            assert path.stat().st_size == before.st_size
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        before = path.stat()
        engine = Local(checkpoint=tmp_path / "progress")
        lazy = read_log(path, lazy=True, cache=tmp_path / "cache")
        found, wanted = (
            evaluate(each, "always:right", method="lstd", gamma=0.5, engine=how).value
            for each, how in ((lazy, engine), (log.with_rewards(rewards), None))
        )
        assert found == pytest.approx(wanted, rel=1e-9)
