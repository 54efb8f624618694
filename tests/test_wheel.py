"""The wheel holds the package and nothing else, and can be imported from an empty folder."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_the_wheel_can_be_imported_without_the_repository(tmp_path):
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    done = subprocess.run([*build, "--wheel-dir", tmp_path, ROOT], capture_output=True, text=True)
    if "No matching distribution found for hatchling" in done.stderr:
        pytest.skip("pip has no index from which to install hatchling")
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as parts:
        rooms = {name.partition("/")[0] for name in parts.namelist()}
        assert rooms == {"tailproof", f"tailproof-{wheel.name.split('-')[1]}.dist-info"}
        parts.extractall(tmp_path / "site")
    code = "import tailproof, tailproof.cli; print(tailproof.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.startswith(str(tmp_path))
