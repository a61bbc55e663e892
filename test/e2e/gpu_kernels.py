#!/usr/bin/env python3
"""Plans for GPUs, without a GPU: every kernel assembles, spills nothing, and moves 16 bytes at a time if rows are long.

gpu_kernels.py MODEL PRECISION STRATEGY RANKS, or gpu_kernels.py bench CASE for a case of bench/gpu-train/cases.py at
full size, prints the assembler's statistics of each kernel.
"""
import json
import os
import re
import shutil
import subprocess
import sys

import e2e

# Kernels that only move memory. They must use vector accesses.
STREAMING = ("adamw", "accumulate")


def assembler():
    home = os.environ.get("CUDA_HOME") or "/usr/local/cuda"
    return shutil.which("ptxas") or shutil.which(os.path.join(home, "bin", "ptxas"))


def compile_plan(model, precision, strategy, ranks, target, folder):
    e2e.must([e2e.tool("dpc-opt"), e2e.model(model), f"--cluster=local:{ranks}", "--global-batch=8", f"--precision={precision}",
              f"--strategy={strategy}", "--clip-grad-norm=1", "--verify=off", "--init=random:1", f"--target-gpu={target}", "-o", folder])
    return read(folder)


def compile_bench(case, target, folder):
    from gpu_bench import RUN
    with e2e.scratch() as scratch:
        cluster = RUN.planning.write_cluster(scratch, "h100", 1)
        RUN.compile_case(next(one for one in RUN.CASES if one.name == case), e2e.BIN, target, cluster, folder)
    return read(folder)


def read(folder):
    with open(f"{folder}/plan.json", encoding="utf-8") as file:
        plan = json.load(file)
    with open(f"{folder}/kernels/kernels.ptx", encoding="utf-8") as file:
        return plan, file.read()


def bodies(ptx):
    """Returns the text of each kernel, by name."""
    parts = re.split(r"\.visible \.entry (\w+)\(", ptx)
    return dict(zip(parts[1::2], parts[2::2]))


def assembled(ptxas, path, target):
    """Returns registers, bytes of stack and spills, and static shared memory of each kernel."""
    done = subprocess.run([ptxas, "-v", f"-arch={target}", path, "-o", os.devnull], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-2000:]
    found = {}
    for name, text in re.findall(r"Compiling entry function '(\w+)'.*?\n(.*?)(?=\nptxas info *: Compile time|\Z)", done.stderr, re.S):
        number = lambda pattern, text=text: int((re.search(pattern, text) or [0, 0])[1])
        found[name] = {"registers": number(r"Used (\d+) registers"), "stack": number(r"(\d+) bytes stack frame"),
                       "spills": number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads")}
    return found


def check(compile_for, title, target, ptxas):
    with e2e.scratch() as scratch:
        plan, ptx = compile_for(target, scratch)
        kernels, launches = bodies(ptx), plan["kernel_launches"]
        assert plan["target_gpu"] == target, plan["target_gpu"]
        assert kernels and set(kernels) == set(launches), set(kernels) ^ set(launches)
        streaming = 0
        for name, text in kernels.items():
            assert f".maxntid {launches[name]['threads']}" in text, f"{name} is not bound to its launch"
            if any(word in name for word in STREAMING) and re.search(r"\bld\.global\.(nc\.)?\w*v[24]", text):
                streaming += bool(re.search(r"\bld\.global\S*\.v(4\.[bf]32|2\.[bf]64)", text)) and bool(
                    re.search(r"\bst\.global\S*\.v(4\.[bf]32|2\.[bf]64)", text))
        assert streaming > 0, "no kernel loads and stores 16 bytes"
        refused = e2e.call([e2e.tool("dpc-run"), scratch, "--steps=1"])
        assert refused.returncode == 1 and "--device=cuda" in refused.stderr and len(refused.stderr.splitlines()) == 1, refused.stderr
        found = assembled(ptxas, f"{scratch}/kernels/kernels.ptx", target)
        assert set(found) == set(kernels), set(found) ^ set(kernels)
    print(f"{title} {target}: {len(kernels)} kernels")
    print(f"  {'kernel':34} registers spills  stack shared threads  blocks")
    for name, one in sorted(found.items()):
        launch = launches[name]
        print(f"  {name:34} {one['registers']:9} {one['spills']:6} {one['stack']:6} {launch['shared_bytes']:6} {launch['threads']:7} {launch['blocks']:7}")
    spilled = [name for name, one in found.items() if one["spills"]]
    assert not spilled, f"spills in {spilled}"


def main():
    ptxas = assembler()
    if not ptxas:
        e2e.skip("no ptxas: the CUDA toolkit is in neither PATH, $CUDA_HOME nor /usr/local/cuda")
    for target in ("sm_80", "sm_90"):
        if sys.argv[1] == "bench":
            check(lambda *where: compile_bench(sys.argv[2], *where), sys.argv[2], target, ptxas)
        else:
            check(lambda *where: compile_plan(*sys.argv[1:5], *where), " ".join(sys.argv[1:3]), target, ptxas)


if __name__ == "__main__":
    main()
