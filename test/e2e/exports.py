#!/usr/bin/env python3
"""--emit=TARGET writes what the target reads. A strategy of the user that the target cannot express is refused with the
broken rule and the nearest strategy that the target accepts; the winner of a search is replaced by the nearest plan.

By default this checks a sample of the plans against recordings of the targets' sources (test/fixtures/exports). With
DPC_TEST_LONG it checks all plans, and exports_installed.py reads each file also with the target's own code if PyPI has it: accelerate, DeepSpeed,
torchtitan and megatron-core, which the test installs, and Chakra's traces with protobuf. megatron-core builds the model
of the file and counts its parameters. These and Colossal-AI train two steps with dpc's losses. For targets that are only on GitHub,
DPC_CALCULON and DPC_CHAKRA can name checkouts: Calculon then runs its files, and Chakra's own schema reads the traces.
"""
import atexit
import functools
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest

import e2e
import exports_targets

LONG = bool(os.environ.get("DPC_TEST_LONG"))
FACTS = e2e.read_json(os.path.join(e2e.SOURCE, "test", "fixtures", "exports", "facts.json"))
TARGETS = ("accelerate", "calculon", "colossalai", "deepspeed", "galvatron", "megatron", "torchtitan")
# Training options. Each plan of the long test has some of them.
SETTINGS = [(), ("--lr-schedule=cosine,warmup=10,total=100,min=1e-5",), ("--lr-schedule=linear,total=50", "--loss-scale=128"),
            ("--lr-schedule=constant,warmup=3", "--train=sgd", "--momentum=0.9"),
            ("--lr-schedule=linear,warmup=4,total=40", "--lr=3e-4", "--beta1=0.85", "--beta2=0.95", "--eps=1e-6", "--weight-decay=0.1")]
# The strategy that a refusal suggests.
NAMED = r"; nearest: --strategy=(\S+) \("
# These install without their dependencies, most of which are for GPUs.
ALONE = ("megatron-core==0.16.1", "colossalai==0.5.0", "peft==0.13.2", "galore_torch", "contexttimer", "bitsandbytes")
PACKAGES = ("torch", "accelerate==1.15.0", "deepspeed==0.19.8", "pyyaml", "tyro", "torchdata", "docstring_parser", "spmd_types", "protobuf", "pandas", "transformers", "tokenizers", "safetensors")

# By plan: model, ranks, strategy.
PLANS = [
    ("gpt2-tiny", 1, "dp=1"),
    ("gpt2-tiny", 4, "dp=4"),
    ("gpt2-tiny", 4, "dp=4,zero=1,micro_batch=1"),
    ("gpt2-tiny", 4, "dp=4,zero=2,micro_batch=2"),
    ("gpt2-tiny", 4, "dp=4,zero=3,recompute=full"),
    ("gpt2-tiny", 8, "dp=8,zero=3,hybrid_shard=4"),
    ("gpt2-tiny", 4, "dp=4,zero=3,offload=all"),
    ("gpt2-tiny", 2, "dp=2,zero=1,offload=optimizer"),
    ("gpt2-tiny", 4, "tp=4,sp=true"),
    ("gpt2-tiny", 4, "dp=2,tp=2"),
    ("gpt2-tiny", 4, "dp=2,tp=2,zero=3"),
    ("gpt2-tiny", 4, "dp=2,tp=2,sp=true,zero=1"),
    ("gpt2-tiny", 8, "dp=2,tp=2,pp=2,sp=true,zero=1,micro_batch=2"),
    ("gpt2-tiny", 4, "pp=4,micro_batch=1"),
    ("gpt2-tiny", 4, "dp=2,pp=2,micro_batch=1,schedule=gpipe"),
    ("gpt2-tiny", 4, "dp=2,pp=2,vpp=2,micro_batch=1"),
    ("gpt2-tiny", 4, "dp=2,pp=2,zero=1,micro_batch=1,recompute=full"),
    ("llama-tiny", 4, "dp=2,cp=2,zero=3"),
    ("llama-tiny", 4, "dp=2,cp=2,cp_kind=ulysses,zero=2"),
    ("llama-tiny", 4, "dp=2,cp=2,cp_kind=ulysses"),
    ("llama-tiny", 3, "pp=3,micro_batch=1"),
    ("llama-tiny", 4, "dp=4,zero=2,recompute=selective"),
    ("llama-tiny", 4, "dp=2,tp=2,recompute=selective,micro_batch=2"),
    ("moe-tiny", 4, "dp=4,ep=4,zero=2"),
    ("moe-tiny", 4, "dp=2,tp=2,ep=4,sp=true"),
    ("bert-tiny", 4, "dp=4,zero=2"),
    ("gpt", 4, "dp=2,tp=2,zero=1"),
    ("gpt-untied", 2, "dp=2"),
    ("llama", 4, "dp=4,zero=1"),
    ("llama-tied", 2, "dp=2,recompute=selective"),
    ("moe", 2, "dp=2"),
    ("moe", 4, "dp=4,ep=4"),
    ("moe-shared", 2, "dp=2,ep=2,zero=1"),
]
# Models of dpc-model, by name: family and options. Recipes have all terms that the fixtures lack.
RECIPES = {"gpt": ("gpt", "--vocab=512"), "gpt-untied": ("gpt", "--vocab=500", "--untied", "--ffn=160"),
           "llama": ("llama", "--kv-heads=2", "--ffn=176", "--vocab=512", "--head-dim=32"),
           "llama-tied": ("llama", "--kv-heads=4", "--ffn=96", "--vocab=512", "--tied", "--rope-theta=10000"),
           "moe": ("moe", "--kv-heads=2", "--ffn=96", "--vocab=512", "--experts=4", "--topk=2"),
           "moe-shared": ("moe", "--kv-heads=2", "--ffn=160", "--expert-ffn=96", "--vocab=512", "--experts=4", "--topk=2", "--shared-experts=2", "--dense-layers=1")}


