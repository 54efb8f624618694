"""Every Python example in the README and the docs runs, and prints what is shown below it."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    shown = r"```python\n(.*?)```(?:\n\n```output\n(.*?)```)?"
    text = page.read_text()
    if "```output" not in text:
        text = text.replace("range(1250)", "range(250)")  # the tutorial's shop, in less time
    for block, output in re.findall(shown, text, flags=re.DOTALL):
        capsys.readouterr()
        exec(compile(block, page.name, "exec"), namespace)
        if output:
            assert capsys.readouterr().out == output
