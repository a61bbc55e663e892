"""Trains models on a GPU alternately with dpc and PyTorch, and compares with dpc-opt's predictions for that GPU.

    bench/gpu-train/run pack    [--pack=build/gpu-check] [--target=sm_90]
    bench/gpu-train/run measure [--pack=build/gpu-check] [--build=build-gpu] [--seconds=300] [--only=TEXT]
    bench/gpu-train/run predict [--bin=build/bin] --results=results.json --measured=measured.json

pack compiles the plans of cases.py on a machine with a finished build (DPC_BUILD_DIR). measure runs them on a machine
with a GPU and dpc-run with libdpc_cuda.so (tools/gpu-check run builds both), and writes BUILD/results.json. A Python
with torch also trains two of them (TORCH_PYTHON, or this one). predict runs where dpc-opt is. It fits a device file
to the output of dpc-run --measure-device and compares the step time of every plan; the exit status is 1 if one is
more than 10 % off.
"""
import argparse
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "bench"), os.path.join(ROOT, "test", "e2e")]
import e2e
import floors
import planning
from cases import ADAMW, CASES

STEPS, WARM_UP, ROUNDS = 20, 5, 3
MOST_ERROR = 0.10


class Failed(Exception):
    pass


def must(words, environment=None, **more):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, env=environment or e2e.environment(), **more)
    if done.returncode:
        raise Failed((done.stderr or done.stdout).strip()[-400:].removeprefix("dpc-opt: error: "))
    return done.stdout


def tool(folder, name):
    path = os.path.join(folder, name)
    if not os.access(path, os.X_OK):
        raise Failed(f"no {path}: --bin names the folder of a finished build's programs")
    return path


# --- where dpc-opt is ---------------------------------------------------------


def compile_case(case, tools, target, cluster, folder, emit="plan"):
    """Compiles a case for one GPU and writes report.json to `folder`."""
    with e2e.scratch() as scratch:
        model = os.path.join(scratch, "model.onnx")
        must([tool(tools, "dpc-model"), *case.model, "-o", model])
        must([tool(tools, "dpc-opt"), model, f"--cluster={cluster}", f"--global-batch={case.batch}", f"--precision={case.precision}",
              f"--strategy={case.full_strategy}", "--verify=off", f"--target-gpu={target}", f"--emit={emit}", "-o", folder,
              *(f"--{key.replace('_', '-')}={value}" for key, value in ADAMW.items())])


def pack(folder, tools, target):
    """Compiles all cases into folder/bench. Returns the number of failures."""
    tool(tools, "dpc-opt")
    folder = os.path.join(folder, "bench")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    cluster, failed = planning.write_cluster(folder, "h100", 1), 0
    for case in CASES:
        if case.precision == "fp8" and target == "sm_80":
            continue
        try:
            compile_case(case, tools, target, cluster, os.path.join(folder, case.name), emit="plan,report")
        except Failed as error:
            failed += 1
            print(f"skipped: {case.name}: {error}")
            continue
        for report in ("report.json", "report.html"):  # They are not needed there.
            os.remove(os.path.join(folder, case.name, report))
    os.remove(cluster)
    return failed


def read_results(path):
    """Reads the output of `measure`. Fails with a message if the file has another format."""
    try:
        results = e2e.read_json(path)
        if all(isinstance(case["step_seconds"], float) for case in results["cases"].values()) and results["target"] and results["device"]:
            return results
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise Failed(f"{path} is not a results.json of this program's measure")


def predict(options):
    results, errors = read_results(options.results), {}
    with e2e.scratch() as scratch:
        device = os.path.join(scratch, "device.json")
        must([tool(options.bin, "dpc-opt"), f"--calibrate={device}", f"--device={options.measured}"])
        cluster = planning.write_cluster(scratch, "h100", 1, device)
        print(f"{results['device']}, {len(results['cases'])} plans\n  {'plan':22}{'predicted':>12}{'measured':>12}{'error':>9}")
        for case in CASES:
            if case.name not in results["cases"]:
                continue
            folder = os.path.join(scratch, case.name)
            compile_case(case, options.bin, results["target"], cluster, folder, emit="report")
            report = e2e.read_json(os.path.join(folder, "report.json"))
            predicted, seconds = report["chosen"]["predicted"]["step_seconds"], results["cases"][case.name]["step_seconds"]
            errors[case.name] = predicted / seconds - 1
            print(f"  {case.name:22}{predicted * 1e3:9.2f} ms{seconds * 1e3:9.2f} ms{errors[case.name] * 100:+7.1f} %")
    if not errors:
        sys.exit(f"error: {options.results} has no case of cases.py")
    far = [name for name, error in errors.items() if abs(error) > MOST_ERROR]
    print(f"mean error {100 * statistics.mean(map(abs, errors.values())):.1f} %, {len(far)} of {len(errors)} more than {100 * MOST_ERROR:.0f} % off")
    return 1 if far else 0


