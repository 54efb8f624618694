import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "tailproof"


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
    """Return the rooms that a module imports when it is loaded."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tailproof."):
            yield node.module.split(".")[1]


def test_every_room_stands_in_the_design():
    there = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert there - {"__init__", "__pycache__", "py"} == set(rooms())


def test_imports_point_one_way():
    place = rooms()
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {other}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if (room := path.relative_to(PACKAGE).parts[0].removesuffix(".py")) in place
        for other in imports(path)
        if place[other] > place[room]
    ]
    assert wrong == []
