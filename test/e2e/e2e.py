"""Common code of the end-to-end tests: calls the tools and reads the files that they write.

It uses only Python's standard library. $DPC_BIN names the folder of the tools and $DPC_SOURCE the source folder (ctest
sets both); the defaults are ../../build/bin and ../..
"""
import array
import contextlib
import importlib.util
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from importlib.machinery import SourceFileLoader

SOURCE = os.environ.get("DPC_SOURCE") or os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BIN = os.environ.get("DPC_BIN") or os.path.join(SOURCE, "build", "bin")
MODELS = os.path.join(SOURCE, "test", "fixtures", "models")
ONNX = os.path.join(SOURCE, "test", "fixtures", "onnx")
SKIPPED = 77  # ctest's SKIP_RETURN_CODE

# A test with a stuck rank ends after this many seconds.
TIMEOUT_SECONDS = 300


def tool(name):
    return os.path.join(BIN, name)


def model(name):
    """Returns the .onnx of test/fixtures/models/NAME."""
    return os.path.join(MODELS, name, "model.onnx")


def environment():
    """Processes of one test share the cores with other tests, and can run as root in a container."""
    return dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


def call(words):
    """Runs a command to its end, whatever its exit status."""
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=TIMEOUT_SECONDS, env=environment())


class ToolError(Exception):
    pass


def must(words):
    """Runs a command that has to succeed; returns its stdout."""
    done = call(words)
    if done.returncode:
        raise ToolError(f"{' '.join(str(w) for w in words)}: exit {done.returncode}: {(done.stderr or done.stdout).strip()[-600:]}")
    return done.stdout


def write_two_machines(folder, devices):
    """Writes the cluster.json of two machines with this many devices each and a 1 Gbit/s link; returns its path."""
    path = os.path.join(folder, "two-machines.json")
    levels = [("memory", "node", 10, 1, "switch"), ("ethernet", "cluster", 0.125, 50, "fat-tree")]
    with open(path, "w") as file:
        json.dump({"version": 1, "name": "two machines",
                   "groups": [{"nodes": 2, "devices_per_node": devices, "device": "cpu-local"}],
                   "levels": [{"name": name, "span": span, "gigabytes_per_second": rate, "latency_microseconds": latency,
                               "kind": kind, "in_network_reduction": False} for name, span, rate, latency, kind in levels],
                   "host": {"memory_gibibytes": 8, "pcie_gigabytes_per_second": 10, "nvme_gigabytes_per_second": 1}}, file)
    return path


# Options of mpirun. Processes may run on the cores of the process that starts them.
UNBOUND = ["--bind-to", "none"]


def mpirun(processes):
    """Returns the words before a command that start it on several processes, or None without mpirun."""
    found = shutil.which("mpirun")
    return [found, "--oversubscribe", "-np", str(processes)] if found else None


@contextlib.contextmanager
def scratch():
    """A temporary folder."""
    path = tempfile.mkdtemp(prefix="dpc-e2e-")
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


class ScratchTest(unittest.TestCase):
    """Each test has a temporary folder, `self.folder`."""

    def setUp(self):
        opened = scratch()
        self.folder = opened.__enter__()
        self.addCleanup(opened.__exit__, None, None, None)

    def path(self, *names):
        return os.path.join(self.folder, *names)


def load_program(name, *path):
    """Loads a program of the source tree, which has no suffix, as a module."""
    loader = SourceFileLoader(name, os.path.join(SOURCE, *path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


def skip(why):
    print("skipped:", why)
    sys.exit(SKIPPED)


def run_in_build_environment(package):
    """Restarts the test with the Python of the build folder, which has the packages of tools/build; skips the test without it."""
    python = os.path.join(os.path.dirname(BIN), "venv", "bin", "python")
    if sys.executable == python or not os.path.exists(python):
        skip(f"the Python package {package} is not installed")
    os.execv(python, [python, *sys.argv])


def read_terminal(descriptor):
    """Yields the bytes that the other end of a pseudo-terminal writes until it closes."""
    text = b""
    while True:
        try:
            piece = os.read(descriptor, 4096)
        except OSError:  # Linux reports in this way that the other end is closed
            return text
        if not piece:
            return text
        text += piece


def write_json(path, value):
    with open(path, "w") as file:
        json.dump(value, file)


def read_json(path):
    with open(path) as file:
        return json.load(file)


def read_plan(folder):
    return read_json(os.path.join(folder, "plan.json"))


def read_report(folder):
    return read_json(os.path.join(folder, "report.json"))


def read_metrics(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def overlap_seconds(trace, rank=0, kind=None):
    """Returns (seconds that `rank` communicated, seconds of these while it computed) in a Chrome trace of dpc-run, for one kind of instruction."""
    spans = {0: [], 1: []}
    for event in read_json(trace)["traceEvents"]:
        if event["ph"] == "X" and event["pid"] == rank and (event["tid"] == 0 or kind in (None, event["cat"])):
            spans[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    both = 0
    compute = sorted(spans[0])
    for begin, end in spans[1]:
        both += sum(max(0, min(end, b) - max(begin, a)) for a, b in compute)
    return sum(end - begin for begin, end in spans[1]) * 1e-6, both * 1e-6


# --- arrays -------------------------------------------------------------------

_NPY_CODES = {"f4": "f", "f8": "d", "i4": "i", "i8": "q", "b1": "b", "u1": "B"}
_SAFETENSORS_CODES = {"F32": "f", "F64": "d", "I32": "i", "I64": "q", "BOOL": "b", "U8": "B"}


def read_npy(path):
    """Returns (dtype such as "f4", shape, values as a flat array.array)."""
    with open(path, "rb") as file:
        head = file.read(10)
        if head[:6] != b"\x93NUMPY":
            raise ValueError(f"{path}: not an .npy file")
        text = file.read(struct.unpack("<H", head[8:10])[0]).decode()
        # numpy writes the header as a Python dictionary of literals.
        import ast
        fields = ast.literal_eval(text.strip())
        if fields["fortran_order"]:
            raise ValueError(f"{path}: column-major")
        dtype = fields["descr"].lstrip("<|")
        values = array.array(_NPY_CODES[dtype])
        values.frombytes(file.read())
        return dtype, tuple(fields["shape"]), values


def write_npy(path, dtype, shape, values):
    """Writes `values` (flat) as a row-major .npy of `dtype` such as "f4"."""
    descr = ("|" if dtype in ("b1", "u1") else "<") + dtype
    shown = "(" + "".join(f"{n}, " for n in shape).rstrip() + ")" if len(shape) < 2 else str(tuple(shape))
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shown}, }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        file.write(array.array(_NPY_CODES[dtype], values).tobytes())


def read_safetensors(path):
    """{name: (dtype, shape, values as a flat array.array)}."""
    with open(path, "rb") as file:
        head = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    head.pop("__metadata__", None)
    tensors = {}
    for name, entry in head.items():
        values = array.array(_SAFETENSORS_CODES[entry["dtype"]])
        begin, end = entry["data_offsets"]
        values.frombytes(data[begin:end])
        tensors[name] = (entry["dtype"], tuple(entry["shape"]), values)
    return tensors


def largest_difference(a, b):
    """max |a - b| / max |b| of two flat arrays of the same length."""
    if len(a) != len(b):
        raise ValueError(f"{len(a)} and {len(b)} elements")
    scale = max((abs(x) for x in b), default=0) or 1
    return max((abs(x - y) for x, y in zip(a, b)), default=0) / scale
