# The workbench's commands; `make` alone lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help reproduce test test-long docs lab lock set-up chromium

PYTHON ?= python3
# Test processes beside each other; two suit a laptop and leave it usable.
JOBS ?= 2
# Further options for the command behind a target: make reproduce ARGS="--scale smoke" OUTPUT=trial FIGURES=trial/figures
ARGS ?=
# Where results and figures of make reproduce go.
OUTPUT ?= data/results
FIGURES ?= figures
# What make lab opens.
NOTEBOOKS ?= notebooks
BIN := .venv/bin
# PyTorch's threads wait asleep: spinning, they slow each other down wherever anything else runs.
export OMP_WAIT_POLICY ?= PASSIVE
# Many processes import the same code: it is compiled once.
unexport PYTHONDONTWRITEBYTECODE

help: ## list the commands
	@echo "The workbench's commands:"
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20
	@echo "Options: PYTHON=python3.12 (to create .venv with), ARGS=\"...\" (for the command itself),"
	@echo "OUTPUT=folder FIGURES=folder (of make reproduce)"

reproduce: set-up ## run every notebook, export the figures, print the scorecard
	@echo "reproduce: running the notebooks into $(OUTPUT), figures into $(FIGURES)"
	@status=0; \
	$(BIN)/workbench reproduce --output $(OUTPUT) --figures $(FIGURES) $(ARGS) || status=$$?; \
	if [ $$status -ge 128 ]; then exit $$status; fi; \
	$(BIN)/workbench scorecard --results $(OUTPUT) --picture $(FIGURES)/scorecard.svg || status=$$?; \
	exit $$status

# Hypothesis tries the same cases each time; pytest without its profile "ci" looks for others.
# The order of files is kept: long tests, in a browser, come early. Whoever is done takes over
# half of what another process has left.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/pytest -n $(JOBS) --dist worksteal

test: set-up chromium ## check style and types, run all tests, those in a browser included
	@echo "test: ruff"; $(BIN)/ruff check; $(BIN)/ruff format --check
	@echo "test: mypy"; $(BIN)/mypy --num-workers $(JOBS)
	@echo "test: pytest, $(JOBS) tests at a time"
	@$(PYTEST) --hypothesis-profile=ci --durations=10 $(ARGS)

test-long: set-up chromium ## run all tests, with twenty times as many random cases and every model
	@$(PYTEST) --hypothesis-profile=long -m "long or not long" $(ARGS)

# The browser of the tests: one that is here, else Debian's, else playwright's.
chromium: set-up
	@$(BIN)/python -m tests.browser.chromium || \
	{ echo "test: installing one"; [ "$$(id -u)" = 0 ] && apt-get -qq update && \
	    apt-get -qq install --yes --no-install-recommends chromium; } || \
	$(BIN)/playwright install chromium

lab: set-up ## open the notebooks in JupyterLab, for this machine only
	@JUPYTER_CONFIG_PATH="$(CURDIR)/scripts/jupyter$${JUPYTER_CONFIG_PATH:+:$$JUPYTER_CONFIG_PATH}" \
	    $(BIN)/jupyter lab --ServerApp.ip=localhost --ServerApp.root_dir=$(NOTEBOOKS) \
	    $$([ "$$(id -u)" = 0 ] && echo --allow-root) $(ARGS)

docs: set-up ## build the documentation, which opens from disk: docs/_build/html/index.html
	@$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -j auto $(ARGS) --conf-dir docs . docs/_build/html
	@echo "docs: open docs/_build/html/index.html"

set-up: .venv/.installed ## create .venv and install the locked packages

# The stamp holds the folder that the environment was made for, and is there only once all is
# installed. After an interruption, in another folder, or without its Python, .venv is made again.
ifneq ($(shell [ -x .venv/bin/python ] && cat .venv/.installed 2>/dev/null),$(CURDIR))
.PHONY: .venv/.installed
NEW_VENV = $(PYTHON) -m venv --clear .venv
endif

# All but PyTorch is checked by its hash. Which build of PyTorch a machine gets is up to pip's
# settings, and pip would prefer a build with a known hash.
.venv/.installed: requirements.lock constraints.txt pyproject.toml
	@$(PYTHON) -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "set-up: $(PYTHON) must be Python 3.11 or newer with venv (on Debian, as root: apt-get" \
	    "install python3 python3-venv); name another by make PYTHON=python3.12" >&2; exit 1; }
	@$(NEW_VENV)
	@rm -f $@
	@echo "set-up: installing the locked packages; the first time this takes some minutes"
	@$(BIN)/pip install --require-hashes --no-deps -r requirements.lock
	@$(BIN)/pip install --no-build-isolation -c constraints.txt -e ".[dev,measured]"
	@echo "$(CURDIR)" > $@

# Resolved for the first 3.11, since some packages ask for a later one than distributions have.
# GPU libraries and the label of a build (+cpu) depend on the machine.
COMPILE = .uv/bin/uv pip compile --quiet --python-version 3.11.0 --no-annotate \
    --custom-compile-command "make lock"
lock: .uv/bin/uv ## pin what pyproject.toml asks for; with ARGS=--upgrade, the newest of all
	@$(COMPILE) --all-extras $(ARGS) --output-file constraints.txt pyproject.toml
	@sed -i -E '/^(nvidia-|cuda-|triton=)/d; s/\+[a-z0-9.]+$$//' constraints.txt
	@$(COMPILE) --no-deps --generate-hashes --no-emit-package torch \
	    --output-file requirements.lock constraints.txt
	@echo "lock: $$(grep -c == constraints.txt) packages pinned in requirements.lock"

.uv/bin/uv:
	@$(PYTHON) -m venv --clear .uv
	@.uv/bin/pip install --quiet uv
