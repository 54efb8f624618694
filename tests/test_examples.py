"""Every example notebook runs from top to bottom, and shows what its last lines name."""

import ast
import json
from pathlib import Path

import pytest
from matplotlib import pyplot

pytestmark = pytest.mark.slow

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))


@pytest.fixture(autouse=True)
def no_windows():
    before = pyplot.get_backend()
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")
    pyplot.switch_backend(before)


def shown(source, namespace):
    """Run a cell as a notebook does, and return the value of its last line, if it is a value."""
    *body, last = ast.parse(source).body
    value = isinstance(last, ast.Expr) and not source.rstrip().endswith(";")
    exec(compile(ast.Module(body if value else [*body, last], []), "cell", "exec"), namespace)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), namespace) if value else None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells = [each for each in notebook["cells"] if each["cell_type"] == "code"]
    namespace = {}
    for cell in cells:
        value = shown("".join(cell["source"]), namespace)
        if value is not None:
            assert len(value._repr_html_() if hasattr(value, "_repr_html_") else repr(value)) > 2
    assert pyplot.get_fignums()  # it draws


def test_there_are_four_and_their_outputs_are_not_stored():
    assert [path.stem for path in NOTEBOOKS] == ["ab_test", "insurance", "retail", "sequential"]
    for path in NOTEBOOKS:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        assert all(each.get("outputs", []) == [] for each in cells)
        assert len({each["id"] for each in cells}) == len(cells)
