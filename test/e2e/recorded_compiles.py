#!/usr/bin/env python3
"""The compiler decides, predicts and writes the same as when test/fixtures/compiles was recorded.

    recorded_compiles.py [PART/PARTS]       compares; exit 1 with each field that differs
    recorded_compiles.py --record           writes test/fixtures/compiles/recorded.json
    recorded_compiles.py "--only=NAME;..."  compares these; with --record, keeps the other records

A refactoring changes nothing here. A change that intentionally changes decisions, predictions or plans updates the
recording in the same commit, and its message says which fields changed and why.

For each compile this compares the chosen strategy, the predicted seconds and bytes to the last digit, a hash of
plan.json without its format version, the name of the loss (loss_output.py) and the settings (data.py), a hash of the compiled
kernels if the same LLVM compiles them, and a hash of each exported file. Clusters name their devices and kernels are for a named processor, so the machine does not matter.
"""
import hashlib
import json
import os
import shutil
import sys

import e2e

sys.path.insert(0, os.path.join(e2e.SOURCE, "bench"))
import planning

RECORD = os.path.join(e2e.SOURCE, "test", "fixtures", "compiles", "recorded.json")
EXPORTS = ("accelerate", "calculon", "chakra", "colossalai", "deepspeed", "galvatron", "megatron", "torchtitan")
GPU = "--target-gpu=sm_90"
BF16 = "--precision=bf16"

# Model of test/fixtures/models, ranks, strategy, further options.
FIXTURES = [
    ("mlp", 4, "auto"), ("mlp", 3, "dp=3,zero=2"), ("mlp", 2, "tp=2", GPU, BF16), ("mlp.pt2", 2, "dp=2"),
    ("gpt2-tiny", 4, "auto"), ("gpt2-tiny", 4, "auto", BF16, GPU), ("gpt2-tiny", 8, "dp=2,tp=2,pp=2,micro_batch=2"),
    ("gpt2-tiny", 4, "dp=2,tp=2,sp=true,zero=1", GPU, BF16), ("gpt2-tiny", 4, "dp=4,zero=3,hybrid_shard=2,micro_batch=1"),
    ("gpt2-tiny", 8, "tp=2x2x2"), ("gpt2-tiny", 2, "pp=2,micro_batch=1,schedule=zb-h1"), ("gpt2-tiny", 2, "dp=2,offload=all"),
    ("gpt2-tiny", 6, "cp=2,tp=3,sp=true,zero=3,micro_batch=6"), ("gpt2-tiny", 2, "dp=2,micro_batch=1,batch_shares=3:1"),
    ("gpt2-tiny", 4, "dp=4", "--compress-gradients=int8"), ("gpt2-tiny", 4, "dp=4", "--compress-gradients=topk:0.05"),
    ("gpt2-tiny", 2, "dp=2,zero=3", "--compress-weights=int8"), ("gpt2-tiny", 2, "tp=2", "--precision=fp16", GPU),
    ("gpt2-tiny", 2, "dp=2", "--precision=fp8", GPU), ("gpt2-tiny.pt2", 4, "dp=2,tp=2"), ("gpt2-tiny", 2, "tp=2", "--infer"),
    ("llama-tiny", 4, "auto"), ("llama-tiny", 4, "dp=2,cp=2,cp_kind=ulysses,zero=2", BF16, GPU),
    ("llama-tiny", 4, "cp=4,cp_kind=ring", BF16), ("llama-tiny", 4, "dp=2,tp=2,zero=3,micro_batch=2,recompute=full"),
    ("llama-tiny", 4, "dp=2,tp=2,recompute=selective,micro_batch=2", GPU, "--precision=fp32"), ("llama-tiny", 8, "dp=4,tp=2,zero=3,hybrid_shard=2,placement=dp.tp.dpi"),
    ("bert-tiny", 4, "auto", BF16, GPU), ("bert-tiny", 4, "dp=2,pp=2,micro_batch=1,zero=3"), ("bert-tiny", 4, "dp=2,pp=2,vpp=2,micro_batch=1"),
    ("moe-tiny", 4, "auto"), ("moe-tiny", 4, "dp=4,ep=4,zero=2", BF16, GPU), ("moe-tiny", 4, "dp=2,tp=2,ep=4,sp=true"),
    ("moe-capacity", 4, "dp=2,tp=2,ep=2"), ("dit-tiny", 4, "auto", BF16, GPU), ("dit-tiny", 2, "pp=2,micro_batch=2,recompute=full"),
    ("resnet-tiny", 4, "auto"), ("resnet-tiny", 2, "dp=2,micro_batch=2", BF16, GPU),
]
# Compiles that also export files.
EXPORTED = {"gpt2-tiny-4-auto", "llama-tiny-4-auto", "moe-tiny-4-auto", "bert-tiny-4-auto-bf16-sm_90",
            "gpt2-tiny-8-dp=2,tp=2,pp=2,micro_batch=2", "gpt2-tiny-4-dp=2,tp=2,sp=true,zero=1-sm_90-bf16"}


