"""Every Python example in the README and the docs runs, and prints what is shown below it."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

#: Logs of the examples, and such as take less time.
SMALLER = {"range(1250)": "range(250)", "episodes=100": "episodes=30"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    shown = r"```python\n(.*?)```(?:\n\n```output\n(.*?)```)?"
    text = page.read_text()
    if "```output" not in text:  # nothing is shown that depends on the size of the log
        for size, smaller in SMALLER.items():
            text = text.replace(size, smaller)
    for block, output in re.findall(shown, text, flags=re.DOTALL):
        capsys.readouterr()
        exec(compile(block, page.name, "exec"), namespace)
        if output:
            assert capsys.readouterr().out == output
