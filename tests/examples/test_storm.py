import pytest
from rich.console import Console

from examples.storm import __main__ as storm
from examples.storm import storage
from examples.storm.story import (
    AUTO,
    CLIPPED,
    DAYS,
    ESTIMATORS,
    LEARNERS,
    PLAIN,
    WEEKS,
    demonstrate,
)
from tailproof import evaluate


@pytest.fixture(scope="module")
def shown():
    return demonstrate(others=())


def test_truth_and_estimates_are_those_of_the_library(shown):
    season = shown.stormy[0]
    for name, policy in storage.CANDIDATES.items():
        assert season.truth[name] == storage.exact_value(policy, hubs=["HB_NORTH"], year=2021)
        assert season.next_truth[name] == storage.exact_value(policy, hubs=["HB_NORTH"], year=2022)
    log = storage.log("HB_NORTH", 2021, 0)
    policy = storage.CANDIDATES["two-cycle"]
    again = evaluate(log, policy, method=ESTIMATORS[WEEKS], gamma=1.0, seed=0)
    assert season.estimates[WEEKS]["two-cycle"] == again.value


def test_one_storm_spoils_the_average_and_whole_weeks_do_not(shown):
    season = shown.stormy[0]
    for sturdy in (WEEKS, CLIPPED, AUTO):
        assert season.error(PLAIN) > 4 * season.error(sturdy)
    assert season.error(DAYS) > season.error(WEEKS)
    assert shown.folds_hit[WEEKS] <= 2 < shown.folds_hit[DAYS]
    assert len(shown.storm_days) >= 5
    plain, room, _ = (season.learned[name] for name in LEARNERS)
    assert plain < 0 < season.next_truth["dispatcher"] < room


def test_on_the_calm_year_robustness_gains_nothing(shown):
    calm = shown.calm[0]
    assert calm.error(PLAIN) < calm.error(CLIPPED)
    assert calm.lost(PLAIN) <= calm.lost(WEEKS)


def test_it_fits_a_narrow_terminal_and_names_its_limits(shown):
    console = Console(width=80, record=True, file=None, force_terminal=False, quiet=False)
    with console.capture() as capture:
        for line in storm.story_lines(shown):
            console.print(line)
    text = capture.get()
    assert max(map(len, text.splitlines())) <= 80
    said = " ".join(text.split())
    assert "This is a test bed" in said
    assert "One storm, capped prices" in said


def test_from_the_command_line(shown, tmp_path, monkeypatch, capsys):
    asked = {}

    def remembered(*, hub, others, seed, advance):
        asked.update(hub=hub, others=others, seed=seed)
        advance()
        return shown

    monkeypatch.setattr(storm, "demonstrate", remembered)
    report = tmp_path / "report.html"
    words = ["--quick", "--hub", "HB_WEST", "--seed", "3", "--report", str(report)]
    assert storm.main(words) == 0
    assert asked == {"hub": "HB_WEST", "others": (), "seed": 3}
    said = " ".join(capsys.readouterr().out.split())
    assert f"errs by {shown.stormy[0].error(PLAIN):.0f} $" in said
    assert report.read_text().rstrip().endswith("</html>")


def test_a_hub_that_is_not_there(capsys):
    assert storm.main(["--hub", "HB_MOON"]) == 2
    assert "HB_MOON" in capsys.readouterr().err
