import csv
import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from tailproof import evaluate
from tailproof.cli import app
from tailproof.cli.hints import KEYWORDS, as_options
from tailproof.io import read_log

runner = CliRunner()


def run(*words):
    return runner.invoke(app, [str(word) for word in words], env={"COLUMNS": "80"})


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A CSV as people have them: labels, no propensities, heavy-tailed rewards."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("logs") / "log.csv"
    with path.open("w", newline="") as file:
        write = csv.writer(file)
        write.writerow(["user_id", "t", "x_age", "x_mood", "action", "reward"])
        for user in range(60):
            mood = rng.normal()
            for t in range(10):
                action = rng.choice(["email", "none"])
                reward = mood + (action == "email") + rng.standard_t(1.5)
                write.writerow([f"u{user}", t, 30 + user % 7, mood, action, reward])
                mood = 0.8 * mood + rng.normal()
    return path


@pytest.mark.parametrize(
    "words",
    [
        ["diagnose"],
        ["evaluate"],
        ["compare"],
        ["learn"],
        ["methods"],
        ["data", "list"],
        ["data", "make"],
        ["version"],
    ],
    ids=" ".join,
)
def test_every_command_explains_itself_with_an_example(words):
    result = run(*words, "--help")
    assert result.exit_code == 0
    assert f"Example: tailproof {' '.join(words)}" in " ".join(result.stdout.split())
    assert "--json" in result.stdout


def test_exit_codes_are_documented():
    assert "Exit codes: 0 done, and better" in " ".join(run("--help").stdout.split())


def test_version_and_methods():
    found = json.loads(run("version", "--json").stdout)["versions"]
    assert set(found) >= {"tailproof", "numpy", "python"}
    listed = json.loads(run("methods", "--json").stdout)["methods"]
    assert listed["roam-dm"]["folds"] == 5
    assert "roam-dm" in run("methods").stdout


def test_evaluate_equals_the_library(table):
    words = ["--gamma", 0.9, "--method", "roam-dm", "--folds", 6, "--seed", 3, "--json"]
    result = run("evaluate", table, "--policy", "always:email", *words)
    found = json.loads(result.stdout)
    full = json.loads(
        run("evaluate", table, "--policy", "a=always:email", *words[:-1], "--json=full").stdout
    )
    with pytest.warns(UserWarning, match="left out"):
        log = read_log(table)
    email = log.action_space.labels.index("email")
    from tailproof import method

    same = evaluate(
        log,
        lambda states: np.full(len(states), email),
        gamma=0.9,
        method=method("roam-dm", folds=6),
        seed=3,
    )
    assert found["value"] == full["value"] == same.value
    assert full["fold_values"] == same.fold_values.tolist()
    assert found["interval"]["low"] == same.interval(0.9).low
    assert found["lower_bound"]["value"] == same.lower_bound(0.9).value
    assert found["gain"]["lower_bound"]["value"] == same.gain.lower_bound(0.9).value
    assert found["logged_value"] == same.logged_value
    assert "fold_values" not in found
    assert full["diagnosis"]["episodes"] == 60
    assert "user_id (guessed)" in found["columns"]
    assert any("left out" in warning for warning in found["warnings"])


def test_evaluate_says_what_it_guessed_beside_the_answer(table):
    result = run("evaluate", table, "--policy", "always:email", "--gamma", 0.9)
    said = " ".join(result.stdout.split())
    assert said.startswith("always:email would earn about ")
    assert " per episode, discounted by 0.9 a step, " in said
    assert said.index("; logged ") < said.index("Warning: ")
    assert "--terminated always" in said  # not terminated=True, which is Python
    assert "Read as state: x_age, x_mood (guessed)" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("words", "verdict", "code"),
    [
        (["--policy", "always:1"], "better", 0),
        (["--policy", "always:0"], "worse", 3),
        (["--policy", "logged"], "no difference shown", 3),
        (["--policy", "always:1", "--method", "lstd"], "cannot tell", 4),
    ],
)
def test_the_exit_code_is_the_verdict(plain_table, words, verdict, code):
    words = ["evaluate", plain_table, "--gamma", 0.5, *words]
    shown, record = run(*words, "-q"), run(*words, "--json")
    assert shown.exit_code == record.exit_code == code
    found = json.loads(record.stdout)
    assert found["verdict"] == verdict
    assert (found["reason"] == []) == (code != 4)
    said = " ".join(shown.stdout.split())
    assert f". {verdict.capitalize()}. " in said
    assert said.startswith(found["sentence"])


