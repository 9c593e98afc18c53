# `make` lists what there is. `make run` and `make test` set everything up by themselves, on a bare machine too.

PYTHON := .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help setup run test lint format bench clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' Makefile

setup: ## everything that running and testing need (SYSTEM_PACKAGES=no leaves the system alone)
	@packaging/setup.sh test

run: ## the whole loop on this machine, with stand-ins for what it lacks; with a screen, then the tray until Quit
	@packaging/setup.sh run
	@.venv/bin/zat-scs demo
	@if [ -n "$$DISPLAY$$WAYLAND_DISPLAY" ]; then .venv/bin/zat-scs; fi

test: lint ## all checks, then all tests
	@echo "== pytest: engine and commands, in a process that never sees Qt"
	@$(PYTHON) -m pytest -q -p no:pytest-qt --ignore tests/app
	@echo "== pytest: the tray"
	@$(PYTHON) -m pytest -q tests/app

lint: setup ## the checks alone: format, style, types, imports
	@echo "== ruff format"
	@$(PYTHON) -m ruff format --check .
	@echo "== ruff check"
	@$(PYTHON) -m ruff check --quiet .
	@echo "== mypy"
	@$(PYTHON) -m mypy --no-error-summary
	@echo "== lint-imports"
	@answer=$$(.venv/bin/lint-imports --no-logo 2>&1) || { echo "$$answer"; exit 1; }

format: setup ## write all files in the house format
	@$(PYTHON) -m ruff format --quiet .
	@$(PYTHON) -m ruff check --quiet --fix .

bench: setup ## rhythm, delays and cost of the engine on this machine (some five minutes)
	@$(PYTHON) -m diagnostics.loop_bench
	@xvfb-run -a $(PYTHON) -m diagnostics.overhead

clean: ## remove all that set-up, checks and builds have left here
	@rm -rf .venv build dist ./*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
