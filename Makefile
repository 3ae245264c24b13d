# The commands of this project. `make verify` is the gate: it changes no file, and CI runs the same.

CARGO ?= cargo
# The RocketMQ release that `make interop` starts.
JAVA_RELEASE ?= 5.5.0
# The seeds that `make sim` runs: so many from FIRST on, or only SEED, with all that happens in it.
COUNT ?= 1000
FIRST ?= 0
SEED ?=
# How long `make chaos` kills, and `make fuzz` tries each target, seconds.
DURATION_S ?= 60

.DEFAULT_GOAL := help
.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: verify fmt-check shellcheck deny lint doc test
verify: fmt-check shellcheck deny lint doc test ## everything that must be green; changes nothing

fmt-check:
	$(CARGO) fmt --all -- --check

shellcheck: # where shellcheck is installed
	@if command -v shellcheck >/dev/null; then git ls-files -z '*.sh' .ci/run | xargs -0 shellcheck -x; \
	 else echo "shellcheck: not installed, skipped"; fi

deny: # where cargo-deny is installed
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny --locked check bans licenses sources; \
	 else echo "deny: cargo-deny is not installed, skipped (cargo install cargo-deny --locked)"; fi

lint: ## clippy, warnings are errors
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

doc: ## the API pages, with no broken link
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items --locked

test: ## all tests that need nothing but cargo
	$(CARGO) test --workspace --locked

.PHONY: fix
fix: ## let the tools rewrite what they can
	$(CARGO) clippy --workspace --all-targets --fix --allow-dirty --allow-staged
	$(CARGO) fmt --all

.PHONY: sim
sim: ## simulated clusters under faults, COUNT=n seeds; SEED=n runs one again and tells what happens
	RUSTFLAGS="--cfg tokio_unstable" SIM_COUNT=$(COUNT) SIM_FIRST=$(FIRST) SIM_SEED=$(SEED) \
	  $(CARGO) test --release --target-dir target/sim --test sim -- --nocapture

.PHONY: soak
soak: ## minutes of full load with snapshots on three logs of a real disk, under which the core must live
	$(CARGO) test --release --locked -p raft --test in_process sustained -- --ignored --nocapture

.PHONY: interop
interop: ## real brokers, Java and Go clients and mqadmin around three nodes
	scripts/interop.sh --release $(JAVA_RELEASE)

.PHONY: compose-test
compose-test: ## the image and docker-compose.yml, with a Docker daemon of their own (as root)
	scripts/compose-test.sh

.PHONY: chaos dead-host power-cut
chaos: ## kill -9 under load, for DURATION_S seconds
	scripts/chaos/kill-leader.sh
	scripts/chaos/kill-random.sh --seconds $(DURATION_S)

dead-host: ## a broker's host vanishes without a word (as root)
	scripts/dead-host-test.sh

power-cut: ## what log and snapshots keep when the power goes (as root)
	scripts/power-cut.sh

.PHONY: fuzz
fuzz: ## every parser, DURATION_S seconds each (nightly toolchain and cargo-fuzz)
	FUZZ_CORPUS=$(CURDIR)/fuzz/corpus $(CARGO) test -q --workspace --locked seeds_pass
	for target in fuzz/fuzz_targets/*.rs; do \
	  $(CARGO) +nightly fuzz run "$$(basename "$$target" .rs)" -- \
	    -max_total_time=$(DURATION_S) -malloc_limit_mb=32 || exit 1; \
	done