def test_the_first_screen_is_short_and_the_rest_is_explained_on_request(table):
    words = ["evaluate", table, "--policy", "uniform", "--gamma", 0.9]
    quiet, explained = run(*words, "-q"), run(*words, "-q", "--explain")
    assert quiet.stderr == ""
    assert "Warning: " in quiet.stdout  # it may change the answer
    assert len(quiet.stdout.partition("Warning: ")[0].splitlines()) <= 8
    assert "How this was computed" not in quiet.stdout
    assert explained.stdout.startswith(quiet.stdout)
    assert "How this was computed" in explained.stdout
    total = run(*words, "-q", "--times", 1000).stdout
    assert "Over 1,000 episodes: about " in " ".join(total.split())


def test_a_bound_that_python_refuses_is_refused_with_its_reason(table):
    words = ["evaluate", table, "--policy", "uniform", "--gamma", 0.9, "--method", "roam-fqe"]
    said = " ".join(run(*words).stdout.split())
    assert "without an interval" in said
    assert "depend on each other" in said
    found = json.loads(run(*words, "--json").stdout)
    assert set(found["interval"]) == set(found["gain"]["lower_bound"]) == {"why_not"}
    assert (found["verdict"], found["reason"]) == ("cannot tell", ["no_interval"])


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["--level", 95], "write 0.95 for 95 %"),
        (["--level", 1], "is not between 0 and 1"),
        (["--level", "nan"], "is not between 0 and 1"),
        (["--at-least", 90], "write 0.9 for 90 %"),
    ],
)
def test_a_level_is_a_share(table, words, advice):
    result = run("learn", table, "--gamma", 0.9, *words)
    assert result.exit_code == 2
    assert advice in " ".join(result.stderr.replace("│", " ").split())


def test_the_version_is_an_option_too():
    assert run("--version").stdout.split() == [
        "tailproof",
        json.loads(run("version", "--json").stdout)["versions"]["tailproof"],
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--policy", "always:emial"], "Did you mean 'email'?"),
        (["--policy", "nowhere:policy"], "There is no module 'nowhere'"),
        (["--policy", "uniform"], "--gamma 0.99"),
        (
            ["--policy", "uniform", "--gamma", "0.9", "--method", "none"],
            "There is no method 'none'",
        ),
        (["--policy", "uniform", "--gamma", "0.9", "--state", "y_*"], "No column matches"),
        (["--policy", "uniform", "--gamma", "2"], "must be a number in [0, 1]"),
        (["--policy", "uniform", "--gamma", "0.9", "--set", "ridge"], "--set takes name=value"),
        (["--policy", "uniform", "--gamma", "0.9", "--set", "x=1"], "has no setting 'x'"),
        (["--policy", "os:sep", "--gamma", "0.9"], "is not a policy but str"),
        (["--policy", "decimal:Decimal", "--gamma", "0.9"], "is a class"),
    ],
)
def test_bad_input_is_an_error_without_traceback(table, words, message):
    result = run("evaluate", table, *words)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_errors_as_json_and_with_a_traceback(table):
    result = run("evaluate", table, "--policy", "uniform", "--json", "--debug")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["kind"] == "TailproofError"
    assert "Traceback" in result.stderr


def test_what_nobody_expected_is_exit_code_one(table, tmp_path, monkeypatch):
    (tmp_path / "broken.py").write_text(
        "class Broken:\n    def __getattr__(self, name):\n        return 1 / 0\n"
        "    def __call__(self, states):\n        return 1\n"
        "policy = Broken()\n"
    )
    monkeypatch.chdir(tmp_path)
    result = run("evaluate", table, "--policy", "broken.py:policy", "--gamma", 0.9)
    assert result.exit_code == 1
    assert "ZeroDivisionError" in result.stderr
    assert "--debug" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_wrong_option_is_exit_code_two(table):
    assert run("evaluate", table, "--polcy", "x").exit_code == 2
    assert run("evaluate", table).exit_code == 2
    assert run("nothing").exit_code == 2


