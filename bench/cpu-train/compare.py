#!/usr/bin/env python3
"""Trains the same model alternately in PyTorch and in dpc, and prints tokens per second.

    compare.py PYTHON_WITH_TORCH DPC_RUN FOLDER [--model=gpt|mixture] [--compile] [--rounds=N] [--steps=N] [--ranks=1,2]

FOLDER holds batches/ and the plans plan-1, plan-2 (see `run`). For each number of ranks, a round runs PyTorch and
then dpc, so that a change in the machine's speed affects both. The ratio is computed per round. The first two steps
of a run are warm-up.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
TOKENS = 8 * 128
WARM_UP = 2
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def run_torch(options, ranks):
    output = subprocess.run(
        [options.python, HERE / "train_torch.py", options.model, str(ranks), str(options.steps), *(["--compile"] if options.compile else [])],
        env=ENVIRONMENT, check=True, text=True, stdout=subprocess.PIPE).stdout
    result = json.loads(output.splitlines()[-1])
    return result["seconds"], result["loss"], "PyTorch " + result["version"] + (", compiled" if options.compile else "")


def run_dpc(options, ranks):
    metrics = options.folder / "metrics.jsonl"
    metrics.unlink(missing_ok=True)
    subprocess.run(
        [options.dpc_run, options.folder / f"plan-{ranks}", "--threads=1",
         f"--batches={options.folder / 'batches'}", f"--steps={options.steps}",
         f"--metrics={metrics}"],
        env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    return [row["step_seconds"] for row in rows], rows[-1]["loss"], "dpc"


def speed(seconds):
    return TOKENS / statistics.median(seconds[WARM_UP:])


def compare(options, ranks, rounds):
    print(f"\n{ranks} rank{'s' if ranks > 1 else ''}, 1 thread each"
          f"{' (PyTorch: DistributedDataParallel over gloo)' if ranks > 1 else ''}")
    print(f"  {'':30} {'tokens/s, median':>17} {'best step':>10} {'last loss':>10}")
    for side in (0, 1):
        runs = [pair[side] for pair in rounds]
        best = TOKENS / min(min(run[0][WARM_UP:]) for run in runs)
        print(f"  {runs[0][2]:30} {statistics.median(speed(run[0]) for run in runs):17.0f} "
              f"{best:10.0f} {runs[0][1]:10.5f}")
    ratios = sorted(speed(dpc[0]) / speed(torch[0]) for torch, dpc in rounds)
    print(f"  dpc / PyTorch: {statistics.median(ratios):.2f} "
          f"(by round {ratios[0]:.2f} to {ratios[-1]:.2f}, {len(ratios)} rounds)")
    difference = abs(rounds[0][0][1] - rounds[0][1][1])
    if difference > 1e-3:
        sys.exit(f"the losses differ by {difference}: this compares different programs")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("python")
    parser.add_argument("dpc_run")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--model", choices=["gpt", "mixture"], default="gpt")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--ranks", default="1,2")
    options = parser.parse_args()
    counts = [int(count) for count in options.ranks.split(",")]
    results = {count: [] for count in counts}
    for number in range(options.rounds):
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
        for count in counts:
            results[count].append((run_torch(options, count), run_dpc(options, count)))
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, fp32, "
          f"{options.steps - WARM_UP} timed steps a run")
    for count in counts:
        compare(options, count, results[count])


main()
