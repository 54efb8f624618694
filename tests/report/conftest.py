import importlib.util
from pathlib import Path

import numpy as np
import pytest

from tailproof import Log, evaluate, method
from tailproof.doors.diagnose import diagnose
from tailproof.report.answers import diagnosis_answer, estimate_answer
from tailproof.report.pages import Context, report
from tailproof.worlds import CartPole

HOSTILE = '<img src=x onerror="window.hacked=1"></script><script>window.hacked=1</script>\'&'


def _load_browser():
    path = Path(__file__).parents[1] / "browser.py"
    spec = importlib.util.spec_from_file_location("browser", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium: one that is there, or Debian's; without either its tests are skipped."""
    module = _load_browser()
    path, why = module.find_or_install()
    if path is None:
        pytest.skip(
            f"No report was opened in a browser: {why}. Install Chromium, or name a browser in "
            f"TAILPROOF_BROWSER, and run: pytest tests/report"
        )
    with module.Browser(path) as running:
        yield running


def heavy_log(name=str):
    from tailproof.noise import StudentT

    world = CartPole()
    log = world.log(episodes=40, steps=40, noise=StudentT(df=1.3), seed=2)
    ids = [name(i) for i in range(log.n_episodes)]
    return Log.from_arrays(
        log.states,
        log.actions,
        log.rewards,
        log.next_states,
        episode=np.repeat(np.array(ids, dtype=object), log.lengths),
        action_space=log.action_space,
        state_names=[name(f"column {j}") for j in range(4)],
    ), world.target()


@pytest.fixture(scope="session")
def page(tmp_path_factory):
    """An evaluation of a log with hostile names, as a page, its file and its answer."""
    log, policy = heavy_log(lambda i: f"{HOSTILE}{i}")
    diagnosis = diagnose(log, policy, gamma=0.9)
    estimate = evaluate(log, policy, gamma=0.9, method=method("roam-mis", folds=6))
    context = Context(
        source=f"{HOSTILE}.csv",
        settings={"columns": HOSTILE},
        notes=[HOSTILE],
        warnings=[HOSTILE],
        record={**estimate.to_dict(), "diagnosis": diagnosis.to_dict()},
    )
    answer = estimate_answer(estimate, name=HOSTILE)
    made = report(answer, log, diagnosis, context, title=HOSTILE)
    return made, made.write(tmp_path_factory.mktemp("report") / "report.html"), estimate


@pytest.fixture(scope="session")
def diagnosis_file(tmp_path_factory):
    log, _ = heavy_log()
    diagnosis = diagnose(log)
    context = Context(source="log.csv")
    made = report(diagnosis_answer(diagnosis), log, diagnosis, context, title="Diagnosis")
    return made.write(tmp_path_factory.mktemp("report") / "diagnosis.html")
