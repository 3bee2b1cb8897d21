# Builds build/tcc-ml and the runtime library; see `make help`.
#
# Sources are found by folder; a folder may add to the build by <folder>.mk:
#   GEN_SRCS   generated .c files (under $(G)) that belong to tcc-ml
#   GEN_HDRS   generated headers that must stand before anything compiles
#   TCC_DROP   sources that are not part of tcc-ml
#   RT_DROP    sources under runtime/ that are not part of libtcc_rt.a
#   EMBED      further files that tcc-ml carries within itself
# `make ASAN=1 ...` does the same under build/asan with the address and undefined sanitizers.

.DELETE_ON_ERROR:
.SECONDARY:
MAKEFLAGS += -rR -j$(shell nproc 2>/dev/null || echo 2)

all:

ifdef ASAN
B := build/asan
SAN := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
CFLAGS ?= -O1 -g
else
B := build
SAN :=
endif
G := $(B)/gen
# order-only prerequisites: what must be installed first
DEPS_BUILD := build/deps/build.ok
DEPS_TEST := build/deps/test.ok

prefix ?= /usr/local
bindir ?= $(prefix)/bin
libdir ?= $(prefix)/lib
includedir ?= $(prefix)/include
datadir ?= $(prefix)/share
INSTALL ?= install

CC := cc
AR := ar
CFLAGS ?= -O2 -g
BASE := -std=gnu11 -Wall -Wextra -fPIC -MMD -MP -ffile-prefix-map=$(CURDIR)=.
INCS := -I. -I$(G)

# asked of the tools when first needed, which is after `deps` has installed them
once = $(eval $(1) := $$(shell $(2)))$($(1))
LLVM_INC = $(call once,LLVM_INC,llvm-config-22 --includedir)
LLVM_LIB = $(call once,LLVM_LIB,llvm-config-22 --libdir)
PKG_INC = $(call once,PKG_INC,pkg-config --cflags libprotobuf-c libcjson libopenjp2)
PKG_LIB = $(call once,PKG_LIB,pkg-config --libs libprotobuf-c libcjson)
CHECK_LIB = $(call once,CHECK_LIB,pkg-config --libs check)
LIBS = -L$(LLVM_LIB) -lLLVM-22 $(PKG_LIB) -lunistring -lpcre2-8 -ltiff -lopenjp2 -lwebp -lpng16 -ljpeg -lz -lpthread -ldl -lm

find = $(wildcard $(addsuffix /*.c,$(1)) $(addsuffix /*/*.c,$(1)))

GEN_SRCS :=
GEN_HDRS :=
TCC_DROP :=
RT_DROP :=
EMBED := $(wildcard runtime/*.c runtime/*.h runtime/device/*.c runtime/device/*.h)

-include $(wildcard cmd/*.mk frontend/*.mk ir/*.mk opt/*.mk codegen/*.mk)
-include $(wildcard runtime/*.mk runtime/*/*.mk)

TCC_SRCS := $(sort $(filter-out $(TCC_DROP),$(call find,cmd frontend ir opt codegen)))
RT_SRCS := $(sort $(filter-out $(RT_DROP),$(call find,runtime)))
EMBED := $(sort $(EMBED))

TCC_OBJS := $(TCC_SRCS:%.c=$(B)/obj/%.o) $(GEN_SRCS:$(G)/%.c=$(B)/obj/gen/%.o) $(B)/obj/embed.o
RT_OBJS := $(RT_SRCS:%.c=$(B)/rt/%.o)
# the runtime inside tcc-ml itself: instrumented when tcc-ml is, and without the program's main
RT_IN_TCC := $(patsubst %.c,$(B)/$(if $(ASAN),obj,rt)/%.o,$(filter-out runtime/main.c,$(RT_SRCS)))
MAIN_OBJ := $(B)/obj/cmd/main.o
RT_LIB := $(B)/lib/libtcc_rt.a
# everything but main, for the unit tests
TCC_LIB := $(B)/lib/libtcc_test.a

# --- programs -------------------------------------------------------------------------------

ifneq ($(wildcard cmd/main.c),)
all: $(B)/tcc-ml
endif
all: $(RT_LIB) $(TCC_LIB)

