# `make` lists what there is. `make run` and `make test` set everything up by themselves, on a bare machine too.

ifeq ($(OS),Windows_NT)
BIN := .venv/Scripts
else
BIN := .venv/bin
endif
PYTHON := $(BIN)/python
PACKAGES := $(if $(filter Linux,$(shell uname -s)),deb tarball,bundle)

.DEFAULT_GOAL := help
.PHONY: help setup run test lint format bench bundle deb tarball try screenshots lock audit \
	installer windows-bundle try-installer packages packages-windows checksums publish clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z -]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' Makefile

setup: ## everything that running and testing need (SYSTEM_PACKAGES=no leaves the system alone)
	@packaging/setup.sh test

run: ## the whole loop on this machine, with stand-ins for what it lacks; with a screen, then the tray until Quit
	@packaging/setup.sh run
	@$(BIN)/zat-scs demo
	@if [ -n "$$DISPLAY$$WAYLAND_DISPLAY" ]; then $(BIN)/zat-scs; fi

test: lint ## all checks, then all tests
	@echo "== pytest: engine and commands, in a process that never sees Qt"
	@$(PYTHON) -m pytest -q -p no:pytest-qt --ignore tests/app --ignore tests/packaging
	@echo "== pytest: the tray"
	@$(PYTHON) -m pytest -q tests/app
	@echo "== pytest: the bundle, and what is made of it"
	@$(PYTHON) -m pytest -q -p no:pytest-qt tests/packaging

lint: setup ## the checks alone: format, style, types, imports
	@echo "== ruff format"
	@$(PYTHON) -m ruff format --check .
	@echo "== ruff check"
	@$(PYTHON) -m ruff check --quiet .
	@echo "== mypy"
	@for system in linux win32 darwin; do \
		$(PYTHON) -m mypy --no-error-summary --platform $$system --cache-dir .mypy_cache/$$system || exit; done
	@echo "== lint-imports"
	@answer=$$($(BIN)/lint-imports --no-logo 2>&1) || { echo "$$answer"; exit 1; }

format: setup ## write all files in the house format
	@$(PYTHON) -m ruff format --quiet .
	@$(PYTHON) -m ruff check --quiet --fix .

bench: setup ## rhythm, delays and cost of the engine on this machine (some five minutes)
	@$(PYTHON) -m diagnostics.loop_bench
	@xvfb-run -a $(PYTHON) -m diagnostics.overhead

bundle: ## dist/zat-scs: the program with all it needs and its licences, and the list of its parts
	@packaging/setup.sh bundle
	@$(PYTHON) packaging/bundle.py

deb tarball: bundle ## the package for Debian and Ubuntu, or the packed folder for any Linux, from the bundle
	@$(PYTHON) packaging/pack_linux.py $@

try: deb tarball ## install, run and remove both as a new user would, in a clean Debian of its own (root, some minutes)
	@packaging/try-clean.sh

screenshots: setup ## take all pictures of the documents
	@$(PYTHON) packaging/screenshots.py
	@QT_QPA_PLATFORM=offscreen $(PYTHON) packaging/window_screenshots.py resources/screenshots \
		status-light status-dark benefit-light set-up-light settings-light

installer: ## dist/zat-scs-setup-VERSION.exe from a Windows bundle: BUNDLE=FOLDER, else that of make windows-bundle
	@packaging/setup.sh bundle
	@$(PYTHON) packaging/installer.py $(BUNDLE)

try-installer: setup ## install and remove INSTALLER=FILE, else that in dist/packages: under wine, or on Windows for real
	@INSTALLER="$${INSTALLER:-$$(ls dist/packages/zat-scs-setup-*.exe)}" \
		$(PYTHON) -m pytest -q -p no:pytest-qt tests/packaging/test_installer.py -k given

packages: ## dist/packages: all that is handed out for this system
	@$(MAKE) --no-print-directory $(PACKAGES)
	@$(PYTHON) packaging/release.py collect

packages-windows: ## the same for Windows, on Linux, from a bundle of Windows in dist/windows
	@$(MAKE) --no-print-directory installer
	@$(PYTHON) packaging/release.py collect

# These two run where a release may be written: they install nothing, least of all anybody else's code.
checksums: ## dist/packages/SHA256SUMS
	@python3 packaging/release.py checksums

publish: ## the release of TAG on GitHub, with all of dist/packages
	@python3 packaging/release.py publish "$(TAG)"

windows-bundle: ## dist/windows/zat-scs: the Windows program, built under wine to be tried, not to be shipped
	@packaging/setup.sh bundle
	@$(PYTHON) packaging/wine/build.py

lock: setup ## choose anew what goes into the bundle, within constraints.txt, and write down its hashes
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --extra bundle --generate-hashes \
		--no-emit-package evdev --custom-compile-command "make lock" -c constraints.txt \
		-o packaging/requirements-bundle.txt pyproject.toml

audit: setup ## ask whether faults are known of what goes into the bundle; says so where nobody can be asked
	@$(PYTHON) packaging/audit.py

clean: ## remove all that set-up, checks and builds have left here
	@rm -rf .venv build dist ./*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
