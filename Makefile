# make demo: set up and run the main job. make test: set up and test. Nothing else needs to be installed but Python and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
PYTEST := $(BIN)/python -m pytest

.PHONY: demo test test-slow lint format bench clean

demo: $(VENV)/.core
	$(BIN)/python examples/first.py

test: $(VENV)/.test
	$(PYTEST) -n 2 -m "not slow"

test-slow: $(VENV)/.test
	$(PYTEST) -m slow

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

format: $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.core
	$(BIN)/equipoise bench kernel

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "pip>=25.1"

$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e ".[numba]"
	touch $@

$(VENV)/.test: $(VENV)/.core
	$(PIP) --group test --group lint
	touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis
