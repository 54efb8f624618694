import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

from tailproof.cli import app
from tailproof.errors import TailproofError
from tailproof.studies.battery.cells import NOISES, Setting
from tailproof.studies.battery.entrants import Reply
from tailproof.studies.battery.heatmap import heat_map
from tailproof.studies.battery.report import report
from tailproof.studies.battery.run import Battery, run
from tailproof.studies.battery.select import chosen_battery


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
        "index.html",
        "scores.json",
        "heatmap-500.svg",
        "heatmap-700.svg",
    ]
    scores = json.loads((tmp_path / "out" / "scores.json").read_text())
    assert scores["standings"][0]["entrant"] == "near"
    assert scores["standings"][-1]["failure"] == "ArithmeticError: <b>no</b>"
    assert len(scores["cells"]) == 6


def test_the_page_says_who_won_escapes_names_and_names_failures(found):
    html = found.page.html()
    assert '<span class="big" id="headline">near</span>' in html
    assert "far &lt;i&gt;" in html
    assert "<b>no</b>" not in html.split('type="application/json"')[0]
    assert "broken failed" in html
    assert html.count('<svg class="plot"') == 2


def test_heat_maps_are_svg_with_a_number_for_every_pair(found):
    for text in found.maps.values():
        root = ElementTree.fromstring(text)
        texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
        assert len(texts) == 3 + 3 + 9  # entrants, noises, pairs
        assert "∞" in texts
        assert "1.00" in texts


def test_worse_ratios_have_darker_cells():
    picture = heat_map(["row"], ["a", "b", "c"], np.array([[1.0, 2.0, 50.0]]), alt="ratios")
    shades = [float(each) for each in re.findall(r'fill-opacity="([\d.]+)"', picture)]
    tones = re.findall(r'class="bar (\w+)"', picture)
    assert tones == ["good", "warn"]
    assert len(shades) == 3
    assert shades[1] < shades[2]


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


def _bench(*words):
    return CliRunner().invoke(app, ["bench", "--only", "--quick", "--jobs", "1", *map(str, words)])


def test_the_command_runs_a_users_file_and_prints_json(mine, tmp_path, documented):
    words = ["--entrant", f"{mine}:guess", "--world", "linear", "--noise", "Gamma", "--json"]
    answer = _bench(*words, "--out", tmp_path / "out")
    assert answer.exit_code == 0, answer.output
    record = json.loads(answer.stdout)
    assert set(record) == documented("Every command", "bench")
    assert [line["entrant"] for line in record["standings"]] == ["guess"]
    assert json.loads((tmp_path / "out" / "scores.json").read_text()) == record
    assert json.loads(_bench(*words).stdout) == record


def test_the_command_says_what_is_wrong(mine):
    answer = _bench("--entrant", f"{mine}:guess", "--world", "mars")
    assert answer.exit_code == 2
    assert "There is no world 'mars'" in answer.output
