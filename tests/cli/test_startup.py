"""Commands start without what they do not use."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

RUN = "import sys; from tailproof.cli import main\ntry: main()\nexcept SystemExit: pass\n"


def run(code, *words):
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.fixture
def log(tmp_path, rng):
    path = tmp_path / "log.parquet"
    age, action = rng.normal(size=3_000), rng.integers(2, size=3_000)
    spend = rng.lognormal(action * (age > 0), 1.0)
    shop = np.array(["north", "south"])[rng.integers(2, size=3_000)]
    columns = {"age": age, "shop": shop, "action": action, "reward": spend}
    parquet.write_table(pa.table({**columns, "propensity": np.full(3_000, 0.5)}), path)
    return str(path)


@pytest.mark.slow
def test_an_evaluation_imports_neither_pandas_nor_most_of_scipy_stats(log):
    heavy = "{'pandas', 'scipy.stats._stats_py', 'matplotlib', 'torch'}"
    code = f"{RUN}print(*sorted({heavy} & set(sys.modules)), 'done')"
    words = ("evaluate", log, "--policy", "always:1", "--state", "age,shop", "--episode", "-")
    assert run(code, *words) == "done"


@pytest.mark.slow
def test_what_is_put_off_works_when_it_is_used():
    code = (
        "from tailproof.cli.startup import put_off_imports; put_off_imports()\n"
        "import sklearn.metrics, sklearn.covariance, sys\n"
        "assert 'scipy.stats._stats_py' not in sys.modules\n"
        "score = sklearn.metrics.label_ranking_loss([[1, 0, 0]], [[0.75, 0.5, 1]])\n"
        "from sklearn.preprocessing import QuantileTransformer\n"
        "from sklearn.covariance import MinCovDet\n"
        "import numpy as np; x = np.random.default_rng(0).normal(size=(50, 2))\n"
        "normal = QuantileTransformer(n_quantiles=50, output_distribution='normal')\n"
        "assert np.isfinite(normal.fit_transform(x)).all()\n"
        "assert MinCovDet(random_state=0).fit(x).covariance_.shape == (2, 2)\n"
        "import scipy.stats, scipy.stats.qmc\n"
        "from scipy.stats import rankdata, rv_continuous\n"
        "assert isinstance(scipy.stats.norm, rv_continuous)\n"
        "import pandas\n"
        "print(score, *rankdata([3, 1, 2]))"
    )
    assert run(code) == "0.5 3.0 1.0 2.0"


def test_pyarrow_reserves_no_addresses_where_they_are_limited(log):
    code = f"{RUN}import pyarrow; print(pyarrow.default_memory_pool().backend_name)"
    words = ("evaluate", log, "--policy", "always:1", "--state", "age,shop", "--episode", "-")
    limited = "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))\n"
    assert run(limited + code, *words) == "system"
