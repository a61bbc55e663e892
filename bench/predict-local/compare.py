#!/usr/bin/env python3
"""Predicted against measured step time of plans for this machine's ranks.

Calibrates (`dpc-opt --calibrate`), compiles the PLANS below with that device file, and runs them in turn, several
rounds. Of each plan the median step of its fastest round counts: other load only ever adds time. Printed: predicted and
measured milliseconds of each plan, the mean absolute error, and which place the measured-best plan of each model and
rank count has among the predicted.
"""
import argparse
import os
import statistics

import e2e

# Families and dims for dpc-model, with the samples of a step.
MODELS = {
    "gpt": ("gpt --layers=4 --hidden=256 --heads=4 --seq=128 --vocab=4096", 8),
    "llama": ("llama --layers=4 --hidden=384 --heads=6 --kv-heads=2 --ffn=1024 --seq=256 --vocab=2048", 8),
}
# (model, ranks, strategy)
PLANS = [
    ("gpt", 1, "dp=1"),
    ("gpt", 1, "dp=1,micro_batch=2"),
    ("gpt", 1, "dp=1,recompute=full"),
    ("gpt", 2, "dp=2"),
    ("gpt", 2, "dp=2,zero=1"),
    ("gpt", 2, "dp=2,zero=3"),
    ("gpt", 2, "tp=2"),
    ("gpt", 2, "tp=2,sp=true"),
    ("gpt", 2, "pp=2,micro_batch=1"),
    ("gpt", 2, "pp=2,micro_batch=2,schedule=gpipe"),
    ("gpt", 4, "dp=4"),
    ("gpt", 4, "dp=2,tp=2"),
    ("gpt", 4, "dp=2,pp=2,micro_batch=1"),
    ("gpt", 4, "tp=2,pp=2,micro_batch=2"),
    ("llama", 1, "dp=1"),
    ("llama", 2, "dp=2"),
    ("llama", 2, "dp=2,zero=2"),
    ("llama", 2, "tp=2"),
    ("llama", 2, "pp=2,micro_batch=1"),
    ("llama", 4, "dp=2,tp=2,zero=3"),
    ("llama", 4, "dp=4,zero=1"),
]


class Case:
    def __init__(self, folder, model, ranks, strategy, words):
        self.model, self.ranks, self.strategy = model, ranks, strategy
        self.plan = os.path.join(folder, f"{model}-{ranks}-{strategy}".replace(",", "-").replace("=", ""))
        e2e.must([e2e.tool("dpc-opt"), f"{folder}/{model}.onnx", f"--global-batch={MODELS[model][1]}", "--init=random:1",
                  f"--cluster=local:{ranks}", f"--strategy={strategy}", "--verify=off", "-o", self.plan, *words])
        self.predicted = e2e.read_report(self.plan)["chosen"]["predicted"]["step_seconds"]
        self.rounds = []

    def run(self, steps):
        metrics = f"{self.plan}.jsonl"
        if os.path.exists(metrics):
            os.remove(metrics)
        e2e.must([e2e.tool("dpc-run"), self.plan, f"--steps={steps}", f"--metrics={metrics}"])
        # The first steps page memory in.
        self.rounds.append(statistics.median([row["step_seconds"] for row in e2e.read_metrics(metrics)][2:]))

    @property
    def measured(self):
        return min(self.rounds)

    @property
    def error(self):
        return self.predicted / self.measured - 1


def print_table(cases):
    print(f"{'model':6} {'ranks':>5}  {'strategy':32} {'predicted':>10} {'measured':>10} {'error':>7}")
    for case in cases:
        print(f"{case.model:6} {case.ranks:5}  {case.strategy:32} {case.predicted * 1e3:7.1f} ms {case.measured * 1e3:7.1f} ms {case.error:+7.1%}")
    errors = [abs(case.error) for case in cases]
    print(f"mean absolute error {statistics.mean(errors):.1%}, largest {max(errors):.1%}, {len(cases)} plans, load {os.getloadavg()[0]:.1f}")


def print_places(cases):
    """Where the measured-best plan of each group stands among the predicted."""
    groups = {}
    for case in cases:
        groups.setdefault((case.model, case.ranks), []).append(case)
    for (model, ranks), group in groups.items():
        if len(group) < 2:
            continue
        best = min(group, key=lambda case: case.measured)
        place = 1 + sum(case.predicted < best.predicted for case in group)
        print(f"{model} on {ranks}: measured best {best.strategy}, place {place} of {len(group)} predicted")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="where models, plans and the device file go")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--only", default="", help="plans whose model, ranks and strategy contain this")
    parser.add_argument("--device-file", help="instead of calibrating")
    arguments = parser.parse_args()
    os.makedirs(arguments.out, exist_ok=True)
    device = arguments.device_file or f"{arguments.out}/device.json"
    if not arguments.device_file:
        e2e.must([e2e.tool("dpc-opt"), f"--calibrate={device}"])
    chosen = [plan for plan in PLANS if arguments.only in " ".join(map(str, plan))]
    for model in {plan[0] for plan in chosen}:
        e2e.must([e2e.tool("dpc-model"), *MODELS[model][0].split(), "-o", f"{arguments.out}/{model}.onnx"])
    cases = [Case(arguments.out, *plan, [f"--device-file={device}"]) for plan in chosen]
    for _ in range(arguments.rounds):
        for case in cases:
            case.run(arguments.steps)
    print_table(cases)
    print_places(cases)


if __name__ == "__main__":
    main()