$(B)/tcc-ml: $(TCC_OBJS) $(RT_IN_TCC)
	@echo "LINK $@"
	@$(CC) $(CFLAGS) $(SAN) -rdynamic -o $@.new $^ $(LIBS) $(LDFLAGS)
	@mv $@.new $@

$(TCC_LIB): $(filter-out $(MAIN_OBJ),$(TCC_OBJS)) $(RT_IN_TCC)
	@mkdir -p $(@D); rm -f $@
	@$(AR) rcsD $@ $^

$(RT_LIB): $(RT_OBJS)
	@mkdir -p $(@D); rm -f $@
	@$(AR) rcsD $@ $^

$(B)/obj/codegen/llvm.o: INCS += -I$(LLVM_INC)
$(B)/obj/codegen/llvm_%.o: INCS += -I$(LLVM_INC)

define compile
@echo "CC $@"
@mkdir -p $(@D)
@$(CC) $(BASE) $(CFLAGS) $(1) $(INCS) $(PKG_INC) $(CPPFLAGS) -c -o $@ $<
endef

$(B)/obj/%.o: %.c | $(DEPS_BUILD) $(GEN_HDRS)
	$(call compile,$(SAN))

$(B)/obj/gen/%.o: $(G)/%.c | $(DEPS_BUILD) $(GEN_HDRS)
	$(call compile,$(SAN) -w)

# what goes into compiled models: no debug information, so that they are the same in every folder
$(B)/rt/%.o: %.c | $(DEPS_BUILD)
	@echo "CC $@"
	@mkdir -p $(@D)
	@$(CC) $(BASE) -Os -fno-asynchronous-unwind-tables -ffunction-sections -fdata-sections \
		$(INCS) $(PKG_INC) $(CPPFLAGS) -c -o $@ $<

# --- files within tcc-ml --------------------------------------------------------------------

$(G)/embed.S: third_party/embed.sh $(EMBED) $(RT_LIB)
	@mkdir -p $(@D)
	@sh third_party/embed.sh $(EMBED) libtcc_rt.a=$(RT_LIB) >$@

$(B)/obj/embed.o: $(G)/embed.S | $(DEPS_BUILD)
	@mkdir -p $(@D)
	@$(CC) -c -o $@ $<

# --- dependencies ---------------------------------------------------------------------------

deps: $(DEPS_BUILD) $(DEPS_TEST)

$(DEPS_BUILD): third_party/deps.sh third_party/packages.txt
	@mkdir -p $(@D)
	@sh third_party/deps.sh build
	@touch $@

$(DEPS_TEST): third_party/deps.sh third_party/packages.txt third_party/requirements-test.txt \
		| $(DEPS_BUILD)
	@mkdir -p $(@D)
	@sh third_party/deps.sh test
	@sh third_party/venv.sh build/venv third_party/requirements-test.txt
	@touch $@

# --- tests ----------------------------------------------------------------------------------

