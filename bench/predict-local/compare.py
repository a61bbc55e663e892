#!/usr/bin/env python3
"""Compares predicted and measured step times of plans on this machine.

Calibrates (`dpc-opt --calibrate`), compiles the PLANS below with the result, and runs them in turn in several rounds.
The fastest step of all rounds counts, because calibration measures an idle machine, and other work on the machine or
its host only adds time. The median over all rounds is also printed; a large difference between the two means that the
machine was not idle. Some plans run as MPI processes on two hosts (network namespaces with half of the
cores each) behind a link of --gigabits, whose speed `dpc-run --measure-links` measures. Prints the predicted, fastest
and median milliseconds of each plan, the mean absolute error, the CPU time that the host gave to other guests, and
the predicted rank of the measured-best plan of each group.
"""
import argparse
import contextlib
import copy
import json
import os
import statistics

import e2e
import two_hosts

# The words for dpc-model, and the samples per step.
MODELS = {
    "gpt": ("gpt --layers=4 --hidden=256 --heads=4 --seq=128 --vocab=4096", 8),
    "llama": ("llama --layers=4 --hidden=384 --heads=6 --kv-heads=2 --ffn=1024 --seq=256 --vocab=2048", 8),
}
# (model, ranks, strategy). Ranks are threads, but "2x1" means two hosts with one process each.
PLANS = [
    ("gpt", "1", "dp=1"),
    ("gpt", "1", "dp=1,micro_batch=2"),
    ("gpt", "1", "dp=1,recompute=full"),
    ("gpt", "2", "dp=2"),
    ("gpt", "2", "dp=2,zero=1"),
    ("gpt", "2", "dp=2,zero=3"),
    ("gpt", "2", "tp=2"),
    ("gpt", "2", "tp=2,sp=true"),
    ("gpt", "2", "pp=2,micro_batch=1"),
    ("gpt", "2", "pp=2,micro_batch=2,schedule=gpipe"),
    ("gpt", "4", "dp=4"),
    ("gpt", "4", "dp=2,tp=2"),
    ("gpt", "4", "dp=2,pp=2,micro_batch=1"),
    ("llama", "1", "dp=1"),
    ("llama", "2", "dp=2"),
    ("llama", "2", "dp=2,zero=2"),
    ("llama", "2", "tp=2"),
    ("llama", "2", "pp=2,micro_batch=1"),
    ("llama", "4", "dp=2,tp=2,zero=3"),
    ("llama", "4", "dp=4,zero=1"),
    ("gpt", "2x1", "dp=2"),
    ("gpt", "2x1", "dp=2,zero=3"),
    ("gpt", "2x1", "tp=2"),
    ("gpt", "2x1", "pp=2,micro_batch=1"),
    ("gpt", "2x2", "dp=2,tp=2"),
    ("gpt", "2x2", "tp=2,pp=2,micro_batch=2"),
]


