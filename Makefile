# Every target sets up what it needs in .venv, and does nothing twice.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
OUT ?= crosslearning-demo

export OMP_WAIT_POLICY := PASSIVE

.DEFAULT_GOAL := help
.PHONY: help demo test bench clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-6s %s\n", $$1, $$2}' Makefile

demo: $(VENV)/.run ## reproduce the paper's Gaussian figure from shipped code and say where it is
	$(BIN)/crosslearning reproduce gaussian --out $(OUT)

test: $(VENV)/.dev ## run every check and every test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest --numprocesses 2 --cov --cov-report term

bench: $(VENV)/.bench ## measure speed; tables and plots go to benchmarks/results
	$(BIN)/python benchmarks/projection.py
	$(BIN)/python benchmarks/linear.py
	$(BIN)/python benchmarks/accuracy.py
	$(BIN)/python benchmarks/networks.py

clean: ## remove the environment and everything that was generated
	rm -rf $(VENV) $(OUT) build dist .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.run: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "crosslearning needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "Setting up $(VENV); this is done once."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) 'pip>=25.1'
	@$(PIP) --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	@$(PIP) --editable '.[torch]'
	@$(PIP) --group dev
	@touch $@

$(VENV)/.bench: $(VENV)/.run
	@$(PIP) --editable '.[torch]'
	@$(PIP) --group bench
	@touch $@