def test_policies_of_modules_files_and_labels_agree(table, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n"
        "def numbers(states):\n    return np.zeros(len(states), dtype=int)\n"
        "def labels(states):\n    return np.full(len(states), 'email')\n"
        "def wrong(states):\n    return np.full(len(states), 'fax')\n"
        "class Both:\n"
        "    def probabilities(self, states):\n"
        "        return np.tile([1.0, 0.0], (len(states), 1))\n"
        "both = Both()\n"
    )
    monkeypatch.chdir(tmp_path)
    values = [
        json.loads(
            run(
                *("evaluate", table, "--policy", policy, "--gamma", 0.9, "--method", "lstd"),
                "--json",
            ).stdout
        )["value"]
        for policy in ("mine:numbers", "mine.py:labels", "mine:both", "always:email")
    ]
    assert values == pytest.approx([values[0]] * 4, rel=1e-12)
    wrong = run("evaluate", table, "--policy", "mine:wrong", "--gamma", 0.9)
    assert wrong.exit_code == 2
    assert "Got 'fax'" in wrong.stderr


@pytest.mark.slow
def test_a_report_appears_whole_or_not_at_all(table, tmp_path):
    words = ["evaluate", table, "--policy", "uniform", "--gamma", 0.9, "--report"]
    report = tmp_path / "report.html"
    assert run(*words, report).exit_code == 3  # no difference shown
    assert report.read_text().endswith("</html>")
    assert list(tmp_path.iterdir()) == [report]
    missing = run(*words, tmp_path / "nowhere" / "report.html")
    assert missing.exit_code == 2
    assert "could not be written" in missing.stderr


