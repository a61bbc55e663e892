#!/usr/bin/env python3
"""Tiny models of public classes train as in torch under five strategies, or are refused in one line (--long only: installs gigabytes).

usage: classes.py [--all] [--only=NAME,..] [--strategies=NAME,..] [--table=FILE] [--folder=FOLDER]

test/fixtures/classes lists the classes; without --all, 40 of them run. FOLDER keeps what torch exports, so that another run needs no
torch. The Python environment is in $DPC_CLASSES_VENV, or beside the tools. The table has a line for each class and strategy.
"""
import argparse
import math
import os
import re
import subprocess
import sys

import e2e

PACKAGES = ("torch==2.15.*", "torchvision", "transformers==5.24.*", "diffusers>=0.42", "timm", "numpy")
FIXTURES = os.path.join(e2e.SOURCE, "test", "fixtures", "classes")
STRATEGIES = {"auto": 2, "dp=2,tp=2": 4, "dp=2,pp=2,micro_batch=2": 4, "dp=2,zero=3": 2, "tp=3": 3}
WHOLE = "set micro_batch= to the whole batch of a rank"  # the end of a message
LIMIT = 2e-3  # relative, of the losses and the first gradient norm
SHARE = 0.95  # of the exported classes that follow torch, under each strategy
STEPS = 3
TRAINING = ["--global-batch=8", "--train=adamw", "--beta2=0.95", "--eps=1e-6", "--weight-decay=0.1"]


def environment():
    """Returns the Python with the packages; creates it if it does not exist."""
    folder = os.environ.get("DPC_CLASSES_VENV") or os.path.join(os.path.dirname(e2e.BIN), "classes")
    python = os.path.join(folder, "bin", "python")
    complete = os.path.join(folder, "complete")
    if not os.path.exists(complete) and "DPC_CLASSES_VENV" not in os.environ:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES], check=True)
        open(complete, "w").close()
    return python


def refusal(done):
    """(kind, message) of a dpc-opt that failed: it has to say one line and exit with 1."""
    lines = [line for line in done.stderr.strip().splitlines() if line.strip()]
    message = lines[-1] if lines else f"exit {done.returncode} without a message"
    return ("refused" if done.returncode == 1 and len(lines) == 1 else "unclear"), message if done.returncode == 1 else f"exit {done.returncode}: {message}"


def difference(expected, rows):
    """The largest relative difference of the losses and of the first gradient norm."""
    if len(rows) != STEPS:
        return math.inf
    pairs = [(row["loss"], loss) for row, loss in zip(rows, expected["losses"])] + [(rows[0]["grad_norm"], expected["norm"])]
    values = [abs(got - want) / max(abs(want), 1e-6) for got, want in pairs]
    return max(math.inf if math.isnan(value) else value for value in values)


def attempt(folder, record, strategy, scratch):
    """(result, difference, message) of a class under a strategy: follows, wrong, refused, unclear or fails.

    A loss over all pairs of a batch cannot be split into micro-batches: "follows whole" is the strategy that the refusal names.
    """
    result, worst, message = attempt_once(folder, record, strategy, STRATEGIES[strategy], scratch)
    if result == "refused" and message.endswith(WHOLE):
        again = attempt_once(folder, record, strategy.replace("micro_batch=2", "micro_batch=4"), STRATEGIES[strategy], scratch)
        return ("follows whole" if again[0] == "follows" else again[0], again[1], again[2] or message)
    return result, worst, message


