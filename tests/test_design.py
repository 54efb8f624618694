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


def test_modules_on_the_way_of_the_data_exist():
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    way = text.partition("## The way of the data")[2].partition("## Decisions")[0]
    named = set(re.findall(r"`([a-z_]+/[a-z_/]+)`", way))
    assert len(named) > 40
    assert [each for each in sorted(named) if not _is_module(PACKAGE / each)] == []


def _is_module(path):
    return path.with_suffix(".py").is_file() or path.is_dir()


def test_files_and_functions_are_short():
    """No file has more than 400 lines, and no function more than 60 beside its docstring."""
    long = []
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(PACKAGE)
        if text.count("\n") > 400:
            long.append(f"{name}: {text.count(chr(10))} lines")
        long += [
            f"{name}: {node.name} has {size} lines"
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FunctionDef) and (size := _size(node)) > 60
        ]
    assert long == []


def _size(node):
    """Return how many lines a function has, without its docstring."""
    lines = node.end_lineno - node.lineno + 1
    first = node.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        lines -= first.end_lineno - first.lineno + 1
    return lines


#: Names that a door and its command, the studies' experiments, or an aggregate and the mean of the same
#: name share: they mean the same.
SHARED = {"compare", "diagnose", "evaluate", "learn", "reproduce", "Mean", "TrimmedMean"}


def test_a_name_means_one_thing():
    homes = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE)
        if name.parts[0] == "studies":  # an experiment is a module with run, draw and judge
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name[0] != "_":
                homes.setdefault(node.name, set()).add(str(name))
    twice = {each: sorted(where) for each, where in homes.items() if len(where) > 1}
    assert {each: where for each, where in twice.items() if each not in SHARED} == {}
