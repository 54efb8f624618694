import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "tailproof"

#: Imports inside functions that point down on purpose: what is loaded on demand only.
ON_DEMAND = {
    "deep": {"algorithms", "export", "learning", "methods"},  # torch is an extra
    "report": {"comparison", "diagnosis", "evaluation", "learning"},  # pages in a notebook
    "plotting": {"comparison", "diagnosis", "evaluation", "learning"},  # .plot() of results
    "export": {"policies"},  # ONNX is an extra
    "methods": {"algorithms"},  # settings of a saved policy
    "sources": {"data", "policies"},  # log.to_parquet, the logged policy
}


def rooms():
    """Return the row of the design's table in which each module or package stands."""
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    table = text.partition("## Rooms")[2].partition("## Decisions")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return {
        name.rstrip("/"): place
        for place, row in enumerate(rows)
        for name in re.findall("`([^`]+)`", row)
    }


def imports(path):
    """Yield the rooms that a module imports, and whether it does so when it is loaded."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    at_once = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tailproof."):
            yield node.module.split(".")[1], id(node) in at_once


def test_every_room_stands_in_the_design():
    there = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert there - {"__init__", "__pycache__", "py"} == set(rooms())


def test_the_root_holds_few_modules():
    assert len(list(PACKAGE.glob("*.py"))) <= 10


def test_imports_point_one_way():
    place = rooms()
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {other}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if (room := path.relative_to(PACKAGE).parts[0].removesuffix(".py")) in place
        for other, at_once in imports(path)
        if place[other] > place[room] and (at_once or room not in ON_DEMAND.get(other, ()))
    ]
    assert wrong == []


def test_nothing_but_the_command_line_knows_the_studies():
    users = {
        path.relative_to(PACKAGE).parts[0]
        for path in PACKAGE.rglob("*.py")
        for other, _ in imports(path)
        if other == "studies"
    }
    assert users == {"studies", "cli"}
