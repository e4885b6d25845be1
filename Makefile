# Every target makes what it needs in .venv; the second time it only runs.

PYTHON ?= python3
PYTEST_ARGS ?=
BENCH_ARGS ?=
JOBS ?= 2

VENV := .venv
OLD := .venv-oldest
BIN := $(VENV)/bin
QUIET := -m pip --disable-pip-version-check -qq
PIP := $(BIN)/python $(QUIET)

# A stamp is a file newer than pyproject.toml once that set of dependencies is installed.
READY := $(VENV)/.venv-stamp
CORE := $(VENV)/.core-stamp
DEV := $(VENV)/.dev-stamp
CLI := $(VENV)/.cli-stamp
BENCH := $(VENV)/.bench-stamp
PAPER := $(VENV)/.paper-stamp
DOCS := $(VENV)/.docs-stamp
OLDEST := $(OLD)/.oldest-stamp

# Small matrices: one BLAS thread for each process is the fastest, and repeatable.
export OPENBLAS_NUM_THREADS := 1
export OMP_NUM_THREADS := 1
export MKL_NUM_THREADS := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test oldest wheel check format bench paper docs clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  PYTHON=python3.12 picks the interpreter of .venv; PYTEST_ARGS='-k laws' goes to pytest,"
	@echo "  BENCH_ARGS='reading wide' to the benchmarks."

demo: $(CLI) ## from a real table with wrong labels to a report: which were found, and the page to open
	$(BIN)/python -m dilutron.demo

test: check ## check, then run all tests
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(PYTEST_ARGS)

# The peers of the benchmarks on real data want a newer scikit-learn than dilutron does.
oldest: $(OLDEST) ## run the tests with the oldest versions of what dilutron needs, in .venv-oldest
	$(OLD)/bin/python -m pytest --ignore tests/test_real_data.py $(PYTEST_ARGS)

wheel: $(CORE) ## build the packages, install the wheel on its own, and run it offline
	$(BIN)/python -m reliability wheel

check: $(DEV) ## lint, format check, types: what pre-commit runs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(DEV) ## mend lint and format where it can be done safely
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# What no Python package brings (R, data) is not installed: a benchmark that lacks it says so, and the others run.
bench: $(BENCH) ## run the benchmarks: all of them take many hours
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

# Of 90 minutes, eight are for installing, the last trials, figures and tables. Run again, it goes on where it ended.
paper: $(PAPER) ## run the paper's experiments into results/, as far as 90 minutes go
	$(BIN)/dilutron reproduce all --instances 100 --jobs $(JOBS) --budget 82 --out results

docs: $(DOCS) ## run the examples, and build the documentation in docs/_build/html
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

clean: ## remove .venv and .venv-oldest, caches and everything built; results stay
	rm -rf $(VENV) $(OLD) build dist demo-run docs/_build docs/gallery
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests benchmarks reliability docs -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

%/.venv-stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "dilutron needs Python 3.11 or later: make PYTHON=python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv $*
	@touch $@

$(CORE): pyproject.toml | $(READY)
	$(PIP) install -e .
	@touch $@

# An extra brings the core along, so each of these stamps both. The tests need all extras that they test.
$(DEV): pyproject.toml | $(READY)
	$(PIP) install -e '.[dev,cli,dask,plot]'
	@touch $(CORE) $@

$(CLI): pyproject.toml | $(READY)
	$(PIP) install -e '.[cli,report]'
	@touch $(CORE) $@

# Of ISLP the data are enough: the packages that it wants are large.
$(BENCH): pyproject.toml | $(READY)
	$(PIP) install -e '.[bench]'
	$(PIP) install --no-deps ISLP
	@touch $(CORE) $@

$(PAPER): pyproject.toml | $(READY)
	$(PIP) install -e '.[cli,dask,plot]'
	@touch $(CORE) $@

$(DOCS): pyproject.toml | $(READY)
	$(PIP) install -e '.[docs]'
	@touch $(CORE) $@

# No cli and no dask: what needs them skips itself. Only wheels, which are for Python 3.11: any other says so at once.
$(OLDEST): pyproject.toml tests/oldest.txt | $(OLD)/.venv-stamp
	$(OLD)/bin/python $(QUIET) install --only-binary :all: -c tests/oldest.txt -e '.[dev,plot]'
	@touch $@
