import json
import warnings
from dataclasses import replace

import gymnasium
import numpy as np
import pytest

pytest.importorskip("torch")

from reproduction import datasets, implicit, sac_n
from reproduction import rollouts as rollouts_of_agents
from reproduction.__main__ import changes_of, parser
from reproduction.command import GROUPS, experiment, load, reproduce, run
from reproduction.experiment import Job, Results
from reproduction.implicit import D4RL_SQL, IQL_PUBLISHED, IQL_TABLE, LOOKS, prepared_log
from reproduction.sac_n import SAC_N
from reproduction.summary import SCORE, verdict
from tailproof.deep.bases import IQL
from tailproof.errors import ConvergenceWarning, FoldWarning, TailproofError
from tailproof.io import read_rollouts

#: What these tests train has no time to converge, and need not.
pytestmark = pytest.mark.filterwarnings("ignore::tailproof.errors.ConvergenceWarning")


@pytest.fixture
def rollouts(tmp_path, monkeypatch):
    """Logs in D4RL's manner, of a pendulum that answers to the names of MuJoCo's tasks."""
    environment = gymnasium.make("Pendulum-v1", max_episode_steps=40)
    rng = np.random.default_rng(0)
    columns = {"observations": [], "actions": [], "rewards": [], "terminals": [], "timeouts": []}
    last = []
    for episode in range(8):
        state, _ = environment.reset(seed=episode)
        over = False
        while not over:
            action = rng.uniform(-1, 1, size=1).astype(np.float32)
            following, reward, terminated, over, _ = environment.step(2 * action)
            row = (state, action, float(reward), terminated, over)
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
            state = following
        last.append(state)
    folder = tmp_path / "rollouts"
    folder.mkdir()
    for name in ("hopper-medium-sac-v4", "halfcheetah-medium-ppo-v4"):
        arrays = {key: np.asarray(values) for key, values in columns.items()}
        np.savez(folder / f"{name}.npz", **arrays, final_observations=np.asarray(last))
    ids = dict.fromkeys(datasets.ENVIRONMENTS, _short_pendulum)
    monkeypatch.setattr(datasets, "ENVIRONMENTS", ids)
    return folder


def _short_pendulum():
    return gymnasium.make("Pendulum-v1", max_episode_steps=10)


@pytest.mark.parametrize("name", GROUPS["deep"])
def test_every_deep_experiment_runs_in_a_quick_version_and_repeats_itself(name, rollouts, tmp_path):
    found = experiment(name)
    for place in ("one", "two"):
        run(found, out=tmp_path / place, quick=True, data=rollouts)
        assert found.claims(load(name, tmp_path / place))
        assert not list((tmp_path / place / ".progress").glob("*/*"))  # no scratch is left
    one, two = ((tmp_path / p / f"{found.name}.parquet").read_bytes() for p in ("one", "two"))
    assert one == two
    record = json.loads((tmp_path / "one" / f"{found.name}.json").read_text())
    (used,) = record["settings"]["datasets"].values()
    assert used["origin"] == "rollouts of trained agents, not D4RL"
    assert "torch" in record["versions"]


def test_the_published_budget_and_options_of_the_command():
    changes = changes_of(vars(parser().parse_args(["d4rl-sql", "--as-published", "--width", "32"])))
    assert changes == {"as_published": True, "hidden": (32, 32), "policy_hidden": (32, 32)}
    settings = D4RL_SQL.settled(quick=False, changes=changes)
    assert (settings["steps"], settings["policy_steps"], settings["share"]) == (200_000, 10**6, 0.0)
    assert settings["hidden"] == (32, 32)
    assert (settings["evaluations"], settings["evaluation_episodes"]) == (200, 10)
    assert D4RL_SQL.settled(quick=False, changes={}) == D4RL_SQL.settings
    assert SAC_N.settled(quick=False, changes=changes)["wanted"] == ("halfcheetah-medium",)


@pytest.mark.parametrize("name", ["d4rl-sql", "sac-n"])
def test_a_dry_run_says_how_long_it_takes(name, rollouts, tmp_path):
    small = {"as_published": True, "hidden": (8,), "policy_hidden": (8,), "critics": 2, "folds": 2}
    small |= {"most_episodes": 4, "evaluation_episodes": 1, "policy_steps": 2000, "steps": 2000}
    (outcome,) = reproduce(name, data=rollouts, out=tmp_path, changes=small, dry_run=True)
    (line,) = outcome.lines()
    assert "200 evaluations" in line or "600 evaluations" in line
    assert "hours on cpu" in line
    assert not list(tmp_path.glob("*.parquet"))


