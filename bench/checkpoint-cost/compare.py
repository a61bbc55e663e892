#!/usr/bin/env python3
"""Measures how long checkpoints delay a training run. Every round measures in turn:

raw      how long it takes to write, sync and rename files as large as those of a checkpoint, and to sync their folder
sync     how long a checkpoint between two steps stops a run
without  how long a run without checkpoints takes
beside   how long the same run takes if it writes checkpoints in the background

Prints sync / raw (limit 1.3) and beside / without - 1 (limit 5 %) as the median of the rounds and their spread. The
exit status is 1 if a limit is missed.
"""
import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import time

import e2e
import odd_models
import onnx

MARK_SYNC, MARK_STALL = 1.3, 0.05


def make_plan(folder, hidden, blocks):
    builder = odd_models.Builder(random.Random(1))
    model = odd_models.transformer(builder, blocks=blocks, heads=hidden // 64, head=64, length=128, vocabulary=1024, inner=4 * hidden)
    onnx.save(model, f"{folder}/model.onnx")
    e2e.must([e2e.tool("dpc-opt"), f"{folder}/model.onnx", "--cluster=local:2", "--global-batch=4", "--strategy=dp=2,zero=1", "--train=adamw",
              "--verify=off", "-o", f"{folder}/plan"])


class Steps:
    """Runs dpc-run and records when it prints each step."""

    def __init__(self, folder, steps, *words):
        metrics = f"{folder}/metrics.jsonl"
        self.said = []
        with subprocess.Popen([e2e.tool("dpc-run"), f"{folder}/plan", "--threads=1", f"--steps={steps}", "--metrics=" + metrics, *words],
                              stdout=subprocess.PIPE, text=True, env=e2e.environment()) as child:
            for line in child.stdout:
                if line.startswith("step "):
                    self.said.append(time.monotonic())
        if child.returncode or len(self.said) != steps:
            sys.exit(f"dpc-run ended with {child.returncode} after {len(self.said)} steps")
        self.seconds = [line["step_seconds"] for line in e2e.read_metrics(metrics)]

    def between(self, first, last):
        """Returns the seconds from the end of step `first` to the end of step `last`; steps count from 1."""
        return self.said[last - 1] - self.said[first - 1]

    def still(self, step):
        """Returns the seconds from the end of `step` to the start of the next step."""
        return self.between(step, step + 1) - self.seconds[step]


def write_raw(folder, sizes, data):
    """Writes files like those of a checkpoint. Returns the seconds that this takes."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    begin = time.monotonic()
    for name, size in sizes.items():
        file = os.open(f"{folder}/{name}.new", os.O_WRONLY | os.O_CREAT, 0o644)
        done = 0
        while done < size:
            done += os.write(file, data[:min(len(data), size - done)])
        os.fsync(file)
        os.close(file)
        os.rename(f"{folder}/{name}.new", f"{folder}/{name}")
    handle = os.open(folder, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)
    return time.monotonic() - begin


def sync_round(folder, data):
    """Returns (seconds of a checkpoint between steps, seconds to only write the same bytes, bytes)."""
    saved = f"{folder}/saved"
    shutil.rmtree(saved, ignore_errors=True)
    run = Steps(folder, 6, "--checkpoint=" + saved, "--checkpoint-every=2", "--checkpoint-sync")
    newest = f"{saved}/step-6"
    sizes = {name: os.path.getsize(f"{newest}/{name}") for name in os.listdir(newest)}
    shutil.rmtree(saved)
    raw = [write_raw(f"{folder}/raw", sizes, data) for _ in range(2)]
    return statistics.mean(run.still(step) for step in (2, 4)), statistics.mean(raw), sum(sizes.values())


def stall_round(folder, every):
    """Returns the seconds that `every` steps take (without checkpoints, while a checkpoint is written in the background)."""
    saved = f"{folder}/saved"
    shutil.rmtree(saved, ignore_errors=True)
    without = Steps(folder, 2 * every).between(every, 2 * every)
    beside = Steps(folder, 2 * every, "--checkpoint=" + saved, f"--checkpoint-every={every}").between(every, 2 * every)
    shutil.rmtree(saved)
    return without, beside


def spread(values, form):
    return f"{form(statistics.median(values))} (by round {form(min(values))} to {form(max(values))}, {len(values)} rounds)"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="folder for the model, the plan and the checkpoints, on the disk to measure")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--every", type=int, default=20, help="steps between background checkpoints")
    arguments = parser.parse_args()
    os.makedirs(arguments.out, exist_ok=True)
    make_plan(arguments.out, arguments.hidden, arguments.blocks)
    data = random.Random(1).randbytes(1 << 22)
    ratios, stalls = [], []
    for number in range(arguments.rounds):
        sync, raw, size = sync_round(arguments.out, data)
        without, beside = stall_round(arguments.out, arguments.every)
        ratios.append(sync / raw)
        stalls.append(beside / without - 1)
        print(f"round {number}: {size / 2**20:.0f} MiB: between steps {sync * 1e3:.0f} ms, raw {raw * 1e3:.0f} ms, ratio {ratios[-1]:.2f}; "
              f"{arguments.every} steps {without * 1e3:.0f} ms, with a background checkpoint {beside * 1e3:.0f} ms, {stalls[-1]:+.1%}", flush=True)
    print(f"between steps / raw: {spread(ratios, '{:.2f}'.format)}, mark {MARK_SYNC}")
    print(f"slowdown by background checkpoints: {spread(stalls, '{:+.1%}'.format)}, mark {MARK_STALL:.0%}; load {os.getloadavg()[0]:.1f}")
    return int(statistics.median(ratios) > MARK_SYNC or statistics.median(stalls) > MARK_STALL)


if __name__ == "__main__":
    sys.exit(main())
