"""Reading tables: every format gives the transitions that a plain loop over the rows gives."""

import datetime as dt
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailproof.errors import LogError, TailproofWarning
from tailproof.io import read, read_log
from tailproof.log.spaces import Continuous, Discrete

# TAILPROOF_FUZZ=100 runs a hundred times as many cases.
MANY = settings(max_examples=40 * int(os.environ.get("TAILPROOF_FUZZ", "1")), deadline=None)
BANDIT = {"x_1": [0.5, 0.1, 0.7], "action": [0, 1, 1], "reward": [1.0, 0.0, -8.0]}
TWO = {  # two episodes of two steps
    "episode": ["b", "b", "a", "a"],
    "x": [1.0, 2.0, 3.0, 4.0],
    "action": [0, 1, 1, 0],
    "reward": [10.0, 20.0, 30.0, 40.0],
}


@st.composite
def recordings(draw):
    """Rows of episodes as a program might log them, shuffled where steps tell the order."""
    kind = draw(st.sampled_from(["text", "whole"]))
    name = st.text("ab01 é<", max_size=3).map(lambda text: f"e{text}.")
    ids = draw(
        st.lists(
            name if kind == "text" else st.integers(-3, 2**62), min_size=1, max_size=4, unique=True
        )
    )
    real = st.floats(-1e6, 1e6).map(lambda value: round(value, 3) + 0.0)
    rows = []
    for label in ids:
        length = draw(st.integers(1, 4))
        stops = draw(st.booleans())
        for t in range(length):
            last = t == length - 1
            rows.append(
                {
                    "episode": label,
                    "step": t,
                    "x_a": draw(real),
                    "x_kind": draw(st.sampled_from(["red", "green", "blue"])),
                    "action": draw(st.sampled_from(["hold", "buy"])),
                    "reward": draw(real),
                    "terminated": last and stops,
                    "truncated": last and not stops,
                    "propensity": draw(st.sampled_from([0.25, 0.5, 1.0])),
                }
            )
    with_step = draw(st.booleans())
    if with_step:
        rows = draw(st.permutations(rows))
    flags = draw(st.sampled_from([(), ("terminated",), ("terminated", "truncated")]))
    dropped = {"terminated", "truncated"} - set(flags) | (set() if with_step else {"step"})
    return [{k: v for k, v in row.items() if k not in dropped} for row in rows]


def expected_transitions(rows):
    """The slow way: group the rows, walk through each episode."""
    episodes = {}
    for row in rows:
        episodes.setdefault(row["episode"], []).append(row)
    bandit = all(len(steps) == 1 and not steps[0].get("truncated") for steps in episodes.values())
    if "step" in rows[0]:
        episodes = {
            label: sorted(episodes[label], key=lambda row: row["step"])
            for label in sorted(episodes)
        }
    found = []
    for label, steps in episodes.items():
        for row, after in zip(steps, [*steps[1:], None], strict=True):
            ends = bandit or bool(row.get("terminated", False))
            if after is not None or ends:
                found.append((label, row, after, ends))
    return found


def assert_transitions(log, found):
    """Check a log against what the slow way found."""
    assert log.n_transitions == len(found)
    colours = [name.removeprefix("x_kind=") for name in log.state_names if "=" in name]
    for i, (label, row, after, ends) in enumerate(found):
        assert str(log.episode_ids[log.episode_of_row[i]]) == str(label)
        assert log.rewards[i] == row["reward"]
        assert log.action_space.label(log.actions[i]) == row["action"]
        assert log.propensity[i] == row["propensity"]
        assert log.terminated[i] == ends
        assert log.states[i, 0] == row["x_a"]
        assert (log.states[i, 1:] == [row["x_kind"] == colour for colour in colours]).all()
        if after is not None:
            assert log.next_states[i, 0] == after["x_a"]
            assert (log.next_states[i, 1:] == [after["x_kind"] == c for c in colours]).all()


