# Every target sets up what it needs in .venv, and does nothing twice.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# One thread for each worker: with more they would wait for each other.
PYTEST := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2 --dist worksteal
COVERAGE ?=
OUT ?= crosslearning-demo

export OMP_WAIT_POLICY := PASSIVE

.DEFAULT_GOAL := help
.PHONY: help demo test test-all docs bench clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' Makefile

demo: $(VENV)/.run ## cross-learn on shipped data, and say what was learned and where the report is
	$(BIN)/crosslearning demo --out $(OUT)

test: $(VENV)/.dev ## lint, check types, and run all tests but the slow ones: before every commit
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	@echo "$(BIN)/mypy, beside the tests"
	@$(BIN)/mypy & $(PYTEST) -m 'not slow' $(COVERAGE); tests=$$?; wait $$! && exit $$tests

test-all: $(VENV)/.loops ## run the slow tests, laws on more examples, and try the wheel with each extra
	$(PYTEST) -m 'slow or hypothesis' --hypothesis-profile thorough
	$(BIN)/python .ci/wheels.py

docs: $(VENV)/.docs ## build the documentation; warnings are errors
	$(BIN)/sphinx-build -W --keep-going --quiet -b html docs docs/_build/html
	@echo "Documentation: docs/_build/html/index.html"

bench: $(VENV)/.bench ## measure speed; tables and plots go to benchmarks/results
	$(BIN)/python benchmarks/projection.py
	$(BIN)/python benchmarks/coupling.py
	$(BIN)/python benchmarks/linear.py
	$(BIN)/python benchmarks/evidence.py
	$(BIN)/python benchmarks/accuracy.py
	$(BIN)/python benchmarks/networks.py
	$(BIN)/python benchmarks/distributed.py
	$(BIN)/python benchmarks/images.py
	$(BIN)/python benchmarks/heads.py

clean: ## remove the environment and everything that was generated
	rm -rf $(VENV) $(OUT) build dist docs/_build docs/_generated docs/benchmarks docs/gallery .coverage* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.run: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "crosslearning needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "Setting up $(VENV); this is done once."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) 'pip>=25.1'
	@$(PIP) --editable '.[all]'
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	@$(PIP) --group dev
	@touch $@

$(VENV)/.loops: $(VENV)/.dev
	@$(PIP) --group loops
	@touch $@

$(VENV)/.bench: $(VENV)/.run
	@$(PIP) --group bench
	@touch $@

$(VENV)/.docs: $(VENV)/.run
	@$(PIP) --group docs
	@touch $@
