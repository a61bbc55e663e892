#!/usr/bin/env python3
"""Compares overlapped with exposed communication for one plan on two MPI ranks on two hosts behind a slow link.

Trains a transformer with 3 million parameters data-parallel; gradients are reduced in buckets during the backward
pass. Rounds alternate between the two modes of the same plan. Prints milliseconds per step (median of a run), the
ratio per round, and from a trace how much communication overlaps with computation.
"""
import argparse
import os
import random
import statistics

import e2e
import odd_models
import onnx
import two_hosts


def write_model(folder):
    builder = odd_models.Builder(random.Random(1))
    model = odd_models.transformer(builder, blocks=4, heads=4, head=64, length=128, vocabulary=1024, inner=1024)
    onnx.save(model, f"{folder}/model.onnx")


def compile_plan(folder, bucket_mb, strategy):
    e2e.must([e2e.tool("dpc-opt"), f"{folder}/model.onnx", "--cluster=local:2", "--global-batch=8", f"--strategy={strategy}",
              "--verify=off", f"--bucket-mb={bucket_mb}", "-o", f"{folder}/plan"])


def train(hosts, folder, words, steps):
    """Returns the median seconds of a step (without the first two), and the seconds of all and of overlapped communication per step."""
    e2e.must(hosts.mpirun(per_host=1) + [e2e.tool("dpc-run"), f"{folder}/plan", "--comm=mpi", "--threads=1", f"--steps={steps}",
                                         f"--metrics={folder}/metrics.jsonl", f"--trace={folder}/trace.json", *words])
    seconds = [row["step_seconds"] for row in e2e.read_metrics(f"{folder}/metrics.jsonl")][2:]
    communication, hidden = e2e.overlap_seconds(f"{folder}/trace.json")
    return statistics.median(seconds), communication / steps, hidden / steps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="folder for the model, the plan and the last traces")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--gigabits", type=float, default=1.0, help="speed of the link in Gbit/s")
    parser.add_argument("--bucket-mb", type=int, default=2)
    parser.add_argument("--strategy", default="dp=2", help="strategy for two ranks, such as dp=2,zero=3")
    arguments = parser.parse_args()
    why = two_hosts.why_not()
    if why:
        e2e.skip(why)
    os.makedirs(arguments.out, exist_ok=True)
    write_model(arguments.out)
    compile_plan(arguments.out, arguments.bucket_mb, arguments.strategy)
    ratios = []
    with two_hosts.TwoHosts(bits_per_second=int(arguments.gigabits * 1e9)) as hosts:
        for number in range(arguments.rounds):
            beside, sent, hidden = train(hosts, arguments.out, [], arguments.steps)
            os.replace(f"{arguments.out}/trace.json", f"{arguments.out}/trace-overlap.json")
            turn, sent_in_turn, _ = train(hosts, arguments.out, ["--no-overlap"], arguments.steps)
            ratios.append(turn / beside)
            kinds = [(kind, *e2e.overlap_seconds(f"{arguments.out}/trace-overlap.json", kind=kind))
                     for kind in ("all_reduce", "reduce_scatter", "all_gather")]
            print("overlapped, by kind: " + ", ".join(f"{kind} {part / whole:.0%}" for kind, whole, part in kinds if whole))
            print(f"round {number}: overlapped {beside * 1e3:.0f} ms (communication {sent * 1e3:.0f} ms, {hidden / sent:.0%} hidden), "
                  f"exposed {turn * 1e3:.0f} ms (communication {sent_in_turn * 1e3:.0f} ms), ratio {ratios[-1]:.2f}",
                  flush=True)
    print(f"exposed / overlapped: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) at {arguments.gigabits:g} Gbit/s, "
          f"load {os.getloadavg()[0]:.1f}; trace in {arguments.out}/trace-overlap.json")


if __name__ == "__main__":
    main()