def share_of(device, ranks):
    """Divides `device`, which describes the whole machine, evenly among `ranks` ranks. Returns the part of one rank."""
    part = copy.deepcopy(device)
    scaled = [part["memory_gibibytes"], part["memory_gigabytes_per_second"], part["memory_reserved_gibibytes"],
              *part["peak_teraflops"].values()]
    if "scalar_gigaflops" in part:
        scaled.append(part["scalar_gigaflops"])
    for entry in scaled:
        entry["value"] /= ranks
    part["multiprocessors"]["value"] = max(1, int(part["multiprocessors"]["value"]) // ranks)
    rates = part["gemm"]["measured_gigaflops"]
    for key in ("nn", "nt", "tn"):
        rates[key] = [rate / ranks for rate in rates[key]]
    return part


class Bench:
    def __init__(self, out, device, gigabits):
        self.out, self.device, self.gigabits = out, device, gigabits
        self.clusters, self.hosts = {}, None

    def start_hosts(self, stack):
        self.hosts = stack.enter_context(two_hosts.TwoHosts(bits_per_second=int(self.gigabits * 1e9), own_cores=True))

    def launcher(self, ranks):
        """Returns the words before dpc-run on the command line: none if ranks are threads."""
        return self.hosts.mpirun(int(ranks.split("x")[1])) if "x" in ranks else []

    def measure(self, name, words):
        path = f"{self.out}/links-{name}.txt"
        e2e.must([*words, e2e.tool("dpc-run"), f"--measure-links={path}", "--comm=mpi"])
        return path

    def cluster(self, ranks):
        """Returns the words that describe the target of the plan to dpc-opt."""
        if "x" not in ranks:
            return [f"--cluster=local:{ranks}", f"--device-file={self.device}"]
        if ranks not in self.clusters:
            self.clusters[ranks] = self.write_cluster(ranks)
        return [f"--cluster={self.clusters[ranks]}"]

    def write_cluster(self, ranks):
        hosts, per_host = map(int, ranks.split("x"))
        levels = [{"name": "link", "span": "cluster", "gigabytes_per_second": self.gigabits / 8, "latency_microseconds": 50, "kind": "fat-tree"}]
        links = [self.measure(ranks, self.hosts.mpirun(per_host))]
        if per_host > 1:
            levels.insert(0, {"name": "memory", "span": "node", "gigabytes_per_second": 5, "latency_microseconds": 5, "kind": "shared-memory"})
            links.append(self.measure("host", [*self.hosts.cores[0], *e2e.mpirun(per_host), *e2e.UNBOUND]))
        given, path = f"{self.out}/given-{ranks}.json", f"{self.out}/cluster-{ranks}.json"
        device = share_of(e2e.read_json(self.device), hosts * per_host)
        with open(given, "w") as file:
            json.dump({"version": 1, "name": ranks, "levels": levels,
                       "groups": [{"nodes": hosts, "devices_per_node": per_host, "device": device}]}, file)
        e2e.must([e2e.tool("dpc-opt"), f"--calibrate={path}", f"--cluster={given}", f"--links={','.join(links)}"])
        return path


class Case:
    def __init__(self, bench, model, ranks, strategy):
        self.bench, self.model, self.ranks, self.strategy = bench, model, ranks, strategy
        self.plan = os.path.join(bench.out, f"{model}-{ranks}-{strategy}".replace(",", "-").replace("=", ""))
        e2e.must([e2e.tool("dpc-opt"), f"{bench.out}/{model}.onnx", f"--global-batch={MODELS[model][1]}", "--init=random:1",
                  f"--strategy={strategy}", "--verify=off", "-o", self.plan, *bench.cluster(ranks)])
        self.predicted = e2e.read_report(self.plan)["chosen"]["predicted"]["step_seconds"]
        self.steps = []

    def run(self, steps):
        metrics = f"{self.plan}.jsonl"
        if os.path.exists(metrics):
            os.remove(metrics)
        words = ["--comm=mpi", "--threads=1"] if "x" in self.ranks else []
        e2e.must([*self.bench.launcher(self.ranks), e2e.tool("dpc-run"), self.plan, f"--steps={steps}", f"--metrics={metrics}", *words])
        # The first two steps are slow because they page memory in.
        self.steps += [row["step_seconds"] for row in e2e.read_metrics(metrics)][2:]

    @property
    def measured(self):
        return min(self.steps)

    @property
    def median(self):
        return statistics.median(self.steps)

    @property
    def error(self):
        return self.predicted / self.measured - 1


class Stolen:
    """Measures the fraction of CPU time that the host has given to other guests since the object was created."""
    def __init__(self):
        self.start = self.read()

    @staticmethod
    def read():
        with open("/proc/stat") as file:
            return [int(word) for word in file.readline().split()[1:9]]  # user time includes guest time

    def share(self):
        passed = [now - before for now, before in zip(self.read(), self.start)]
        return passed[7] / max(1, sum(passed))


def print_table(cases):
    print(f"{'model':6} {'ranks':>5}  {'strategy':32} {'predicted':>10} {'measured':>10} {'error':>7} {'median':>10}")
    for case in cases:
        print(f"{case.model:6} {case.ranks:>5}  {case.strategy:32} {case.predicted * 1e3:7.1f} ms {case.measured * 1e3:7.1f} ms {case.error:+7.1%} {case.median * 1e3:7.1f} ms")
    errors = [abs(case.error) for case in cases]
    of_medians = statistics.mean(abs(case.predicted / case.median - 1) for case in cases)
    print(f"mean absolute error {statistics.mean(errors):.1%}, largest {max(errors):.1%}, {of_medians:.1%} with medians, "
          f"{len(cases)} plans, load {os.getloadavg()[0]:.1f}")


def print_places(cases):
    """Prints, for each group, the predicted rank of the plan that was measured to be best."""
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
    parser.add_argument("--out", required=True, help="folder for models, plans and measurements")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--gigabits", type=float, default=1.0, help="speed of the link between the hosts in Gbit/s")
    parser.add_argument("--only", default="", help="only plans whose model, ranks and strategy contain this")
    parser.add_argument("--device-file", help="device file to use instead of calibrating")
    arguments = parser.parse_args()
    os.makedirs(arguments.out, exist_ok=True)
    device = arguments.device_file or f"{arguments.out}/device.json"
    if not arguments.device_file:
        stolen = Stolen()
        e2e.must([e2e.tool("dpc-opt"), f"--calibrate={device}"])
        print(f"stolen by the host while calibrating: {stolen.share():.1%}", flush=True)
    chosen = [plan for plan in PLANS if arguments.only in " ".join(plan)]
    why = two_hosts.why_not()
    if why:
        print(f"without two hosts: {why}")
        chosen = [plan for plan in chosen if "x" not in plan[1]]
    for model in {plan[0] for plan in chosen}:
        e2e.must([e2e.tool("dpc-model"), *MODELS[model][0].split(), "-o", f"{arguments.out}/{model}.onnx"])
    bench = Bench(arguments.out, device, arguments.gigabits)
    with contextlib.ExitStack() as stack:
        if any("x" in plan[1] for plan in chosen):
            bench.start_hosts(stack)
        cases = [Case(bench, *plan) for plan in chosen]
        stolen = Stolen()
        for _ in range(arguments.rounds):
            for case in cases:
                case.run(arguments.steps)
        print(f"stolen by the host while measuring: {stolen.share():.1%}")
    print_table(cases)
    print_places(cases)


if __name__ == "__main__":
    main()
