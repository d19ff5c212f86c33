# Oriel's build; doc/build.md and "make help" say what it offers.
.DELETE_ON_ERROR .SUFFIXES:
dry_run := $(findstring n,$(firstword -$(MAKEFLAGS)))
MAKEFLAGS += -r
all:

VERSION := $(shell sed -n 's/^\#define ORIEL_VERSION_[A-Z]* //p' include/oriel.h | paste -sd. -)
SOVERSION := 0
MODULES := base alloc pmix-boot kernels rma plan coll p2p
GOALS := $(or $(MAKECMDGOALS),all)

# What a goal needs is installed before anything else happens, so that one command is enough on a
# bare machine (DEPS=no: never). "all" installs nothing: configure says what is missing.
DEPS_demo := build
DEPS_deps := build check launch ucx-new bench docs lint
$(foreach t,check distcheck-light $(addprefix check-,unit ranks model soak san fault),$(eval DEPS_$t := build check))
DEPS_check-launch := build check launch
DEPS_check-ucx-new := build check ucx-new
$(foreach t,bench bench-mpi,$(eval DEPS_$t := build bench))
DEPS_doc := build docs
$(foreach t,lint tidy,$(eval DEPS_$t := build lint))
DEPS_fmt := lint
deps := $(sort $(foreach g,$(GOALS),$(DEPS_$g)))
ifneq ($(wildcard config.mk),)
deps := $(if $(filter deps,$(GOALS)),$(deps),$(filter-out build,$(deps)))
endif
ifeq ($(if $(dry_run),,$(if $(filter no,$(DEPS)),,$(deps))),)
else ifneq ($(shell tools/install-deps.sh $(deps) && echo done),done)
$(error "make $(GOALS)" needs what is listed above)
endif

ifneq ($(filter-out clean distclean help deps fmt dist loc,$(GOALS)),)
include config.mk
endif

# One object directory for each set of flags that must not mix.
B := build
ifdef SANITIZE
B := build/$(patsubst thread,tsan,$(patsubst address%,asan,$(SANITIZE)))
SAN_FLAGS := -fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer
endif

# ---- flags ----
WARN := -Wall -Wextra
ifdef DEVELOPER
WARN += -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition \
	-Wwrite-strings -Wvla -Wundef -Wpointer-arith -Wformat-security -Woverflow -Wunused -fno-common
endif
ALL_CPPFLAGS := -D_GNU_SOURCE -I. -Iinclude -include config.h $(UCX_CFLAGS) $(PMIX_CFLAGS) $(CUDA_CFLAGS) $(CPPFLAGS)
ALL_CFLAGS := -std=gnu11 -pthread -fPIC -fno-semantic-interposition $(WARN) $(CFLAGS) $(SAN_FLAGS)
ALL_LDFLAGS := -pthread -Wl,--as-needed,--enable-new-dtags $(LDFLAGS) $(SAN_FLAGS)
LIB_LIBS := $(UCX_LIBS) $(PMIX_LIBS) $(LIBS) -lm
# Programs find the library beside their folder in build/, and where "install" puts it.
RPATH = -Wl,-rpath,'$$ORIGIN/..:$$ORIGIN/$(shell realpath -m --relative-to='$(bindir)' '$(libdir)')'
# The stand-in for CUDA's driver, unless LD_LIBRARY_PATH has another.
CUDA_LIBS = -L$B/sim/cuda -l:libcuda.so.1 -Wl,-rpath,'$$ORIGIN/../../sim/cuda'

# ---- sources: every file of a folder, less what needs something that is not there ----
absent := $(if $(HAVE_UCX),,rma/ucx% test/rma/ucx% bench/ucx/%) $(if $(HAVE_CUDA_HEADERS),,sim/cuda/% test/sim/standin% test/kernels/% test/ranks/gpu%) \
	$(if $(HAVE_PMIX),,pmix-boot/pmix% test/pmix-boot/pmix%) \
	$(if $(HAVE_PMIX_SERVER),,tools/orielrun% test/tools/orielrun%) $(if $(HAVE_JSON),,test/examples/npy%) $(if $(HAVE_BLAS),$(if $(HAVE_JSON),,examples/tp_mlp%),examples/tp_mlp%)