@functools.cache
def recipes_folder():
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    return folder


@functools.cache
def model(name):
    """Returns the .onnx of a fixture or of a recipe."""
    if name not in RECIPES:
        return e2e.model(name)
    path = os.path.join(recipes_folder(), f"{name}.onnx")
    family, *options = RECIPES[name]
    e2e.must([e2e.tool("dpc-model"), family, "--layers=4", "--hidden=64", "--heads=4", "--seq=32", *options, "-o", path])
    return path


def rate(schedule, lr, step):
    """The learning rate of a step, from 1 (LrSchedule in runtime/plan/Plan.h)."""
    before, warmup = step - 1, schedule.get("warmup", 0)
    if before < warmup:
        return lr * before / warmup
    if schedule["kind"] == "constant":
        return lr
    done = min(1, (before - warmup) / (schedule["total"] - warmup))
    return schedule.get("min", 0) + (lr - schedule.get("min", 0)) * ((1 + math.cos(math.pi * done)) / 2 if schedule["kind"] == "cosine" else 1 - done)


def optimizer_of(settings):
    """What the options of dpc-opt say of the optimizer; exports_targets.py compares it with what a target reads."""
    words = dict(word[2:].split("=", 1) for word in settings)
    kind, *rest = words.get("lr-schedule", "constant").split(",")
    schedule = {"kind": kind, **{key: float(value) for key, value in (part.split("=") for part in rest)}}
    lr = float(words.get("lr", 1e-3))
    if words.get("train") == "sgd":
        optimizer = {"name": "sgd", "lr": lr, "momentum": float(words.get("momentum", 0)), "weight_decay": 0}
    else:
        optimizer = {"name": "adamw", "lr": lr, "betas": [float(words.get("beta1", 0.9)), float(words.get("beta2", 0.999))], "eps": float(words.get("eps", 1e-8)),
                     "weight_decay": float(words.get("weight-decay", 0.01))}
    return {"optimizer": optimizer, "clip": 1, "warmup": schedule.get("warmup", 0), "varies": len(words.get("lr-schedule", "")) > 0,
            "rates": [rate(schedule, lr, step) for step in range(1, 41)]}