def digest(data):
    return hashlib.sha256(data).hexdigest()[:20]


def write_local_cluster(folder, ranks, device):
    """A node with `ranks` devices: cpu-local as in its file, whatever this machine is, or H100."""
    path = os.path.join(folder, f"{device}-{ranks}.json")
    rate = 10 if device == "cpu-local" else 450
    e2e.write_json(path, {"version": 1, "name": f"{ranks} x {device}", "groups": [{"nodes": 1, "devices_per_node": ranks, "device": device}],
                          "levels": [{"name": "link", "span": "node", "gigabytes_per_second": rate, "latency_microseconds": 2, "kind": "switch"}],
                          "host": {"memory_gibibytes": 64, "pcie_gigabytes_per_second": 10, "nvme_gigabytes_per_second": 1}})
    return path


def fixture_name(model, ranks, strategy, *words):
    return "-".join([model, str(ranks), strategy, *(word.lstrip("-").split("=")[-1] for word in words)])


def compile_fixture(folder, model, ranks, strategy, *words):
    name, _, kind = model.partition(".")
    cluster = write_local_cluster(folder, ranks, "h100-sxm-80gb" if GPU in words else "cpu-local")
    emit = "plan,report"
    if fixture_name(model, ranks, strategy, *words) in EXPORTED:
        emit += "," + ",".join(EXPORTS)
    out = os.path.join(folder, "plan")
    done = e2e.call([e2e.tool("dpc-opt"), os.path.join(e2e.MODELS, name, f"model.{kind or 'onnx'}"), f"--cluster={cluster}", "--global-batch=12",
                     f"--strategy={strategy}", "--target-cpu=x86-64-v3", "--verify=off", f"--emit={emit}",
                     *([] if "--infer" in words else ["--clip-grad-norm=1"]), "-o", out, *words])
    # A target that cannot express the strategy is refused. All other files are written.
    if done.returncode and (emit == "plan,report" or not os.path.exists(os.path.join(out, "plan.json"))):
        raise e2e.ToolError(done.stderr.strip()[-600:])
    return out


def numbers(value, path=""):
    """Yields the numbers of a JSON value, by path, without intervals, which change with every measured run."""
    if isinstance(value, dict):
        return {name: number for key, one in value.items() if key != "interval" for name, number in numbers(one, f"{path}.{key}" if path else key).items()}
    return {path: repr(value)} if isinstance(value, (int, float)) and not isinstance(value, bool) else {}


def plan_facts(path):
    """Returns hashes of the plan and of its kernels, which another version of LLVM compiles differently."""
    plan = e2e.read_json(path)
    del plan["version"], plan["checksum"], plan["loss_output"], plan["settings"]
    for port in plan["inputs"] + plan["outputs"]:
        del port["batch_dim"], port["first"], port["use"]
    for file in plan["source_files"]:
        if not os.path.isabs(file["file"]):  # folded tables, computed with this machine's mathematical functions
            del file["hash"]
    kernels = plan.pop("kernel_hash")
    return {"plan": digest(json.dumps(plan, sort_keys=True).replace(e2e.SOURCE, "").encode()), "kernels": kernels}