src = $(filter-out $(absent),$(sort $(wildcard $(1:%=%/*.c))))
# In tools/ and examples/, x_y.c beside x.c is a part of the program x. The programs of DIR also link what
# they use of DIR/common/*.c.
stems = $(basename $(call src,$1))
progs = $(filter-out $(foreach s,$(call stems,$1),$(filter $s_%,$(call stems,$1))),$(call stems,$1))
parts = $(patsubst %,$B/%.o,$(filter $1_%,$(basename $(wildcard $1_*.c))))

lib_src := $(call src,$(MODULES))
lib_obj := $(lib_src:%.c=$B/%.o)
sim_obj := $(patsubst %.c,$B/%.o,$(call src,sim)) # the checkers of programs: for tests and oriel_sim
standin_obj := $(patsubst %.c,$B/%.o,$(call src,sim/cuda)) # a stand-in for CUDA's driver
tool_bin := $(addprefix $B/,$(call progs,tools))
example_bin := $(addprefix $B/,$(call progs,examples))
unit_bin := $(addprefix $B/,$(call stems,$(MODULES:%=test/%) test/tools test/sim test/examples))
rank_bin := $(addprefix $B/,$(call stems,test/ranks))
model_bin := $(addprefix $B/,$(call stems,test/model))
common = $(if $(call src,$(firstword $(subst /, ,$1))/common),$B/$(firstword $(subst /, ,$1))/common.a)
bench_bin := $(addprefix $B/,$(call stems,bench))
bench_ucx_bin := $(addprefix $B/,$(call stems,bench/ucx))
bench_mpi_bin := $(foreach s,$(call stems,bench/mpi),$B/$s-openmpi $B/$s-mpich)
static_bin := $(filter $B/tools/orielrun $B/tools/oriel_sim,$(tool_bin))
shared_bin := $(filter-out $(static_bin),$(tool_bin)) $(example_bin) $(bench_bin)
headers := $(wildcard include/*.h $(MODULES:%=%/*.h) tools/*.h)
c_files := $(sort $(wildcard $(foreach d,include $(MODULES) tools examples doc sim sim/cuda bench \
	$(wildcard test test/* */common bench/mpi bench/ucx),$d/*.c $d/*.h)))

# ---- building ----
# V=1 shows the commands.
say = $(if $(V),,@printf '  %-5s %s\n' $1 '$@';)
link = $(call say,LINK)mkdir -p $(@D) && $(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o %.a,$^)

.PHONY: all FORCE
all: $B/liboriel.a $B/liboriel.so $(tool_bin) $(example_bin)

configure: configure.ac
	autoconf || { tools/install-deps.sh --check build; exit 1; }

config.mk: configure config.mk.in config.h.in
	if [ -x config.status ]; then ./config.status --recheck && ./config.status; else \
		./configure $(CONFIGURE_FLAGS); fi || { tools/install-deps.sh --check build; exit 1; }
	@touch $@ config.h

# These files change only when what they hold does; whatever depends on it is then built again.
stamp = @mkdir -p $(@D); echo $1 | cmp -s - $@ || echo $1 >$@
$B/flags: FORCE
	$(call stamp,'$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(LIB_LIBS) $(BLAS_LIBS) $(JSON_LIBS)')
$B/objects: FORCE
	$(call stamp,'$(lib_obj)')

$B/%.o: %.c $B/flags config.mk
	$(call say,CC)mkdir -p $(@D) && $(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) $(EXTRA) -MMD -MP -c -o $@ $<
$B/examples/%.o $B/test/examples/%.o: EXTRA = $(BLAS_CFLAGS) $(JSON_CFLAGS)
$(addprefix $B/,$(patsubst %,coll/reduce_%.o,base avx2 avx512) sim/cuda/reduce.o): EXTRA = -O3 -ffp-contract=off $($(*F)_CFLAGS)
$B/test/model/%.o: EXTRA = -DORIEL_MODEL -Itest/model
# One image for all builds; PTX for what comes after the devices that it has code for.
$B/kernels/embed.o: EXTRA = $(if $(NVCC),-DKERNELS_IMAGE='"build/kernels/oriel.fatbin"')
$B/kernels/embed.o: $(if $(NVCC),build/kernels/oriel.fatbin)
build/kernels/oriel.fatbin: $(wildcard kernels/*.cu kernels/*.cuh) kernels/kernels.h include/oriel.h include/oriel_coll.h coll/reduce_convert.h
	$(call say,NVCC)mkdir -p $(@D) && $(NVCC) -std=c++17 -fmad=false -I. -Iinclude -fatbin -Xfatbin -compress-all \
		-gencode 'arch=compute_80,code=[sm_80,sm_90,compute_80]' -o $@ kernels/oriel.cu

.SECONDEXPANSION:
$B/liboriel.a: $(lib_obj) $B/objects
	$(call say,AR)rm -f $@ && $(AR) rcs $@ $(lib_obj)

$B/liboriel.so.$(SOVERSION): $(lib_obj) $B/objects oriel.map
	$(call say,LINK)$(CC) -shared $(ALL_LDFLAGS) -Wl,-soname,$(@F) -Wl,--version-script=oriel.map \
		-Wl,-z,defs -Wl,-Bsymbolic-functions -o $@ $(lib_obj) $(LIB_LIBS)

$B/liboriel.so: $B/liboriel.so.$(SOVERSION)
	@ln -sf $(<F) $@

$(addprefix $B/,$(addsuffix /common.a,tools examples bench test)): $B/%/common.a: \
		$$(addprefix $B/,$$(addsuffix .o,$$(basename $$(call src,$$*/common))))
	$(call say,AR)rm -f $@ && $(AR) rcs $@ $^

