import pytest

from reproduction import command
from reproduction.__main__ import main
from reproduction.command import EXPERIMENTS, GROUPS, experiment, load, reproduce
from tailproof.errors import TailproofError

LIGHT = [name for name in EXPERIMENTS if not experiment(name).deep]


@pytest.mark.parametrize("name", LIGHT)
def test_every_experiment_runs_in_a_quick_version(name, tmp_path):
    (outcome,) = reproduce(name, quick=True, replicates=2, jobs=1, out=tmp_path)
    assert outcome.name == name
    assert outcome.claims == ()  # so few logs decide nothing
    for kind in ("parquet", "json", "svg", "png"):
        assert outcome.files[kind].stat().st_size > 0
    claims = experiment(name).claims(load(name, tmp_path, times=True))
    assert claims
    for claim in claims:
        assert claim.paper
        assert claim.found
        assert "nan" not in claim.found
    assert outcome.files["svg"].stat().st_size < 400_000


def test_names_and_groups():
    assert set(GROUPS["all"]) == set(EXPERIMENTS)
    assert set(GROUPS["cartpole"]) | set(GROUPS["deep"]) < set(EXPERIMENTS)
    assert all(experiment(name).name == name for name in EXPERIMENTS)
    with pytest.raises(
        TailproofError, match=r"There is no experiment 'figure-7'. Known are bandit"
    ):
        reproduce("figure-7")


def test_deep_experiments_are_skipped_among_others_and_refused_alone(tmp_path, monkeypatch):
    monkeypatch.setitem(GROUPS, "deep", ("sac-n",))
    (outcome,) = reproduce("deep", out=tmp_path)
    assert outcome.skipped
    assert outcome.lines()[0].startswith("sac-n (figure A3) skipped: ")
    with pytest.raises(TailproofError, match="sac-n needs"):
        reproduce("sac-n", out=tmp_path)


def test_the_command_prints_a_line_for_every_claim_and_no_verdict_of_a_quick_run(tmp_path, capsys):
    words = ["bandit", "--replicates", "2", "--jobs", "1", "--out", str(tmp_path)]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert all(line.startswith("bandit (figure 1) ") for line in lines)
    assert main([*words, "--quick"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("bandit (figure 1) ran ")
    assert main(["nothing", "--out", str(tmp_path)]) == 2
    assert "no experiment 'nothing'" in capsys.readouterr().err


def test_what_is_called_after_each(tmp_path):
    seen = []
    reproduce(["bandit"], quick=True, replicates=1, jobs=1, out=tmp_path, each=seen.append)
    assert [outcome.name for outcome in seen] == ["bandit"]
    assert command.reproduce is reproduce
