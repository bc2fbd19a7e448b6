# Gangway: `make up` runs it, `make test` proves it. Everything it makes lies in .venv and .gangway.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help install up test lint format clean

help: ## say what can be made
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 16

install: $(VENV)/installed ## make the environment: the packages of requirements.lock, checked by hash

up: $(VENV)/installed ## run the portal with its demo on 127.0.0.1:8000 until Ctrl-C
	@exec $(BIN)/python -m portal.supervisor

test: $(VENV)/installed-dev ## run every check and test that this machine can run
	@exec sh .ci/checks.sh $(BIN)

lint: $(VENV)/installed-dev ## run the quick checks alone
	@exec sh .ci/lint.sh $(BIN)

format: $(VENV)/installed-dev ## put the code into its one format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## remove the environment; the portal's own folder .gangway stays
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Gangway needs Python 3.11 or newer; $(PYTHON) is older. Run make PYTHON=python3.11 with one that is." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
	  { echo "$(PYTHON) has no venv module. Install it first: sudo apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: requirements.lock | $(BIN)/python
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	@printf '#!%s\nimport sys\nsys.path.insert(0, "%s")\nfrom portal.client.main import main\nsys.exit(main())\n' \
	  "$(CURDIR)/$(BIN)/python" "$(CURDIR)" > $(BIN)/gangway && chmod +x $(BIN)/gangway
	@touch $@

$(VENV)/installed-dev: requirements-dev.lock $(VENV)/installed
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-dev.lock
	@touch $@
