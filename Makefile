# Every target makes .venv and installs what it needs, at most once; a change of pyproject.toml or
# constraints.txt installs again. PYTHON=python3.12 picks another interpreter, CUDA=cuda12 the CuPy of CUDA 12.
PYTHON ?= python3
CUDA ?= cuda13
PYTEST_WORKERS ?= 2

BIN := .venv/bin
BASE := .venv/.foxtune-base
DEV := .venv/.foxtune-dev
GPU := .venv/.foxtune-$(CUDA)
INPUTS := pyproject.toml constraints.txt
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# One thread for each process: two trials on two cores do not fight over them, and numbers stay the same.
export OMP_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help demo test check gpu sanitize soak bench clean

help:
	@echo "make demo    search eight trials on S&P 500 bars, without a GPU, and write a report"
	@echo "make test    the whole test suite, without a GPU"
	@echo "make check   lint, format, types and the rules of the layout"
	@echo "make gpu     the tests that need a CUDA device"
	@echo "make sanitize  the kernels under compute-sanitizer, which the CUDA toolkit brings"
	@echo "make soak    kill searches at random moments, lose a node, run 2,000 trials; an hour"
	@echo "make bench   measure the trainer (docs/benchmarks.md)"
	@echo "make clean   remove .venv and caches; runs/ stays"

demo: $(BASE)
	@$(BIN)/foxtune tune --profile demo --data sp500 --space iql_her --trials 8 --concurrent 2 \
		--gpus-per-trial 0 --study "demo-$$(date +%Y%m%d-%H%M%S)"

test: $(DEV)
	$(BIN)/python -m pytest -m "not gpu" -n $(PYTEST_WORKERS) --dist loadfile --no-loadscope-reorder -q

check: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_layout.py -q

gpu: $(GPU)
	$(BIN)/python -m pytest -m gpu -q

sanitize: $(GPU)
	PYTHON=$(BIN)/python .ci/sanitize --plant
	PYTHON=$(BIN)/python .ci/sanitize

soak: $(DEV)
	$(BIN)/python tests/soak/run.py $(SOAK)

bench: $(BASE)
	$(BIN)/foxtune bench

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' || { \
		echo "foxtune needs Python 3.11, 3.12 or 3.13; set PYTHON=... (found: $$($(PYTHON) --version 2>&1))"; exit 1; }
	@$(PYTHON) -m venv .venv

$(BASE): $(INPUTS) | .venv/bin/python
	@echo "installing foxtune into .venv (once, a few minutes)"
	@$(PIP_INSTALL) torch -e .
	@touch $@

$(DEV): $(INPUTS) | .venv/bin/python
	@echo "installing foxtune and its development tools into .venv (once, a few minutes)"
	@$(PIP_INSTALL) torch -e '.[dev]'
	@touch $(BASE) $@

$(GPU): $(INPUTS) | .venv/bin/python
	@echo "installing foxtune, its development tools and CuPy into .venv (once, a few minutes)"
	@$(PIP_INSTALL) torch -e '.[dev,$(CUDA)]'
	@touch $(BASE) $(DEV) $@
