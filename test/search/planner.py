"""Asks dpc-opt: writes a case's model and clusters, runs the search, reads the report."""
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field

import cases
import e2e

sys.path.insert(0, os.path.join(e2e.SOURCE, "bench"))

import planning  # noqa: E402

INFINITE = float("inf")
TIMEOUT_SECONDS = 600


@dataclass
class Outcome:
    """The answer to a request. `seconds` is infinite without a plan that fits, and `message` says why."""
    seconds: float = INFINITE
    strategy: dict = field(default_factory=dict)
    bytes: int = 0
    method: str = ""
    message: str = ""
    broken: bool = False  # neither a plan nor one line that says why not
    saves_memory: bool = False  # the objective of the search

    @property
    def value(self):
        """The seconds, or the bytes if they are the objective; infinite without a plan that fits."""
        return float(self.bytes) if self.saves_memory and self.seconds != INFINITE else self.seconds

    def shown(self):
        if self.seconds == INFINITE:
            return self.message
        return f"{self.seconds:.6g} s, {self.bytes / 2**30:.3g} GiB: {planning.named(self.strategy)}"


def model_name(model):
    """The name of the ONNX file."""
    return "-".join([model["family"], *(f"{key}{value}" for key, value in model.get("dims", {}).items())]) + ".onnx"


def write_model(folder, model, copies=False):
    """Writes the ONNX file, unless the folder has it; returns its path. A fixture stays where it is unless `copies`."""
    family, dims = model["family"], model.get("dims", {})
    path = os.path.join(folder, model_name(model))
    if os.path.isdir(os.path.join(e2e.MODELS, family)):
        return shutil.copy(e2e.model(family), path) if copies else e2e.model(family)
    if os.path.exists(path):
        return path
    import nets
    if family in nets.WRITERS:
        nets.WRITERS[family](path, **dims)
        return path
    return planning.write_model(folder, model_name(model).removesuffix(".onnx"), family, **dims)


def words_of(case, request, model, cluster):
    """The options of dpc-opt. A plan that is fixed completely may use all memory, so every request may."""
    strategy = cases.strategy_of(request.keys) or "auto"
    return [model, f"--cluster={cluster}", f"--global-batch={case['batch']}", *case["words"], f"--strategy={strategy}",
            "--headroom=0%", "--emit=report", "--verify=off"]


class Planner:
    """Remembers answers, so that a request is asked once."""

    def __init__(self, folder):
        self.folder, self.answers = folder, {}
        self.asked = self.seconds = 0

    def plan(self, case, request):
        name = json.dumps([case["model"], case["batch"], case["words"], request.keys, request.cluster], sort_keys=True)
        if name not in self.answers:
            begin = time.perf_counter()
            self.answers[name] = self.ask(case, request)
            self.seconds += time.perf_counter() - begin
            self.asked += 1
        return self.answers[name]

    def ask(self, case, request):
        cluster, out = os.path.join(self.folder, "cluster.json"), os.path.join(self.folder, "report")
        e2e.write_json(cluster, cases.describe_cluster(request.cluster))
        words = words_of(case, request, write_model(self.folder, case["model"]), cluster)
        try:
            done = subprocess.run([e2e.tool("dpc-opt"), *words, "-o", out], capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            return Outcome(message=f"no answer in {TIMEOUT_SECONDS} s", broken=True)
        if done.returncode:
            said = done.stderr.strip()
            return Outcome(message=said[-400:] or f"exit {done.returncode}", broken=done.returncode != 1 or len(said.splitlines()) != 1)
        return read_outcome(e2e.read_report(out), "--objective=memory" in case["words"])


def read_outcome(report, saves_memory=False):
    chosen = report["chosen"]
    if not chosen or not chosen["fits"]:
        return Outcome(message="no strategy fits")
    predicted = chosen["predicted"]
    return Outcome(predicted["step_seconds"], chosen["strategy"], predicted["memory_bytes"]["peak"], chosen["method"], saves_memory=saves_memory)
