"""Read logs from tables, Minari, D4RL and d3rlpy; write them to Parquet files."""

from tailproof.io.columns import Columns
from tailproof.io.d4rl import from_d3rlpy, read_d4rl, read_rollouts
from tailproof.io.mapped import open_data_set
from tailproof.io.minari import read_minari
from tailproof.io.parquet import write_log
from tailproof.io.reading import Reading, read, read_log

__all__ = [
    "Columns",
    "Reading",
    "from_d3rlpy",
    "open_data_set",
    "read",
    "read_d4rl",
    "read_log",
    "read_minari",
    "read_rollouts",
    "write_log",
]
