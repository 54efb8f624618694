"""Numbers written in other ways are read where that is unambiguous, and said; otherwise refused."""

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
def test_numbers_with_units_commas_and_thousands_are_read_and_said(spelling, part, tmp_path):
    frame = table()
    written = frame.assign(spent=frame["spent"].map(SPELLINGS[spelling]))
    if spelling == "millions":
        frame["spent"] = (1e6 * (frame["spent"] + 1)).astype(int)
    parts = {"reward": "spent", "state": "age"}
    if part == "state":
        parts = {"reward": "age", "state": "spent"}
    written.to_csv(tmp_path / "log.csv", index=False, sep=";")
    for source in (written, tmp_path / "log.csv"):
        found = read(source, **parts)
        read_as = found.log.rewards if part == "reward" else found.log.states[:, 0]
        np.testing.assert_allclose(read_as, frame["spent"])
        assert any("'spent'" in note for note in found.notes)


def test_percentages_are_shares():
    frame = table().assign(p="50 %", spent=lambda t: t["spent"].map("{:.0f}%".format))
    log = read(frame, state="age", reward="spent", propensity="p").log
    assert set(log.propensity) == {0.5}
    np.testing.assert_allclose(log.rewards, table()["spent"].round() / 100)


@pytest.mark.parametrize("order", [1, -1])
def test_shares_beside_percentages_are_asked_about(order):
    """0.05 beside 5 % is five hundredths or five: the first row does not decide."""
    spent = [f"{i}%" if i % 2 else f"{i / 100}" for i in range(len(table()))]
    with pytest.raises(LogError, match="different units"):
        read(table().assign(spent=spent[::order]), state="age", reward="spent")


def test_a_new_file_in_the_same_spelling_is_read_by_the_encoder_of_the_first():
    frame = table().assign(spent=lambda t: t["spent"].map("{:,.2f} €".format))
    log = read(frame, state="spent", reward="age").log
    again = read(frame.iloc[:100], reward="age", encoder=log.encoder).log
    np.testing.assert_array_equal(again.states, log.states[:100])


@pytest.mark.parametrize("bad", ["€ 1,200 or so", "$ 7.50", "--7.50", "€ -+7.50"])
def test_one_odd_amount_is_refused(bad):
    frame = table().assign(spent=lambda t: t["spent"].map("€ {:,.2f}".format))
    frame.loc[7, "spent"] = bad
    with pytest.raises(LogError):
        read(frame, state="age", reward="spent")


def test_everything_wrong_with_a_file_is_one_message():
    frame = table().assign(p=0.5)
    frame.loc[3, "action"] = None
    frame.loc[4, "spent"] = np.inf
    frame["p"] = "often"
    with pytest.raises(LogError) as caught:
        read(frame, state="age", reward="spent", propensity="p")
    assert all(f"'{name}'" in str(caught.value) for name in ("action", "spent", "p"))


@pytest.mark.parametrize("labels", [["$10", "$20"], ["10%", "20%"], ["1", "2"], ["a", "b,c"]])
def test_categories_stay_categories(labels):
    frame = table().assign(offer=(labels * 150))
    assert read(frame, state="offer", reward="spent").log.states.shape == (300, 2)


@pytest.mark.parametrize("labels", [["1", "2", "1,2"], ["18,25", "26,40"]])
def test_texts_that_are_said_to_be_names_are_names(labels):
    frame = table().assign(bought=np.resize(labels, 300))
    with pytest.raises(LogError):
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
    with pytest.raises(LogError, match=r"thousands or decimals"):
        read_log(path)
