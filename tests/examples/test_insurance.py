from dataclasses import replace

import pytest

from examples.insurance.__main__ import main
from examples.insurance.story import DEFAULT, PLAIN, WINSORISED, demonstrate


@pytest.fixture(scope="module")
def story():
    return demonstrate(logs=4, seed=5)


def test_winsorising_doubles_the_profit(story):
    """Exactly, over the whole portfolio; and in the logs as well."""
    assert story.truth == pytest.approx(40, abs=2)
    assert 1.8 < story.capped_truth / story.truth < 2.3
    assert story.mean(WINSORISED) > 1.6 * story.truth


def test_no_winsorised_interval_holds_what_most_others_do(story):
    assert story.held(WINSORISED) <= 1
    assert story.held(DEFAULT) >= story.held(PLAIN)
    assert all(
        default.high - default.low > capped.high - capped.low
        for default, capped in zip(story.readings[DEFAULT], story.readings[WINSORISED], strict=True)
    )


def test_the_story_is_told_by_its_numbers(story):
    said = story.sentences()
    assert f"earns {story.truth:.0f} euros" in said["answer"]
    assert f"cost {story.hidden:.0f} euros" in said["reason"]
    assert "in 0, the usual" in replace(story, truth=-1e9).sentences()["answer"]
    assert story.to_dict()["held"][DEFAULT] == story.held(DEFAULT)


def test_the_same_seed_tells_the_same_story():
    one, again = (demonstrate(rows=500, logs=1, seed=3) for _ in range(2))
    assert one == again


def test_from_the_command_line(capsys):
    assert main(["--logs", "1"]) == 0
    assert "Winsorised at p0.1" in " ".join(capsys.readouterr().out.split())
