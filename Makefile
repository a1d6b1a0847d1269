# Everything a fresh machine needs is Python 3.11, make and the package registries.
PYTHON ?= python3.11
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: demo test test-slow test-engines lint fix bench policies knee-study knee-live gate-study reports engines clean

demo: $(VENV)/.installed      ## a compressed synthetic day against the embedded engine, and its report
	$(BIN)/loadkit demo

test: lint                    ## lint, types, import rules and the tests that run anywhere
	$(BIN)/python -m pytest

test-slow: $(VENV)/.dev
	$(BIN)/python -m pytest -m slow --timeout 600

test-engines: engines $(VENV)/.dev   ## the main job against real engines, installed into .engines/
	$(BIN)/python -m pytest -m engines --timeout 900

lint: $(VENV)/.dev            ## checks only; never edits
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

fix: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.bench         ## timing claims, as ratios side by side in one run
	$(BIN)/python benchmarks/simulator.py
	$(BIN)/python benchmarks/sending_path.py

policies: $(VENV)/.bench      ## seven policies on the emulator in wall time against the simulator, 20 minutes
	$(BIN)/python benchmarks/policies.py

knee-study: $(VENV)/.bench    ## seeded searches against known truths, in virtual time, 20 minutes
	$(BIN)/python benchmarks/knee.py

knee-live: $(VENV)/.bench     ## one search on the emulator in wall time against the simulator's truth, 15 minutes
	$(BIN)/python benchmarks/knee_live.py

gate-study: $(VENV)/.bench    ## seeded releases of known truth: false alarms and power of the gate, one minute
	$(BIN)/python benchmarks/gate.py

reports: $(VENV)/.installed   ## remake the worked reports
	$(BIN)/python reports/remake.py

engines:                      ## real engines on CPU, in the ignored folder .engines/
	tests/engines_real/install.sh .engines

# Stamps, so that a second call installs nothing. pip reads only pyproject.toml.
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --group dev
	touch $@

$(VENV)/.bench: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --group bench
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
