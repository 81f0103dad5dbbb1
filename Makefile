# SPDX-License-Identifier: Apache-2.0
#
# limpet. `make help` lists the targets.
#
#   V=1         shows the commands               WERROR=1   warnings are errors (as in CI)
#   SAN=1       glibc, ASan and UBSan, in build/san
#   CROSS=T-    compiles with T-gcc, in build/T  CC="..."   any other compiler with a static libc, its output in O
#   O=DIR       puts what is made there (default build), e.g. for a second build beside a running one
#   OPTS="-DOPT_X=0 ..."                    leaves features out; config/options.h lists them and what each costs
#   KEEP=1      a source that does not compile is left out of the library with a message: for testing one module while another is torn open
#   PREFIX, DESTDIR, SYSCONFDIR, UNITDIR, MANDIR, COMPLETIONDIR, ZSHDIR, FISHDIR    where `make install` puts things
#
# Sources are found by wildcard: agent/*/*.c and port/*.c make liblimpet.a, agent/main.c is limpet, ctl/*.c is limpetctl.
# A test is a program test/{unit,port,sim}/NAME_test.c (test/unit/tap.h tells how), a shell script test/e2e/NAME.t, or a fuzz target
# test/fuzz/fuzz_NAME.c with its corpus in test/fuzz/corpus/NAME/.

VERSION := 0.1.0
.DEFAULT_GOAL := all
.SUFFIXES:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory
SHELL := /bin/sh
comma := ,
# The long targets use every processor unless told otherwise.
JOBS = $(if $(findstring j,$(filter-out --%,$(MAKEFLAGS))),,-j$(shell nproc))
Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-7s %s\n' '$(1)' '$(2)')

# --- Which toolchain -------------------------------------------------------------------------------------------------------------
# TARGET names the directory of the libraries; they are built once for each toolchain and shared by every O.

NATIVE := $(shell uname -m)-linux-musl
ifneq ($(SAN),)
  TARGET := $(shell uname -m)-linux-gnu-san
  O := build/san
  CC := gcc
  STRIP := strip
else ifneq ($(FUZZ),)
  TARGET := $(shell uname -m)-linux-gnu-san
  O := build/fuzz
  CC := $(firstword $(wildcard /usr/bin/clang /usr/bin/clang-[12][0-9]) clang)
  STRIP := strip
else ifneq ($(CROSS),)
  TARGET := $(CROSS:%-=%)
  O := build/$(TARGET)
  CC := $(CROSS)gcc
  AR := $(CROSS)gcc-ar
  STRIP := $(CROSS)strip
else ifeq ($(origin CC),default)
  TARGET := $(NATIVE)
  O := build
  CC := musl-gcc
  STRIP := strip
else
  TARGET := $(shell $(CC) -dumpmachine)
  O := build/$(TARGET)
  STRIP :=
endif
ifeq ($(origin AR),default)
  AR := $(if $(findstring gcc,$(CC)),gcc-ar,ar)
endif
DEPS = build/deps/$(TARGET)

# --- Flags -----------------------------------------------------------------------------------------------------------------------

CFLAGS ?= -Os -g
WARN := -Wall -Wextra -Wshadow -Wvla -Wconversion -Wformat=2 -Wmissing-prototypes -Wundef -Wimplicit-fallthrough
HARD := -fstack-protector-strong -fvisibility=hidden -ffunction-sections -fdata-sections
# An unwind table is a tenth of a small static binary, and C needs none: cores are read with the unstripped copy.
LEAN := -fno-unwind-tables -fno-asynchronous-unwind-tables
CPPFLAGS_ALL = -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -Iagent -I. -I$(O)/gen $(if $(filter test/%,$<),-Itest/unit -I$(<D)) \
               -isystem $(DEPS)/include -DMBEDTLS_CONFIG_FILE='"config/mbedtls_config.h"' $(OPTS) $(CPPFLAGS)
LIBS := -lcurl -lnghttp2 -lmbedtls -lmbedx509 -lmbedcrypto -lsqlite3 -lcjson -linih -lyaml -lmicrohttpd -lz -lzstd