def emit(folder, plan, target, *more):
    name, ranks, strategy = plan
    return e2e.call([e2e.tool("dpc-opt"), model(name), f"--cluster=local:{ranks}", "--global-batch=8", "--precision=bf16", "--verify=off",
                     "--clip-grad-norm=1", f"--emit={target}", f"--strategy={strategy}", "-o", os.path.join(folder, "out"), *more])


def read(folder, name):
    with open(os.path.join(folder, "out", "exports", name), encoding="utf-8") as file:
        return file.read()


def scalar(text):
    if text in ("true", "false"):
        return text == "true"
    if text.startswith('"'):
        return json.loads(text)
    assert text.lower() not in ("no", "yes", "on", "off"), "YAML 1.1 reads a truth value"
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text) if re.fullmatch(r"-?\d+\.\d+", text) else text


def read_yaml(text):
    """Parses two levels of `key: value`, the only form that is written."""
    result, section = {}, None
    for line in text.splitlines():
        if line.startswith("#") or not line:
            continue
        key, _, value = line.strip().partition(":")
        if line.startswith(" "):
            result[section][key] = scalar(value.strip())
        elif value:
            result[key] = scalar(value.strip())
        else:
            section = key
            result[section] = {}
    return result


class Recorded(unittest.TestCase):
    """Keys and types are those in the targets' sources."""

    def check_keys(self, values, facts):
        for key, value in values.items():
            self.assertIn(key, facts)
            kinds = facts[key] if isinstance(facts, dict) else ["any"]
            if not set(kinds) <= {"any", "int", "float", "bool", "str", "list", "dict"}:
                self.assertIn(value, kinds, key)
            elif "any" not in kinds:
                kind = type(value).__name__
                self.assertTrue(kind in kinds or (kind == "int" and "float" in kinds), f"{key}: {value!r} is no {kinds}")

    def accelerate(self, folder):
        facts = FACTS["accelerate"]
        config = read_yaml(read(folder, "accelerate.yaml"))
        self.check_keys(config, facts["top"])
        for section in ("fsdp_config", "deepspeed_config", "megatron_lm_config", "parallelism_config"):
            self.check_keys(config.get(section, {}), facts["options"])

    def calculon(self, folder):
        """Also checks what the constructor of its Execution asserts."""
        execution = json.loads(read(folder, "calculon-execution.json"))
        self.assertEqual(set(execution), set(FACTS["calculon"]["execution"]))
        data, pipeline = execution["data_par"], execution["pipeline_par"]
        self.assertEqual(execution["num_procs"], execution["tensor_par"] * pipeline * data)
        self.assertEqual(execution["batch_size"] % (data * execution["microbatch_size"]), 0)
        for key, values in (("attention_type", ("multihead", "multiquery")), ("activation_recompute", ("full", "attn_only", "none")),
                            ("tensor_par_comm_type", ("ar", "p2p_rs_ag", "rs_ag")), ("tensor_par_overlap", ("none", "ring", "pipe"))):
            self.assertIn(execution[key], values)
        self.assertTrue(data > 1 or not (execution["optimizer_sharding"] or execution["data_par_overlap"]))
        self.assertTrue(execution["pipeline_interleaving"] == 1 or pipeline > 1)
        self.assertEqual(set(json.loads(read(folder, "calculon-application.json"))), set(FACTS["calculon"]["application"]))

    def colossalai(self, folder):
        config = json.loads(read(folder, "colossalai.json"))
        self.check_keys(config["kwargs"], FACTS["colossalai"][config["plugin"]])

    def deepspeed(self, folder):
        facts = FACTS["deepspeed"]
        config = json.loads(read(folder, "ds_config.json"))
        for key, value in config.items():
            self.assertIn(key, facts["top"])
            if key in facts:
                self.check_keys(value, facts[key])
        for part in ("offload_optimizer", "offload_param"):
            self.check_keys(config["zero_optimization"].get(part, {}), facts[part])

    def galvatron(self, folder):
        config = json.loads(read(folder, "galvatron.json"))
        self.check_keys(config, FACTS["galvatron"]["keys"])
        layers = len(config["tp_sizes_enc"].split(","))
        self.assertEqual(sum(int(number) for number in config["pp_division"].split(",")), layers)
        for key in ("tp_consecutive_flags", "dp_types_enc", "use_sp", "checkpoint"):
            self.assertEqual(len(config[key].split(",")), layers)

    def megatron(self, folder):
        text = read(folder, "megatron.sh")
        self.assertEqual(subprocess.run(["bash", "-n"], input=text, text=True).returncode, 0)
        self.assertTrue(os.access(os.path.join(folder, "out", "exports", "megatron.sh"), os.X_OK))
        flags = re.findall(r"^  --([\w-]+)", text, re.M)
        self.assertEqual(len(flags), len(set(flags)))
        self.assertEqual(set(flags) - set(FACTS["megatron"]["flags"]), set())

    def torchtitan(self, folder):
        recipe = read(folder, "torchtitan.py")
        compile(recipe, "torchtitan.py", "exec")
        arguments = dict(re.findall(r"^            (\w+)=(.*),$", recipe, re.M))
        facts = FACTS["torchtitan-0.3.0"]
        for key in arguments:
            self.assertTrue(any(key in facts[section] for section in ("parallelism", "training", "lr_scheduler")), key)
        if not os.path.exists(os.path.join(folder, "out", "exports", "torchtitan.toml")):
            return
        for section, values in tomllib.loads(read(folder, "torchtitan.toml")).items():
            self.check_keys(values, FACTS["torchtitan-0.2.2"][section])

    def check_refusal(self, plan, target, done, folder):
        """Expects one line: the rule, and a strategy that the target accepts. Returns False if there is no such strategy."""
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
        found = re.fullmatch(rf"dpc-opt: error: --emit={target}: \S+ cannot be expressed: (.*?)(?:{NAMED}[^;]*)?(; --for={target} searches only what it can express)?\n", done.stderr)
        self.assertTrue(found, done.stderr)
        self.assertTrue(os.path.exists(os.path.join(folder, "out", "report.json")))
        self.assertFalse(os.path.exists(os.path.join(folder, "out", "exports")))
        if found[2]:
            named = emit(folder, (*plan[:2], found[2]), target)
            self.assertEqual(named.returncode, 0, named.stderr)
        return bool(found[2])

    def test_every_target(self):
        written = dict.fromkeys(TARGETS, 0)
        for i, plan in enumerate(PLANS):
            for j, target in enumerate(TARGETS):
                if not LONG and (i + j) % 8:
                    continue
                with self.subTest(f"{plan} {target}"), e2e.scratch() as folder:
                    done = emit(folder, plan, target)
                    if done.returncode and not self.check_refusal(plan, target, done, folder):
                        continue
                    getattr(self, target)(folder)
                    written[target] += 1
        print("plans read:", written)
        self.assertGreaterEqual(min(written.values()), 20 if LONG else 3, written)