def test_diagnose_names_the_episodes_that_decide(table):
    result = run("diagnose", table, "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert len(found["influence"]["effects"]) == 10
    shown = run("diagnose", table)
    assert shown.exit_code == 0
    assert found["summary"] in " ".join(shown.stdout.split())
    assert next(iter(found["influence"]["effects"])) in shown.stdout


def test_a_bandit_needs_no_discount(tmp_path):
    path = tmp_path / "bandit.csv"
    rng = np.random.default_rng(1)
    rows = [
        f"{x:.3f},{a},{r:.3f}"
        for x, a, r in zip(
            rng.normal(size=200), rng.integers(0, 2, 200), rng.normal(size=200), strict=True
        )
    ]
    path.write_text("\n".join(["x,action,reward", *rows]))
    result = run("evaluate", path, "--policy", "always:1", "--json")
    assert json.loads(result.stdout)["gamma"] == 0


def test_missing_propensities_are_estimated_and_said(tmp_path):
    rng = np.random.default_rng(4)
    states = rng.normal(size=600)
    right = 1 / (1 + np.exp(-states))
    actions = (rng.random(600) < right).astype(int)
    path = tmp_path / "bandit.csv"
    rows = [f"{x:.4f},{a},{a + x:.4f}" for x, a in zip(states, actions, strict=True)]
    path.write_text("\n".join(["x,action,reward", *rows]))
    words = ["evaluate", path, "--policy", "always:1"]
    found = json.loads(run(*words, "--method", "snips", "--json").stdout)
    assert any("Propensities are estimated, not logged" in note for note in found["notes"])
    assert found["value"] == pytest.approx(1.0, abs=0.2)
    chosen = run(*words, "--propensity", "estimate:boosting")
    assert chosen.exit_code == 0  # better
    assert "Boosting" in chosen.stderr
    unknown = run(*words, "--propensity", "estimate:magic")
    assert unknown.exit_code == 2
    assert "magic" in unknown.stderr


@pytest.fixture(scope="module")
def plain_table(tmp_path_factory):
    """A log in which one action earns one more, whatever the state."""
    rng = np.random.default_rng(2)
    path = tmp_path_factory.mktemp("logs") / "plain.csv"
    rows = ["episode,step,x,action,reward,truncated"]
    for episode in range(60):
        for step in range(8):
            action, last = rng.integers(2), int(step == 7)
            reward = action + rng.normal()
            rows.append(f"{episode},{step},{rng.normal():.3f},{action},{reward:.3f},{last}")
    path.write_text("\n".join(rows))
    return path


def test_the_gate_is_an_exit_code(plain_table, tmp_path):
    words = ["compare", plain_table, "--gamma", 0.5]
    better = run(*words, "--policy", "one=always:1", "--policy", "zero=always:0", "--json")
    assert better.exit_code == 0, better.stderr
    found = json.loads(better.stdout)
    assert found["best"] == "one"
    assert [each["passes"] for each in found["candidates"]] == [True, False]
    report = tmp_path / "compare.html"
    worse = run(*words, "--policy", "zero=always:0", "--report", report)
    assert worse.exit_code == 3
    said = " ".join(worse.stdout.split())
    assert re.match(
        r"zero would earn about [\d.]+ less per episode than the logged policy \(-", said
    )
    assert ". Worse. " in said
    assert "Worse" in report.read_text()
    against = run(*words, "--policy", "always:0", "--baseline", "-100")
    assert against.exit_code == 0
    twice = run(*words, "--policy", "a=uniform", "--policy", "a=always:1")
    assert twice.exit_code == 2
    assert "different names" in twice.stderr


@pytest.mark.parametrize("name", ["policy.onnx", "policy.tailproof"])
def test_a_learned_policy_is_judged_saved_and_evaluated(plain_table, tmp_path, name):
    out, report = tmp_path / name, tmp_path / "learned.html"
    words = ["--gamma", 0.5, "--method", "room-fqi", "--json"]
    result = run("learn", plain_table, *words, "--out", out, "--report", report)
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["held_out"]["on_log"]["shares"]["1"] > 0.95
    assert found["held_out"]["episodes"] == 18
    assert found["best_constant"]["action"] == "1"
    assert "What it learned" in report.read_text()
    words = ["--policy", out, "--gamma", 0.5, "--method", "lstd", "--json"]
    again = run("evaluate", plain_table, *words)
    assert json.loads(again.stdout)["value"] == pytest.approx(2.0, abs=0.3)


@pytest.mark.slow
def test_learning_by_default_gives_reasons(plain_table, tmp_path, monkeypatch):
    result = run("learn", plain_table, "--gamma", 0.5)
    assert result.exit_code == 0
    said = " ".join(result.stdout.split())
    assert said.startswith("The learned policy would earn about ")
    assert "; logged " in said
    assert said.count("more per episode") == 1  # one number: that of the episodes which decided
    assert "best single action" not in said  # the policy is this constant
    assert "was the best of" in run("learn", plain_table, "--gamma", 0.5, "--explain").stdout
    words = ["learn", plain_table, "--gamma", 0.5, "--at-least", 0.999999999]
    assert json.loads(run(*words, "--json").stdout)["learned"]["improves"] is False
    monkeypatch.chdir(tmp_path)  # a long path would be broken over lines
    kept = run(*words, "--out", "kept.tailproof", "--export", "sql", "-q")
    assert (kept.exit_code, kept.stdout.split()[0]) == (3, "Nothing")
    assert "kept.sql was not written: the logged behaviour" in " ".join(kept.stdout.split())
    assert not (tmp_path / "kept.sql").exists()
    changed = run("learn", plain_table, "--gamma", 0.5, "--folds", 7)
    assert changed.exit_code == 2
    assert "chooses for itself" in changed.stderr


def test_an_end_that_no_state_foresees_is_a_warning(plain_table):
    words = ["evaluate", plain_table, "--policy", "uniform", "--method", "lstd"]
    blind = run(*words, "--gamma", 0.9, "--terminated", "always")
    assert "no state column tells the time" in " ".join(blind.stdout.split())
    clock = run(*words, "--gamma", 0.9, "--terminated", "always", "--state", "x,step")
    assert "tells the time" not in clock.stdout
    open_end = run(*words, "--gamma", 0.9)
    assert "tells the time" not in open_end.stdout


def test_made_logs_are_read_back(tmp_path):
    for name, words in {
        "cartpole.parquet": ["cartpole", "--episodes", 5, "--noise", "student-t:1.5"],
        "cartpole.csv": ["cartpole", "--episodes", 2],
        "gym.parquet": ["CartPole-v1", "--policy", "uniform", "--episodes", 2],
        "torques.parquet": ["Pendulum-v1", "--policy", "uniform", "--episodes", 2],
    }.items():
        path = tmp_path / name
        result = run("data", "make", *words, "--out", path, "--json")
        assert result.exit_code == 0, result.stderr
        made = json.loads(result.stdout)
        names = ["position", "velocity", "angle", "angular_velocity"]
        log = read_log(path, **({"state": names} if name == "cartpole.csv" else {}))
        assert (log.n_transitions, log.n_episodes) == (made["transitions"], made["episodes"])
    assert "cartpole" in run("data", "list").stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "There is no world or Gymnasium environment 'nothing'"),
        (["CartPole-v1"], "needs --policy"),
        (["cartpole", "--noise", "white"], "There is no noise 'white'"),
        (["cartpole", "--noise", "pareto:x"], "takes a name and numbers"),
        (["cartpole", "--out", "log.txt"], "must end in .parquet or .csv"),
    ],
)
def test_what_cannot_be_made_is_said(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("data", "make", *words)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_keywords_become_options():
    assert as_options("Say which: action='a'.") == "Say which: --action a."
    assert as_options("state=['x', 'y'] or state=... will do") == (
        "--state x,y or --state COLUMN will do"
    )
    assert as_options("gamma=1 needs more") == "--gamma 1 needs more"
    variable = "in a part of the range of state=CA and of model=T4"  # columns of a table
    assert as_options(variable) == variable
    assert as_options("such as method='fqi' or holdout=0.2") == (
        "such as --method fqi or --holdout 0.2"
    )
    assert as_options("Use steps=3_000 or target_rate=0.01.") == (
        "Use --steps 3000 or --set target_rate=0.01."
    )


def test_options_stay_options():
    every = "Pass ridge=0.1, method('mis', mean='catoni'), reward='-cost', state=..., lazy=True."
    once = as_options(every)
    assert as_options(once) == once
    assert not re.search(r"(?<![\w-])(?<!--set )[a-z_]+=", once)


def test_every_argument_in_a_hint_is_an_option_of_some_command():
    known = {
        option
        for command in ("evaluate", "learn", "compare")
        for option in re.findall(r"--[a-z-]+", run(command, "--help").stdout)
    }
    assert {f"--{name.replace('_', '-')}" for name in KEYWORDS.split("|")} <= known


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        pytest.param(
            ("--steps", "20"),
            "Got --steps as well; name a method to change, such as --method iql",
            marks=pytest.mark.slow,  # loads torch
        ),
        (
            ("--folds", "3"),
            "Got --folds as well; name a method to change, such as --method room-fqi",
        ),
    ],
)
def test_what_auto_cannot_change_is_hinted_at_with_a_method_that_can(words, hint, tmp_path):
    path = tmp_path / "log.csv"
    lines = [f"{i % 7},{i % 2},{i % 5}.5" for i in range(40)]
    path.write_text("\n".join(["x,action,reward", *lines]) + "\n")
    refused = run("learn", path, *words)
    assert refused.exit_code == 2
    assert hint in " ".join(refused.stderr.split())
    named = re.search(r"--method (\S+)\.", " ".join(refused.stderr.split()))[1]
    assert run("learn", path, "--method", named, *words).exit_code in (0, 3, 4)


@pytest.mark.parametrize("option", ["--state", "--action", "--reward"])
def test_an_option_given_twice_is_refused_by_name(option, tmp_path):
    (tmp_path / "log.csv").write_text("a,b,action,reward\n1,2,0,1\n2,1,1,2\n")
    done = run("evaluate", tmp_path / "log.csv", option, "a", option, "b", "--policy", "always:1")
    assert done.exit_code == 2
    assert option in done.output
