import os
import subprocess
import sys

import numpy as np
import pytest

from benchmarks.battery.cells import Setting
from benchmarks.battery.entrants import Named, Reply, Taught
from benchmarks.battery.run import Battery, CellLog, run
from benchmarks.battery.score import leaderboard, school_report
from examples.storm.seasons import CANDIDATES
from examples.storm.storage import HUBS
from tailproof.errors import TailproofError
from tailproof.methods.catalogue import method
from tailproof.parallel import Local

NOISES = ("Gaussian", "Pareto 1.5")
SETTINGS = (Setting("linear", "fair", 500), Setting("tabular", "good", 500))


def battery(**changes):
    given = {
        "entrants": {"lstd": Named(method("lstd")), "roam": Named(method("roam-variant"))},
        "settings": SETTINGS,
        "noises": NOISES,
        "stories": (),
        "replicates": 3,
    }
    return Battery(**{**given, **changes})


def values(findings):
    return {str(cell): sample.values.tolist() for cell, sample in findings.cells().items()}


@pytest.fixture(scope="module")
def findings():
    return run(battery())


def test_findings_do_not_depend_on_where_they_were_made(findings):
    with Local(workers=2, kind="processes") as engine:
        assert values(run(battery(), engine=engine)) == values(findings)


def test_a_cell_does_not_depend_on_the_rest_of_the_battery(findings):
    small = battery(
        settings=SETTINGS[1:],
        noises=NOISES[1:],
        replicates=2,
        entrants={"roam": Named(method("roam-variant"))},
    )
    ((cell, sample),) = run(small).cells().items()
    whole = findings.cells()[cell]
    np.testing.assert_array_equal(sample.values[:, 0], whole.values[:2, 1])


def test_another_seed_gives_other_logs(findings):
    assert values(run(battery(seed=1))) != values(findings)


def test_noises_of_a_replicate_share_states_and_actions():
    item = CellLog(SETTINGS[0], 0)
    logs = [problem.log for _, problem, _ in item.problems(battery())]
    np.testing.assert_array_equal(logs[0].states, logs[1].states)
    assert (logs[0].rewards != logs[1].rewards).all()


def test_a_stopped_run_goes_on_where_it_stopped(findings, tmp_path):
    path = tmp_path / "record.jsonl"
    run(battery(), record=path)
    whole = path.read_text()
    lines = whole.splitlines(keepends=True)
    path.write_text("".join(lines[:3]) + lines[3][:40])  # killed while it wrote the third item
    calls = []
    resumed = run(battery(), record=path, advance=lambda: calls.append(1))
    assert values(resumed) == values(findings)
    assert len(calls) == 6
    assert path.read_text() == whole


def test_what_a_record_holds_is_not_asked_again_unless_it_is_damaged(tmp_path, rng):
    path, notes = tmp_path / "record.jsonl", tmp_path / "notes"

    def asked():
        return len(notes.read_text().split()) if notes.exists() else 0

    def counting(problem, *, seed):
        with notes.open("a") as file:
            file.write(f"{seed} ")
        return problem.log.rewards.mean()

    chosen = battery(entrants={"own": counting})
    first = values(run(chosen, record=path))
    assert asked() == 12
    assert values(run(chosen, record=path)) == first
    assert asked() == 12
    whole = path.read_bytes()
    for count, place in enumerate(rng.integers(whole.index(b"\n") + 1, len(whole), size=20), 1):
        flipped = bytearray(whole)
        flipped[place] ^= 1
        path.write_bytes(flipped)
        assert values(run(chosen, record=path)) == first
        assert 12 + 2 * count <= asked()  # two noises of the item, at least


