"""Code shared by the planning benches: writes models and clusters, and runs dpc-opt with its time and memory measured."""
import json
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("DPC_BUILD_DIR") or os.path.join(ROOT, "build")
BIN = os.environ.get("DPC_BIN") or os.path.join(BUILD, "bin")

# Bandwidths are per device and direction, as in examples/clusters/dgx-a100-128.json.
LEVELS = {"a100": (("nvlink", 300, 3), ("infiniband", 25, 8)),
          "a100-omnipath": (("nvlink", 300, 3), ("omni-path", 6.25, 8)),
          "h100": (("nvlink", 450, 3), ("infiniband", 50, 8)),
          "gb200": (("nvlink", 900, 3), ("infiniband", 50, 8))}
DEVICES = {"a100": "a100-sxm-80gb", "a100-omnipath": "a100-sxm-80gb", "h100": "h100-sxm-80gb", "gb200": "gb200-nvl72-186gb"}


class PlanningError(Exception):
    pass


def tool(name):
    path = os.path.join(BIN, name)
    if not os.access(path, os.X_OK):
        sys.exit(f"error: no {path}: run tools/build first")
    return path


def write_cluster(folder, kind, devices, device=None):
    """Writes a cluster.json with `devices` devices of a `kind`, or of the device file `device`; returns its path. For gb200, NVLink connects groups of 64."""
    inside = 4 if kind == "gb200" else 8
    inside = min(inside, devices)
    (link, rate, latency), (net, net_rate, net_latency) = LEVELS[kind]
    span = 64 if kind == "gb200" and devices > 64 else "node"
    levels = [{"name": link, "span": span, "gigabytes_per_second": rate, "latency_microseconds": latency, "kind": "switch"},
              {"name": net, "span": "cluster", "gigabytes_per_second": net_rate, "latency_microseconds": net_latency,
               "kind": "fat-tree", "oversubscription": 1.0}]
    path = os.path.join(folder, f"{kind}-{devices}.json")
    with open(path, "w") as file:
        json.dump({"version": 1, "name": f"{devices} x {kind}",
                   "groups": [{"nodes": devices // inside, "devices_per_node": inside, "device": device or DEVICES[kind]}],
                   "levels": levels,
                   "host": {"memory_gibibytes": 1024, "pcie_gigabytes_per_second": 25, "nvme_gigabytes_per_second": 12}}, file)
    return path


def write_model(folder, name, family, **dims):
    """Writes an ONNX file with dpc-model. Returns the path of the file."""
    path = os.path.join(folder, name + ".onnx")
    words = [f"--{key.replace('_', '-')}={value}" for key, value in dims.items()]
    done = subprocess.run([tool("dpc-model"), family, *words, "-o", path], capture_output=True, text=True)
    if done.returncode:
        raise PlanningError(done.stderr.strip())
    return path


class Planned:
    """Runs dpc-opt and reads report.json, the seconds (wall and CPU) and the peak MiB."""

    def __init__(self, folder, model, cluster, batch, *words):
        out = os.path.join(folder, "report")
        self.words = [tool("dpc-opt"), model, f"--cluster={cluster}", f"--global-batch={batch}", "--train=adamw", "--verify=off",
                      "--emit=report", "-o", out, *words]
        begin = time.perf_counter()
        with open(os.path.join(folder, "said.txt"), "w+") as said:
            child = subprocess.Popen(self.words, stdout=said, stderr=said)
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            self.seconds = time.perf_counter() - begin
            said.seek(0)
            self.said = said.read()
        self.cpu_seconds = used.ru_utime + used.ru_stime
        self.mebibytes = used.ru_maxrss / 1024
        if child.returncode:
            raise PlanningError(f"{' '.join(self.words)}: {self.said.strip()[-400:]}")
        with open(os.path.join(out, "report.json")) as file:
            self.report = json.load(file)
        self.chosen = self.report["chosen"]
        if self.chosen is None:
            raise PlanningError(f"{' '.join(self.words)}: no strategy")
        self.step_seconds = self.chosen["predicted"]["step_seconds"]
        self.bytes = self.chosen["predicted"]["memory_bytes"]["peak"]
        self.fits = self.chosen["fits"]
        self.strategy = self.chosen["strategy"]


NEUTRAL = {"vpp": 1, "cp": 1, "cp_kind": "ring", "ep": 1, "sp": False, "zero": 0, "hybrid_shard": 1, "schedule": "1f1b",
           "offload_to": "host", "pp": 1, "placement": "auto", "batch_shares": "auto"}


def named(strategy):
    """Formats a strategy of report.json for --strategy, without neutral keys. Keys that are not in NEUTRAL have the neutral value "none"."""
    return ",".join(f"{key}={str(value).lower()}" for key, value in strategy.items() if NEUTRAL.get(key, "none") != value)


def table(rows):
    """Formats rows of texts as aligned columns. The first row is the header."""
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(str(cell).ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)
