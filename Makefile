# `make demo` and `make test` set everything up; the rest assumes nothing either.
PYTHON ?= python3
BIN := .venv/bin
# Two workers; tests of one file stay with one of them, which keeps their fixtures.
PYTEST = $(BIN)/pytest -n 2 --dist worksteal
# One thread a process: the tests share the cores, and small matrices gain nothing from more.
export OMP_NUM_THREADS = 1
export OPENBLAS_NUM_THREADS = 1
# Compiled modules are kept: many tests start processes.
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo check test lint bench reproduce clean

demo: .venv/base
	$(BIN)/python -m examples.shop --folder demo

# Unit tests and laws: no torch, no browser, no cluster, no long simulation.
check: .venv/ready
	$(PYTEST) -m "not slow" tests src $(addprefix --ignore=,$(LONG))
LONG := tests/deep src/tailproof/deep tests/report/test_browser.py tests/parallel/test_ray.py \
	tests/reproduction tests/examples tests/benchmarks

test: lint
	$(PYTEST)

lint: .venv/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: .venv/ready
	for file in benchmarks/[a-z]*.py; do $(BIN)/python -m benchmarks.$$(basename $$file .py) --quick || exit 1; done

reproduce: .venv/ready
	$(BIN)/python -m reproduction cartpole bandit theory

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
	rm -rf .venv site demo