ifneq ($(SAN)$(FUZZ),)
  # Through its own instrumentation gcc sees overflows that cannot be, so WERROR is for the plain build.
  # Leaks are found by ASan at exit; UBSan stops at the first fault, so that a test cannot pass over one.
  SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
  CFLAGS := -O1 -g
  FLAVOUR := $(SANITIZE) $(if $(FUZZ),-fsanitize=fuzzer-no-link)
  # Not object-size: at -O1 gcc reads one place behind an array of SQLite's on a path where the value is not used.
  DEPS_CFLAGS := -O1 -g1 -fsanitize=address,undefined -fno-sanitize=object-size -fno-sanitize-recover=all -fno-omit-frame-pointer
  DEPS_CC := gcc
  LDFLAGS_ALL = $(SANITIZE) $(LDFLAGS)
  LINK = $(CC) $(LDFLAGS_ALL) -o $@ $(1) -L$(DEPS)/lib $(LIBS) -lpthread -lm
else
  # Our code is compiled for LTO and as plain objects: the binaries use the first, the many test programs the second. The libraries
  # are without LTO: it saved 45 KB (4 %) and made each link 26 s longer.
  FLAVOUR = $(if $(WERROR),-Werror) -fPIE $(LEAN) -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 $(KERNEL) $(if $(findstring gcc,$(CC)),-flto=auto -ffat-lto-objects)
  DEPS_CFLAGS := -Os -fPIE $(HARD) $(LEAN)
  LDFLAGS_ALL = -Wl,--gc-sections,-z,relro,-z,now,-z,noexecstack,--build-id=none $(LDFLAGS)
  LTO = $(if $(findstring gcc,$(CC)),-flto=auto $(CFLAGS) $(HARD) -fPIE $(LEAN))
ifeq ($(CC),musl-gcc)
  # musl-gcc -static-pie makes a *dynamic* program (its specs start from Scrt1.o), so name the start files ourselves.
  MUSL = $(shell sed -n 's,.*-specs "\(.*\)/musl-gcc.specs".*,\1,p' "$$(command -v musl-gcc)")
  CRT = $(shell gcc -print-file-name=$(1))
  LINK = $(CC) $(or $(2),-fno-lto) -static -nostartfiles -Wl,-pie,--no-dynamic-linker $(LDFLAGS_ALL) -o $@ \
         $(MUSL)/rcrt1.o $(MUSL)/crti.o $(call CRT,crtbeginS.o) $(1) -L$(DEPS)/lib $(LIBS) $(call CRT,crtendS.o) $(MUSL)/crtn.o
  # musl brings no kernel headers, and the whole of /usr/include would bring glibc's: a directory with only the kernel's.
  KERNEL = -idirafter build/deps/kernel
  DEPS_ENV := HOST=$(NATIVE) DEPS_LDFLAGS=-static
else
  LINK = $(CC) $(or $(2),-fno-lto) -fPIE -static-pie $(LDFLAGS_ALL) -o $@ $(1) -L$(DEPS)/lib $(LIBS) -lpthread
  DEPS_ENV := HOST=$(TARGET) DEPS_LDFLAGS=-static
endif
endif
COMPILE = $(CC) -std=gnu11 $(CFLAGS) $(WARN) $(HARD) $(FLAVOUR) $(CPPFLAGS_ALL) -MMD -MP

# --- What is made ----------------------------------------------------------------------------------------------------------------

