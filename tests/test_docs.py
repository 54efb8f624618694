"""Every Python example in the README and the docs runs, and prints what is shown below it."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

#: Sizes of logs in the examples, and others that take less time.
SMALLER = {"range(1250)": "range(250)", "episodes=100": "episodes=30"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    shown = r"```python\n(.*?)```(?:\n\n```output\n(.*?)```)?"
    for block, output in re.findall(shown, page.read_text(), flags=re.DOTALL):
        if not output:  # nothing is shown that depends on the size of the log
            for size, smaller in SMALLER.items():
                block = block.replace(size, smaller)
        capsys.readouterr()
        exec(compile(block, page.name, "exec"), namespace)
        if output:
            assert capsys.readouterr().out == output
