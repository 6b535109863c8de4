# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BASE := $(VENV)/.base
PIP := $(BIN)/pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt
# Workers are started over and over: what they import is compiled once.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-paper demo-server page browser test lint types tests thorough lowest pythons bench pictures docs wheel clean

help:  ## Show this help.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(READY) page  ## Make a virtual environment with everything, at pinned versions.

# One environment in two steps: what the demos need, then what tests and documentation need besides. What a first
# study imports is compiled here, all else when it is first used.
$(BASE): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Hippo needs Python 3.11 or newer; found $$($(PYTHON) --version). Try: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e '.[torch,sklearn]'
	@$(BIN)/python -c 'import sklearn.datasets, torch._dynamo'
	@touch $@

$(READY): $(BASE)
	$(PIP) -e '.[dev]'
	@touch $@

# The page is built into the package. All else works without it, so setting up goes on where npm's registry is out
# of reach.
NODE := page/node.sh $(abspath $(BIN)/python)
NPM := $(NODE) npm --silent --no-audit --no-fund --no-update-notifier --fetch-retries 1
STATIC := src/hippotune/page/static
PAGE := $(STATIC)/index.html

page:  ## Build the page that hippo shows in browsers.
	@$(MAKE) --no-print-directory $(PAGE) || \
		echo "The page is not built, for lack of npm's registry; all else works. To build it later: make page"

$(PAGE): page/package-lock.json page/build.js $(shell find page/src -type f) | $(if $(shell command -v npm),,$(BASE))
	$(NPM) --prefix page ci --omit=dev
	$(NODE) node page/build.js

DEMO := examples/digits$(if $(filter ray,$(EXECUTOR)),_on_ray).py
PAGE_FILE = $(CURDIR)/.hippo/$@.html
WITH_PAGE = $$(test ! -f $(PAGE) || echo --html $(PAGE_FILE))
SAY_PAGE = test ! -f $(PAGE_FILE) || echo "the page: file://$(PAGE_FILE)"

demo:  ## Run a real study with the live view and see what sharing saves (EXECUTOR=ray: on Ray).
	@$(MAKE) --no-print-directory -j2 $(if $(filter ray,$(EXECUTOR)),$(READY),$(BASE)) page
	@mkdir -p .hippo
	$(BIN)/hippo run $(DEMO) $(WITH_PAGE)
	@$(SAY_PAGE)
	@echo "what was saved is in the line that begins with work; to try next:"
	@printf '  %-58s %s\n' 'make demo' 'the same again: every result is there, nothing is trained'
	@printf '  %-58s %s\n' '$(BIN)/hippo show digits' 'trials, best, stage tree; --web in a browser'
	@printf '  %-58s %s\n' '$(BIN)/hippo plan $(DEMO)' 'what is shared, and what it costs on other numbers of workers: --workers 8,40'
	@printf '  %-58s %s\n' 'make demo-paper' '448 trials on 40 workers, in seconds of virtual time'
	@printf '  %-58s %s\n' '$(BIN)/hippo init mine.py' 'a study to start from; docs/tutorial.md goes on from there'

demo-paper: $(BASE) page  ## Replay 448 recorded trials on 40 workers in virtual time: trial by trial, and shared.
	@mkdir -p .hippo
	$(BIN)/python examples/recorded.py
	$(BIN)/hippo run examples/recorded.py --no-progress $(WITH_PAGE)
	@$(SAY_PAGE)
	@echo "to try next:"
	@printf '  %-58s %s\n' '$(BIN)/hippo plan examples/recorded.py --workers 8,40' 'what would be shared, before anything is trained'
	@printf '  %-58s %s\n' '$(BIN)/hippo run examples/recorded.py --page' 'the page while it is replayed'

demo-server: $(READY)  ## Start a server, have two processes submit overlapping studies, and see what is shared.
	$(BIN)/python examples/two_clients.py

test: lint types tests  ## Lint, check types and run all tests.

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

types: $(READY)
	$(BIN)/mypy
	$(NPM) --prefix page ci
	$(NPM) --prefix page run types

