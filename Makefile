# Two commands matter: `make demo` shows it, `make test` tests it in about two minutes. `make check` is the
# whole ritual, with what drives real terminals, sandboxes and programs (tests/conftest.py says which).
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
# The tests are shared among processes. Of the quick ones few wait; most others wait for programs they have
# started, and use a quarter of a core. WORKERS=0: one.
CORES := $(shell getconf _NPROCESSORS_ONLN)
test: WORKERS ?= $(shell expr $(CORES) + 2)
check: WORKERS ?= $(shell expr $(CORES) \* 4)
TEST = $(BIN)/pytest -n $(WORKERS) --maxprocesses 8 --dist worksteal

# Hundreds of processes import midstream in the tests: each would compile it again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test check types types-linux audit format docs lock bench torture clean

demo: .venv/ready
	@if [ -t 0 ] && [ -t 1 ] && [ -z "$$CI" ]; then \
		$(BIN)/midstream --mode workflow:code_architecture_review --model offline; \
	else \
		$(BIN)/midstream run code_architecture_review --model offline --answer 1 </dev/null; \
	fi

test: .venv/ready-dev
	@$(TEST) -m "not slow"

check: .venv/ready-dev tests/npm/node_modules/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@$(MAKE) --no-print-directory -j 3 types
	@$(BIN)/bandit -q -c pyproject.toml -r src 2>/dev/null || { $(BIN)/bandit -c pyproject.toml -r src; exit 1; }
	$(TEST)

# Everything is looked at as on Linux, where it is tested; what is shipped as on the other systems, too. Each
# has a cache of its own: one made for another system would be thrown away each time.
types: types-linux types-darwin types-win32

types-linux: .venv/ready-dev
	$(BIN)/mypy

types-%: .venv/ready-dev
	$(BIN)/mypy --platform $* --cache-dir .mypy_cache/$* src

# Known holes in what we depend on.
audit: .venv/ready-dev
	@.ci/audit

format: .venv/ready-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/ready-dev
	$(BIN)/python -m benchmarks

# Kills, power loss, flipped bits, storms of hostile input: a good hour, and what is done to a file once more
# to a database. See torture/__init__.py.
torture: .venv/ready-dev
	$(BIN)/python -m torture
	$(BIN)/python -m torture kills --journal postgresql
	$(BIN)/python -m torture watchers --journal postgresql
	$(TEST) --journal postgresql $(addprefix tests/,acp api e2e mcp_server rehearsal runtime server)

clean:
	rm -rf .audit .bench .venv build .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "midstream needs Python 3.11 or newer: install it, or say PYTHON=/path/to/python"; exit 1; }
	@echo "Setting up .venv with $(PYTHON) ..." >&2
	@$(PYTHON) -m venv .venv

.venv/ready: requirements.lock pyproject.toml | .venv/bin/python
	@echo "Installing midstream (once) ..." >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

.venv/ready-dev: requirements-dev.lock .venv/ready
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.lock
	@touch $@

# The official clients of the protocols we speak. Without npm their tests are left out, and say so.
tests/npm/node_modules/ready: tests/npm/package-lock.json
	@command -v npm >/dev/null || { echo "There is no npm: nothing to install." >&2; exit 0; }; \
		npm ci --silent --no-audit --no-fund --ignore-scripts --prefix tests/npm && touch $@

.venv/ready-docs: requirements-docs.lock .venv/ready-dev
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-docs.lock
	@touch $@

# The pages made from the code, and all pages as a site in build/site. A link that leads nowhere ends it.
docs: .venv/ready-docs
	PYTHONPATH=tests $(BIN)/python -m support.events_page > docs/events.md
	$(BIN)/python -m midstream.tui.keymap > docs/keys.md
	$(BIN)/zensical build --clean --strict

lock:
	rm -rf .lock && $(PYTHON) -m venv .lock && .lock/bin/pip install --quiet '.[code,pdf]'
	{ echo "# What midstream runs with, pinned. Made anew with: make lock"; \
		.lock/bin/pip freeze --exclude midstream; } > requirements.lock
	.lock/bin/pip install --quiet '.[dev]'
	{ echo "# What its development needs besides requirements.lock, pinned. Made anew with: make lock"; \
		.lock/bin/pip freeze --exclude midstream | grep -vxFf requirements.lock; } > requirements-dev.lock
	.lock/bin/pip install --quiet '.[docs]'
	{ echo "# What builds the docs as a site, besides the other two, pinned. Made anew with: make lock"; \
		.lock/bin/pip freeze --exclude midstream | grep -vxFf requirements.lock -f requirements-dev.lock; } \
		> requirements-docs.lock
	rm -rf .lock