LIB_SRC := $(sort $(wildcard agent/*/*.c port/*.c))
CTL_SRC := $(sort $(wildcard ctl/*.c))
LIB_OBJ := $(LIB_SRC:%.c=$(O)/obj/%.o) $(O)/obj/gen/fields.o
CTL_OBJ := $(CTL_SRC:%.c=$(O)/obj/%.o) $(O)/obj/gen/manifests.o
LIB := $(O)/liblimpet.a
PROGRAMS := $(if $(wildcard agent/main.c),$(O)/limpet) $(if $(CTL_SRC),$(O)/limpetctl)

.PHONY: all
all: $(PROGRAMS) ## limpet and limpetctl (the default)

# Other libraries or other flags compile everything again.
$(O)/obj/%.o: %.c $(DEPS)/stamp $(O)/gen/flags | $(O)/gen/version.h
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(COMPILE) -c -o $@ $< $(if $(KEEP),|| { echo "left out: $<"; rm -f $@; })

# limpetctl carries the manifests of crd/ in it.
$(O)/gen/manifests.c: ctl/manifests.awk $(sort $(wildcard crd/*.yaml)) crd/node.yaml.in crd/node-certificate.yaml.in
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)awk -f $^ >$@
# limpet knows the fields of its kinds.
$(O)/gen/fields.c: agent/flow/fields.awk $(sort $(wildcard crd/edge*.yaml))
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)awk -f $^ >$@
$(O)/obj/gen/manifests.o: ctl/manifests.h
$(O)/obj/gen/fields.o: agent/flow/fields.h
$(O)/obj/gen/%.o: $(O)/gen/%.c $(DEPS)/stamp $(O)/gen/flags | $(O)/gen/version.h
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(COMPILE) -c -o $@ $<

$(LIB): $(LIB_OBJ)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $(if $(KEEP),$$(ls $(LIB_OBJ) 2>/dev/null),$(LIB_OBJ))

# Linked with symbols (kept beside for cores and profiles), then stripped; a compiler without a strip of its own links once more.
define program
$(O)/$(1): $(2) $(LIB)
	$$(call say,LD,$$@)
	$$(Q)$$(subst -o $$@,-o $$@.full,$$(call LINK,$(2) $(LIB),$$(LTO)))
	$$(Q)$$(if $$(STRIP),$$(STRIP) -o $$@ $$@.full,$$(call LINK,-s $(2) $(LIB),$$(LTO)))
endef
$(eval $(call program,limpet,$(O)/obj/agent/main.o))
$(eval $(call program,limpetctl,$(CTL_OBJ)))

# Written only when what they say changes. The build time is the commit's, so that the same source makes the same binary.
.PHONY: FORCE
keep_if_same = if cmp -s $@ $@.new; then rm $@.new; else mv $@.new $@; fi
$(O)/gen/version.h: FORCE
	@mkdir -p $(@D)
	@{ echo '#define LIMPET_VERSION "$(VERSION)"'; \
	   echo "#define LIMPET_COMMIT \"$$(git describe --always --dirty --match 'v*' 2>/dev/null || echo unknown)\""; \
	   echo "#define LIMPET_BUILD_EPOCH $${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Makefile)}LL"; } >$@.new
	@$(keep_if_same)
$(O)/gen/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(subst ','\'',$(COMPILE))' >$@.new
	@$(keep_if_same)
$(O)/gen/opts: FORCE
	@mkdir -p $(@D)
	@echo '$(OPTS)' >$@.new
	@$(keep_if_same)

# --- Libraries and tools ---------------------------------------------------------------------------------------------------------

.PHONY: deps tools cluster
deps: $(DEPS)/stamp ## fetch and build the libraries (build/deps)

tools: ## install missing build tools through the system's package manager
	@deps/tools.sh build

# build.sh looks whether anything has to be built at all; only then the stamp moves, and what depends on it.
$(DEPS)/stamp: $(DEPS)/ready
	@:
$(DEPS)/ready: deps/lock deps/build.sh config/mbedtls_config.h config/options.h $(O)/gen/opts $(if $(KERNEL),build/deps/kernel/linux)
	$(Q)CC="$(or $(DEPS_CC),$(CC))" AR="$(AR)" DEPS_CFLAGS="$(DEPS_CFLAGS)" OPTS="$(OPTS)" $(DEPS_ENV) deps/build.sh $(DEPS)
	@touch $@

build/deps/kernel/linux:
	@mkdir -p $(@D)
	@ln -sfn /usr/include/linux /usr/include/asm-generic /usr/include/mtd $(@D)/
	@ln -sfn /usr/include/$$(gcc -dumpmachine)/asm $(@D)/asm

cluster: ## build the Kubernetes API server that tests and demo use (13 min the first time)
	@test/cluster/cluster build

# --- Tests -----------------------------------------------------------------------------------------------------------------------
# A test program includes the .c it tests and is linked before liblimpet.a: the archive only gives what the program lacks, so the
# object of the included file is never pulled in a second time. What is not *_test.c is shared by the tests beside it.

RUN := test/run.sh -l $(O)/log
define suite
$(1)_SRC := $$(sort $$(wildcard test/$(1)/*_test.c))
$(1)_HELP := $$(patsubst %.c,$(O)/obj/%.o,$$(sort $$(filter-out %_test.c,$$(wildcard test/$(1)/*.c))))
$(1)_BIN := $$($(1)_SRC:%.c=$(O)/%)
$$($(1)_BIN): $(O)/test/$(1)/%: $(O)/obj/test/$(1)/%.o $$($(1)_HELP) $$($(1)_HELP_MORE) $(LIB)
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)
	$$(Q)$$(call LINK,$$< $$($(1)_HELP) $$($(1)_HELP_MORE) $(LIB) $$($(1)_LINK))
endef
# The simulator's server reads the CRDs that limpetctl carries.
sim_HELP_MORE = $(O)/obj/gen/manifests.o
# It counts the agent's memory (sim_heap.c).
sim_LINK = $(if $(SAN)$(FUZZ),,$(foreach f,malloc calloc realloc free malloc_usable_size,-Wl$(comma)--wrap=$(f)))
SUITES := unit port sim
$(foreach s,$(SUITES) cron yaml,$(eval $(call suite,$(s))))
E2E := $(sort $(wildcard test/cluster/*.t test/e2e/*.t test/vm/*.t))
OUTSIDE := $(sort $(wildcard test/*.t))
FUZZERS := $(patsubst test/fuzz/fuzz_%.c,%,$(sort $(wildcard test/fuzz/fuzz_*.c)))
REPLAY := $(FUZZERS:%=$(O)/test/fuzz/fuzz_%)

# The simulator's API server by itself, for the comparison with a real one.
MODEL := $(O)/test/conformance/model
MODEL_OBJ := $(patsubst %.c,$(O)/obj/%.o,test/conformance/model.c test/sim/sim_clock.c \
               $(sort $(wildcard test/sim/sim_server*.c)) $(addprefix test/sim/sim_,meta.c schema.c store.c watch.c patch.c))
CONFORMANCE := $(sort $(wildcard test/conformance/*.t))
$(MODEL): $(MODEL_OBJ) $(O)/obj/gen/manifests.o $(LIB)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(call LINK,$(MODEL_OBJ) $(O)/obj/gen/manifests.o $(LIB))

# As plain programs the fuzz targets replay the inputs they are given, each one check.
$(REPLAY): $(O)/test/fuzz/%: $(O)/obj/test/fuzz/%.o $(O)/obj/test/fuzz/main.o $(LIB)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(call LINK,$< $(O)/obj/test/fuzz/main.o $(LIB))

.PHONY: kinds test tests cron-diff yaml-diff references programs san-programs unit port sim-smoke sim conformance e2e san demo bench lint format fuzz check ci
programs: all $(foreach s,$(SUITES),$($(s)_BIN)) $(MODEL) $(REPLAY)

IN_PROCESS = $(foreach s,$(SUITES),$($(s)_BIN)) $(foreach f,$(FUZZERS),"$(O)/test/fuzz/fuzz_$(f) test/fuzz/corpus/$(f)")
SAN_RUNS = $(subst $(O)/,build/san/,$(IN_PROCESS))

test: ## everything: unit, port, sim-smoke, e2e, fuzz corpus, sanitizers; ends with "N passed, N failed"
	@deps/tools.sh test
	@$(MAKE) $(JOBS) programs
	@$(MAKE) $(JOBS) SAN=1 programs
	@$(MAKE) cluster
	@$(MAKE) references
	@$(RUN) $(OUTSIDE) $(IN_PROCESS) $(SAN_RUNS) test/sim/mutants/smoke.t $(cron_BIN) $(yaml_BIN) $(CONFORMANCE) $(E2E)

unit port: ## unit tests; the port conformance suite; TESTS=NAME for one, e.g. make unit TESTS=buf
unit port:
	@$(MAKE) $(if $(TESTS),$(TESTS:%=$(O)/test/$@/%_test),$($@_BIN))
	@$(RUN) $(if $(TESTS),$(TESTS:%=$(O)/test/$@/%_test),$($@_BIN))

sim-smoke: $(sim_BIN) ## the agent in the simulator, 50 seeds; SEED=N shows all that happens in that one, SEEDS=N runs so many
	@$(if $(SEED)$(SEEDS),$(O)/test/sim/sim_test $(if $(SEED),--seed $(SEED) -v,--seeds $(SEEDS)),$(RUN) $(sim_BIN))

# Without sanitizers and compiled for speed, in a build of its own. The long mode begins where it never began before.
SIM := build/sim/test/sim/sim_test
sim: ## the simulator, 2,000 seeds (SEEDS=N), every processor; SEED=N [ONLY=3,9] plays one; FOREVER=1 goes on until stopped
	@$(MAKE) $(JOBS) O=build/sim CFLAGS="-O2 -g" $(SIM)
	@$(SIM) $(if $(SEED),--seed $(SEED) $(if $(ONLY),--only $(ONLY)) $(if $(V),-v),\
	   $(if $(FOREVER),--many 0 --first $$(date +%s)000,--many $(or $(SEEDS),2000) $(if $(SEEDS),,--all-faults)) --jobs $(shell nproc))

conformance: $(MODEL) cluster ## the simulator's API server against a real one: the same requests to both
	@BUILD=$(abspath $(O)) $(RUN) $(CONFORMANCE)

# A mutant is a file of test/sim/mutants: a change of one source, and what the simulator must say of it. The changed source is compiled by
# itself, again only when it or what it includes changes, and linked before the library. smoke: those of `make test`.
MUTANTS := $(patsubst test/sim/mutants/%.mutant,%,$(sort $(wildcard test/sim/mutants/*.mutant)))
SMOKE_MUTANTS := $(patsubst test/sim/mutants/%.mutant,$(O)/mutants/%,$(shell grep -l '^smoke:' $(MUTANTS:%=test/sim/mutants/%.mutant)))
HUNT := $(O)/obj/test/sim/mutants/hunt.o
.SECONDARY: $(MUTANTS:%=$(O)/obj/mutants/%.c) $(MUTANTS:%=$(O)/obj/mutants/%.o)
.SECONDEXPANSION:
$(MUTANTS:%=$(O)/obj/mutants/%.c): $(O)/obj/mutants/%.c: test/sim/mutants/%.mutant test/sim/mutants/apply \
                                   $$(shell sed -n 's/^file: //p' test/sim/mutants/$$*.mutant)
	@mkdir -p $(@D)
	$(Q)test/sim/mutants/apply $< >$@.new && mv $@.new $@
$(MUTANTS:%=$(O)/obj/mutants/%.o): $(O)/obj/mutants/%.o: $(O)/obj/mutants/%.c $(O)/gen/flags
	$(call say,MUTANT,$*)
	$(Q)$(COMPILE) -w -c -o $@ $<
$(MUTANTS:%=$(O)/mutants/%): $(O)/mutants/%: $(O)/obj/mutants/%.o $(HUNT) $(sim_HELP) $(sim_HELP_MORE) $(LIB)
	@mkdir -p $(@D)
	$(Q)$(call LINK,$< $(HUNT) $(sim_HELP) $(sim_HELP_MORE) $(LIB) $(sim_LINK))

programs: $(if $(SAN),,$(SMOKE_MUTANTS))

.PHONY: mutants sim-mutants sim-soak sim-fleet
mutants: $(or $(TESTS:%=$(O)/mutants/%),$(MUTANTS:%=$(O)/mutants/%))
sim-mutants: ## the simulator must find each deliberate bug of test/sim/mutants; TESTS=NAME for one; WRITE=1: from seed 1 (LIMIT=300), into the README
	@$(MAKE) $(JOBS) O=build/sim CFLAGS="-O2 -g" mutants
	@test/sim/mutants/run $(if $(WRITE),--write) $(abspath build/sim/mutants) $(shell nproc) $(or $(LIMIT),300) $(or $(TESTS),$(MUTANTS))

SOAK := build/sim/test/sim/soak_test
sim-soak: ## DAYS=30 simulated days without a server, a change each minute: what the agent holds and writes, and that all is told in the end (5 min)
	@$(MAKE) $(JOBS) O=build/sim CFLAGS="-O2 -g" $(SOAK)
	@$(SOAK) --days $(or $(DAYS),30) $(if $(SEED),--seed $(SEED))

sim-fleet: $(O)/test/sim/fleet_test ## 1,000 agents after an hour without their API server: what they ask of it when it is back (6 min); NODES=N, SEED=N
	@$(O)/test/sim/fleet_test --nodes $(or $(NODES),1000) $(if $(SEED),--seed $(SEED))

e2e: all cluster ## the agent on a real API server and a real systemd; TESTS=NAME for one
	@$(RUN) $(if $(TESTS),$(TESTS:%=test/e2e/%.t),$(E2E))

san: ## unit, port, sim-smoke and the fuzz corpus under ASan and UBSan
	@$(MAKE) $(JOBS) SAN=1 programs
	@$(RUN) $(SAN_RUNS)

cron-diff: references ## schedules against the Go library of Kubernetes' CronJob, 100,000 random ones; SEED=N, CASES=N
	@$(RUN) $(cron_BIN)

yaml-diff: references ## YAML against the Go library through which kubectl reads it, 50,000 random documents; SEED=N, CASES=N
	@$(RUN) $(yaml_BIN)

references: $(cron_BIN) $(yaml_BIN)
	@test/reference.sh cron/robfig
	@test/reference.sh yaml/kubectl

check: all ## what must be true of the programs as shipped: static-pie, stripped, no interpreter, size, manual pages
	@$(RUN) $(OUTSIDE)

fuzz: ## libFuzzer (needs clang) on every target, FUZZ_SECONDS=60 each; what crashes goes to the corpus
	@$(MAKE) FUZZ=1 fuzz-run

.PHONY: fuzz-run
fuzz-run: $(FUZZERS:%=$(O)/test/libfuzzer/%)
	@for f in $(FUZZERS); do \
	   mkdir -p $(O)/new/$$f && echo "== $$f" && \
	   $(O)/test/libfuzzer/$$f -max_total_time=$(or $(FUZZ_SECONDS),60) -rss_limit_mb=1024 -print_final_stats=0 -verbosity=0 \
	     -artifact_prefix=test/fuzz/corpus/$$f/ $(O)/new/$$f test/fuzz/corpus/$$f || exit 1; done

$(O)/test/libfuzzer/%: $(O)/obj/test/fuzz/fuzz_%.o $(LIB)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(call LINK,-fsanitize=fuzzer $< $(LIB))

lint: ## folder order, seams, style, scripts
	@test/lint.sh

kinds: all ## docs/kinds/*.md, made from the CRDs and the examples
	@$(O)/limpetctl install --print -o json | perl docs/kinds/generate.pl

format: ## lay the C code out as .clang-format says (clang-format 14)
	@clang-format-14 -i $$(git ls-files -co --exclude-standard '*.c' '*.h')

demo: ## the whole story on one machine, nothing needed beforehand
	@deps/tools.sh demo
	@$(MAKE) $(JOBS) all cluster
	@test/demo/demo.sh

# The agent with a wall clock that a file sets (test/torture/clock_file.c); whole and with its symbols, for no user.
TORTURE_BIN := $(O)/torture/limpet
$(TORTURE_BIN): $(O)/obj/agent/main.o $(O)/obj/test/torture/clock_file.o $(LIB)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(call LINK,-Wl$(comma)--wrap=clock_real_init $(O)/obj/agent/main.o $(O)/obj/test/torture/clock_file.o $(LIB))

E2E += $(wildcard test/torture/*.t)
programs: $(if $(SAN),,$(TORTURE_BIN))
e2e: $(TORTURE_BIN) $(O)/test/port/conformance_test
.PHONY: torture
torture: ## what breaks, on the real thing, until it must come right, then vm-torture: build/torture.json, docs/RELIABILITY.md; TORTURE="--seed N", "--only NAME"
	@deps/tools.sh bench
	@$(MAKE) $(JOBS) all cluster $(TORTURE_BIN)
	@O=$(abspath $(O)) python3 test/torture/torture.py $(TORTURE)
	@$(if $(TORTURE),echo 'The power cuts are in make vm-torture; without TORTURE they come now.',$(MAKE) vm-torture)

# Small programs of the bench: workloads and observers that take no time themselves, and the agent's own backoff.
BENCH_BIN := $(patsubst test/bench/%.c,$(O)/test/bench/%,$(sort $(wildcard test/bench/*.c)))
$(BENCH_BIN): $(O)/test/bench/%: $(O)/obj/test/bench/%.o $(LIB)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(call LINK,$< $(LIB))

bench: ## the numbers of DESIGN.md, measured; build/bench.json; BENCH="--quick", "--only NAME" (--list tells the names)
	@deps/tools.sh bench
	@$(MAKE) $(JOBS) all cluster $(BENCH_BIN)
	@O=$(abspath $(O)) python3 test/bench/bench.py $(BENCH)

# A mutant of test/sim/mutants as a whole agent, for no user.
$(O)/mutant-agents/%: test/sim/mutants/%.mutant test/sim/mutants/apply $(O)/obj/agent/main.o $(LIB)
	@mkdir -p $(@D)
	$(call say,MUTANT,$*)
	$(Q)test/sim/mutants/apply $< >$@.c
	$(Q)$(COMPILE) -w -c -o $@.o $@.c
	$(Q)$(call LINK,$@.o $(O)/obj/agent/main.o $(LIB))

.PHONY: vm-torture vm-mutant
vm-torture: ## an emulated machine loses its power, CUTS=30 times: build/vm-torture.json, docs/RELIABILITY.md; SEED=S
	@deps/tools.sh test
	@$(MAKE) $(JOBS) all cluster
	@python3 test/vm/powercut.py --cuts $(or $(CUTS),30) $(if $(SEED),--seed $(SEED)) --json $(O)/vm-torture.json \
	  $(if $(CUTS),,--page docs/RELIABILITY.md)
	@$(MAKE) vm-mutant

vm-mutant: ## the power cuts must find an agent whose commits are not on the disk, within CUTS=10; SEED=S
	@deps/tools.sh test
	@$(MAKE) $(JOBS) all cluster $(O)/mutant-agents/synchronous-off
	@python3 test/vm/powercut.py --hunt $(O)/mutant-agents/synchronous-off --cuts $(or $(CUTS),10) $(if $(SEED),--seed $(SEED))

ci: ## what CI runs
	@bash .ci/run

# --- Install ---------------------------------------------------------------------------------------------------------------------

PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
UNITDIR ?= $(PREFIX)/lib/systemd/system
COMPLETIONDIR ?= $(PREFIX)/share/bash-completion/completions
ZSHDIR ?= $(PREFIX)/share/zsh/site-functions
FISHDIR ?= $(PREFIX)/share/fish/vendor_completions.d
MANDIR ?= $(PREFIX)/share/man
INSTALL ?= install

.PHONY: install clean distclean help
install: all ## copy the programs, limpet.ini (kept if there), units, the manual pages and completion
	$(INSTALL) -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/sbin $(DESTDIR)$(SYSCONFDIR)/limpet/conf.d $(DESTDIR)$(UNITDIR)
	$(INSTALL) -m 755 $(O)/limpet $(DESTDIR)$(PREFIX)/sbin/limpet
	$(INSTALL) -m 755 $(O)/limpetctl $(DESTDIR)$(PREFIX)/bin/limpetctl
	[ -e $(DESTDIR)$(SYSCONFDIR)/limpet/limpet.ini ] || \
	  $(INSTALL) -m 644 config/limpet.ini $(DESTDIR)$(SYSCONFDIR)/limpet/limpet.ini
	sed 's,@SBINDIR@,$(PREFIX)/sbin,g' config/limpet.service.in >$(DESTDIR)$(UNITDIR)/limpet.service
	chmod 644 $(DESTDIR)$(UNITDIR)/limpet.service
	$(INSTALL) -m 644 config/limpet-apps.service $(DESTDIR)$(UNITDIR)/limpet-apps.service
	for name in limpet limpetctl; do \
	  $(INSTALL) -D -m 644 config/completion/limpet.bash $(DESTDIR)$(COMPLETIONDIR)/$$name && \
	  $(INSTALL) -D -m 644 config/completion/limpet.fish $(DESTDIR)$(FISHDIR)/$$name.fish || exit 1; done
	$(INSTALL) -D -m 644 config/completion/_limpet $(DESTDIR)$(ZSHDIR)/_limpet
	for page in docs/*.[58]; do \
	  $(INSTALL) -D -m 644 $$page $(DESTDIR)$(MANDIR)/man$${page##*.}/$${page##*/} || exit 1; done

clean: ## remove what was made, except the libraries and the cluster
	rm -rf $(filter-out build/deps build/cluster build/go,$(wildcard build/*))

distclean: ## remove all that was made
	rm -rf build

help: ## this list
	@echo 'make [TARGET] [VARIABLE=...]    (the variables are at the top of the Makefile)'
	@sed -n 's/^\([a-z][a-z0-9 -]*\):.*## \(.*\)/  \1|\2/p' Makefile | awk -F '|' '{ printf "%-14s %s\n", $$1, $$2 }'

-include $(shell find $(O)/obj -name '*.d' 2>/dev/null)
