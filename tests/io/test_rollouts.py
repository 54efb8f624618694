import numpy as np
import pytest

from tailproof import read_log
from tailproof.errors import LogError
from tailproof.io import read_rollouts


def rollouts(**changes):
    arrays = {
        "observations": np.arange(10.0).reshape(5, 2),
        "actions": np.linspace(-1, 1, 5)[:, None],
        "rewards": np.array([1.0, 2.0, 3.0, 4.0, 5.0]),
        "terminals": np.array([False, True, False, False, False]),
        "timeouts": np.array([False, False, False, False, True]),
        "final_observations": np.array([[-1.0, -1.0], [-2.0, -2.0]]),
        **changes,
    }
    return {name: values for name, values in arrays.items() if values is not None}


def test_the_state_after_every_end_is_kept(tmp_path):
    np.savez(tmp_path / "log.npz", **rollouts(), agent=np.arange(5))
    for source in (tmp_path / "log.npz", rollouts()):
        log = read_rollouts(source)
        assert log.next_states.tolist() == [[2, 3], [-1, -1], [6, 7], [8, 9], [-2, -2]]
        assert log.lengths.tolist() == [2, 3]
        assert log.terminated.tolist() == [False, True, False, False, False]
        assert (log.action_space.low, log.action_space.high) == ((-1.0,), (1.0,))
    assert read_log(str(tmp_path / "log.npz")).n_transitions == 5


def test_without_final_observations_the_step_at_a_timeout_is_left_out():
    log = read_rollouts(rollouts(final_observations=None))
    assert log.lengths.tolist() == [2, 2]


def test_actions_beyond_one_have_no_bounds():
    assert read_rollouts(rollouts(actions=np.linspace(-2, 2, 5)[:, None])).action_space.low is None


def test_discrete_actions_stay_discrete():
    log = read_rollouts(rollouts(actions=np.array([0, 1, 0, 1, 1])))
    assert log.n_actions == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"final_observations": np.zeros((3, 2))}, "final_observations must hold 2 rows"),
        ({"timeouts": np.zeros(5, bool), "final_observations": np.zeros((1, 2))}, "The last row"),
        ({"timeouts": None}, "neither timeouts nor next_observations"),
        ({"rewards": np.array([1.0, 2.0, np.nan, 4.0, 5.0])}, "rewards must be finite"),
        ({"observations": np.array(1.0)}, "observations must hold a row"),
        ({"observations": np.zeros((4, 2))}, "actions must hold 4 rows"),
        ({"observations": [[1.0, 2.0], [3.0]]}, "rows of observations differ in length"),
        ({"terminals": np.array([False, True])}, "terminals must hold 5 rows"),
        ({"timeouts": np.array(["a"] * 5)}, "timeouts must hold 5 rows"),
        ({"timeouts": np.full(5, np.nan)}, "timeouts must be finite"),
        ({"timeouts": np.full(5, 2)}, "timeouts must hold 0 and 1 only"),
        ({"final_observations": np.array(["a", "b"])}, "final_observations must hold 2 rows"),
        ({"final_observations": np.full((2, 2), np.nan)}, "final_observations must be finite"),
        ({name: np.zeros((0, 2)) for name in rollouts()}, "must hold 0 rows of 1 numbers"),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(LogError, match=message):
        read_rollouts(rollouts(**changes))


def test_files_that_hold_something_else_are_refused(tmp_path):
    path = tmp_path / "log.npz"
    np.savez(path, weights=np.zeros(3))
    with pytest.raises(LogError, match="There is no observations; got weights"):
        read_log(str(path))
    path.write_bytes(b"no zip at all")
    with pytest.raises(LogError, match=r"damaged or not an \.npz of numbers"):
        read_log(str(path))
    arrays = rollouts()
    np.savez(path, **{**arrays, "rewards": np.array([object()] * 5)})
    with pytest.raises(LogError, match=r"damaged or not an \.npz of numbers"):
        read_log(str(path))
    with pytest.raises(LogError, match="There is no file"):
        read_log(str(tmp_path / "nothing.npz"))


def test_lists_and_columns_are_arrays_too():
    arrays = {name: np.asarray(values).tolist() for name, values in rollouts().items()}
    columns = rollouts(terminals=rollouts()["terminals"][:, None])
    for given in (arrays, columns):
        assert (
            read_rollouts(given).next_states.tolist()
            == read_rollouts(rollouts()).next_states.tolist()
        )


def test_files_that_are_no_rollouts_are_named(tmp_path):
    path = tmp_path / "log.npz"
    np.savez(path, **rollouts())
    whole = path.read_bytes()
    objects = np.array([{}] * 5, dtype=object)
    for spoil in (
        lambda: path.write_bytes(whole[: len(whole) // 2]),
        lambda: path.write_bytes(b"text"),
        lambda: path.write_bytes(b""),
        lambda: np.savez(path, **rollouts(rewards=objects)),
        lambda: np.savez(path, obs=np.zeros(3)),
        lambda: np.save(tmp_path / "one.npy", np.zeros(3)) or (tmp_path / "one.npy").rename(path),
    ):
        spoil()
        with pytest.raises(LogError, match=r"log\.npz"):
            read_rollouts(path)
    for other in (None, 3, tmp_path, tmp_path / "none.npz"):
        with pytest.raises(LogError, match=r"mapping of arrays|There is no file"):
            read_rollouts(other)