def attempt_once(folder, record, strategy, ranks, scratch):
    plan, metrics = os.path.join(scratch, "plan"), os.path.join(scratch, "metrics.jsonl")
    fixed = [] if strategy == "auto" else [f"--strategy={strategy}"]
    try:
        done = e2e.call([e2e.tool("dpc-opt"), os.path.join(folder, "model.pt2"), f"--cluster=local:{ranks}", *fixed, *TRAINING, f"--lr={record['rate']}",
                         "--verify=off", "--emit=plan", "-o", plan])
        if done.returncode:
            return (refusal(done)[0], None, refusal(done)[1])
        run = e2e.call([e2e.tool("dpc-run"), plan, f"--data={os.path.join(folder, 'data')}", f"--steps={STEPS}", f"--metrics={metrics}"])
    except subprocess.TimeoutExpired as error:
        return ("fails", None, f"{os.path.basename(error.cmd[0])} takes more than {error.timeout} s")
    if run.returncode:
        return ("fails", None, f"dpc-run, exit {run.returncode}: {(run.stderr or run.stdout).strip()[-300:]}")
    expected = record.get("halves", record) if "micro_batch=2" in strategy else record
    worst = difference(expected, e2e.read_metrics(metrics))
    return ("follows" if worst <= LIMIT else "wrong", worst, "")


def names_of(words):
    """The names that --only, --all or the sample of 40 choose, without importing torch."""
    with open(os.path.join(FIXTURES, "sample.txt"), encoding="utf-8") as file:
        sample = file.read().split()
    return words.only.split(",") if words.only else None if words.all else sample


def export(folder, names):
    """Exports the classes that the folder lacks; returns the records of the chosen."""
    python = environment()
    listed = names
    if listed is None:
        done = subprocess.run([python, "-B", os.path.join(FIXTURES, "make_classes.py"), "--list"], capture_output=True, text=True, check=True)
        listed = done.stdout.split()
    missing = [name for name in listed if not os.path.exists(os.path.join(folder, name, "record.json"))]
    for first in range(0, len(missing), 25):  # a process for some classes, so that one that dies costs few
        subprocess.run([python, "-B", os.path.join(FIXTURES, "make_classes.py"), folder, *missing[first:first + 25]], stdout=subprocess.DEVNULL)
    return {name: e2e.read_json(os.path.join(folder, name, "record.json")) if os.path.exists(os.path.join(folder, name, "record.json")) else
            {"failed": "export: the process ended"} for name in listed}


def trial(words, folder, write):
    """Runs all; returns {strategy: {result: count}} and the number of exported classes."""
    records = export(folder, names_of(words))
    counts = {strategy: {} for strategy in words.strategies}
    exported = 0
    for name, record in records.items():
        if "failed" in record:
            write(name, "torch", "not exported", None, record["failed"])
            continue
        exported += 1
        for strategy in words.strategies:
            with e2e.scratch() as scratch:
                result, worst, message = attempt(os.path.join(folder, name), record, strategy, scratch)
            write(name, strategy, result, worst, message)
            counts[strategy][result] = counts[strategy].get(result, 0) + 1
    return counts, exported


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only")
    parser.add_argument("--strategies", type=lambda text: text.split("/"), default=list(STRATEGIES))
    parser.add_argument("--table")
    parser.add_argument("--folder")
    words = parser.parse_args()
    if not os.environ.get("DPC_TEST_LONG"):
        e2e.skip("needs gigabytes of packages: runs with --long")
    table = open(words.table, "a", encoding="utf-8") if words.table else None

    def write(name, strategy, result, worst, message):
        line = "\t".join((name, strategy, result, "" if worst is None else f"{worst:.1e}", re.sub(r"\s+", " ", message)))
        print(line, flush=True)
        if table:
            print(line, file=table, flush=True)

    with e2e.scratch() as scratch:
        counts, exported = trial(words, words.folder or scratch, write)
    follow = {strategy: found.get("follows", 0) + found.get("follows whole", 0) for strategy, found in counts.items()}
    bad = [f"{strategy}: {found[result]} {result}" for strategy, found in counts.items() for result in ("wrong", "unclear", "fails") if result in found]
    few = [f"{strategy}: {count} of {exported} follow torch" for strategy, count in follow.items() if count < SHARE * exported]
    print(f"{exported} classes exported;", "; ".join(f"{strategy}: {found}" for strategy, found in counts.items()))
    if bad or few or not exported:
        sys.exit("\n".join([*bad, *few] or ["no class was exported"]))


if __name__ == "__main__":
    main()