def fields(data):
    """Yields (number, value) of a protobuf message: numbers, and the bytes of fields with a length."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if data[at - 1] < 128:
                return value
    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            assert key & 7 == 2, key
            length = varint()
            at += length
            yield key >> 3, data[at - length:at]


def chakra_nodes(path):
    """Returns the nodes of a trace with the field names of Chakra's schema."""
    with open(path, "rb") as file:
        _, *nodes = exports_targets.messages(file.read())
    names, values = ({number: name for name, number in FACTS["chakra"][message].items()} for message in ("Node", "AttributeProto"))
    for message in nodes:
        node = {"id": 0, "deps": [], "duration_micros": 0}
        for number, value in fields(message):
            name = names[number]
            if name == "attr":
                attribute = {values[key]: each for key, each in fields(value)}
                key = attribute.pop("name").decode()
                node[key] = next(iter(attribute.values()), 0)
            elif name.endswith("_deps"):  # a packed repeated field
                packed = b"".join(b"\x08" + part for part in re.findall(rb"[\x80-\xff]*[\x00-\x7f]", value))
                node["deps"] += [each for _, each in fields(packed)]
            else:
                node[name] = value
        yield node


class Chakra(unittest.TestCase):
    PLANS = [("gpt2-tiny", 4, "dp=2,pp=2,zero=1,micro_batch=2"), ("gpt2-tiny", 4, "dp=2,tp=2,zero=3"), ("llama-tiny", 4, "dp=2,cp=2,cp_kind=ring"),
             ("moe-tiny", 4, "dp=4,ep=4"), ("gpt2-tiny", 2, "dp=2,zero=1,offload=optimizer")]

    def test_schema(self):
        with open(os.path.join(e2e.SOURCE, "codegen", "export", "chakra.proto"), encoding="utf-8") as file:
            text = file.read()
        for name, body in re.findall(r"(?:message|enum) (\w+) \{(.*?)\n\}", text, re.S):
            for field, number in re.findall(r"(\w+) = (\d+);", body):
                self.assertEqual(FACTS["chakra"][name][field], int(number))

    def check_ranks(self, folder, ranks):
        kinds = FACTS["chakra"]["NodeType"]
        with open(f"{folder}/out/exports/chakra-groups.json") as file:
            groups = json.load(file)
        met, messages = {}, {}
        for rank in range(ranks):
            order = {}
            for i, node in enumerate(chakra_nodes(f"{folder}/out/exports/chakra.{rank}.et")):
                self.assertEqual(node["id"], i)
                self.assertTrue(all(before < i for before in node["deps"]), node)
                if node["type"] == kinds["COMM_COLL_NODE"]:
                    self.assertIn(rank, groups[node["pg_name"].decode()])
                    order.setdefault(node["pg_name"], []).append((node.get("comm_type", 0), node["comm_size"]))
                if node["type"] in (kinds["COMM_SEND_NODE"], kinds["COMM_RECV_NODE"]):
                    key = tuple(node.get(name, 0) for name in ("comm_src", "comm_dst", "comm_tag", "comm_size"))
                    messages[key] = messages.get(key, 0) + (1 if node["type"] == kinds["COMM_SEND_NODE"] else -1)
            for name, each in order.items():
                self.assertEqual(met.setdefault(name, each), each)
        self.assertEqual(set(messages.values()) - {0}, set())
        return met, messages

    def test_ranks_meet(self):
        for plan in PLANS if LONG else self.PLANS:
            with self.subTest(str(plan)), e2e.scratch() as folder:
                done = emit(folder, plan, "chakra")
                self.assertEqual(done.returncode, 0, done.stderr)
                met, messages = self.check_ranks(folder, plan[1])
                self.assertEqual(bool(met or messages), plan[1] > 1)
                if "cp=" not in plan[2] or "cp_kind" in plan[2]:  # without cp_kind, either kind can be the best
                    self.assertEqual(bool(messages), "pp=" in plan[2] or "ring" in plan[2])


class Models(unittest.TestCase):
    """The target builds the requested model, as far as the model's graph shows it."""

    def flags_of(self, plan):
        with e2e.scratch() as folder:
            done = emit(folder, plan, "report,megatron")
            self.assertEqual(done.returncode, 0, done.stderr)
            return dict(re.findall(r"^  --([\w-]+)(?: (\S+))?", read(folder, "megatron.sh"), re.M))

    def test_megatron_builds_the_layers_of_the_model(self):
        flags = self.flags_of(("gpt2-tiny", 2, "dp=2"))
        self.assertTrue({"swiglu", "num-experts", "disable-bias-linear", "untie-embeddings-and-output-weights", "rotary-base"}.isdisjoint(flags), flags)
        self.assertIn("no-bias-gelu-fusion", flags)  # the kernel of biases and gelu has tanh
        self.assertEqual([flags[flag] for flag in ("vocab-size", "position-embedding-type", "max-position-embeddings", "hidden-dropout", "norm-epsilon")],
                         ["512", "learned_absolute", "64", "0.0", "1e-05"])
        self.assertNotIn("no-bias-gelu-fusion", self.flags_of(("gpt", 2, "dp=2")))
        flags = self.flags_of(("llama-tiny", 2, "dp=2"))
        self.assertTrue({"swiglu", "disable-bias-linear", "untie-embeddings-and-output-weights"} <= set(flags), flags)
        self.assertEqual([flags[flag] for flag in ("normalization", "position-embedding-type", "rotary-base")], ["RMSNorm", "rope", "10000"])
        self.assertEqual(self.flags_of(("llama", 2, "dp=2"))["rotary-base"], "500000")

    def test_megatron_builds_the_experts_of_the_model(self):
        flags = self.flags_of(("moe-shared", 2, "dp=2,ep=2"))
        expected = {"num-experts": "4", "moe-ffn-hidden-size": "96", "ffn-hidden-size": "160", "moe-router-topk": "2", "moe-shared-expert-intermediate-size": "192",
                    "moe-layer-freq": '"([0]*1+[1]*3)"', "moe-expert-capacity-factor": "1", "moe-router-load-balancing-type": "none"}
        self.assertEqual({flag: flags[flag] for flag in expected}, expected)
        self.assertTrue({"moe-layer-freq", "moe-shared-expert-intermediate-size"}.isdisjoint(self.flags_of(("moe", 2, "dp=2"))))

    def test_megatron_refuses_models_that_its_flags_do_not_describe(self):
        with e2e.scratch() as folder:
            for family, why in (("bloom", "normalizes the input"), ("mpt", "adds no mask"), ("bert", "normalizes the input")):
                e2e.must([e2e.tool("dpc-model"), family, "--layers=2", "--hidden=64", "--heads=4", "-o", f"{folder}/{family}.onnx"])
                done = e2e.call([e2e.tool("dpc-opt"), f"{folder}/{family}.onnx", "--cluster=local:2", "--global-batch=8", "--verify=off", "--emit=megatron",
                                 "--strategy=dp=2", "-o", f"{folder}/out"])
                self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
                self.assertRegex(done.stderr, f"--emit=megatron: .* cannot be expressed: Megatron-LM {why}")
            done = emit(folder, ("moe-tiny", 2, "dp=2"), "megatron")  # each of its layers has a feed-forward part and experts
            self.assertRegex(done.stderr, "cannot be expressed: Megatron-LM's feed-forward parts have one activation$")

    def test_settings_are_written_or_said_not_to_be(self):
        with e2e.scratch() as folder:
            done = emit(folder, ("gpt2-tiny", 2, "dp=2,zero=2"), "report,torchtitan,galvatron", "--lr-schedule=cosine,warmup=10,total=100,min=1e-5", "--loss-scale=128",
                        "--frozen=body.wpe.weight")
            self.assertEqual(done.returncode, 0, done.stderr)
            config = tomllib.loads(read(folder, "torchtitan.toml"))
            remarks = e2e.read_report(f"{folder}/out")["remarks"]
            comment = "not expressed: --loss-scale=128; --frozen=body.wpe.weight (requires_grad is the model's)"
            self.assertIn(f"# {comment}\n", read(folder, "torchtitan.toml"))
        self.assertEqual(config["training"]["max_norm"], 1)
        self.assertEqual({key: round(value, 9) if key == "min_lr_factor" else value for key, value in config["lr_scheduler"].items()},
                         {"warmup_steps": 10, "total_steps": 100, "decay_type": "cosine", "min_lr_factor": 0.01})
        self.assertIn(f"torchtitan.py: {comment}", remarks)
        self.assertTrue(any(text.startswith("galvatron.json: not expressed: AdamW (lr=0.001, betas=0.9, 0.999, ") and "--clip-grad-norm=1; --lr-schedule=cosine" in text
                            for text in remarks), remarks)

    def test_megatron_has_programs_for_models_of_tokens_only(self):
        with e2e.scratch() as folder:
            words = ["--cluster=local:2", "--global-batch=8", "--verify=off", "--emit=megatron", "--strategy=dp=2", "-o", f"{folder}/out"]
            e2e.must([e2e.tool("dpc-model"), "vit", "--layers=2", "--hidden=64", "--heads=4", "-o", f"{folder}/vit.onnx"])
            # bert-tiny is a classifier.
            for path in (f"{folder}/vit.onnx", *map(e2e.model, ("bert-tiny", "dit-tiny", "resnet-tiny"))):
                done = e2e.call([e2e.tool("dpc-opt"), path, *words])
                self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
                self.assertRegex(done.stderr, "--emit=megatron: .* cannot be expressed: Megatron-LM's scripts train .* for each token$")

    def test_accelerate_reads_words_and_no_truth_values(self):
        """YAML 1.1 reads no and NO as false."""
        with e2e.scratch() as folder:
            e2e.must([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), "--cluster=local:1", "--global-batch=8", "--precision=fp32", "--verify=off", "--emit=accelerate",
                      "--strategy=dp=1", "-o", f"{folder}/out"])
            text = read(folder, "accelerate.yaml")
        self.assertIn('mixed_precision: "no"\n', text)
        self.assertIn('distributed_type: "NO"\n', text)

    def test_accelerate_on_several_machines_says_where_they_meet(self):
        cluster = os.path.join(e2e.SOURCE, "examples", "clusters", "a100-2x8.json")
        with e2e.scratch() as folder:
            e2e.must([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), f"--cluster={cluster}", "--global-batch=16", "--precision=bf16", "--verify=off",
                      "--emit=report,accelerate", "--strategy=dp=16,zero=3", "-o", f"{folder}/out"])
            config = read_yaml(read(folder, "accelerate.yaml"))
            remarks = e2e.read_report(f"{folder}/out")["remarks"]
        self.assertEqual((config["main_process_ip"], config["main_process_port"]), ("MAIN_PROCESS_IP", 29500))
        self.assertTrue(any("fill in main_process_ip" in text for text in remarks), remarks)


class Command(unittest.TestCase):
    def test_several_at_once_beside_a_plan(self):
        with e2e.scratch() as folder:
            done = emit(folder, ("gpt2-tiny", 2, "dp=2,zero=2"), "plan,megatron,deepspeed", "--init=random:1")
            self.assertEqual(done.returncode, 0, done.stderr)
            index = json.loads(read(folder, "index.json"))
            self.assertEqual(index["files"], ["ds_config.json", "megatron.sh"])
            self.assertTrue(os.path.exists(f"{folder}/out/plan.json"))
            again = emit(folder, ("gpt2-tiny", 2, "dp=2"), "plan,report", "--init=random:1")
            self.assertEqual(again.returncode, 0, again.stderr)
            self.assertFalse(os.path.exists(f"{folder}/out/exports"))

    def test_what_is_legal_is_written_beside_what_is_refused(self):
        """One line for each refusal, exit status 1, and always the report."""
        with e2e.scratch() as folder:
            done = emit(folder, ("gpt2-tiny", 4, "cp=4,cp_kind=ulysses"), "torchtitan,report,deepspeed,accelerate")
            self.assertEqual(done.returncode, 1)
            lines = done.stderr.splitlines()
            self.assertEqual([re.match(r"dpc-opt: error: --emit=(\w+): \S+ cannot be expressed", line)[1] for line in lines], ["accelerate", "torchtitan"])
            self.assertEqual(json.loads(read(folder, "index.json"))["files"], ["ds_config.json"])
            self.assertTrue(os.path.exists(f"{folder}/out/report.json"))
            shutil.rmtree(f"{folder}/out")
            done = emit(folder, ("gpt2-tiny", 4, "cp=4,cp_kind=ulysses"), "torchtitan,report,accelerate")
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 2), done.stderr)
            self.assertTrue(os.path.exists(f"{folder}/out/report.json"))
            self.assertFalse(os.path.exists(f"{folder}/out/exports"))

    def test_a_step_too_long_for_chakra_leaves_the_rest(self):
        with e2e.scratch() as folder:
            done = subprocess.run([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), f"--cluster={os.path.join(e2e.SOURCE, 'examples', 'clusters', 'dgx-h100-128.json')}",
                            "--global-batch=8192", "--strategy=dp=1024,micro_batch=1", "--verify=off", "--emit=report,chakra,deepspeed", "-o", f"{folder}/out"],
                                  capture_output=True, text=True, timeout=e2e.TIMEOUT_SECONDS)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
            self.assertIn("--emit=chakra: the steps of 1024 ranks have more than 1000000 nodes", done.stderr)
            self.assertEqual(json.loads(read(folder, "index.json"))["files"], ["ds_config.json"])
            self.assertTrue(os.path.exists(f"{folder}/out/report.json"))

    def test_what_the_targets_software_makes_of_it_is_said(self):
        """The target needs more memory than a plan: for its libraries and allocator, and 16-bit gradients besides their sums."""
        cluster = os.path.join(e2e.SOURCE, "examples", "clusters", "a100-2x8.json")
        with e2e.scratch() as folder:
            words = [e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), "--global-batch=16", "--verify=off", "--emit=report,megatron,deepspeed",
                     "--strategy=dp=8,tp=2,zero=1,micro_batch=2", "-o", f"{folder}/out"]
            said = e2e.must([*words, f"--cluster={cluster}", "--precision=bf16"])
            self.assertIn("--emit=megatron: with megatron-core-2024 the plan is expected to take ", said)
            expected = json.loads(read(folder, "index.json"))["expected"]
            self.assertEqual(list(expected), ["megatron"])  # DeepSpeed has no profile
            here = e2e.read_report(f"{folder}/out")["chosen"]["predicted"]
            self.assertGreater(expected["megatron"]["memory_bytes"], here["memory_bytes"]["peak"] + 7 * 2**30)
            self.assertGreater(expected["megatron"]["step_seconds"], here["step_seconds"])
            self.assertIs(expected["megatron"]["fits"], True)
            e2e.must([*words, f"--cluster={cluster}", "--precision=fp32"])  # without fitted constants
            self.assertNotIn("expected", json.loads(read(folder, "index.json")))

    def test_exports_of_others_stay(self):
        with e2e.scratch() as folder:
            os.makedirs(f"{folder}/out/exports")
            with open(f"{folder}/out/exports/ds_config.json", "w") as file:
                file.write("{}")
            done = emit(folder, ("gpt2-tiny", 2, "dp=2"), "deepspeed")
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
            self.assertIn("dpc-opt did not write 'exports", done.stderr)

    def test_keys_that_the_target_lacks_are_refused(self):
        with e2e.scratch() as folder:
            done = emit(folder, ("gpt2-tiny", 4, "pp=2,zero=3"), "deepspeed")
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
            self.assertRegex(done.stderr, r"schedule=zb-h1,micro_batch=\d+ cannot be expressed: DeepSpeed has these schedules.*; no strategy that it can express fits$")
            self.assertTrue(os.path.exists(f"{folder}/out/report.json"))

    def test_the_nearest_plan_fits(self):
        """Llama-3 405B: only Megatron-LM can express the winner, and the nearest strategy of the others does not fit in memory."""
        with e2e.scratch() as folder:
            e2e.must([e2e.tool("dpc-model"), "llama", "--layers=126", "--hidden=16384", "--ffn=53248", "--heads=128", "--kv-heads=8", "--vocab=128256",
                      "--seq=8192", "-o", f"{folder}/llama.onnx"])
            words = [e2e.tool("dpc-opt"), f"{folder}/llama.onnx", f"--cluster={e2e.SOURCE}/examples/clusters/dgx-h100-128.json",
                     "--global-batch=1024", "--precision=bf16", "--verify=off", "-o", f"{folder}/out"]
            e2e.must([*words, "--emit=deepspeed"])
            remarks = [text for text in e2e.read_report(f"{folder}/out")["remarks"] if text.startswith("--emit=deepspeed: the file has ")]
            self.assertEqual(len(remarks), 1)
            named = re.search(r"--strategy=(\S+) \(([\d.]+) s a step, [\d.]+ % slower, ([\d.]+) GiB\)", remarks[0])
            self.assertTrue(named, remarks)
            e2e.must([*words, "--emit=deepspeed", f"--strategy={named[1]}"])
            chosen = e2e.read_report(f"{folder}/out")["chosen"]
            self.assertTrue(chosen["fits"])
            self.assertAlmostEqual(chosen["predicted"]["step_seconds"], float(named[2]), delta=0.005 * float(named[2]))
            self.assertAlmostEqual(chosen["predicted"]["memory_bytes"]["peak"] / 2**30, float(named[3]), delta=0.005 * float(named[3]))

    def test_options_without_a_report_are_refused(self):
        for option in ("--what-if", "--report=json"):
            with e2e.scratch() as folder:
                done = emit(folder, ("gpt2-tiny", 2, "dp=2"), "mlir", option)
                self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
                self.assertIn(f"{option} is for the report", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
