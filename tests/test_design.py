import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "tailproof"

#: Imports inside functions that point down on purpose: what is loaded on demand only.
ON_DEMAND = {
    "deep": {"doors", "export", "learners", "methods"},  # torch is an extra
    "report": {"doors"},  # pages and plots of results
    "export": {"critics", "doors", "policies"},  # ONNX is an extra; rules on demand
    "methods": {"critics"},  # settings of a saved policy
    "io": {"log"},  # log.to_parquet
    "critics": {"policies"},  # the logged policy, estimated
    "learners": {"critics"},
}


def rooms():
    """Return the row of the design's table in which each module or package stands."""
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    table = text.partition("## Rooms")[2].partition("## The way of the data")[0]
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


def test_imports_point_one_way():
    place = rooms()
    wrong = {
        f"{path.relative_to(PACKAGE)} imports {other}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if (room := path.relative_to(PACKAGE).parts[0].removesuffix(".py")) in place
        for other, at_once in imports(path)
        if place[other] > place[room] and (at_once or room not in ON_DEMAND.get(other, ()))
    }
    assert wrong == set()


def test_modules_on_the_way_of_the_data_exist():
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    way = text.partition("## The way of the data")[2].partition("## Decisions")[0]
    named = set(re.findall(r"`([a-z_]+/[a-z_/]+)`", way))
    assert len(named) > 20
    assert [each for each in sorted(named) if not _is_module(PACKAGE / each)] == []


def _is_module(path):
    return path.with_suffix(".py").is_file() or path.is_dir()


def test_files_that_contributors_are_sent_to_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w./]+/(?:\w+\.\w+)?)`", text))
    assert len(named) > 10
    missing = {each for each in named if not any((at / each).exists() for at in (ROOT, PACKAGE))}
    assert missing == set()
