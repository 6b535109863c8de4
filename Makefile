# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Workers are started over and over: what they import is compiled once.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-server test lint types tests bench wheel clean

help:  ## Show this help.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

setup: $(READY)  ## Make a virtual environment with everything, at pinned versions.

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Hippo needs Python 3.11 or newer; found $$($(PYTHON) --version). Try: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt torch==2.13.0
	$(BIN)/pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(READY)  ## Run a real study with the live view and see what sharing saves (EXECUTOR=ray: on Ray).
	$(BIN)/hippo run examples/digits$(if $(filter ray,$(EXECUTOR)),_on_ray).py

demo-server: $(READY)  ## Start a server, have two processes submit overlapping studies, and see what is shared.
	$(BIN)/python examples/two_clients.py

test: lint types tests  ## Lint, check types and run all tests.

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

types: $(READY)
	$(BIN)/mypy

tests: $(READY)  # one more than the cores of a small machine: tests wait for processes that they start
	$(BIN)/pytest -n 3 --dist worksteal

PROGRAMS := serve scale overhead bound checkpoint storage guest exactness proofs branching reopen agreement chaos soak faults paper search width deadline peers

bench: $(READY)  ## Run every benchmark and check its bars (takes a while; wants an idle machine).
	@failed=; for program in $(PROGRAMS); do \
		echo "== bench/$$program.py"; $(BIN)/python bench/$$program.py --check || failed="$$failed $$program"; \
	done; \
	echo "== bench/overhead.py --executor ray"; \
	$(BIN)/python bench/overhead.py --executor ray --check || failed="$$failed overhead-on-ray"; \
	echo "== bench/deadline.py --real"; \
	$(BIN)/python bench/deadline.py --real --check || failed="$$failed deadline-for-real"; \
	test -z "$$failed" || { echo "bars missed:$$failed"; exit 1; }

wheel: $(READY)  ## Build the package, as it is installed elsewhere, into dist/.
	rm -rf dist build
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@ls dist/*.whl

clean:  ## Remove the virtual environment and caches.
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist src/*.egg-info
