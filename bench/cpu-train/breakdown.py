#!/usr/bin/env python3
"""Shows how long each instruction of a step takes.

    breakdown.py PLAN TRACE.json [--top=N]

TRACE.json is the output of `dpc-run PLAN --trace=TRACE.json`. Rank 0's compute queue is summed over equal
instructions. For each instruction only the fastest steps count (the mean of the faster half), so that a busy machine
has little effect.
"""
import argparse
import collections
import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import traces


def describe(instruction, buffers):
    """Returns (label, FLOPs, bytes) of one execution."""
    if instruction["op"] == "matmul":
        m = instruction
        flops = 2.0 * m["m"] * m["n"] * m["k"] * m.get("batch", 1) * m.get("batch2", 1)
        turned = "".join("T" if m.get(t) else "N" for t in ("trans_a", "trans_b"))
        batch = m.get("batch", 1) * m.get("batch2", 1)
        label = f"matmul {turned} {m['m']}x{m['n']}x{m['k']}" + (f" x{batch}" if batch > 1 else "")
        beta = " +=" if m.get("beta") else ""
        return label + beta, flops, 0
    used = set(instruction.get("buffers", []))
    moved = sum(buffers[b]["bytes"] for b in used)
    shapes = " ".join("x".join(map(str, buffers[b]["shape"])) or "1"
                      for b in sorted(used, key=lambda b: -buffers[b]["bytes"])[:2])
    return f"{instruction['op']} {instruction['name'].split('/')[-1]} [{shapes}]", 0, moved


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plan", type=pathlib.Path)
    parser.add_argument("trace", type=pathlib.Path)
    parser.add_argument("--top", type=int, default=25)
    options = parser.parse_args()
    plan = json.loads((options.plan / "plan.json").read_text())
    lane = traces.lane_of(plan)
    runs = traces.durations_of(json.loads(options.trace.read_text()), lane)
    steps = len(runs[0])
    rows = collections.defaultdict(lambda: [0, 0.0, 0.0, 0])
    for (instruction, _), times in zip(lane, map(sorted, runs)):
        label, flops, moved = describe(instruction, plan["buffers"])
        row = rows[label]
        row[0] += 1
        row[1] += statistics.mean(times[:max(1, steps // 2)])
        row[2] += flops
        row[3] += moved
    total = sum(row[1] for row in rows.values())
    print(f"{steps} steps, {len(lane)} instructions, {total / 1e3:.1f} ms a step")
    print(f"{'ms':>8} {'%':>5} {'runs':>5}  {'rate':>12}  instruction")
    for label, (runs, time, flops, moved) in sorted(
            rows.items(), key=lambda item: -item[1][1])[:options.top]:
        rate = f"{flops / time / 1e3:.1f} GFLOP/s" if flops else f"{moved / time / 1e3:.1f} GB/s"
        print(f"{time / 1e3:8.2f} {100 * time / total:5.1f} {runs:5d}  {rate:>12}  {label}")


main()
