# laurels: `make run` shows it on real data, `make test` proves it.
VENV   ?= .venv
PYTHON ?= python3
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
CHECKED := tests/unit tests/engine tests/contract -k "not contract or memory" \
	--ignore tests/unit/test_readme.py --ignore tests/engine/test_stubs.py
NATIVE := $(wildcard $(foreach end,pyx pxd,src/laurels/engine/*.$(end) src/laurels/engine/*/*.$(end)))

.DEFAULT_GOAL := help
.PHONY: help run seasons test check torture soak lint bench sanitize docs clean

help: ## show what there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(READY): pyproject.toml setup.py $(NATIVE)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "laurels needs Python 3.11 or later: make PYTHON=/path/to/python3.11"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

run: $(READY) ## import 70,000 real purchases, show the boards and serve them
	$(BIN)/python examples/cdnow.py --serve

seasons: $(READY) ## months of these purchases as seasons: prizes, payouts, a disqualification, an erasure
	$(BIN)/python examples/seasons.py

# Tests start hundreds of processes, each in 0.2 s less where what is compiled is kept. In the order
# of tests/conftest.py, files that take long come first; xdist would have those of one test last.
test: $(READY) ## all tests, over all cores
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

# What an edit is most likely to break: types, the pure modules and the engine beside
# their oracles, and the contract over one store.
check: $(READY) lint ## what to run between two edits: lint, unit and engine tests, the contract in memory
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto $(CHECKED)

# Hours of kills, power cuts, damage, made-up requests and random episodes.
torture: $(READY) ## the long counts of all tests that have one (hours on two cores)
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --torture -n auto --durations=0 --durations-min=1

soak: $(READY) ## an hour of mixed load on a server (ARGS="--minutes 3"): memory, descriptors, disk over time
	$(BIN)/python scripts/soak.py $(ARGS)

lint: $(READY) ## style, types and import layers; figures of the layout
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python scripts/house.py

bench: $(READY) ## every target beside Redis, 15 minutes (ARGS=--quick: 2); writes bench/results
	$(BIN)/python -m bench $(ARGS)

sanitize: $(READY) ## the engine's tests under AddressSanitizer
	scripts/sanitize.sh

docs: $(READY) ## write the tables and outputs in the docs that come from the code
	$(BIN)/python scripts/error_table.py
	$(BIN)/python scripts/settings_table.py
	$(BIN)/python scripts/tour.py

clean: ## remove what was built
	rm -rf $(VENV) build dist src/*.egg-info src/laurels/engine/*/*.so src/laurels/engine/*/*.c
