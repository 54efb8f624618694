"""Nothing in a log commands a terminal, replaces a device or the log, or ends in a traceback."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from tailproof.cli import app
from tailproof.report.blocks import Note, table
from tailproof.report.terminal import show, visible

ODD = [
    "[/held]",
    "[red]x[/red]",
    "a\x1b]0;title\x07\x1b[2J",
    ":smile:",
    "\x9b31m",
    "\u202ex",
    "é ü",
]


def run(*words, **environment):
    return CliRunner().invoke(
        app, [str(word) for word in words], env={"COLUMNS": "80", **environment}
    )


REAL = """
import sys
from tailproof.cli import main

for words in " ".join(sys.argv[1:]).split(" then "):
    sys.argv[1:] = words.split()
    try:
        main()
    except SystemExit as stop:
        assert stop.code in (0, 3, 4), stop.code  # done, with any verdict
    sys.stdout.buffer.write(b"\\0")
"""


def real(*commands, **environment):
    """Return what the real streams of a process got from one command after the other."""
    words = " then ".join(" ".join(map(str, command)) for command in commands).split(" ")
    done = subprocess.run(
        [sys.executable, "-c", REAL, *words],
        env={**os.environ, "PYTHONUTF8": "0", **environment},
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split(b"\0")[:-1]


@pytest.fixture
def odd_log(tmp_path):
    """A log whose actions, ids, states and column names are odd."""
    rng = np.random.default_rng(0)
    n, k = 420, len(ODD)
    import pyarrow as pa
    import pyarrow.parquet as pq

    codes = rng.integers(k, size=n)
    table = {
        "episode": [f"{ODD[i % k]}{i // 6}" for i in np.repeat(np.arange(n // 6) * 6, 6)],
        "step": np.tile(np.arange(6), n // 6),
        "x_[/b]": rng.standard_normal(n),
        "x_text": [ODD[code] for code in rng.integers(k, size=n)],
        "action": [ODD[code] for code in codes],
        "reward": codes + rng.standard_t(1.5, size=n),
        "terminated": np.tile(np.arange(6) == 5, n // 6),
        "note\x1b[31m[/": np.zeros(n),
    }
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(table), path)
    return path


@pytest.mark.filterwarnings("ignore::tailproof.errors.TailproofWarning")
@pytest.mark.parametrize(
    "words",
    [
        ["evaluate", "--policy", "uniform", "--gamma", 0.5],
        ["diagnose", "--gamma", 0.5],
        ["learn", "--gamma", 0.5, "--method", "fqi"],
        ["compare", "--gamma", 0.5, "--policy", f"[/x]=always:{ODD[0]}", "--policy", "[b]=uniform"],
        ["evaluate", "--policy", "always:[/nothing]\x1b[1m", "--gamma", 0.5],
        ["evaluate", "--policy", "uniform", "--gamma", 0.5, "--state", "[/none]\x1b[1m"],
    ],
    ids=lambda words: words[0],
)
def test_labels_reach_the_terminal_as_text(odd_log, words):
    done = run(words[0], odd_log, *words[1:])
    assert done.exit_code in (0, 2, 3, 4), done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", done.output)


@pytest.mark.parametrize("text", ODD)
def test_what_is_shown_is_what_is_there(text):
    blocks = [table(("label",), [(text,)]), Note(text, "soft")]
    console = Console(width=200, markup=False, emoji=False, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    with console.file:
        show(console, blocks)
        shown = visible(text).replace("␇", "")  # rich leaves bells out itself
        assert console.export_text().count(shown) == 2


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
def test_terminals_without_greek_get_plain_letters(odd_log, encoding):
    words = ["evaluate", odd_log, "--policy", "uniform", "--gamma", 0.5, "--method", "lstd"]
    written = real(words, ["--help"], [*words, "--json"], PYTHONIOENCODING=encoding)
    shown, help_page, record = (each.decode(encoding) for each in written)
    assert ("γ" if encoding == "utf-8" else "gamma") in shown or "γ" not in shown
    assert "Usage" in help_page
    assert json.loads(record)["gamma"] == 0.5


def test_nothing_but_files_is_replaced_and_the_log_never(odd_log, tmp_path):
    before = odd_log.read_bytes()
    words = ["evaluate", odd_log, "--policy", "uniform", "--gamma", 0.5, "--method", "lstd"]
    node = os.stat(os.devnull)
    for target, text in (
        (os.devnull, "a device or a pipe"),
        (odd_log, "is an input"),
        (tmp_path / "sub" / ".." / "log.parquet", "is an input"),
    ):
        (tmp_path / "sub").mkdir(exist_ok=True)
        done = run(*words, "--report", target)
        assert done.exit_code == 2
        assert text in " ".join(done.stderr.split())
        learn = ["learn", odd_log, "--gamma", 0.5, "--method", "fqi"]
        done = run(*learn, "--out", target)
        assert done.exit_code == 2
        assert text in " ".join(done.stderr.split())
    (tmp_path / "link").symlink_to(odd_log)
    linked = run(*words, "--report", tmp_path / "link")
    assert "is an input" in " ".join(linked.stderr.split())
    both = run("learn", *words[1:2], "--gamma", 0.5, "--out", "x.html", "--report", "x.html")
    assert "One file cannot hold two results" in " ".join(both.stderr.split())
    assert odd_log.read_bytes() == before
    assert os.stat(os.devnull).st_rdev == node.st_rdev
    assert os.stat(os.devnull).st_mode == node.st_mode


def test_a_part_of_a_folder_is_the_log_too(odd_log, tmp_path):
    (tmp_path / "folder").mkdir()
    inside = odd_log.rename(tmp_path / "folder" / "0.parquet")
    words = ["diagnose", inside.parent, "--gamma", 0.5, "--report"]
    assert "a part of one" in " ".join(run(*words, inside).stderr.split())


INTERRUPTED = """
import os, signal, sys

