import io
import json

import numpy as np
import pytest
from rich.console import Console

from benchmarks.battery.__main__ import main
from benchmarks.battery.cells import NOISES, Setting
from benchmarks.battery.entrants import Reply
from benchmarks.battery.report import heat_map, report
from benchmarks.battery.run import Battery, run
from benchmarks.battery.select import chosen_battery
from tailproof.errors import TailproofError


def _near(problem, *, seed):
    value = 12.0 + (seed % 7) / 10
    return Reply(value, {0.9: (value - 1, value + 1)})


def _far(problem, *, seed):
    return 14.0


def _broken(problem, *, seed):
    raise ArithmeticError("<b>no</b>")


@pytest.fixture(scope="module")
def found():
    battery = Battery(
        entrants={"near": _near, "far <i>": _far, "broken": _broken},
        settings=(Setting("linear", "fair", 500), Setting("linear", "poor", 700)),
        noises=("Gaussian", "Gamma(4)", "Pareto 1.5"),
        stories=("A",),
        replicates=3,
        draws=1,
    )
    return report(run(battery))


def test_what_is_written_can_be_read(found, tmp_path):
    paths = found.write(tmp_path / "out")
    assert [path.name for path in paths] == [
        "scores.json",
        "heatmap-500.svg",
        "heatmap-700.svg",
    ]
    scores = json.loads((tmp_path / "out" / "scores.json").read_text())
    assert scores["standings"][0]["entrant"] == "near"
    assert scores["standings"][-1]["failure"] == "ArithmeticError: <b>no</b>"
    assert len(scores["cells"]) == 6


def test_the_tables_say_who_won_and_failures_are_named(found):
    console = Console(width=200, file=io.StringIO())
    for each in found.tables:
        console.print(each)
    lines = console.file.getvalue().splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("entrant"))
    assert lines[first + 1].startswith("near")
    (failed,) = found.failures
    assert failed.startswith("broken failed ")
    assert failed.endswith(" times, first with: ArithmeticError: <b>no</b>")


def test_heat_maps_have_a_number_for_every_pair(found):
    for figure in found.maps.values():
        (axes,) = figure.axes
        texts = [each.get_text() for each in axes.texts]
        assert len(texts) == 9
        assert "∞" in texts
        assert "1.00" in texts


def test_worse_ratios_have_darker_cells():
    figure = heat_map(["row"], ["a", "b", "c"], np.array([[1.0, 2.0, 50.0]]))
    ((best, worse, worst),) = figure.axes[0].images[0].get_array()
    assert best < worse < worst


def test_words_become_a_battery():
    battery = chosen_battery(quick=True, worlds=("linear", "storage"), entrants=("roam-mis",))
    assert {setting.world for setting in battery.settings} == {"linear"}
    assert {setting.steps for setting in battery.settings} == {2000}
    assert battery.noises == tuple(NOISES)
    assert "roam-mis" in battery.entrants
    assert "roam-dm K=10" in battery.story_entrants
    learning = chosen_battery(learners=True, entrants=("pb",), only=True)
    assert list(learning.entrants) == ["pb"]
    assert learning.asks == "policy"
    assert {setting.steps for setting in chosen_battery(steps=(700,)).settings} == {700}


def test_words_that_mean_nothing_are_refused():
    with pytest.raises(TailproofError, match=r"no world 'cartpol'. Known are cartpole, tabular"):
        chosen_battery(worlds=("cartpol",))
    with pytest.raises(TailproofError, match=r"No noise has 'Cauchy' in its name. They are Gau"):
        chosen_battery(noises=("Cauchy",))


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("def guess(problem, *, seed):\n    return problem.gamma * 12\n")
    return path


def test_the_command_runs_a_users_file(mine, tmp_path, capsys):
    words = ["--only", "--quick", "--jobs", "1", "--world", "linear", "--noise", "Gamma"]
    assert main([*words, "--entrant", f"{mine}:guess", "--out", str(tmp_path / "out")]) == 0
    assert "guess" in capsys.readouterr().out
    record = json.loads((tmp_path / "out" / "scores.json").read_text())
    assert [line["entrant"] for line in record["standings"]] == ["guess"]


def test_the_command_says_what_is_wrong(capsys):
    assert main(["--world", "mars"]) == 2
    assert "There is no world 'mars'" in capsys.readouterr().err
