# The workbench's commands; `make` alone lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help reproduce test test-long docs lab lock set-up

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
test: PROFILE = ci
test: MARKED = not long
test: set-up ## check style and types, run all tests, those in a browser included
	@echo "test: ruff"; $(BIN)/ruff check; $(BIN)/ruff format --check
	@echo "test: mypy"; $(BIN)/mypy --num-workers $(JOBS)
	@$(PYTEST)

test-long: PROFILE = long
test-long: MARKED = long or not long
test-long: set-up ## run all tests, with twenty times as many random cases and every model
	@$(PYTEST)

define PYTEST
WORKBENCH_CHROMIUM=$$(scripts/chromium.sh); export WORKBENCH_CHROMIUM; \
echo "test: browser $$WORKBENCH_CHROMIUM"; \
echo "test: pytest, $(JOBS) tests at a time"; \
OMP_NUM_THREADS=1 $(BIN)/pytest -n $(JOBS) --dist worksteal \
    --hypothesis-profile=$(PROFILE) -m "$(MARKED)" $(ARGS)
endef

lab: set-up ## open the notebooks in JupyterLab, for this machine only
	@JUPYTER_CONFIG_PATH="$(CURDIR)/scripts/jupyter$${JUPYTER_CONFIG_PATH:+:$$JUPYTER_CONFIG_PATH}" \
	    $(BIN)/jupyter lab --ServerApp.ip=localhost --ServerApp.root_dir=$(NOTEBOOKS) \
	    $$([ "$$(id -u)" = 0 ] && echo --allow-root) $(ARGS)

docs: set-up ## build the documentation, which opens from disk: docs/_build/html/index.html
	@$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -j auto $(ARGS) docs docs/_build/html
	@echo "docs: open docs/_build/html/index.html"

lock: ## resolve pyproject.toml again, write requirements.lock and constraints.txt
	@$(PYTHON) scripts/lock.py

set-up: ## create .venv and install the locked packages
	@command -v $(PYTHON) >/dev/null || { echo "set-up: no $(PYTHON) found. Install Python 3.11" \
	    "or newer (on Debian, as root: apt-get install python3 python3-venv)." >&2; exit 1; }
	@$(PYTHON) scripts/set_up.py
