"""Compares the time of a step, by class of instruction, with a lower limit from the operations and bytes (roofline).

The limit (floor) of an instruction is the longer of two times: its operations at the peak rate of the device, and its
bytes at the memory bandwidth. Every buffer that it reads or writes moves once. A kernel with several launches counts
once, and its scratch memory between them does not count. Launch times and caches are ignored, because this is a
lower limit and not an estimate.
"""
import collections
import glob
import json
import math
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import traces

WIDTHS = {"f64": 8, "i64": 8, "u64": 8, "f32": 4, "i32": 4, "u32": 4, "bf16": 2, "f16": 2}


def peaks_of(name, devices):
    """Returns ({type: FLOP/s}, bytes/s, file name) from the file in `devices` whose device name is a prefix of the GPU name, or None."""
    words = name.lower().replace("-", " ").split()
    for path in sorted(glob.glob(os.path.join(devices, "*.json"))):
        with open(path, encoding="utf-8") as file:
            device = json.load(file)
        if device["name"].split("-")[0] in words:
            peaks = {kind: entry["value"] * 1e12 for kind, entry in device["peak_teraflops"].items()}
            return peaks, device["memory_gigabytes_per_second"]["value"] * 1e9, device["name"]
    return None


def class_of(instruction, phase):
    if instruction["op"] != "kernel":
        return instruction["op"].replace("_", " ")
    return {"setup": "kernels of weights", "update": "kernels of the optimizer"}.get(phase, "kernels of " + phase)


def bytes_of(instruction, buffers):
    """Returns the buffers that one instruction reads and writes."""
    if instruction["op"] == "matmul":
        m, n, k, batch = instruction["m"], instruction["n"], instruction["k"], instruction["batch"] * instruction["batch2"]
        width = lambda which: WIDTHS[buffers[instruction[which]]["dtype"]]
        ends = 1 + (instruction["beta"] != 0) + (instruction["aux"] >= 0)
        return batch * (m * k * width("a") + k * n * width("b") + ends * m * n * width("c"))
    if instruction["op"] == "expert_matmul":
        return sum(buffers[instruction[which]]["bytes"] for which in ("x", "ids", "w", "y"))
    if "shape" in instruction: # attention, and its gradient
        s = instruction["shape"]
        width = WIDTHS[s["compute"]]
        q, out = (s["batch"] * s["heads"] * s["queries"] * s[depth] for depth in ("depth", "value_depth"))
        kv = s["batch"] * s["groups"] * s["keys"] * (s["depth"] + s["value_depth"])
        return width * (q + out + kv) * (2 if instruction["op"] == "attention_grad" else 1)
    return sum(buffers[b]["bytes"] for b in set(instruction.get("buffers", [])) if not buffers[b]["name"].endswith("(scratch)"))


def lane_of(plan):
    """Returns (instruction, phase, whether it continues the previous kernel) for a step of rank 0."""
    lane, before = [], None
    for instruction, phase in traces.lane_of(plan):
        what = (phase, instruction["name"], instruction.get("buffers"))
        lane.append((instruction, phase, instruction["op"] == "kernel" and what == before))
        before = what
    return lane


def compute_type(instruction):
    if instruction.get("fp8"):
        return "fp8"
    return instruction.get("compute") or instruction.get("shape", {}).get("compute") or "f32"


def model_flops(plan):
    """Returns the number of operations of GEMMs and attention in a step."""
    return sum(i["flops"] for i, _, _ in lane_of(plan) if i["op"] in ("matmul", "expert_matmul", "conv", "conv_grad", "attention", "attention_grad"))


def floors(plan, peaks, bytes_per_second):
    """Returns {class: (instructions, floor in seconds, operations, bytes)}; `peaks` are operations per second, by type."""
    buffers = {buffer["id"]: buffer for buffer in plan["buffers"]}
    rows = collections.defaultdict(lambda: [0, 0.0, 0.0, 0.0])
    for instruction, phase, goes_on in lane_of(plan):
        flops, moved = (0, 0) if goes_on else (instruction["flops"], bytes_of(instruction, buffers))
        row = rows[class_of(instruction, phase)]
        row[0] += 1
        # Kernels do not use tensor cores and are bound by memory.
        peak = math.inf if instruction["op"] == "kernel" else peaks.get(compute_type(instruction), peaks["f32"])
        row[1] += max(flops / peak, moved / bytes_per_second)
        row[2] += flops
        row[3] += moved
    return {name: tuple(row) for name, row in rows.items()}


def measured(plan, trace):
    """Returns {class: seconds per step} for a trace of dpc-run, from the fastest step of every instruction."""
    lane, seconds = lane_of(plan), collections.Counter()
    for (instruction, phase, _), durations in zip(lane, traces.durations_of(trace, lane)):
        seconds[class_of(instruction, phase)] += min(durations) * 1e-6
    return dict(seconds)


def table(plan, trace, peaks, bytes_per_second):
    """Returns a line for each class: measured milliseconds, floor, and floor / measured."""
    taken, least = measured(plan, trace), floors(plan, peaks, bytes_per_second)
    lines = [f"    {'':26}{'runs':>6}{'measured':>11}{'floor':>11}{'reached':>9}{'TFLOP':>9}{'GB':>8}"]
    for name in sorted(taken, key=taken.get, reverse=True):
        runs, floor, flops, moved = least[name]
        share = f"{100 * floor / taken[name]:.0f} %" if taken[name] > 0 else "-"
        lines.append(f"    {name:26}{runs:6}{taken[name] * 1e3:8.2f} ms{floor * 1e3:8.2f} ms{share:>9}{flops * 1e-12:9.2f}{moved * 1e-9:8.2f}")
    return lines