BROWSER := $(VENV)/browser/chromium

browser: $(BROWSER)

$(BROWSER): tests/page/package-lock.json tests/page/unpack.cjs $(READY)
	$(NPM) --prefix tests/page ci
	$(NODE) node tests/page/unpack.cjs $(dir $@)

# One more than the cores of a small machine: tests wait for processes that they start.
tests: $(READY) $(PAGE) $(BROWSER)
	$(BIN)/pytest -n 3

thorough: $(READY)  ## Run the tests of laws with 1,000 drawn examples each in place of 40 (takes long).
	$(BIN)/pytest -n 3 --hypothesis-profile=thorough tests/engine tests/plan tests/sequences tests/spaces \
		tests/stages tests/scheduling tests/protocol tests/tuners

lowest: $(READY)  ## Run the tests of adapters with the oldest versions that their extras allow.
	$(BIN)/python tests/lowest.py

# Other Pythons, each with the wheel in an environment of its own, and the tests that need neither torch nor Ray. A
# plan, its identity and its workers depend most on the interpreter.
HIPPO_PYTHONS ?= python3.12 python3.13
WITHOUT_TORCH := engine identity plan protocol scheduling sequences shell spaces stages store study/test_study.py \
	study/test_scripts.py study/test_first_errors.py study/test_killed_proofs.py study/test_replay.py tuners view \
	executors/test_local.py test_init.py test_integrity.py test_survival.py
WITH_TORCH := engine/test_replay.py identity/test_reaching.py identity/test_script_tops.py \
	identity/test_torch.py sequences/test_from_torch.py \
	sequences/test_torch_meaning.py store/test_files.py store/test_storage.py

pythons: wheel  ## Run the tests that need no PyTorch with the wheel on other Pythons (HIPPO_PYTHONS="python3.12 ...").
	@set -e; for python in $(HIPPO_PYTHONS); do \
		place=$(VENV)/pythons/$$(basename $$python); \
		echo "== $$($$python --version)"; \
		$$python -m venv --clear $$place; \
		$$place/bin/pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt "$$(ls dist/*.whl)[test]"; \
		$$place/bin/pytest -n 3 $(WITHOUT_TORCH:%=tests/%) $(WITH_TORCH:%=--ignore=tests/%); \
	done

PROGRAMS := serve scale overhead startup sinks bound checkpoint storage guest exactness proofs branching reopen agreement faults \
	paper search search_real deadline page

bench: $(READY)  ## Run every benchmark, check its bars, and put the figures into the docs (takes hours; wants an idle machine).
	@failed=; measure() { \
		name=$$1; program=$$2; shift 2; echo "== bench/$$program.py $$*"; rm -f bench/results/$$name.json; \
		$(BIN)/python bench/$$program.py "$$@" --check --json bench/results/$$name.json || failed="$$failed $$name"; \
	}; \
	for program in $(PROGRAMS); do measure $$program $$program; done; \
	measure overhead-on-ray overhead --executor ray; \
	measure chaos chaos --kills 1000; \
	measure soak soak --minutes 30; \
	measure deadline-for-real deadline --real; \
	measure width width --no-real; \
	measure width-for-real width --no-virtual; \
	measure peers-20ms peers --milliseconds 20; \
	measure peers-200ms peers --milliseconds 200; \
	measure peers-halving peers --halving; \
	$(BIN)/python bench/tables.py || failed="$$failed tables"; \
	test -z "$$failed" || { echo "bars missed:$$failed"; exit 1; }

pictures: $(READY) $(PAGE) $(BROWSER)  ## Take the pictures of the page and of sharing in docs/pictures.
	$(BIN)/python docs/make_pictures.py

docs: $(READY)  ## Build the documentation site into site/; every warning is an error.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "the site: $(abspath site/index.html)"

wheel: $(READY) $(PAGE)  ## Build the package, as it is installed elsewhere, into dist/.
	rm -rf dist build
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@ls dist/*.whl

clean:  ## Remove the virtual environment and caches.
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist site src/*.egg-info