def written(rows, form, folder):
    """Return the rows in one of the forms that can be read."""
    table = pa.Table.from_pylist(rows)
    path = folder / f"log.{form}"
    if form == "csv":
        pyarrow.csv.write_csv(table, path)
    elif form == "parquet":
        pyarrow.parquet.write_table(table, path)
    elif form == "feather":
        pyarrow.feather.write_feather(table, path, compression="zstd")
    elif form == "stream.arrow":
        with pa.ipc.new_stream(path, table.schema) as sink:
            sink.write_table(table)
    elif form == "pandas":
        return table.to_pandas()
    elif form == "categorical":
        return table.to_pandas().astype({"action": "category", "x_kind": "category"})
    elif form == "polars":
        return pl.from_arrow(table).with_columns(pl.col("x_kind").cast(pl.Categorical))
    elif form == "lazy":
        return pl.from_arrow(table).lazy()
    elif form == "batch":
        return table.to_batches()[0]
    elif form == "reader":
        return table.to_reader()
    elif form == "chunks":
        return pa.concat_tables([table.slice(i, 1) for i in range(len(rows))])
    elif form == "mapping":
        return {name: np.array(table[name].to_pylist()) for name in table.column_names}
    else:
        return table
    return path


FORMS = [
    *("csv", "parquet", "feather", "stream.arrow", "pandas", "categorical", "polars", "lazy"),
    *("batch", "reader", "chunks", "mapping", "table"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("logs")


@pytest.mark.filterwarnings("ignore::tailproof.errors.TailproofWarning")
@MANY
@given(rows=recordings(), form=st.sampled_from(FORMS))
def test_every_form_gives_the_transitions_of_a_plain_loop(folder, rows, form):
    found = expected_transitions(rows)
    if not found:
        with pytest.raises(LogError):
            read_log(written(rows, form, folder), episode="episode")
        return
    assert_transitions(read_log(written(rows, form, folder), episode="episode"), found)


@pytest.mark.filterwarnings("ignore::tailproof.errors.TailproofWarning")
@MANY
@given(rows=recordings().filter(lambda rows: "step" in rows[0]), seed=st.integers(0, 9))
def test_the_order_of_rows_does_not_matter_when_steps_tell_it(rows, seed):
    if not expected_transitions(rows):
        return
    shuffled = [rows[i] for i in np.random.default_rng(seed).permutation(len(rows))]
    one, other = (
        read_log(pa.Table.from_pylist(each), episode="episode") for each in (rows, shuffled)
    )
    for part in ("states", "actions", "rewards", "next_states", "terminated", "starts"):
        assert (getattr(one, part) == getattr(other, part)).all()
    assert (one.episode_ids == other.episode_ids).all()


def test_given_next_states_are_used_and_may_be_missing_where_nothing_is_backed_up():
    columns = TWO | {"next_x": [2.0, None, 4.0, 9.0], "terminated": [False, True, False, False]}
    log = read_log(pa.table(columns))
    assert log.next_states.ravel().tolist() == [2.0, 2.0, 4.0, 9.0]
    assert log.terminated.tolist() == [False, True, False, False]
    assert log.truncated.tolist() == [False, False, False, True]


def test_an_episode_that_goes_on_unseen_loses_its_last_step_with_a_warning():
    with pytest.warns(
        TailproofWarning, match="2 last steps of 2 episodes left out.*terminated=True"
    ):
        log = read_log(TWO, terminated=False)
    assert log.rewards.tolist() == [10.0, 30.0]
    assert log.next_states.ravel().tolist() == [2.0, 4.0]
    assert log.truncated.all()


@pytest.mark.parametrize("words", ["yes no", "Y N", "TRUE FALSE", "t f", "1 0"])
@pytest.mark.parametrize("lazy", [False, True])
def test_ends_may_be_written_as_words(tmp_path, lazy, words):
    yes, no = words.split()
    path = tmp_path / "log.parquet"
    pyarrow.parquet.write_table(pa.table(TWO | {"ended": [no, yes, no, yes]}), path)
    assert read_log(path, terminated="ended", lazy=lazy).n_transitions == 4


@pytest.mark.parametrize("lazy", [False, True])
def test_who_named_the_ends_is_not_told_to_name_them(tmp_path, lazy):
    path = tmp_path / "log.parquet"
    pyarrow.parquet.write_table(pa.table(TWO | {"ended": [False, True, False, False]}), path)
    reading = read(path, terminated="ended", lazy=lazy)
    (said,) = [each for each in reading.cautions if "left out" in each]
    assert said == (
        "1 last step of 2 episodes left out: not marked as an end, and the state that followed was "
        "not logged."
    )


@pytest.mark.parametrize("lazy", [False, True])
def test_a_guess_that_would_leave_many_rows_out_is_a_question(tmp_path, lazy):
    """A customer who comes back: an episode of two steps, or two decisions?"""
    n = 40
    table = {
        "customer_id": np.repeat(np.arange(n // 2), 2),
        "x": np.arange(n) / n,
        "action": np.arange(n) % 2,
        "reward": np.arange(n) % 3.0,
    }
    path = tmp_path / "log.parquet"
    pyarrow.parquet.write_table(pa.table(table), path)
    with pytest.raises(
        LogError, match=r"'customer_id' was taken for .* 20 of 40 rows.*Pass terminated=True if"
    ):
        read_log(path, lazy=lazy)
    assert read_log(path, lazy=lazy, episode=False).n_episodes == n
    assert read_log(path, lazy=lazy, terminated=True).n_transitions == n
    for answer in ({"terminated": False}, {"episode": "customer_id"}):
        with pytest.warns(TailproofWarning, match="20 last steps of 20 episodes left out"):
            assert read_log(path, lazy=lazy, **answer).n_transitions == 20
    long = {**table, "customer_id": np.repeat(np.arange(2), n // 2)}  # two rows of forty: a warning
    pyarrow.parquet.write_table(pa.table(long), path)
    with pytest.warns(TailproofWarning, match="2 last steps of 2 episodes left out"):
        read_log(path, lazy=lazy)


def test_a_missing_next_state_at_an_end_loses_that_step_only():
    columns = TWO | {"next_x": [2.0, 5.0, 4.0, None]}
    with pytest.warns(TailproofWarning, match="1 last step of 2 episodes left out"):
        log = read_log(pa.table(columns))
    assert log.rewards.tolist() == [10.0, 20.0, 30.0]
    assert log.next_states.ravel().tolist() == [2.0, 5.0, 4.0]


def test_episodes_that_end_for_good_keep_every_step():
    log = read_log(TWO, terminated=True)
    assert log.n_transitions == 4
    assert log.terminated.tolist() == [False, True, False, True]
    assert log.episode_ids.tolist() == ["b", "a"]


def test_rows_of_one_step_are_a_bandit_and_all_kept():
    for columns in (BANDIT, BANDIT | {"user": [7, 8, 9]}, BANDIT | {"done": [1, 1, 1]}):
        log = read_log(columns)
        assert log.is_bandit
        assert log.terminated.all()
        assert log.n_transitions == 3


def test_without_episodes_flags_say_where_one_ends():
    reading = read(BANDIT | {"done": [0, 1, 1]})
    assert reading.log.lengths.tolist() == [2, 1]
    assert "an episode ends where a row is marked" in reading.describe()


def test_rows_that_are_not_together_are_gathered_with_a_warning():
    mixed = {name: [values[i] for i in (0, 2, 1, 3)] for name, values in TWO.items()}
    with pytest.warns(TailproofWarning, match="not together; they were gathered"):
        log = read_log(mixed, terminated=True)
    assert log.rewards.tolist() == [10.0, 20.0, 30.0, 40.0]
    assert log.episode_ids.tolist() == ["b", "a"]


def test_missing_steps_are_a_caution():
    steps = {"episode": [1] * 4, "x": [0.0] * 4, "a": [0] * 4, "r": [0.0] * 4, "t": [0, 1, 2, 5]}
    reading = read(steps, terminated=True)
    assert "1 step missing within episodes, the first after row 2" in reading.cautions[0]
    assert not read(steps | {"t": [0, 10, 20, 30]}, terminated=True).cautions


def test_done_is_the_end_for_whatever_reason_where_it_is_true_at_timeouts_too():
    reading = read(TWO | {"done": [0, 1, 0, 1], "truncated": [0, 0, 0, 1]})
    assert reading.log.terminated.tolist() == [False, True, False]
    assert "read as any end of an episode" in reading.describe()
    apart = read(TWO | {"done": [0, 1, 0, 0], "truncated": [0, 0, 0, 1]})
    assert apart.log.terminated.tolist() == [False, True, False]


def test_groups_stay_with_their_episodes():
    columns = TWO | {"group": [dt.date(2021, 2, 15)] * 2 + [dt.date(2021, 2, 22)] * 2}
    log = read_log(columns, terminated=True)
    assert log.group_ids.tolist() == ["2021-02-15", "2021-02-22"]
    shuffled = pa.table(columns | {"step": [1, 0, 0, 1]})
    log = read_log(shuffled, terminated=True)  # sorted by episode, so a comes first
    assert log.episode_ids.tolist() == ["a", "b"]
    assert log.group_ids.tolist() == ["2021-02-22", "2021-02-15"]


def test_times_order_the_steps():
    times = [dt.datetime(2024, 1, day) for day in (2, 1, 1, 2)]
    log = read_log(TWO | {"time": times}, terminated=True)
    assert log.rewards.tolist() == [30.0, 40.0, 20.0, 10.0]


def test_categories_keep_their_labels():
    columns = BANDIT | {
        "action": ["sell", "buy", "sell"],
        "x_1": ["low", "high", "low"],
        "x_2": [True, False, True],
    }
    log = read_log(columns)
    assert log.action_space == Discrete(2, ("buy", "sell"))
    assert log.actions.tolist() == [1, 0, 1]
    assert log.state_names == ("x_1=high", "x_1=low", "x_2=true")
    assert log.states.tolist() == [[0, 1, 1], [1, 0, 0], [0, 1, 1]]
    assert read_log(BANDIT | {"action": [True, True, True]}).action_space.labels == (
        "false",
        "true",
    )


def test_next_categories_share_the_states_columns():
    columns = TWO | {"x": ["u", "v", "u", "u"], "next_x": ["v", "w", "u", None]}
    log = read_log(pa.table(columns | {"done": [0, 0, 0, 1]}))
    assert log.state_names == ("x=u", "x=v", "x=w")
    assert log.next_states.argmax(axis=1).tolist() == [1, 2, 0, 0]


def test_whole_numbers_are_codes_unless_they_must_be_labels():
    assert read_log(BANDIT | {"action": [1, 3, 1]}).action_space == Discrete(4)
    assert read_log(BANDIT | {"action": [1.0, 3.0, 1.0]}).action_space == Discrete(4)
    reading = read(BANDIT | {"action": [70001, -3, 70001]})
    assert reading.log.action_space == Discrete(2, ("-3", "70001"))
    assert "0 = -3, 1 = 70001" in reading.describe()
    assert "Actions 0, 2 of 0..3 never occur" in read(BANDIT | {"action": [1, 3, 1]}).describe()


def test_decimals_are_continuous_actions():
    assert read_log(BANDIT | {"action": [0.5, 1.0, 2.0]}).action_space == Continuous(1)
    two = {"x": [0.0, 1.0], "action_0": [0.5, 1.0], "action_1": [1.0, 2.0], "r": [0.0, 1.0]}
    assert read_log(two).actions.tolist() == [[0.5, 1.0], [1.0, 2.0]]


def test_list_columns_are_vectors():
    columns = {
        "observation": [[0.0, 1.0], [2.0, 3.0]],
        "next_observation": [[2.0, 3.0], None],
        "action": [[0.5], [0.25]],
        "reward": [1, 2],
        "episode": [0, 0],
        "terminated": [0, 1],
    }
    log = read_log(pa.table(columns))
    assert log.state_names == ("observation[0]", "observation[1]")
    assert log.states.tolist() == [[0, 1], [2, 3]]
    assert log.next_states.tolist() == [[2, 3], [2, 3]]
    assert log.action_space == Continuous(1)


def test_labels_in_a_csv_file_are_kept_as_written(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("user,t,x,a,r\n007,1,0,0,1\n7,1,1,0,2\n007,2,2,0,3\n")
    log = read_log(path, terminated=True)
    assert log.episode_ids.tolist() == ["007", "7"]
    huge = ["123456789012345678901", "123456789012345678902"]  # one and the same as decimals
    path.write_text("user,x,a,r\n" + "".join(f"{user},0,0,1\n" for user in huge))
    assert read_log(path).episode_ids.tolist() == huge


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_other_delimiters_are_recognised(tmp_path, mark):
    path = tmp_path / "log.csv"
    path.write_text("x,action,reward\n0.5,1,2\n".replace(",", mark))
    assert read_log(path).rewards.tolist() == [2.0]


def test_a_folder_of_parquet_files_is_one_table(tmp_path):
    for part, rows in (("site=1", slice(0, 2)), ("site=2", slice(2, 4))):
        (tmp_path / part).mkdir()
        table = pa.table({name: values[rows] for name, values in TWO.items()})
        pyarrow.parquet.write_table(table, tmp_path / part / "rows.parquet")
    log = read_log(tmp_path, terminated=True, group="site")
    assert log.rewards.tolist() == TWO["reward"]
    assert log.group_ids.tolist() == [1, 2]


def test_a_column_of_a_frame_may_be_called_as_it_likes():
    frame = pd.DataFrame(TWO | {"episodes": [1, 1, 2, 2]})
    assert read_log(frame, episode="episodes", terminated=True).episode_ids.tolist() == [1, 2]


def test_a_named_index_of_a_frame_is_a_column():
    frame = pd.DataFrame(TWO).set_index("episode")
    assert read_log(frame, terminated=True).episode_ids.tolist() == ["b", "a"]


def test_notes_are_said_by_the_description():
    said = read(BANDIT).describe()
    assert said.startswith("Read as state: x_1 (guessed)")
    assert "every row is an episode of one step" in said


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"reward": [1.0, None, 2.0]}, "Column 'reward' has 1 missing value, the first at row 1"),
        ({"reward": [1.0, float("nan"), 2.0]}, "Column 'reward' has 1 missing value.*row 1"),
        ({"reward": [1.0, float("inf"), 2.0]}, "'reward' must hold finite.* Got inf at row 1"),
        (
            {"reward": ["1", "2", "?"]},
            "'reward' must hold numbers. Got '\\?' at row 2 \\(1 such row\\)",
        ),
        (
            {"x_1": [dt.time(12), dt.time(13), dt.time(14)]},
            "'x_1' must hold numbers. Got time64.*such as the hou",
        ),
        ({"x_1": [b"a", b"b", b"c"]}, "'x_1' must hold numbers. Got binary"),
        ({"x_1": [None, None, None]}, "'x_1' holds no values at all"),
        ({"x_1": [[1.0], [1.0, 2.0], [1.0]]}, "'x_1' must be equally long.* 2 entries at row 1"),
        ({"action": ["a", None, "b"]}, "'action' has 1 missing value"),
        ({"action": [1, None, 2]}, "'action' has 1 missing value"),
        ({"propensity": [0.5, 0.0, 0.5]}, "propensity must lie in .* Got 0 at row 1"),
        ({"propensity": [0.5, 1.5, 0.5]}, r"Got 1.5 at row 1 \(1 such row.* at most 1"),
        ({"done": ["yes", "no", "so"]}, "'done' must hold true and false, .* Got 'so' at row 2"),
        ({"done": [0, 1, 2]}, "'done' must hold true and false, .* or 1 and 0. Got 2 at row 2"),
        ({"propensity": [50.0, 30.0, 20.0]}, r"Got 50 at row 0 \(3 such rows.* divide .* by 100"),
        ({"done": [0, 0, 0]}, "no row is marked as the end of an episode"),
        ({"episode": [1, None, 2]}, "'episode' has 1 missing value"),
        ({"episode": [[1], [1], [2]]}, "'episode' must hold labels"),
        ({"episode": [1, 1, 1], "step": [0, 1, 1]}, "Rows 1 and 2 are of the same episode and st"),
        ({"episode": [1, 1, 1], "step": ["a", "b", "c"]}, "'step' must hold numbers, dates or t"),
        ({"episode": [1, 1, 2], "done": [1, 0, 1]}, "terminated may be true only at the last row"),
        ({"episode": [1, 1, 2], "group": [1, 2, 2], "done": [0, 1, 1]}, "Episode 1 has"),
        ({"next_x_1": [1.0, 2.0, 3.0]}, "next states, but neither an episode column nor flags"),
        (
            {"episode": [1, 1, 2], "next_x_1": [None, 1.0, 1.0]},
            "The next state may be missing only at the last row.* in row 0",
        ),
        (
            {"action_0": [1, 2, 3], "action_1": [1, 2, 3], "action": None},
            "combine discrete choices",
        ),
    ],
)
def test_what_is_wrong_with_a_column_is_said(columns, text):
    table = pa.table({k: v for k, v in (BANDIT | columns).items() if v is not None})
    with pytest.raises(LogError, match=text):
        read_log(table)


@pytest.mark.parametrize("lazy", [False, True])
def test_numbers_with_a_misspelt_one_are_no_categories(tmp_path, lazy):
    texts = [f"{i / 7:.3f}" for i in range(40)]
    for wrong in ("2.5O", "1,5", "n/a", "0.1.2"):
        texts[17] = wrong
        table = {"x": texts, "action": [0, 1] * 20, "reward": [1.0] * 40}
        pyarrow.parquet.write_table(pa.table(table), tmp_path / "log.parquet")
        with pytest.raises(LogError, match=f"'x' holds numbers, but for 1 of its values.*{wrong}"):
            read_log(tmp_path / "log.parquet", lazy=lazy)
    codes = {"x": ["1", "2", "G", "10"] * 10, "action": [0, 1] * 20, "reward": [1.0] * 40}
    pyarrow.parquet.write_table(pa.table(codes), tmp_path / "log.parquet")
    assert len(read_log(tmp_path / "log.parquet", lazy=lazy).state_names) == 4


def test_an_identifier_is_no_category():
    table = {"x": [str(i) for i in range(300)], "a": [0] * 300, "r": [1.0] * 300}
    with pytest.raises(LogError, match="300 distinct texts in 300 rows: an identifier"):
        read_log(table)


def test_step_needs_episodes():
    with pytest.raises(LogError, match="no column says which episode a row is of"):
        read_log(BANDIT | {"t": [1, 2, 3]}, step="t")


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("log.csv", b"", "log.csv could not be read: Empty CSV file"),
        ("log.csv", b"x,a,r\n1,2\n", "could not be read.*as many fields in every line"),
        ("log.csv", b"x,a,r\n", "has columns but no rows"),
        (
            "log.csv",
            b"x,a,r\n1,0,5 bags\n",
            "'r' must hold numbers.*no unit",
        ),
        ("log.csv", b"x,a,r\n1,0,NA\n", "'r' has 1 missing value"),
        ("log.parquet", b"hello", "does not begin as a Parquet file does"),
        ("log.parquet", b"PAR1hello", "could not be read.*damaged or not Parquet"),
        ("log.arrow", b"ARROW1hello", "could not be read.*damaged or not Arrow"),
        ("log.docx", b"PK", "is not a log that can be read.*Logs are Parquet"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path, name, content, text):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(LogError, match=text):
        read_log(tmp_path / name)


def test_paths_that_lead_nowhere_are_said(tmp_path):
    with pytest.raises(LogError, match=r"could not be opened.*Check the path"):
        read_log(tmp_path / "none.csv")
    with pytest.raises(LogError, match="could not be opened"):
        read_log("a\0b.csv")
    with pytest.raises(LogError, match="holds no Parquet files"):
        read_log(tmp_path)
    with pytest.raises(LogError, match="Got int instead"):
        read_log(3)
    with pytest.raises(LogError, match="could not be read"):
        read_log(pd.DataFrame({"x": [1, "a"], "action": [0, 0], "reward": [0, 0]}))


def test_reading_a_file_imports_no_frames(tmp_path):
    path = tmp_path / "log.parquet"
    pyarrow.parquet.write_table(pa.table(TWO), path)
    program = (
        "import sys; from tailproof.io import read_log; "
        f"read_log({str(path)!r}, terminated=True); "
        "sys.exit(bool({'pandas', 'polars', 'h5py', 'minari'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_next_states_that_contradict_the_next_row_are_said():
    table = {
        "episode": [0, 0, 0, 1, 1, 1],
        "x": [0.0, 1.0, 2.0, 5.0, 6.0, 7.0],
        "next_x": [1.0, 2.0, 3.0, 6.0, 7.0, 8.0],
        "action": [0, 1, 0, 1, 0, 1],
        "reward": [1.0] * 6,
    }
    assert read(table).cautions == ()
    table["next_x"] = [1.0, 9.0, 3.0, 6.0 + 1e-9, 7.0, 8.0]
    (said,) = read(table).cautions
    assert "next state of 1 of 4 steps is not the state of the next row" in said
    assert "the first at row 1" in said
