"""`.plot()` of every result: on the Axes that was given, with the numbers of the result."""

import math

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure

from tailproof import Log, compare, diagnose, evaluate, learn
from tailproof.deep.history import History
from tailproof.errors import TailproofError
from tailproof.noise import StudentT
from tailproof.policies.forms import Always, Uniform


@pytest.fixture
def axes():
    return Figure().subplots()


@pytest.fixture(scope="module")
def log(cartpole):
    return cartpole.log(episodes=40, steps=20, noise=StudentT(df=2.5), seed=1)


@pytest.fixture(scope="module")
def bandit():
    rng = np.random.default_rng(1)
    arm = rng.integers(0, 2, 2000)
    reward = arm + 0.1 * rng.standard_t(3, 2000)
    x = rng.normal(size=(2000, 1))
    half = np.full(2000, 0.5)
    ends = np.ones(2000, dtype=bool)
    return Log.from_arrays(
        x, arm, reward, x, episode=np.arange(2000), terminated=ends, propensity=half
    )


def dots(axes, tone):
    """Return where the dots of a tone stand."""
    found = [each for each in axes.collections if each.get_gid() == f"dot {tone}"]
    return np.concatenate([np.asarray(each.get_offsets()) for each in found])


def ends(axes):
    """Return the x of the ends of every interval, row by row from the top."""
    found = {}
    for each in axes.collections:
        if (each.get_gid() or "").startswith("line "):
            for x, y in np.asarray(each.get_offsets()):
                found.setdefault(round(y), []).append(x)
    return found


def names(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


def test_an_estimate_and_the_logged_policy(log, cartpole, axes):
    estimate = evaluate(log, cartpole.target(), gamma=0.9)
    assert estimate.plot(level=0.8, ax=axes) is axes
    assert names(axes) == ["policy", "logged"]
    assert dots(axes, "main")[:, 0] == pytest.approx([estimate.value])
    assert dots(axes, "second")[:, 0] == pytest.approx([estimate.choice.logged_value])
    interval = estimate.interval(0.8)
    assert ends(axes)[0] == [interval.low, interval.high]
    assert ends(axes)[1][0] <= estimate.choice.logged_value <= ends(axes)[1][1]


def test_an_estimate_from_folds(log, cartpole, axes):
    estimate = evaluate(log, cartpole.target(), method="roam-dm", gamma=0.9)
    estimate.plot(ax=axes)
    assert sorted(dots(axes, "second")[:, 0]) == sorted(estimate.fold_values)
    low, high = axes.get_xlim()
    assert low < estimate.fold_values.min() < estimate.fold_values.max() < high


def test_an_estimate_without_an_interval_is_drawn_without_one(log, cartpole, axes):
    estimate = evaluate(log, cartpole.target(), method="fqe", gamma=0.9)
    estimate.plot(ax=axes)
    assert dots(axes, "main")[:, 0] == pytest.approx([estimate.value])
    assert ends(axes) == {}


def test_a_comparison(bandit, axes):
    policies = {"$one": Always(1), "zero$": Always(0), "both": Uniform(2)}
    comparison = compare(bandit, policies, gamma=1.0)
    assert comparison.plot(ax=axes) is axes
    assert names(axes) == [each.name for each in comparison.candidates]
    drawn = {y: x for tone in ("main", "good", "warn") for x, y in _dots(axes, tone)}
    for row, each in enumerate(comparison.candidates):
        assert drawn[row] == pytest.approx(each.gain.value)
        assert ends(axes)[row][0] == each.gain.lower_bound.value
        assert ends(axes)[row][1] >= each.gain.value
    assert len(dots(axes, "good")) == sum(each.passes for each in comparison.candidates) == 1


def _dots(axes, tone):
    return dots(axes, tone).tolist()


def test_a_diagnosis(log, axes):
    diagnosis = diagnose(log, gamma=0.9)
    assert diagnosis.plot(ax=axes) is axes
    report = diagnosis.tails["rewards"]
    drawn = {each.get_gid(): each for each in axes.lines}
    for index, path, tone in (
        (report.right, report.right_path, "main"),
        (report.left, report.left_path, "warn"),
    ):
        assert dots(axes, tone).tolist() == [[index.k, pytest.approx(index.alpha)]]
        x, y = drawn[f"line {tone}"].get_data()
        known = dict(zip(path.k.tolist(), path.alpha.tolist(), strict=True))
        assert [known[k] for k in x[np.isfinite(y)]] == y[np.isfinite(y)].tolist()
    with pytest.raises(TailproofError, match=r"tails of 'rewards', 'returns'\. Got 'weights'"):
        diagnosis.plot(of="weights")


@pytest.mark.slow
def test_a_learned_policy_shows_its_gain(bandit, axes):
    learned = learn(bandit, gamma=1.0)
    assert learned.plot(of="gain", ax=axes) is axes
    judged = learned.judged
    (place,) = dots(axes, "good" if judged.better else "main")
    assert place[0] == pytest.approx(judged.gain)
    assert ends(axes)[0] == [judged.bound]
    assert f"{judged.episodes} held-out" in axes.get_xlabel()


def test_a_learned_policy_that_nobody_judged_shows_its_training(log, axes):
    learned = learn(log, method="room-vm", gamma=0.9)
    learned.plot(ax=axes)
    assert np.array_equal(np.stack([each.get_ydata() for each in axes.lines], 1), learned.history)


def test_a_history_is_drawn_in_panels_or_alone(axes):
    history = History()
    for step in (10, 20):
        history = history.with_row(step, {"q loss": np.array([1.0, 2.0]), "return": 5.0 + step})
    assert history.plot("return", ax=axes) is axes
    assert [each.get_xydata().tolist() for each in axes.lines] == [[[10, 15], [20, 25]]]
    panels = history.plot()
    assert [panel.get_title() for panel in panels] == ["q loss", "return"]
    assert len(panels[0].lines) == 2
    pyplot.close(panels[0].figure)
    with pytest.raises(TailproofError, match=r"The history holds q loss, return\. Got 'loss'"):
        history.plot("loss")
    with pytest.raises(TailproofError, match="holds nothing"):
        History().plot()
    with pytest.raises(TailproofError, match="One Axes holds one quantity"):
        history.plot(ax=axes)


def test_without_axes_a_figure_is_opened_where_a_notebook_looks_for_it(bandit):
    before = pyplot.get_fignums()
    drawn = evaluate(bandit, Always(1), gamma=1.0).plot()
    assert [each for each in pyplot.get_fignums() if each not in before] == [drawn.figure.number]
    pyplot.close(drawn.figure)


def test_every_picture_survives_a_file(bandit, axes, tmp_path):
    evaluate(bandit, Always(1), gamma=1.0).plot(ax=axes)
    for name in ("plot.png", "plot.svg", "plot.pdf"):
        axes.figure.savefig(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000
    assert math.isfinite(axes.get_xlim()[0])
