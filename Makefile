# `make demo` and `make test` set everything up; the rest assumes nothing either.
PYTHON ?= python3
BIN := .venv/bin
# One thread a process: the tests share the cores, and small matrices gain nothing from more.
export OMP_NUM_THREADS = 1
export OPENBLAS_NUM_THREADS = 1

.PHONY: demo test lint bench clean

demo: .venv/base
	$(BIN)/tailproof demo

test: lint
	$(BIN)/pytest -n 2

lint: .venv/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: .venv/ready
	for file in benchmarks/*.py; do $(BIN)/python $$file --quick || exit 1; done

# The demo needs the core alone; the tests need every extra, torch (by its pin) among them.
.venv/base: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --upgrade pip
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	touch $@

.venv/ready: .venv/base
	$(BIN)/pip install --quiet --constraint constraints.txt torch==2.13.0 --editable '.[deep,duckdb,excel,minari,mujoco,online,ray]' --group dev
	touch $@

clean:
	rm -rf .venv site
