"""Read logs from tables, Minari, D4RL and d3rlpy; write them to Parquet files."""

from tailproof.sources.columns import Columns, guess_columns
from tailproof.sources.d3rlpy import from_d3rlpy, to_d3rlpy
from tailproof.sources.d4rl import read_d4rl, read_rollouts
from tailproof.sources.minari import read_minari
from tailproof.sources.parquet import write_log
from tailproof.sources.reading import Reading, read, read_log
from tailproof.sources.storage import open_data_set

__all__ = [
    "Columns",
    "Reading",
    "from_d3rlpy",
    "guess_columns",
    "open_data_set",
    "read",
    "read_d4rl",
    "read_log",
    "read_minari",
    "read_rollouts",
    "to_d3rlpy",
    "write_log",
]
