import ast
import importlib
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

import tailproof

HEAVY = {"torch", "ray", "matplotlib", "gymnasium", "pandas", "polars", "minari", "sklearn"}
HEAVY |= {"pyarrow", "rich", "numpy", "scipy"}


def loaded(code):
    """Return which heavy packages another interpreter has after some code."""
    code = f"import sys; {code}; print(' '.join(sorted({HEAVY!r} & set(sys.modules))))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_tailproof_loads_nothing_heavy():
    assert loaded("import tailproof") == set()
    assert loaded("from tailproof import Log, evaluate, learn, compare") == {"numpy", "scipy"}
    assert loaded("import tailproof.cli") == set()


def test_every_name_is_declared_where_it_lives_and_to_type_checkers():
    tree = ast.parse(Path(tailproof.__file__).read_text(encoding="utf-8"))
    (declared,) = [node for node in tree.body if isinstance(node, ast.If)]
    typed = {
        each.asname or each.name: f"{node.module}:{each.name}"
        for node in declared.body
        for each in node.names
    }
    assert set(tailproof.__all__) == set(tailproof._HOMES) == set(typed)
    for name, home in tailproof._HOMES.items():
        module, _, called = home.partition(":")
        assert typed[name] == f"tailproof.{module}:{called or name}"
        assert getattr(tailproof, name) is getattr(
            importlib.import_module(f"tailproof.{module}"), called or name
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    "first",
    ["tailproof.doors.learned", "tailproof.doors.evaluate", "tailproof.cli.doors"],
)
def test_a_function_is_never_hidden_by_the_module_of_its_name(first):
    code = (
        f"import {first}, tailproof; from tailproof import evaluate, method; "
        f"print(*(type(each).__name__ for each in "
        f"(tailproof.evaluate, tailproof.learn, tailproof.compare, tailproof.method, evaluate)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["function"] * 5
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        tailproof.nothing  # noqa: B018


def test_the_version_is_that_of_the_installed_package():
    assert tailproof.__version__ == importlib.metadata.version("tailproof")
