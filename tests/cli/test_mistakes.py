"""Typical mistakes, each with the message that one would want to read."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from tailproof import evaluate
from tailproof.cli import app
from tailproof.errors import MethodError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("shop")
    rng = np.random.default_rng(0)
    lines = ["customer,age,region,offer,spend,new_offer,p_email,p_none,week"]
    for i in range(60):
        offer = rng.choice(["email", "none"])
        age = "" if i == 7 else int(rng.integers(20, 70))
        new = "" if i == 3 else "email"
        lines.append(f"c{i},{age},north,{offer},{rng.pareto(2):.3f},{new},0.9,0.3,{i // 7}")
    (path / "log.csv").write_text("\n".join(lines) + "\n")
    (path / "plain.csv").write_text("age,what_was_sent,total_spend\n30,email,1.0\n40,none,2.0\n")
    (path / "sessions.csv").write_text(
        "user_id,x,action,reward\n" + "".join(f"{i // 2},{i % 5},{i % 2},1.0\n" for i in range(20))
    )
    (path / "rules.py").write_text(
        "def mine(states):\n    return states['agee'] > 40\n"
        "def wrong(states):\n    return ['emial'] * len(states)\n"
        "def reward(states):\n    return states['spend'] > 1\n"
        "class Model:\n    def __call__(self, states):\n        return [0] * len(states)\n"
        "table = 3\n"
    )
    (path / "model.joblib").write_bytes(b"whatever")
    return path


STATE = ("--state", "age")
LOG = ("evaluate", "log.csv", *STATE)
ALWAYS = ("--policy", "always:email")

MISTAKES = {
    "no such file": (
        ("evaluate", "lgo.csv", *ALWAYS),
        "The file lgo.csv could not be opened",
    ),
    "misspelt column": (
        ("evaluate", "log.csv", "--state", "aeg", *ALWAYS),
        "There is no column 'aeg' for state. The log has: customer, age, region, offer, spend, "
        "new_offer, p_email, p_none, week. Did you mean 'age'?",
    ),
    "nothing looks like an action or a reward": (
        ("evaluate", "plain.csv", *ALWAYS),
        "No column looks like the action or the reward. The log has: age, what_was_sent, total_spend. "
        "Name them, as in --action COLUMN --reward total_spend --state '*'",
    ),
    "misspelt action": (
        (*LOG, "--policy", "always:emial"),
        "There is no action 'emial' in the log. It has email, none. Did you mean 'email'?",
    ),
    "misspelt policy": (
        (*LOG, "--policy", "allways:email"),
        "There is no module 'allways'. Did you mean 'always:email'?",
    ),
    "misspelt method": (
        (*LOG, *ALWAYS, "--method", "roam-mid"),
        "There is no method 'roam-mid'. Did you mean 'roam-mis'?",
    ),
    "misspelt policy column": (
        (*LOG, "--policy", "column:new_ofer"),
        "There is no column 'new_ofer' for the policy.",
    ),
    "gaps in a policy column": (
        (*LOG, "--policy", "column:new_offer"),
        "Column 'new_offer' is missing in 1 rows, the first of them row 3 (the first row is 0): say "
        "what the policy does there.",
    ),
    "probabilities that do not add up": (
        (*LOG, "--policy", "column:p_*"),
        "must be at least 0 and add up to 1. Got [0.9, 0.3] at row 0",
    ),
    "the reward as a policy": (
        (*LOG, "--policy", "column:spend"),
        "Column 'spend' is the reward: no policy knows it before it acts.",
    ),
    "a rule over a misspelt column": (
        (*LOG, "--policy", "rules.py:mine"),
        "rules.py, line 2 (return states['agee'] > 40): KeyError: 'agee'. It was given a frame with "
        "the columns customer, age, region, new_offer, p_email, p_none, week.",
    ),
    "a rule that looks at the reward": (
        (*LOG, "--policy", "rules.py:reward"),
        "no policy knows them before it acts: offer (the action), spend (the reward)",
    ),
    "a rule that answers with a misspelt label": (
        (*LOG, "--policy", "rules.py:wrong"),
        "must answer with the log's actions, email, none. Got 'emial'. Did you mean 'email'?",
    ),
    "a class instead of a policy": (
        (*LOG, "--policy", "rules.py:Model"),
        "rules.py:Model is a class. Name an object of it or a function of states",
    ),
    "a number instead of a policy": (
        (*LOG, "--policy", "rules.py:table"),
        "rules.py:table is not a policy but int.",
    ),
    "a file of rules without a name": (
        (*LOG, "--policy", "rules.py"),
        "rules.py is code: say which policy in it is meant, as in rules.py:policy.",
    ),
    "a pickled model": (
        (*LOG, "--policy", "model.joblib"),
        "is a pickle, and reading one runs whatever code is in it",
    ),
    "shares that do not add up": (
        (*LOG, "--policy", "0.5*always:email + 0.4*logged"),
        "must be at least 0 and add up to 1. Got 0.5 + 0.4.",
    ),
    "episodes that nobody said how they end": (
        ("evaluate", "sessions.csv", "--policy", "always:1", "--gamma", "0.9"),
        "Pass --terminated always if an episode ends for good at its last row; --terminated - if it "
        "goes on after the recording, which leaves these rows out; or --episode - if every row is a "
        "decision by itself.",
    ),
    "no discount for several steps": (
        ("evaluate", "sessions.csv", "--policy", "always:1", "--terminated", "always"),
        "gamma",
    ),
    "gaps that were to be errors": (
        (*LOG, *ALWAYS, "--missing", "error"),
        "Column 'age' has 1 missing value, the first at row 7 (the first row is 0).",
    ),
    "an unknown way to treat gaps": (
        (*LOG, *ALWAYS, "--missing", "zero"),
        "missing must be 'category', 'median', 'drop-episode' or 'error'. Got 'zero' instead.",
    ),
    "the cost of an action that there is not": (
        (*LOG, *ALWAYS, "--cost", "Email=2"),
        "cost names the action 'Email', which the log does not have. It has email, none. Did you mean "
        "'email'?",
    ),
    "a cost without an amount": (
        (*LOG, *ALWAYS, "--cost", "email"),
        "--cost takes ACTION=AMOUNT, as in --cost voucher=2.5. Got 'email'.",
    ),
    "one column for two parts": (
        ("evaluate", "log.csv", "--state", "age,spend", "--reward", "spend", *ALWAYS),
        "A column can be one part of the log only. Got 'spend' for reward and state",
    ),
    "an identifier as a state": (
        ("evaluate", "log.csv", "--state", "customer", "--episode", "-", *ALWAYS),
        "State column 'customer' has 60 distinct texts in 60 rows: an identifier rather than a",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_message_is_the_one_that_one_would_want(mistake, folder, monkeypatch):
    monkeypatch.chdir(folder)
    words, wanted = MISTAKES[mistake]
    result = CliRunner().invoke(app, [*words, "--json"])
    assert result.exit_code == 2
    shown = " ".join(result.stderr.split())
    assert " ".join(wanted.split()) in shown
    assert "Traceback" not in shown
    assert "error" in json.loads(result.stdout)


def test_messages_speak_python_in_python(folder):
    with pytest.raises(MethodError, match="Did you mean 'roam-mis'"):
        evaluate(folder / "log.csv", "always:email", state="age", method="roam-mid")
    with pytest.raises(ValueError, match=r"action='COLUMN', reward='total_spend', state='\*'"):
        evaluate(folder / "plain.csv", "always:email")


def test_methods_are_options_on_the_command_line(folder, monkeypatch):
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(app, [*LOG, *ALWAYS, "--method", "roam-mid"])
    assert "Method(" not in result.stderr