def test_the_budget_is_printed_on_the_figure(rollouts, tmp_path):
    settings = D4RL_SQL.settled(quick=False, data=rollouts)
    text = implicit.budget(Results("d4rl-sql", settings, 3, ()), "SQL")
    assert "rollouts of trained agents, not D4RL" in text
    assert "5,000 critic and 8,000 policy steps (paper: 200,000 and 1,000,000)" in text
    assert "3 seeds (5)" in text
    assert "Reduced budget" in text
    assert "worth at least 0.9" in text
    published = D4RL_SQL.settled(quick=False, data=rollouts, changes={"as_published": True})
    text = implicit.budget(Results("d4rl-sql", published, 5, ()), "SQL")
    assert "Published budget" in text
    assert "No bound on policy weights" in text


def test_data_sets_of_a_folder(rollouts):
    assert list(datasets.available(rollouts)) == ["halfcheetah-medium", "hopper-medium"]
    (rollouts / "hopper_medium-v2.hdf5").write_bytes(b"")
    (rollouts / "hopper-mine.parquet").write_bytes(b"")
    (rollouts / "ant-medium-v4.npz").write_bytes(b"")
    found = datasets.available(rollouts)
    assert list(found) == ["halfcheetah-medium", "hopper-medium", "hopper-mine"]
    assert found["hopper-medium"]["origin"] == "D4RL"
    assert found["hopper-mine"]["origin"] == "own log"
    wanted = datasets.find(rollouts, {"wanted": ("hopper-mine", "nothing"), "most_datasets": 9})
    assert list(wanted["datasets"]) == ["hopper-mine"]
    all_of_them = datasets.find(rollouts, {"wanted": ("nothing",), "most_datasets": 2})
    assert list(all_of_them["datasets"]) == ["halfcheetah-medium", "hopper-medium"]


def test_folders_without_data_are_refused(tmp_path):
    with pytest.raises(TailproofError, match="data must be a folder"):
        datasets.available(tmp_path / "nowhere")
    with pytest.raises(TailproofError, match="holds no data set that is known here"):
        datasets.find(tmp_path, {"wanted": (), "most_datasets": 1})
    assert "needs data; give a folder" in datasets.why_not("sac-n", None) or "needs imageio" in (
        datasets.why_not("sac-n", None)
    )


def test_a_log_of_our_own_is_read(rollouts, tmp_path):
    from tailproof.io import write_log

    settings = D4RL_SQL.settled(quick=True, data=rollouts)
    name = next(iter(settings["datasets"]))
    job = Job("d4rl-sql", {"dataset": name, "kappa": 1.0}, 0, 0, settings, rollouts)
    log = datasets.read_data(job)
    assert (log.n_episodes, log.n_transitions) == (8, 320)
    write_log(log, tmp_path / "hopper-mine.parquet")
    own = {"datasets": datasets.available(tmp_path), "most_episodes": 3}
    again = datasets.read_data(
        Job("d4rl-sql", {"dataset": "hopper-mine", "kappa": 1.0}, 0, 0, own, tmp_path)
    )
    assert again.n_episodes == 3
    assert np.allclose(again.rewards, log.rewards[: again.n_transitions])


def test_the_paper_s_table_is_drawn_beside_ours():
    assert len(implicit.PAPER) == 9
    assert implicit.PAPER["hopper-expert"] == (1.89, 2.14)


def table_results(scores):
    """Return results of iql-table on one data set; scores by method, one a seed."""
    settings = {
        **IQL_TABLE.settings,
        "datasets": {"hopper-expert": {"origin": "D4RL"}},
        "kappas": (100.0,),
    }
    rows = tuple(
        {
            "dataset": "hopper-expert",
            "kappa": 100.0,
            "replicate": replicate,
            "method": name,
            "score": score,
            "diverged": score is None,
            "time_constants": 5.0,
            "mean_value": 80.0,
            "pessimism": 15.0,
            "logged_return": 100.0,
        }
        for name in LOOKS
        for replicate, score in enumerate(scores[name])
    )
    return Results("iql-table", settings, 3, rows)


def test_one_seed_without_a_score_does_not_decide_a_ratio():
    results = table_results({**dict.fromkeys(LOOKS, (40.0, 50.0, 60.0)), "vanilla": (1e-3, 50, 40)})
    cell = IQL_TABLE.cells(results.settings)[0]
    assert implicit.ratios(results, "room-vm", cell).value == pytest.approx(50 / 30, rel=1e-3)