$(shared_bin): $B/%: $B/%.o $$(call parts,$$*) $$(call common,$$*) $B/liboriel.so
	$(link) -L$B -loriel $(RPATH) $(if $(findstring tp_mlp,$*),$(BLAS_LIBS) $(JSON_LIBS)) -lm
$(static_bin): $B/%: $B/%.o $$(call parts,$$*) $$(call common,$$*) $$(if $$(findstring oriel_sim,$$*),$$(sim_obj)) $B/liboriel.a
	$(link) $(LIB_LIBS)
$(rank_bin): $B/%: $B/%.o $$(call common,$$*) $B/liboriel.a
	$(link) $(LIB_LIBS)
# Criterion's process sandbox does not start under the thread sanitizer: test/tsan runs the same tests.
unit_runner := $(if $(findstring tsan,$B),$B/test/tsan/runner.o)
$(unit_bin): $B/%: $B/%.o $(unit_runner) $$(call common,$$*) $$(if $$(findstring test/examples,$$*),$B/examples/common.a) $(sim_obj) \
		$$(if $$(findstring sim/standin,$$*),$(standin_obj)) $$(if $$(findstring /kernels,$$*),$B/sim/cuda/libcuda.so.1) $B/liboriel.a
	$(link) -lcriterion $(LIB_LIBS) $(if $(findstring test/examples,$*),$(JSON_LIBS)) $(if $(findstring /kernels,$*),$(CUDA_LIBS))
$(model_bin): $B/%: $B/%.o
	$(link)
$B/sim/cuda/libcuda.so.1: $(standin_obj)
	$(link) -shared -Wl,-soname,$(@F)
$(bench_ucx_bin): $B/%: $B/%.o $$(call common,$$*)
	$(link) $(UCX_LIBS) -lm
$(bench_mpi_bin): $B/%: $$(subst -mpich,,$$(subst -openmpi,,$$*)).c $B/flags
	$(call say,MPICC)mkdir -p $(@D) && mpicc.$(lastword $(subst -, ,$*)) -D_GNU_SOURCE -I. -std=gnu11 $(WARN) $(CFLAGS) -MMD -MP -MF $@.d -MT $@ -o $@ $< -lm

