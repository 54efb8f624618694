import subprocess
import sys


def test_importing_tailproof_loads_nothing_heavy():
    code = (
        "import sys, tailproof; "
        "heavy = {'torch', 'ray', 'matplotlib', 'gymnasium', 'pandas', 'polars', 'minari', 'sklearn'}; "
        "heavy |= {'pyarrow', 'rich'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