def compiler_version():
    found = shutil.which("clang++-22")
    return e2e.must([found, "--version"]).splitlines()[0] if found else "unknown"


def facts_of(out):
    report = e2e.read_json(os.path.join(out, "report.json"))
    chosen = report["chosen"]
    facts = {f"strategy.{key}": value for key, value in chosen["strategy"].items()}
    facts.update({f"predicted.{key}": value for key, value in numbers(chosen["predicted"]).items()})
    facts["candidates"] = digest(json.dumps([[one["strategy"], numbers(one["predicted"])] for one in report["candidates"]]).encode())
    facts["considered"] = report["search"]["considered"]
    if os.path.exists(os.path.join(out, "plan.json")):
        facts.update(plan_facts(os.path.join(out, "plan.json")))
    exports = os.path.join(out, "exports")
    for folder, _, names in sorted(os.walk(exports)):
        for name in sorted(names):
            with open(os.path.join(folder, name), "rb") as file:
                facts[f"export.{name}"] = digest(file.read().replace(e2e.SOURCE.encode(), b"").replace(os.path.dirname(out).encode(), b""))
    return facts


def published_facts(folder, case):
    model = planning.write_model(folder, case.name, case.family, **case.dims)
    cluster = planning.write_cluster(folder, *case.cluster)
    facts = {}
    for prefix, words in (("chosen", ()), ("published", (f"--strategy={case.strategy}",))):
        planning.Planned(folder, model, cluster, case.batch, f"--precision={case.precision}", *words)
        facts.update({f"{prefix}.{key}": value for key, value in facts_of(os.path.join(folder, "report")).items()})
    return facts


def all_cases():
    """A function that takes a folder and returns the facts by name."""
    cases = {fixture_name(*words): lambda folder, words=words: facts_of(compile_fixture(folder, *words)) for words in FIXTURES}
    cases.update({case.name: lambda folder, case=case: published_facts(folder, case) for case in e2e.load_program("plan_choice", "bench", "plan-choice", "run").all_cases()})
    return cases


def compare(name, recorded, found, ignored):
    """Prints the differences except `ignored`; returns whether there are none."""
    if recorded is None:
        print(f"{name}: is not recorded; run recorded_compiles.py --record")
        return False
    differing = [key for key in sorted(recorded.keys() | found.keys()) if key not in ignored and recorded.get(key) != found.get(key)]
    for key in differing:
        print(f"{name}: {key} was {recorded.get(key)}, is {found.get(key)}")
    return not differing


def main():
    words = sys.argv[1:]
    cases = all_cases()
    names = list(cases)
    records = "--record" in words
    for word in words:
        if word.startswith("--only="):
            names = word.removeprefix("--only=").split(";")
        elif "/" in word:
            part, parts = map(int, word.split("/"))
            names = names[part - 1::parts]
    in_part = len(words) > 1
    recorded = {"compiler": compiler_version()} if records and not in_part else e2e.read_json(RECORD)
    ignored = {"kernels"} if recorded["compiler"] != compiler_version() else set()
    same = True
    for name in names:
        with e2e.scratch() as folder:
            try:
                found = json.loads(json.dumps(cases[name](folder)))
            except (e2e.ToolError, planning.PlanningError) as error:
                found = {"error": str(error).replace(folder, "").replace(e2e.BIN, "").replace(e2e.SOURCE, "")}
                print(name, found, flush=True)
        if records:
            recorded[name] = found
        else:
            same &= compare(name, recorded.get(name), found, ignored)
        print(f"{name}: {len(found)} facts", flush=True)
    if records:
        os.makedirs(os.path.dirname(RECORD), exist_ok=True)
        with open(RECORD, "w") as file:
            file.write("{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(facts)}" for name, facts in recorded.items()) + "\n}\n")
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