-include $(wildcard $(foreach d,$(MODULES) sim sim/cuda tools examples doc bench */common bench/mpi bench/ucx test/*,$B/$d/*.d))

# ---- running ----
.PHONY: demo deps bench bench-mpi check check-unit check-ranks check-model check-launch check-ucx-new check-san check-soak check-fault check-gpu tests
deps: ; @echo "everything is installed"

ORIELRUN := $(if $(HAVE_PMIX_SERVER),$B/tools/orielrun,mpirun --oversubscribe --allow-run-as-root)
demo: all
	$(if $(HAVE_PMIX),,$(error the demo needs PMIx, and configure was told --without-pmix))
	@mkdir -p $B/demo
	$(ORIELRUN) -n 4 $B/examples/tp_mlp
	$(ORIELRUN) -n 2 $B/tools/oriel_perf --short

RUN_TESTS := test/run-tests --build $B
tests: all $(unit_bin) $(rank_bin) $(model_bin) $(if $(HAVE_CUDA_HEADERS),$B/sim/cuda/libcuda.so.1)
check: tests
	@$(RUN_TESTS) unit model ranks
check-unit check-model check-ranks check-launch check-fault: tests
	@$(RUN_TESTS) $(@:check-%=%)
check-gpu: tests
	@$(RUN_TESTS) --real-gpu --config gpu,gpu1,gpucopies,gputhreads ranks
check-soak: all $(rank_bin)
	@$(RUN_TESTS) --table test/ranks/soak ranks

# Built with the system's UCX, run on a newer one.
UCX_NEW := 1.22
check-ucx-new: all $(rank_bin) build/ucx-new/$(UCX_NEW)
	@$(RUN_TESTS) --ucx build/ucx-new --ucx-version $(UCX_NEW) --config ucx,mixed ranks
build/ucx-new/$(UCX_NEW):
	rm -rf $(@D)
	PIP_ROOT_USER_ACTION=ignore python3 -m pip install -q --no-input --target $(@D) --no-deps libucx-cu13==$(UCX_NEW).0
	@touch $@

# Both builds run even if the first one fails; the closing line counts both.
check-san:
	@mkdir -p build; tally=$${TEST_TALLY-build/san.tally}; [ "$${TEST_TALLY+set}" ] || : >$$tally; rc=0; \
	for san in address,undefined thread; do \
		TEST_TALLY=$$tally $(MAKE) --no-print-directory SANITIZE=$$san check-unit-and-ranks || rc=1; \
	done; [ "$${TEST_TALLY+set}" ] || test/run-tests sum $$tally || rc=1; exit $$rc
.PHONY: check-unit-and-ranks
check-unit-and-ranks: tests
	@$(RUN_TESTS) --max-ranks 4 unit ranks

bench: all $(bench_bin) $(bench_ucx_bin) $(bench_mpi_bin)
	@mkdir -p $B/bench
	bench/run --build $B
	@test -s $B/bench/host.json
bench-mpi: all $(bench_bin) $(bench_mpi_bin)
	bench/run-mpi --build $B $(BENCH_FLAGS)

# ---- looking after the source ----
.PHONY: loc fmt tidy lint lint-fmt lint-rules cppcheck hdr-check knobs doc
loc: ; @tools/loc

CLANG_FORMAT ?= clang-format-14
fmt: ; $(CLANG_FORMAT) -i $(c_files) $(wildcard kernels/*.cu*)
tidy: config.mk
	@printf '%s\n' $(filter $(MODULES:%=%/%) tools/% examples/%,$(filter-out $(absent) %.h,$(c_files))) | xargs -n1 -P2 \
		sh -c 'clang-tidy --quiet $$0 -- $(ALL_CPPFLAGS) $(BLAS_CFLAGS) $(JSON_CFLAGS) -std=gnu11 2>/dev/null'

lint: lint-fmt lint-rules cppcheck hdr-check $B/doc/knobs.md
	@diff -u doc/knobs.md $B/doc/knobs.md || { echo 'doc/knobs.md is stale: run "make knobs"'; exit 1; }
	@echo "lint: clean"
lint-fmt:
	@$(CLANG_FORMAT) --dry-run -Werror $(c_files) $(wildcard kernels/*.cu*)
lint-rules: ; @tools/lint-rules
cppcheck: config.mk
	@cppcheck --quiet --std=c11 --enable=warning,portability,performance --inline-suppr --error-exitcode=1 \
		$(addprefix --suppress=,missingInclude normalCheckLevelMaxBranches funcArgOrderDifferent nullPointer legacyUninitvar) -D_GNU_SOURCE -I. -Iinclude \
		--include=config.h $(filter-out test/% $(absent),$(filter %.c,$(c_files)))
hdr-check: config.mk
	@rc=0; for h in $(filter-out $(absent),$(headers)); do \
		$(CC) $(ALL_CPPFLAGS) -std=gnu11 -Wall -Wextra -Werror -fsyntax-only -x c -include $$h /dev/null || \
			{ echo "$$h does not compile alone"; rc=1; }; done; \
	for h in $(wildcard include/*.h); do for std in c++11 c++20; do \
		$(CXX) -std=$$std -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c++ -include $$h /dev/null || \
			{ echo "$$h does not compile as $$std"; rc=1; }; done; done; \
	for f in $$(grep -l HAVE_CUDA_HEADERS $(filter-out sim/% test/%,$(filter %.c,$(c_files)))); do \
		printf '#undef HAVE_CUDA_HEADERS\n#include "%s"\n' $$f | \
			$(CC) $(ALL_CPPFLAGS) -std=gnu11 -Wall -Wextra -Werror -fsyntax-only -x c - || \
			{ echo "$$f does not compile without CUDA's headers"; rc=1; }; done; exit $$rc

$B/doc/knobs: $B/doc/knobs.o $B/liboriel.a
	$(link) $(LIB_LIBS)
$B/doc/knobs.md: $B/doc/knobs
	@$< >$@
knobs: $B/doc/knobs.md
	cp $< doc/knobs.md

doc: $B/doc/knobs.md
	@sed 's|@VERSION@|$(VERSION)|; s|@OUT@|$B/doc|' doc/Doxyfile.in >$B/doc/Doxyfile
	doxygen $B/doc/Doxyfile
	@echo "$B/doc/html/index.html"

# ---- shipping ----
.PHONY: install uninstall dist distcheck-light clean distclean help
PC_PRIVATE = $(PMIX_LIBS) $(LIBS) -lm -pthread
pages = $(filter-out doc/README.md,$(wildcard doc/*.md README.md LICENSE))
# There only after "make doc".
man_pages = $(wildcard $B/doc/man/man3/oriel*.3)
installed = $(addprefix $(libdir)/,liboriel.so.$(VERSION) liboriel.so.$(SOVERSION) liboriel.so liboriel.a pkgconfig/oriel.pc) \
	$(patsubst include/%,$(includedir)/%,$(wildcard include/*.h)) $(addprefix $(bindir)/,$(notdir $(tool_bin))) \
	$(addprefix $(docdir)/,$(notdir $(pages))) $(addprefix $(mandir)/man3/,$(notdir $(man_pages)))
to = '$(DESTDIR)$($1)$2'
install: all
	install -d $(call to,bindir) $(call to,libdir,/pkgconfig) $(call to,includedir) $(call to,docdir) $(call to,mandir,/man3)
	install -m 755 $B/liboriel.so.$(SOVERSION) $(call to,libdir,/liboriel.so.$(VERSION))
	ln -sf liboriel.so.$(VERSION) $(call to,libdir,/liboriel.so.$(SOVERSION))
	ln -sf liboriel.so.$(SOVERSION) $(call to,libdir,/liboriel.so)
	install -m 644 $B/liboriel.a $(call to,libdir)
	install -m 644 $(wildcard include/*.h) $(call to,includedir)
	$(if $(tool_bin),install -m 755 $(tool_bin) $(call to,bindir))
	$(if $(pages),install -m 644 $(pages) $(call to,docdir))
	$(if $(man_pages),install -m 644 $(man_pages) $(call to,mandir,/man3))
	sed "s|@prefix@|$(prefix)|; s|@libdir@|$(libdir)|; s|@includedir@|$(includedir)|; s|@VERSION@|$(VERSION)|; \
		s|@PRIVATE@|$(PC_PRIVATE)|" oriel.pc.in >$(call to,libdir,/pkgconfig/oriel.pc)
uninstall:
	rm -f $(foreach f,$(installed),'$(DESTDIR)$f')

# A source archive with configure in it: it builds without autoconf and without git.
tarball := oriel-$(VERSION)
dist: configure
	@mkdir -p build
	git archive --prefix=$(tarball)/ --add-file=configure -o build/$(tarball).tar.gz HEAD
	@echo build/$(tarball).tar.gz
distcheck-light: dist
	dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && tar -xzf build/$(tarball).tar.gz -C "$$dir" && \
	cd "$$dir/$(tarball)" && $(MAKE) --no-print-directory all check-unit DEPS=no && \
	$(MAKE) --no-print-directory install prefix="$$dir/to" && \
	echo 'int main(void) { return !oriel_version(); }' | $(CC) -include oriel.h -x c - -o "$$dir/prog" \
		$$(PKG_CONFIG_PATH="$$dir/to/lib/pkgconfig" pkg-config --cflags --libs oriel) && \
	LD_LIBRARY_PATH="$$dir/to/lib" "$$dir/prog" && $(MAKE) --no-print-directory uninstall prefix="$$dir/to" && \
	test -z "$$(find "$$dir/to" ! -type d)" && echo "distcheck-light: fine"

clean: ; rm -rf build
distclean: clean
	rm -rf config.mk config.h config.log config.status configure autom4te.cache

help:
	@sed -n '/^## Targets/,/^## /{/^|/p}' doc/build.md