# --- on the GPU ---------------------------------------------------------------


def write_batches(plan, folder):
    """Writes one batch of random inputs for a plan. Every step reads this batch."""
    os.makedirs(folder, exist_ok=True)
    draw = random.Random(7)
    for port in plan["inputs"]:
        shape = (1, *port["global_shape"])
        count, isInteger = math.prod(shape), port["dtype"] in ("i64", "i32")
        first, end = port.get("first", 0), port.get("limit", 0)
        values = [draw.randrange(first, end if end > first else first + 2) if isInteger else draw.gauss(0, 1) for _ in range(count)]
        e2e.write_npy(os.path.join(folder, port["name"] + ".npy"), {"i64": "i8", "i32": "i4"}.get(port["dtype"], "f4"), shape, values)


class Torch:
    """Runs PyTorch in a separate process, which compiles once and waits between rounds."""

    def __init__(self, case, batches):
        python = os.environ.get("TORCH_PYTHON", sys.executable)
        self.process = subprocess.Popen([python, os.path.join(HERE, "train_torch.py"), case.name, batches], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def train(self, steps):
        """Returns (seconds per step, last loss, version of PyTorch)."""
        self.tell(f"{WARM_UP}\n{steps}\n")
        for _ in range(2):
            line = self.process.stdout.readline()
            if not line:
                raise Failed("PyTorch: " + self.process.stderr.read().strip()[-300:])
        self.tell("free\n")
        row = json.loads(line)
        return row["seconds"] / steps, row["loss"], row["version"]

    def tell(self, text):
        try:
            self.process.stdin.write(text)
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failed("PyTorch: " + self.process.stderr.read().strip()[-300:]) from None

    def close(self):
        self.process.kill()
        self.process.communicate()


class Measure:
    """Measures all cases: calls `add(verdict, name, text)` for each case and stores what `predict` reads in `results`.
    Only dpc-run gets `environment`, because PyTorch has separate libraries."""

    def __init__(self, options, add, environment=None):
        self.options, self.add, self.environment = options, add, environment
        self.end = time.monotonic() + options.seconds
        self.scratch = os.path.join(options.build, "bench")
        self.folder = os.path.join(options.pack, "bench")
        self.results = {"device": "", "target": "", "cases": {}, "torch": {}}

    def train(self, case, words=(), steps=STEPS):
        """Returns (seconds of every step after the warm-up, last loss)."""
        metrics = os.path.join(self.scratch, case.name + ".jsonl")
        if os.path.exists(metrics):
            os.remove(metrics)
        must([os.path.join(self.options.build, "bin", "dpc-run"), os.path.join(self.folder, case.name), "--device=cuda", "--init=random:1",
              f"--batches={os.path.join(self.scratch, case.name)}", f"--steps={WARM_UP + steps}", f"--metrics={metrics}",
              "--gemm-cache=" + os.path.join(self.scratch, "gemm-cache"), *words], self.environment, timeout=240)
        rows = e2e.read_metrics(metrics)
        return [row["step_seconds"] for row in rows[WARM_UP:]], rows[-1]["loss"]

    def run(self):
        for needed, who in ((self.folder, "bench/gpu-train/run pack makes it"), (os.path.join(self.options.build, "bin", "dpc-run"), "tools/gpu-check build makes it")):
            if not os.path.exists(needed):
                raise Failed(f"no {needed}: {who}")
        os.makedirs(self.scratch, exist_ok=True)
        self.results["device"] = name_of_gpu()
        peaks = floors.peaks_of(self.results["device"], os.path.join(ROOT, "cost-model", "devices"))
        for case in CASES:
            plan_file = os.path.join(self.folder, case.name, "plan.json")
            if self.options.only not in case.name or not os.path.exists(plan_file):
                continue
            if time.monotonic() >= self.end:
                self.add("-", "bench " + case.name, "no time left")
                continue
            plan = e2e.read_json(plan_file)
            try:
                write_batches(plan, os.path.join(self.scratch, case.name))
                self.case(case, plan, peaks)
            except (Failed, OSError, ValueError, subprocess.TimeoutExpired) as error:
                self.add("FAIL", "bench " + case.name, " ".join(str(error).split()))
        e2e.write_json(os.path.join(self.options.build, "results.json"), self.results)

    def case(self, case, plan, peaks):
        rounds = self.rounds(case) if case.torch else [(None, self.train(case))]
        seconds = [second for _, (steps, _) in rounds for second in steps]
        step, loss = statistics.median(seconds), rounds[-1][1][1]
        self.results["target"] = plan["target_gpu"]
        self.results["cases"][case.name] = {"step_seconds": step, "steps": seconds, "loss": loss}
        text = f"{step * 1e3:.2f} ms a step ({min(seconds) * 1e3:.2f} to {max(seconds) * 1e3:.2f}), loss {loss:.3f}"
        tokens = math.prod(plan["inputs"][0]["global_shape"]) if plan["inputs"][0]["dtype"] == "i64" else 0
        text += f", {tokens / step:,.0f} tokens/s" if tokens else f", {case.batch / step:,.0f} samples/s"
        peak = peaks and peaks[0].get({"fp32": "f32", "fp16": "f16"}.get(case.precision, case.precision))
        if peak and "recompute" not in case.strategy:
            text += f", MFU {100 * floors.model_flops(plan) / step / peak:.1f} % of {peak * 1e-12:.0f} TFLOP/s"
        self.add("ok" if math.isfinite(loss) else "FAIL", "bench " + case.name, text)
        if case.torch:
            self.compare(case, rounds)
        if case.torch and peaks:
            self.trace(case, plan, peaks)

    def rounds(self, case):
        """Returns [((seconds per step, loss, version) of PyTorch, (steps, loss) of dpc)]. The two alternate, so a slower GPU affects both."""
        rounds, torch = [], Torch(case, os.path.join(self.scratch, case.name))
        try:
            for number in range(ROUNDS):
                theirs = None
                if not isinstance(torch, str):
                    try:
                        theirs = torch.train(STEPS)
                    except Failed as error:
                        torch.close()
                        torch = str(error)
                rounds.append((theirs, self.train(case)))
                if isinstance(torch, str) or (number > 0 and time.monotonic() >= self.end):
                    break
        finally:
            if not isinstance(torch, str):
                torch.close()
        if isinstance(torch, str):
            self.add("-", f"bench {case.name} against PyTorch", " ".join(torch.split()))
        return rounds

    def compare(self, case, rounds):
        pairs = [(theirs, statistics.mean(steps)) for theirs, (steps, _) in rounds if theirs]
        if not pairs:
            return
        ratios = sorted(theirs[0] / ours for theirs, ours in pairs)
        self.results["torch"][case.name] = {"ratios": ratios, "step_seconds": [theirs[0] for theirs, _ in pairs], "version": pairs[0][0][2]}
        apart = abs(pairs[-1][0][1] - rounds[-1][1][1])
        # Initial weights and numbers of steps differ, so losses differ. A large difference means that the programs differ.
        same = apart <= 0.5
        self.add("ok" if same else "FAIL", f"bench {case.name} against PyTorch",
                 f"dpc / PyTorch {pairs[0][0][2]} {statistics.median(ratios):.3f} (by round {ratios[0]:.3f} to {ratios[-1]:.3f}), "
                 f"PyTorch {statistics.median(t[0] for t, _ in pairs) * 1e3:.2f} ms a step" + ("" if same else f", losses {apart:.2f} apart"))

    def trace(self, case, plan, peaks):
        path = os.path.join(self.scratch, case.name + "-trace.json")
        self.train(case, [f"--trace={path}"], steps=1)
        print(f"  {case.name}: floors of {peaks[2]}; a traced step does not use CUDA graphs")
        print("\n".join(floors.table(plan, e2e.read_json(path), peaks[0], peaks[1])), flush=True)


def name_of_gpu():
    try:
        return must(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]).splitlines()[0].strip()
    except (OSError, Failed, IndexError):
        return "unknown GPU"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    build = os.environ.get("DPC_BUILD_DIR") or os.path.join(ROOT, "build")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("pack", "measure", "predict"):
        command = commands.add_parser(name, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
        if name != "predict":
            command.add_argument("--pack", default=os.path.join(build, "gpu-check"), help="folder of the plans")
        if name != "measure":
            command.add_argument("--bin", default=os.path.join(build, "bin"), help="folder of dpc-opt and dpc-model")
        if name == "pack":
            command.add_argument("--target", default="sm_90", choices=["sm_80", "sm_90"], help="sm_80 for an A100")
        elif name == "measure":
            command.add_argument("--build", default="build-gpu", help="folder with bin/dpc-run, and for the output")
            command.add_argument("--seconds", type=float, default=300, help="start no run after this time")
            command.add_argument("--only", default="", help="only cases whose names contain this")
        else:
            command.add_argument("--results", required=True, help="output of measure")
            command.add_argument("--measured", required=True, help="output of dpc-run --measure-device")
    options = parser.parse_args()
    try:
        if options.command == "pack":
            sys.exit(1 if pack(options.pack, options.bin, options.target) else 0)
        if options.command == "predict":
            sys.exit(predict(options))
        verdicts = []
        Measure(options, lambda verdict, name, text: (verdicts.append(verdict), print(f"{verdict:5}{name:36}{text}", flush=True))).run()
        sys.exit(1 if "FAIL" in verdicts else 0)
    except (Failed, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
