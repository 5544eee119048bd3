# All targets create .venv on first use; they need only Python 3.10 to 3.14.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: help demo check test faults lint docs bench notebooks clean

help:
	@echo "make demo       compare the paper's graphs on the bundled CIFAR-100 vectors"
	@echo "make check      lint, check types and run the fast core of the tests"
	@echo "make test       lint, check types and run all tests"
	@echo "make faults     run all fault tests and update the table in docs/reliability.md (slow)"
	@echo "make docs       build the documentation in docs/_build, warnings are errors"
	@echo "make bench      compare speed with plain NumPy/SciPy and other libraries"
	@echo "make notebooks  execute the notebooks and save their output"
	@echo "make clean      remove the virtual environment and caches"

# --no-compile: the demo imports only a small part of what is installed.
$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile -e ".[experiments]"
	@touch $@

$(VENV)/.installed-dev: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e ".[dev]"
	@touch $(VENV)/.installed $@

demo: $(VENV)/.installed
	$(BIN)/python experiments/demo.py

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# From vectors to a graph.
CORE_TESTS := $(addprefix tests/test_,$(addsuffix .py,validation storage progress dimension weights rows graph))

check: lint
	$(BIN)/python -m pytest -n 2 -m "not slow" tests/kernels tests/neighbors tests/bandwidth $(CORE_TESTS)

test: lint
	$(BIN)/python -m pytest -n 2

faults: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n 2 --timeout 0 --campaign docs/reliability.md tests/faults

docs: $(VENV)/.installed-dev
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build
	@echo "open docs/_build/index.html"

# FULL=--full goes up to a million vectors.
bench: $(VENV)/.installed-dev
	$(BIN)/python experiments/benchmark.py
	$(BIN)/python experiments/benchmark_scale.py $(FULL)
	$(BIN)/python experiments/benchmark_cores.py
	$(BIN)/python experiments/benchmark_peers.py $(FULL)

notebooks: $(VENV)/.installed-dev
	$(BIN)/python notebooks/build.py

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