def many_results(gaps):
    """Return results in which ROOM-VM is ahead of IQL by these gaps, one for each data set."""
    settings = {"datasets": {name: {} for name in "abcdef"[: len(gaps)]}, "kappas": (0.0, 10.0)}
    rows = tuple(
        {**cell, "replicate": replicate, "method": name, "score": score}
        for cell in IQL_TABLE.cells(settings)
        for replicate in range(3)
        for name, score in (
            ("vanilla", 50.0 + replicate),
            ("room-vm", 50.0 + replicate + gaps["abcdef".index(cell["dataset"])]),
        )
    )
    return Results("iql-table", settings, 3, rows)


@pytest.mark.parametrize(
    ("gaps", "verdict"),
    [
        ((5.0, 6.0, 4.0, 5.5, 4.5, 5.0), "holds"),
        ((-5.0, -6.0, -4.0, -5.5, -4.5, -5.0), "does not hold"),
        ((30.0, -2.0, -3.0, -1.0, -2.5, -1.5), "undecided"),  # one data set of six
    ],
)
def test_data_sets_are_the_unit(gaps, verdict):
    """Seeds and noises of one data set do not make up for other data sets."""
    results = many_results(gaps)
    claim = implicit.claim(results, "it is", {"ROOM-VM": ("room-vm", "vanilla")})
    assert claim.verdict == verdict
    assert implicit.by_dataset(results, "room-vm", "vanilla", [10.0]) == pytest.approx(gaps)
    assert ("data sets would decide" in claim.found) == (verdict == "undecided")


def test_data_sets_of_fewer_seeds_and_noises_count_and_are_named():
    """The seeds and noises that both methods have are compared; the others are left out."""
    results = many_results((5.0, 6.0, 4.0, 5.5, 4.5, -20.0))
    rows = [
        row
        for row in results.rows
        if row["dataset"] != "f" or (row["kappa"] == 10.0 and row["replicate"] == 0)
    ]
    fewer = replace(results, settings={**results.settings, "few": ["f"]}, rows=tuple(rows))
    pair = "room-vm", "vanilla"
    assert implicit.by_dataset(fewer, *pair, [0.0])[-1] == 4.5  # "f" ran at κ = 10 alone
    assert implicit.by_dataset(fewer, *pair, [10.0])[-1] == -20
    assert implicit.by_dataset(fewer, *pair, [10.0], without=["f"])[-1] == 4.5
    claim = implicit.claim(fewer, "it is", {"ROOM-VM": pair})
    assert claim.verdict == "undecided"
    assert claim.found.endswith("5 [4.02, 5.98] without those of fewer seeds")


def test_rows_as_published_have_the_published_settings_and_the_noise_of_the_study(rollouts):
    settings = IQL_PUBLISHED.settled(quick=True, data=rollouts)
    jobs = [
        Job(name, {"dataset": "hopper-medium", "kappa": 100.0}, 0, 0, settings, rollouts)
        for name in ("iql-published", "iql-table")
    ]
    base = implicit.base_of(jobs[0], IQL, prepared_log(jobs[0])[0])
    assert (base.standardise, base.share, base.reward_scale, base.limit) == (False, 0.0, 1.0, 1e8)
    assert (base.policy, base.squash, base.cosine_over) == ("gaussian", False, "policy_steps")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (FoldWarning, ConvergenceWarning))
        one, two = (IQL_PUBLISHED.run(job) for job in jobs)
    assert [row["method"] for row in one] == list(implicit.AS_PUBLISHED.values())
    assert one == two  # noise, folds and initial values are those of the table's jobs


def test_trainings_that_diverged_are_counted_and_score_nothing():
    scores = {**dict.fromkeys(LOOKS, (40.0, 50.0, 60.0)), "vanilla": (None, 50.0, None)}
    results = table_results(scores)
    cell = IQL_TABLE.cells(results.settings)[0]
    assert SCORE.values(results, method="vanilla", **cell).tolist() == [0.0, 50.0, 0.0]
    diverged = IQL_TABLE.judge(results)[-1]
    assert diverged.verdict == "holds in part"
    assert diverged.found.endswith(
        "of 3 trainings a row, diverged and counted as a score of 0: IQL 2"
    )


def test_no_ratio_to_a_score_of_nothing():
    results = table_results({**dict.fromkeys(LOOKS, (40.0, 50.0, 60.0)), "vanilla": (2, 1, 0)})
    assert implicit.ratios(results, "room-vm", IQL_TABLE.cells(results.settings)[0]) is None
    (axis,) = IQL_TABLE.draw(results).axes
    assert [each.get_text() for each in axis.texts] == ["IQL scores about nothing"] * 2