module, swallowed, handler = sys.argv.pop(1), sys.argv.pop(1), sys.argv.pop(1)

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            sys.meta_path.remove(self)
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                if not swallowed:
                    raise

sys.meta_path.insert(0, Interrupt())
signal.signal(signal.SIGINT, getattr(signal, handler))
from tailproof.cli import main
main()
"""


def interrupted(module, *words, swallowed=False, handler="default_int_handler", cwd=None):
    """Run the command with a Ctrl-C at the moment at which it imports a module."""
    script = [sys.executable, "-c", INTERRUPTED, module, "yes" * swallowed, handler]
    return subprocess.run([*script, *words], capture_output=True, text=True, cwd=cwd)


@pytest.mark.slow
@pytest.mark.parametrize(
    "module",
    [
        "tailproof.cli.application",
        "typer",
        "numpy",
        "numpy.random._pickle",  # in the middle of numpy
        "scipy",
        "rich.progress",
        "tailproof.cli.doors",
        "matplotlib.figure",  # the command runs and has not written its report
    ],
)
def test_an_interrupt_while_loading_is_one_line(module, odd_log, tmp_path):
    report = tmp_path / "report.html"
    words = ["diagnose", odd_log, "--gamma", "0.5", "--report", report, "--quiet"]
    done = interrupted(module, *words)
    assert (done.returncode, done.stderr) == (130, "Error: Interrupted.\n")
    assert list(tmp_path.iterdir()) == [odd_log]


def test_an_interrupt_that_an_import_would_swallow_is_not_ignored():
    done = interrupted("numpy", "--version", swallowed=True)
    assert (done.returncode, done.stderr) == (130, "Error: Interrupted.\n")


def test_an_ignored_interrupt_stays_ignored():
    """As in a command that a script started in the background."""
    done = interrupted("numpy", "--version", handler="SIG_IGN")
    assert (done.returncode, done.stderr) == (0, "")


def test_no_memory_is_an_error_with_advice(odd_log, monkeypatch):
    def full(*_, **__):
        raise MemoryError("Unable to allocate 3.1 TiB for an array")

    monkeypatch.setattr("tailproof.doors.diagnose.diagnose", full)
    done = run("diagnose", odd_log, "--gamma", 0.5)
    assert done.exit_code == 2
    said = " ".join(done.stderr.split())
    assert "Unable to allocate 3.1 TiB" in said
    assert "needs more memory than there is" in said
    assert "report it" not in said
