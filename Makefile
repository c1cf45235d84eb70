.DEFAULT_GOAL := help
.PHONY: help setup run test test-slow faults lint type bench bench-gpu zoo notebook docs clean

PYTHON ?= python3
ENV := .venv
BIN := $(ENV)/bin
READY := $(ENV)/.ready
SITE := .venv-docs
# a test that hangs prints where, and ends the run
GUARD := --max-worker-restart 0 -o faulthandler_exit_on_timeout=true -o faulthandler_timeout
PYTEST := $(BIN)/python -m pytest -m "not slow" --numprocesses auto --maxprocesses 4 --dist loadfile $(GUARD)=600
# files whose tests run with shapes checked (tests/shapes.py)
SHAPES := seam lstm formulas text scoring alignment interpreter analyses batches likelihood words itst wait_info self_modifying hmt

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	$(PYTHON) -m venv $(ENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable . --group dev
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-deps simuleval simulstream
	@touch $@

setup: $(READY)  ## create the development environment .venv

run: $(READY)  ## train on the built-in data and show the results (about four minutes)
	$(BIN)/python train.py mechanism=mma_il lambda=0.2

test: lint type $(READY)  ## lint, types, import contracts, tests (about 20 minutes)
	$(PYTEST) $(SHAPES:%=--ignore=tests/test_%.py)
	CHECK_SHAPES=1 $(PYTEST) $(SHAPES:%=tests/test_%.py)

test-slow: $(READY)  ## the tests that train models
	$(BIN)/python -m pytest -m slow $(GUARD)=3600

faults: $(READY)  ## kills, signals, full disks, corrupt files, absurd values (15 minutes on two cores)
	$(BIN)/python -m pytest tests/faults -m slow --numprocesses auto --maxprocesses 4 $(GUARD)=3600

lint: $(READY)  ## style and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

type: $(READY)  ## static types
	$(BIN)/mypy --num-workers auto

bench: $(READY)  ## measure every speed target and write benchmarks/results.md (about half an hour)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/suite.py

bench-gpu: $(READY)  ## check and time the GPU kernels, on a machine with a GPU
	$(BIN)/python benchmarks/gpu.py

zoo: $(READY)  ## train the mechanisms on every model on the built-in data (about two hours on two cores)
	$(BIN)/python train.py experiments=zoo/all hydra/launcher=joblib
	$(BIN)/python report.py runs=runs/zoo

notebook: $(READY)  ## run docs/notebook.ipynb and store its outputs (two minutes)
	OMP_NUM_THREADS=1 $(BIN)/python -c 'import sys, nbclient, nbformat; page = sys.argv[1]; \
	notebook = nbformat.read(page, as_version=4); \
	nbclient.execute(notebook, record_timing=False, coalesce_streams=True); \
	nbformat.write(notebook, page)' docs/notebook.ipynb

$(SITE)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(SITE)
	$(SITE)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(SITE)/bin/python -m pip install --quiet --constraint constraints.txt --group docs
	@touch $@

docs: $(SITE)/.ready  ## build the site of all pages, with an API reference, in site/ (half a minute)
	$(SITE)/bin/mkdocs build

clean:  ## remove the environments, the site and the caches, but not runs/
	rm -rf $(ENV) $(SITE) site .cache .pytest_cache .mypy_cache .ruff_cache .import_linter_cache build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
