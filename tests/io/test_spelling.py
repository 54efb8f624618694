"""Numbers written in other ways are refused with a line of pandas that converts them."""

import re

import numpy as np
import pandas as pd
import pytest

from tailproof.errors import LogError
from tailproof.io import read, read_log

SPELLINGS = {
    "decimal commas": lambda amount: f"{amount:.2f}".replace(".", ","),
    "decimal commas and points": lambda amount: (
        f"{amount:,.2f}".replace(",", " ").replace(".", ",").replace(" ", ".")
    ),
    "dollars": lambda amount: f"${amount:,.2f}",
    "commas": lambda amount: f"{amount:,.2f}",
    "euros": lambda amount: f"{amount:.2f} €",
    "millions": lambda amount: f"{int(1e6 * (amount + 1)):,}".replace(",", "."),
}


def table(n=300):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 70, n),
            "action": rng.choice(["mail", "none"], n),
            "spent": (1000 * rng.pareto(1.8, n)).round(2),
        }
    )


@pytest.mark.parametrize("part", ["reward", "state"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_line_of_pandas_in_the_message_converts_them(spelling, part):
    frame = table()
    frame["spent"] = frame["spent"].map(SPELLINGS[spelling])
    parts = (
        {"reward": "spent", "state": "age"}
        if part == "reward"
        else {"reward": "age", "state": "spent"}
    )
    with pytest.raises(LogError, match="Its numbers have") as caught:
        read(frame, **parts)
    line = re.search(r"in pandas: (.*)\.$", str(caught.value))[1]
    exec(line, {"table": frame})
    assert read(frame, **parts).log.n_transitions == len(frame)
    assert pd.api.types.is_float_dtype(frame["spent"])


@pytest.mark.parametrize("labels", [["$10", "$20"], ["10%", "20%"], ["1", "2"], ["a", "b,c"]])
def test_categories_stay_categories(labels):
    frame = table().assign(offer=(labels * 150))
    assert read(frame, state="offer", reward="spent").log.states.shape == (300, 2)


@pytest.mark.parametrize("labels", [["1", "2", "1,2"], ["18,25", "26,40"]])
def test_texts_that_are_said_to_be_names_are_names(labels):
    frame = table().assign(bought=np.resize(labels, 300))
    with pytest.raises(
        LogError, match=r"unless categorical='bought' makes them names. Its numbers"
    ):
        read(frame, state="bought", reward="spent")
    log = read(frame, state="bought", reward="spent", categorical="bought").log
    assert log.states.shape == (300, len(labels))


def test_three_decimals_in_every_row_are_decimals(tmp_path):
    rng = np.random.default_rng(0)
    frame = table().assign(spent=[*rng.uniform(1, 999, 299).round(3), 120.0])
    frame.to_csv(tmp_path / "log.csv", index=False, float_format="%.3f")
    assert (
        read(tmp_path / "log.csv", reward="spent").log.rewards.tolist() == frame["spent"].tolist()
    )


def test_points_between_thousands_are_not_taken_for_decimals(tmp_path):
    frame = table().assign(spent=lambda each: each["spent"].round().astype(int))
    frame["spent"] = frame["spent"].clip(upper=999_999)
    assert (frame["spent"] >= 1000).sum() > 20
    path = tmp_path / "log.csv"
    frame.assign(spent=frame["spent"].map(lambda each: f"{each:,}".replace(",", "."))).to_csv(
        path, index=False
    )
    for parts in ({"reward": "spent"}, {"reward": "age", "state": "spent"}):
        with pytest.raises(
            LogError, match=r"'spent', which may be \d\.\d+ or \d{4}: all its numbers"
        ):
            read(path, **parts)


@pytest.mark.parametrize(
    "spent",
    [
        [0.433, 798.0, 120.0, 2.5, 3.25, 7.125, 1.375],
        [1.125, 2.375, 3.625, 4.875, 5.125, 1500.0, 120.0],
        [1.125, 2.375, 3.625, 4.875, 5.125, 15.0, 12.0],
    ],
)
def test_decimals_stay_decimals(spent, tmp_path):
    path = tmp_path / "log.csv"
    rows = [f"{age},{'ab'[age % 2]},{each:g}" for age, each in enumerate(spent)]
    path.write_text("\n".join(["age,action,reward", *rows]) + "\n")
    assert read(path, state="age").log.rewards.tolist() == spent


@pytest.mark.parametrize("coding", ["latin-1", "utf-16"])
def test_a_file_in_another_coding_is_converted_by_the_line_in_the_message(
    coding, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    frame = table().rename(columns={"action": "Maßnahme"})
    frame.to_csv("german.csv", sep=";", index=False, encoding=coding)
    parts = {"action": "Maßnahme", "reward": "spent"}
    with pytest.raises(LogError, match="is no UTF-8 text") as caught:
        read("german.csv", **parts)
    line = re.search(r"Convert it: (.*)\.$", str(caught.value))[1]
    exec(line, {"pandas": pd})
    assert read("log.csv", **parts).log.n_transitions == len(frame)


def test_commas_that_may_mark_thousands_or_decimals_are_asked_about(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("x,action,reward\n" + '1,a,"2,941"\n2,b,"1,250"\n3,a,17\n' * 20)
    with pytest.raises(LogError, match=r"thousands or decimals, such as '(2,941|1,250)'"):
        read_log(path)