@pytest.mark.parametrize(
    ("score", "clock", "verdict", "said"),
    [
        (1.0, 5.0, "undecided", "neither learns anything"),
        (60.0, 3.0, "holds", ""),
        (60.0, 1.2, "undecided", "not trained long enough to judge (1.2 time constants)"),
    ],
)
def test_learners_that_learn_nothing_or_briefly_are_not_alike(score, clock, verdict, said, rng):
    settings = {
        **SAC_N.settings,
        "datasets": {"halfcheetah-medium": {}},
        "kappas": (0.0,),
    }
    every = settings["steps"] // settings["evaluations"]
    rows = tuple(
        {
            "dataset": "halfcheetah-medium",
            "kappa": 0.0,
            "replicate": replicate,
            "method": name,
            "step": every * (place + 1),
            "score": score + 0.1 * rng.standard_normal(),
            "diverged": name == "sac-n" and replicate < 2,
            "time_constants": None if name == "sac-n" and replicate < 2 else clock,
        }
        for replicate in range(5)
        for name in sac_n.LOOKS
        for place in range(settings["evaluations"])
    )
    (claim,) = SAC_N.judge(Results("sac-n", settings, 5, rows))
    assert claim.verdict == verdict
    assert said in claim.found
    assert claim.found.count("(2 of 5 diverged and count as 0)") == 1


@pytest.mark.parametrize(
    ("minimum", "std", "alike", "robust"),
    [
        ((60, 61, 62), (60.1, 61.1, 62.1), "holds", "does not hold"),
        ((60, 61, 62), (20, 22, 21), "does not hold", "holds in part"),
        ((60, 61, 62), (1, 0, 2), "does not hold", "holds"),
        ((60, 1, 10), (1, 0, 2), "undecided", "holds in part"),
    ],
)
def test_what_is_said_of_the_minimum_and_mean_minus_std(minimum, std, alike, robust):
    pair = np.array(minimum, dtype=float), np.array(std, dtype=float)
    assert verdict(sac_n._checks(*pair, noisy=False)) == alike
    assert verdict(sac_n._checks(*pair, noisy=True)) == robust


def test_critics_that_diverge_are_a_result(rollouts):
    settings = {
        **SAC_N.settled(quick=True, data=rollouts),
        "learning_rate": 1e6,
        "steps": 40,
    }
    job = Job("sac-n", {"dataset": "halfcheetah-medium", "kappa": 0.0}, 0, 0, settings, rollouts)
    rows = sac_n.run(job)
    assert [row["diverged"] for row in rows] == [True] * 4
    assert {row["score"] for row in rows} == {0.0}


def agent_file(path, rng, *, squashed, timed=False):
    """Write an actor of Hopper's sizes in the layout of the trained agents' files."""
    width = 11 + timed
    arrays = {
        "W0": (8, width),
        "b0": (8,),
        "W1": (8, 8),
        "b1": (8,),
        "W_out": (3, 8),
        "b_out": (3,),
    }
    arrays |= {"W_logstd": (3, 8), "b_logstd": (3,)} if squashed else {"log_std": (3,)}
    arrays |= {} if squashed else {"obs_mean": (width,), "obs_var": (width,)}
    found = {name: 0.1 * rng.random(shape) for name, shape in arrays.items()}
    about = {"hidden_activation": "relu" if squashed else "tanh", "time_feature": timed}
    meta = json.dumps({**about, "clip_obs": 10.0, "eps": 1e-8})
    np.savez(path, **found, meta=np.array(meta))


def test_rollouts_of_trained_agents_join_the_data_sets(tmp_path, rng):
    pytest.importorskip("mujoco")
    for name in rollouts_of_agents.MIXED:
        squashed = name in ("sac", "tqc")
        path = tmp_path / f"{name}_Hopper-v3.npz"
        agent_file(path, rng, squashed=squashed, timed=name == "ppo")
    rollouts_of_agents.main(
        [str(tmp_path), str(tmp_path / "out"), "--domain", "hopper", "--rows", "100"]
    )
    found = datasets.available(tmp_path / "out")
    assert list(found) == ["hopper-expert", "hopper-medium", "hopper-mixed"]
    for each in found.values():
        log = read_rollouts(tmp_path / "out" / each["file"])
        assert (log.n_transitions, log.states.shape[1], log.actions.shape[1]) == (100, 11, 3)
        assert np.abs(log.actions).max() <= 1
        # the end of an episode is not the start of the next one
        ends = log.starts[1:-1] - 1
        assert not np.allclose(log.next_states[ends], log.states[ends + 1])
    agents = np.load(tmp_path / "out" / "hopper-mixed-v4.npz")["agent"]
    assert agents.tolist() == np.repeat(range(5), 20).tolist()


def test_an_agent_that_is_not_there_is_named(tmp_path):
    with pytest.raises(TailproofError, match="tqc_Hopper-v3"):
        rollouts_of_agents.write(tmp_path, tmp_path, "hopper", rows=10)
