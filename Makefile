# Every task of this repository is one command here; `make help` lists them.
# A machine needs Go 1.26 and this Makefile: PostgreSQL is found, or installed from the system's packages.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# Packages that run a database at once, each with its own; more than two only wait for each other on a small machine.
P ?= 2
# RACE=1 tests with the race detector.
RACE ?=
# SHORT=1 tests with fewer rounds and histories; `make check` does, with the race detector.
SHORT ?=
# COUNT=1 runs tests whose result is cached, again.
COUNT ?=
# What to test, as in: make test PKG=./shard
PKG ?= ./...

TEST_FLAGS := -timeout 15m -p $(P) $(if $(RACE),-race) $(if $(SHORT),-short) $(if $(COUNT),-count $(COUNT))
TOOL := go tool -modfile=deploy/tools/go.mod

# The seed of the one history to replay, and how many to run, as in: make sim SEED=42, make sim N=100000
SEED ?= 0
N ?= 10000

.PHONY: help demo dev test test-kafka sim check bench benchcmp blackfriday overload soak format vet staticcheck fresh postgres

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: postgres ## start a cluster, send it hundreds of payments with faults, compare all books, print a verdict
	go run ./cmd/paygrid demo

dev: postgres ## start a cluster to play with; its data is kept in .paygrid
	go run ./cmd/paygrid dev --data .paygrid

test: postgres ## run all tests, on a database of their own
	go test $(TEST_FLAGS) $(PKG)
	cd schema/grammar && go test $(if $(COUNT),-count $(COUNT)) ./...
	cd psprouter/stripe/contract && go test $(if $(COUNT),-count $(COUNT)) ./...

test-kafka: postgres ## test the relay against a real Apache Kafka, fetched with Maven (Java 17); says so when skipped
	deploy/kafka/run.sh go test -timeout 15m -count 1 ./shard/relay

sim: postgres ## run simulated histories of payments, faults and crashes, or replay the one with SEED=n
	go test ./payment -run '^TestSimulation$$' -count 1 -timeout 60m -args -sim.n=$(N) -sim.seed=$(SEED)

check: format vet staticcheck fresh ## all that CI asks for: format, vet, staticcheck, generated files, all tests, short ones with -race
	$(MAKE) --no-print-directory test
	$(MAKE) --no-print-directory test RACE=1 SHORT=1

bench: postgres ## measure the write path, one by one, coalesced and against a naive twin (full commits; four minutes)
	go run ./cmd/loadtest bench --out bench/new.txt

# The offered peak lies above the 600 payments/s that are wanted: some cards are declined, some orders voided. After the day a
# quiet stretch, then a climb to where our own share's p99 passes 100 ms.
PEAK ?= 680
DAY ?= 2m
CLIMB ?= 100-900:80s
FAULTS ?= at 14s: psp stripe outage 8s; at 28s: database restart; at 42s: kill router 1; at 50s: start router 1; at 62s: worker pause 10s; \
	at 73s: kafka down 6s; at 80s: psp adyen outage 5s; at 101s: worker pause 3s
blackfriday: postgres ## replay a Black Friday with faults, climb to the limit, compare all books; four minutes, report in bench/
	go run ./cmd/loadtest run --title "Black Friday" --profile black-friday:$(PEAK):$(DAY),steady:20:20s,ramp:$(CLIMB) --shards 4 --routers 2 \
	  --psp-latency 300ms --faults '$(FAULTS)' --limit-own-p99 100ms --min-peak 600 --json bench/blackfriday.json --html bench/blackfriday.html

CAPACITY ?= find
overload: postgres ## a minute at twice the CAPACITY=find (or payments/s): authorizations must hold, the rest give way, and all be well 5 s later
	go run ./cmd/loadtest run --title "Overload" --overload $(CAPACITY) --shards 4 --routers 2 --psp-latency 300ms \
	  --json bench/overload.json --html bench/overload.html

SOAK ?= 30m
RATE ?= 300
soak: postgres ## half load for SOAK=30m: memory, goroutines, connections and lag must not grow; report in bench/
	go run ./cmd/loadtest run --title "Soak" --profile soak:$(RATE):$(SOAK) --psp-latency 300ms --flat --json bench/soak.json --html bench/soak.html

# Each run overwrites bench/new.txt. Keep the one before a change, and compare:
#   make bench; mv bench/new.txt bench/old.txt; …change…; make bench; make benchcmp
benchcmp: ## compare the run kept as bench/old.txt with the last one, bench/new.txt, by benchstat
	@for run in old new; do test -f bench/$$run.txt || { echo "bench/$$run.txt is missing: make bench, then keep its bench/new.txt under that name" >&2; exit 1; }; done
	$(TOOL) benchstat bench/old.txt bench/new.txt

# The parts of check; each can be run alone.

format:
	@unformatted=$$(gofmt -l .); if test -n "$$unformatted"; then echo "not formatted; run gofmt -w on:" $$unformatted; exit 1; fi

vet:
	go vet ./...
	cd schema/grammar && go vet ./...
	cd psprouter/stripe/contract && go vet ./...

staticcheck:
	$(TOOL) staticcheck ./...

# Generates again all that says how it is generated, and compares with what was there.
SOURCES := find . -type f -not -path './.git/*' -not -path './.paygrid/*' -not -path './bin/*' -print0 | sort -z | xargs -0 sha256sum
fresh:
	@before=$$($(SOURCES)); go generate ./...; after=$$($(SOURCES)); \
	if ! diff <(echo "$$before") <(echo "$$after"); then echo "stale: commit what go generate has changed" >&2; exit 1; fi

postgres:
	@deploy/install-postgres