UNIT_SRCS := $(sort $(wildcard tests/*/test_*.c))
UNITS := $(UNIT_SRCS:%.c=$(B)/%)
SHELL_TESTS := $(sort $(filter-out tests/slow/%,$(wildcard tests/*.sh tests/*/*.sh)))
SLOW_TESTS := $(sort $(wildcard tests/slow/*.sh))

$(UNITS): $(B)/%: %.c $(TCC_LIB) | $(DEPS_TEST)
	@echo "CC $@"
	@mkdir -p $(@D)
	@$(CC) $(BASE) $(CFLAGS) $(SAN) $(INCS) $(PKG_INC) -rdynamic -Wl,-u,tcc_host_call -o $@ $< $(TCC_LIB) \
		$(CHECK_LIB) $(LIBS) $(LDFLAGS)

check: all $(UNITS) $(DEPS_TEST)
	@TCC_BUILD=$(B) sh tests/run $(UNITS) $(SHELL_TESTS)

check-slow: all $(UNITS) $(DEPS_TEST)
	@TCC_BUILD=$(B) sh tests/run $(UNITS) $(SHELL_TESTS) $(SLOW_TESTS)

# the same under the sanitizers, but a tenth of the official tests, and malformed models; leaks of the
# compiler are errors
SAN_TESTS := $(SHELL_TESTS) tests/slow/malformed.sh

check-san:
	@$(MAKE) --no-print-directory ASAN=1 check-sanitized

check-sanitized: all $(UNITS) $(DEPS_TEST) build/backend/made
	@MODE=tenth TCC_CASE_TIMEOUT=600 TCC_TIMEOUT=3600 TCC_BUILD=$(B) sh tests/run $(UNITS) $(SAN_TESTS)

# libFuzzer programs, one for each tests/fuzz/fuzz_*.c, of the folders that read files
FUZZERS := $(patsubst tests/fuzz/%.c,build/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_OBJS := $(patsubst $(B)/%,build/fuzz/%, \
	$(filter $(addprefix $(B)/obj/,ir/% frontend/% gen/frontend/%),$(TCC_OBJS)) \
	$(patsubst $(B)/rt/%,$(B)/obj/%,$(RT_IN_TCC)))
FUZZ_FLAGS := -fsanitize=address,undefined -g -O1

fuzz: $(FUZZERS)

build/fuzz/obj/%.o: %.c | $(DEPS_TEST) $(GEN_HDRS)
	@mkdir -p $(@D)
	clang-22 $(BASE) $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link $(INCS) $(PKG_INC) -c -o $@ $<
build/fuzz/obj/gen/%.o: $(G)/%.c | $(DEPS_TEST)
	@mkdir -p $(@D)
	clang-22 $(BASE) $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link -w $(INCS) $(PKG_INC) -c -o $@ $<
build/fuzz/lib.a: $(FUZZ_OBJS)
	@rm -f $@
	@$(AR) rcsD $@ $^
build/fuzz/fuzz_%: tests/fuzz/fuzz_%.c build/fuzz/lib.a
	clang-22 $(BASE) $(FUZZ_FLAGS) -fsanitize=fuzzer $(INCS) $(PKG_INC) -o $@ \
		$< build/fuzz/lib.a $(LIBS) $(LDFLAGS)

# --- the rest -------------------------------------------------------------------------------

-include $(wildcard models/*.mk tests/*/*.mk)

install: all
	$(INSTALL) -d $(DESTDIR)$(bindir) $(DESTDIR)$(libdir)/tcc-ml $(DESTDIR)$(includedir)
	$(INSTALL) -m 755 $(B)/tcc-ml $(DESTDIR)$(bindir)/tcc-ml
	$(INSTALL) -m 644 $(RT_LIB) $(DESTDIR)$(libdir)/tcc-ml/libtcc_rt.a
	$(INSTALL) -d $(DESTDIR)$(includedir)/tcc-ml $(DESTDIR)$(datadir)/doc/tcc-ml
	$(INSTALL) -m 644 runtime/abi.h $(DESTDIR)$(includedir)/tcc-ml/abi.h
	$(INSTALL) -m 644 README.md LICENSE $(DESTDIR)$(datadir)/doc/tcc-ml
	$(INSTALL) -d $(DESTDIR)$(datadir)/man/man1 $(DESTDIR)$(datadir)/bash-completion/completions
	$(B)/tcc-ml --man >$(DESTDIR)$(datadir)/man/man1/tcc-ml.1
	$(B)/tcc-ml --completion >$(DESTDIR)$(datadir)/bash-completion/completions/tcc-ml

clean:
	rm -rf $(B)/obj $(B)/rt $(B)/lib $(B)/gen $(B)/tests $(B)/tcc-ml build/fuzz build/demo

distclean:
	rm -rf build

help:
	@echo "make             build/tcc-ml (installs what the build needs, saying so)"
	@echo "make demo        compile the bundled model and run it on a picture"
	@echo "make check       build and run the tests;  make check-slow  the long ones too"
	@echo "make check-san   the tests with sanitizers, but a tenth of the official ones"
	@echo "make deps        install everything that build and tests need"
	@echo "make fuzz        libFuzzer programs under build/fuzz"
	@echo "make bench       measure compiled models against onnxruntime, OpenVINO and IREE"
	@echo "make check-gpu   test and measure on this machine's GPU"
	@echo "make install     into DESTDIR and prefix (GNU directories)"
	@echo "make ASAN=1 ...  the same under build/asan with sanitizers"

.PHONY: all deps check check-slow check-san check-sanitized fuzz install clean distclean help

-include $(sort $(shell find build $(B) -name '*.d' 2>/dev/null))
