# make demo: set up and run the main job. make test: set up and test. Nothing else needs to be installed but Python and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
PYTEST := $(BIN)/python -m pytest
# The lowest versions that pyproject.toml allows: of the core, and of extras that are small to install.
LOWEST_EXTRAS := numba onnx fsspec lancedb annotate hub
LOWEST_TESTS := $(addprefix tests/test_,$(addsuffix .py,cli space debias certificate fit mini apply evaluate audit annotate annotate_server hub))

.PHONY: demo test test-slow test-open-clip test-lowest lint format docs wheels bench clean

demo: $(VENV)/.core
	$(BIN)/python examples/first.py
	$(BIN)/equipoise audit --out build/demo --force

test: $(VENV)/.test
	$(PYTEST) -n 2 -m "not slow and not open_clip"

test-slow: $(VENV)/.test
	$(PYTEST) -m slow

test-open-clip: $(VENV)-open-clip/.test
	$(VENV)-open-clip/bin/python -m pytest -m open_clip tests/test_encoders_open_clip.py

test-lowest: $(VENV)-lowest/.test
	PYTHONPATH=src:mini/src $(VENV)-lowest/bin/python -m pytest -m "not slow and not open_clip" $(LOWEST_TESTS)

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

format: $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.docs
	$(BIN)/python -m zensical build --strict -f mkdocs.yml

wheels: | $(BIN)/python
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist . ./mini

bench: $(VENV)/.core
	$(BIN)/equipoise bench kernel

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "pip>=25.1"

$(VENV)/.core: pyproject.toml mini/pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e ".[numba]" -e ./mini
	touch $@

$(VENV)/.test: $(VENV)/.core
	$(PIP) --group test --group lint
	touch $@

$(VENV)/.docs: $(VENV)/.core
	$(PIP) --group docs
	touch $@

$(VENV)-open-clip/.test: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)-open-clip
	$(VENV)-open-clip/bin/python -m pip install --quiet --disable-pip-version-check "pip>=25.1"
	$(VENV)-open-clip/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e . --group test-open-clip
	touch $@

$(VENV)-lowest/.test: pyproject.toml scripts/lowest.py
	$(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/python -m pip install --quiet --disable-pip-version-check "pip>=25.1"
	$(PYTHON) scripts/lowest.py $(LOWEST_EXTRAS) > $(VENV)-lowest/lowest.txt
	$(VENV)-lowest/bin/python -m pip install --quiet --disable-pip-version-check -r $(VENV)-lowest/lowest.txt pytest hypothesis mpmath ml_dtypes
	$(VENV)-lowest/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-open-clip $(VENV)-lowest build dist .pytest_cache .ruff_cache .hypothesis