def test_an_entrant_that_was_edited_is_another_entrant(tmp_path):
    (tmp_path / "rules.py").write_text(
        "import helper\ndef mine(problem, *, seed): return helper.X\n"
    )
    (tmp_path / "helper.py").write_text("X = 1.0\n")
    (tmp_path / "unrelated.py").write_text("pass\n")
    command = (
        "import sys, rules\n"
        "from benchmarks.battery.run import Battery, run\n"
        "from benchmarks.battery.cells import Setting\n"
        "b = Battery(entrants={'mine': rules.mine}, settings=(Setting('linear', 'fair', 500),),\n"
        "            noises=('Gaussian',), stories=(), replicates=1)\n"
        "print([s.values.tolist() for s in run(b, record='record.jsonl').cells().values()])"
    )

    def ask():
        paths = os.pathsep.join([str(tmp_path), *sys.path])
        return subprocess.run(
            [sys.executable, "-c", command],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
        )

    assert ask().stdout == "[[[1.0]]]\n"
    (tmp_path / "unrelated.py").write_text("x = 1\n")
    assert ask().stdout == "[[[1.0]]]\n"
    (tmp_path / "helper.py").write_text("X = 2.0\n")
    assert "An entrant whose code was edited is another one" in ask().stderr


def test_a_record_of_another_run_is_refused(tmp_path):
    path = tmp_path / "record.jsonl"
    run(battery(replicates=1), record=path)
    with pytest.raises(TailproofError, match="another seed, other entrants or other noises"):
        run(battery(replicates=1, seed=5), record=path)


def test_batteries_that_make_no_sense_are_refused():
    with pytest.raises(TailproofError, match="at least one entrant"):
        battery(entrants={})
    with pytest.raises(TailproofError, match=r"no noise 'Paretto' in the battery. Known are Gau"):
        battery(noises=("Paretto",))
    with pytest.raises(TailproofError, match=r"no story 'C'. Known are A, B"):
        battery(stories=("C",))
    with pytest.raises(TailproofError, match="Got 'lstd' twice"):
        battery(story_entrants={"lstd": Named(method("lstd"))})


def test_an_entrant_that_fails_is_counted_and_the_others_go_on():
    def sometimes(problem, *, seed):
        if problem.log.rewards.max() > 20:
            raise ArithmeticError("too large")
        return 0.0

    def always(problem, *, seed):
        return Reply(1.0, {0.9: (0.0, 99.0)})

    found = run(battery(entrants={"sometimes": sometimes, "always": always}))
    count, said = found.failures()["sometimes"]
    assert 0 < count < 12
    assert said == "ArithmeticError: too large"
    board = leaderboard(found)
    assert [line.entrant for line in board.standings] == ["always", "sometimes"]
    assert board.standings[1].geometric_mean == np.inf


def test_stories_ask_about_every_candidate_at_every_hub():
    def knows(problem, *, seed):
        return float(problem.policy(np.array([[1.0, 0.0], [15.0, 2.0]])).sum())

    found = run(battery(noises=(), stories=("A",), draws=2, entrants={"knows": knows}))
    hubs, estimates = found.story("A")
    assert sorted(hubs) == sorted(2 * HUBS)
    assert estimates["knows"].shape == (10, len(CANDIDATES))
    assert found.cells() == {}


def test_learners_are_worth_what_they_learn():
    def best(problem, *, seed):
        return SETTINGS[1].ground.target if problem.log.states.shape[1] == 10 else 0

    one = battery(
        asks="policy",
        settings=SETTINGS[1:],
        noises=("Gaussian",),
        entrants={"fqi": Taught(method("fqi")), "target": best},
        stories=("B",),
        draws=1,
    )
    found = run(one)
    ((_, sample),) = found.cells().items()
    ground = SETTINGS[1].ground
    np.testing.assert_allclose(sample.values[:, 1], ground.truth)
    assert (sample.values[:, 0] <= ground.best + 1e-9).all()
    school = school_report(found)
    by_name = {line.learner: line for line in school.lines}
    share = (ground.best - ground.truth) / (ground.best - ground.aimless)
    assert by_name["target"].regret == pytest.approx(share)
    mean, least, hindsight = by_name["fqi"].stories["B"]
    assert least <= mean < hindsight + 20
    assert by_name["target"].failures == len(HUBS)  # 0 is no policy
