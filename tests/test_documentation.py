"""The site builds without a warning, and every command that a page shows runs as shown."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tailproof.cli import app

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if "```console" in page.read_text()
]


def test_the_site_builds_without_warnings(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    assert "read_log" in (tmp_path / "reference" / "logs.html").read_text()
    assert (tmp_path / "search" / "search_index.js").exists()  # so that it works from a folder
    assert "iframe-worker.js" in (tmp_path / "index.html").read_text()
    assert "unpkg.com" not in (tmp_path / "index.html").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_do_what_the_page_shows(page, tmp_path, monkeypatch):
    """Numbers may move with the methods; words, labels and their order may not."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    namespace = {}
    blocks = re.findall(r"```(python|console)\n(.*?)```", page.read_text(), flags=re.DOTALL)
    for kind, block in blocks:
        if kind == "python":
            if (
                "Path(" in block or "open(" in block
            ):  # what the commands need; the rest runs elsewhere
                exec(compile(block, page.name, "exec"), namespace)
            continue
        first, *expected = block.strip().splitlines()
        assert first.startswith("$ tailproof ")
        words = shlex.split(first.removeprefix("$ tailproof "))
        result = CliRunner().invoke(app, words, env={"COLUMNS": "80"})
        assert result.exit_code in (0, 3), result.stderr  # better, or no difference shown
        shown = iter(result.stdout.splitlines())
        for line in map(shape, expected):
            assert any(line == shape(each) for each in shown), (
                f"{line!r} is not in\n{result.stdout}"
            )


def shape(line):
    return re.sub(r"[-+]?\d[\d,.]*", "#", " ".join(line.split()))


@pytest.mark.parametrize("name", ["storm.svg", "retail.svg"])
def test_the_pictures_are_pictures(name):
    text = (ROOT / "docs" / name).read_text()
    assert text.startswith("<svg")
    assert 'xmlns="http://www.w3.org/2000/svg"' in text
    assert "<script" not in text
    if name == "storm.svg":
        assert text.count(", truth: ") == 7  # schedules
