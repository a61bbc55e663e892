#!/usr/bin/env python3
"""bench/gpu-train and tools/gpu-check without a GPU: stand-ins for dpc-run and PyTorch report invented times.

    gpu_bench.py [unittest options]
"""
import contextlib
import io
import os
import re
import shutil
import sys
import textwrap
import types
import unittest

import e2e
import links


CHECK = e2e.load_program("gpu_check", "tools", "gpu-check")
RUN = CHECK.gpu_train
floors, planning, cases = RUN.floors, RUN.planning, sys.modules["cases"]

# A step takes 2 ms. Each instruction of a trace takes 10 us, or 8 us in the second step.
FAKE_RUN = """\
    #!/usr/bin/env python3
    import json, os, sys
    sys.path.insert(0, {floors!r})
    import floors
    options = dict(word.lstrip("-").partition("=")[::2] for word in sys.argv[2:])
    assert os.path.exists(options["batches"] + "/ids.npy") and options["device"] == "cuda"
    if os.path.exists({refuse!r}):
        sys.exit("dpc-run: error: no such GPU")
    with open(options["metrics"], "w") as file:
        for step in range(int(options["steps"])):
            file.write(json.dumps({{"step": step + 1, "loss": 5.0, "step_seconds": 1 if step < 2 else 0.002}}) + "\\n")
    if "trace" in options:
        with open(sys.argv[1] + "/plan.json") as file:
            lane = floors.lane_of(json.load(file))
        events = [{{"ph": "X", "pid": 0, "tid": 0, "dur": 10 - 2 * step}} for step in range(2) for _ in lane]
        with open(options["trace"], "w") as file:
            json.dump({{"traceEvents": events}}, file)
"""
# A script like train_torch.py, with steps of 3 ms.
FAKE_TORCH = """\
    #!/usr/bin/env python3
    import json, sys
    for line in map(str.strip, sys.stdin):
        if line != "free":
            print(json.dumps({"seconds": 0.003 * int(line), "loss": LOSS, "version": "9.9"}), flush=True)
"""


def script(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(textwrap.dedent(text))
    os.chmod(path, 0o755)


class Floors(unittest.TestCase):
    """Compares with hand-calculated numbers."""

    def plan(self, *instructions):
        buffers = [{"id": i, "name": name, "dtype": kind, "bytes": size} for i, (name, kind, size) in
                   enumerate([("a", "bf16", 4000), ("b", "bf16", 6000), ("c", "f32", 8000), ("k (scratch)", "i8", 9000)])]
        whole = [{"queue": "compute", "name": "n", "flops": 0.0} | i for i in instructions]
        return {"buffers": buffers, "phases": {"forward": whole, "update": []}, "schedule": [[{"phase": "forward"}]]}

    def matmul(self, **more):
        return {"op": "matmul", "a": 0, "b": 1, "c": 2, "m": 10, "n": 20, "k": 30, "batch": 2, "batch2": 1, "beta": 0.0, "aux": -1,
                "compute": "bf16", "fp8": None, "flops": 24000.0} | more

    def test_products(self):
        # Each of two batches reads 10x30 and 30x20 elements in bf16 and writes 10x20 in f32: 5200 bytes.
        self.assertEqual(floors.floors(self.plan(self.matmul()), {"bf16": 1e6, "f32": 1.0}, 1e9), {"matmul": (1, 24000 / 1e6, 24000.0, 5200.0)})
        # The GEMM adds to C, so it also reads C. It is bound by memory.
        added = floors.floors(self.plan(self.matmul(beta=1.0)), {"bf16": 1e9, "f32": 1.0}, 1e6)
        self.assertEqual(added["matmul"][1], 6800 / 1e6)
        self.assertEqual(floors.floors(self.plan(self.matmul(fp8={"a": "f8e4m3"})), {"bf16": 1.0, "f32": 1.0, "fp8": 2e6}, 1e9)["matmul"][1], 24000 / 2e6)

    def test_kernels(self):
        kernel = {"op": "kernel", "buffers": [0, 2, 3], "flops": 1e12}
        other = dict(kernel, buffers=[0, 1])
        # Two launches of one kernel and one launch of another. None is bound by its operations, and scratch memory is
        # not counted as traffic.
        rows = floors.floors(self.plan(kernel, kernel, other), {"f32": 1.0}, 1e6)
        self.assertEqual(rows["kernels of forward"][0], 3)
        self.assertAlmostEqual(rows["kernels of forward"][1], (12000 + 10000) / 1e6)

    def test_attention(self):
        shape = {"batch": 1, "heads": 4, "groups": 2, "queries": 10, "keys": 10, "depth": 8, "value_depth": 8, "compute": "bf16"}
        rows = floors.floors(self.plan({"op": "attention", "shape": shape}, {"op": "attention_grad", "shape": shape}), {"bf16": 1e9, "f32": 1.0}, 1.0)
        self.assertEqual(rows["attention"][3], 2 * (320 + 320 + 160 + 160))
        self.assertEqual(rows["attention grad"][3], 2 * rows["attention"][3])

    def test_experts(self):
        plan = self.plan({"op": "expert_matmul", "x": 0, "ids": 3, "w": 1, "y": 2, "compute": "bf16", "flops": 5e4})
        self.assertEqual(floors.floors(plan, {"bf16": 1e6, "f32": 1.0}, 1e9), {"expert matmul": (1, 0.05, 5e4, 27000.0)})
        self.assertEqual(floors.model_flops(plan), 5e4)

    def test_traces_of_other_plans_are_refused(self):
        with self.assertRaisesRegex(ValueError, "another plan"):
            floors.measured(self.plan(self.matmul(), self.matmul()), {"traceEvents": [{"ph": "X", "pid": 0, "tid": 0, "dur": 1}] * 3})

    def test_device_files(self):
        folder = os.path.join(e2e.SOURCE, "cost-model", "devices")
        self.assertEqual(floors.peaks_of("NVIDIA H100 80GB HBM3", folder)[2], "h100-sxm-80gb")
        self.assertEqual(floors.peaks_of("NVIDIA H200", folder)[2], "h200-sxm-141gb")
        self.assertIsNone(floors.peaks_of("unknown GPU", folder))


class Bench(unittest.TestCase):
    def setUp(self):
        scratch = e2e.scratch()
        self.folder = scratch.__enter__()
        self.addCleanup(scratch.__exit__, None, None, None)
        small = ("gpt", "--layers=1", "--hidden=32", "--heads=2", "--vocab=64", "--seq=16")
        self.cases = [cases.Case("small", small, 2, torch="Gpt"), cases.Case("accumulates", small, 4, strategy="micro_batch=2")]
        self.patch(RUN, "CASES", self.cases)
        self.patch(RUN, "name_of_gpu", lambda: "NVIDIA H100 80GB HBM3")
        self.refuse = os.path.join(self.folder, "refuse")
        os.makedirs(os.path.join(self.folder, "build", "bin"))
        script(os.path.join(self.folder, "build", "bin", "dpc-run"), FAKE_RUN.format(floors=RUN.HERE, refuse=self.refuse))
        self.torch(5.1)
        self.assertEqual(RUN.pack(self.folder, e2e.BIN, "sm_90"), 0)

    def patch(self, module, name, value):
        before = getattr(module, name)
        setattr(module, name, value)
        self.addCleanup(setattr, module, name, before)

    def torch(self, loss):
        """TORCH_PYTHON is started with train_torch.py, which this stand-in ignores."""
        path = os.path.join(self.folder, "torch")
        script(path, FAKE_TORCH.replace("LOSS", str(loss)))
        os.environ["TORCH_PYTHON"] = path
        self.addCleanup(os.environ.pop, "TORCH_PYTHON", None)

    def measure(self, seconds=60):
        rows, shown = {}, io.StringIO()
        options = types.SimpleNamespace(pack=self.folder, build=os.path.join(self.folder, "build"), only="", seconds=seconds)
        with contextlib.redirect_stdout(shown):
            RUN.Measure(options, lambda verdict, name, text, said="": rows.__setitem__(name, (verdict, text))).run()
        return rows, shown.getvalue(), e2e.read_json(os.path.join(self.folder, "build", "results.json"))

    def test_ratios_and_floors(self):
        rows, shown, results = self.measure()
        self.assertEqual({name: verdict for name, (verdict, _) in rows.items()},
                         {"bench small": "ok", "bench small against PyTorch": "ok", "bench accumulates": "ok"})
        self.assertIn("16,000 tokens/s", rows["bench small"][1])
        self.assertIn("MFU", rows["bench small"][1])
        self.assertIn("dpc / PyTorch 9.9 1.500 (by round 1.500 to 1.500)", rows["bench small against PyTorch"][1])
        self.assertEqual(results["torch"]["small"]["ratios"], [1.5] * RUN.ROUNDS)
        self.assertEqual((results["device"], results["target"]), ("NVIDIA H100 80GB HBM3", "sm_90"))
        self.assertEqual(results["cases"]["accumulates"]["step_seconds"], 0.002)
        plan = e2e.read_plan(os.path.join(self.folder, "bench", "small"))
        products = sum(i["op"] == "matmul" for i, _, _ in floors.lane_of(plan))
        self.assertRegex(shown, rf"matmul +{products} +{products * 8e-3:.2f} ms")

    def test_other_losses_are_a_failure(self):
        self.torch(9)
        rows, _, _ = self.measure()
        self.assertEqual(rows["bench small against PyTorch"][0], "FAIL")
        self.assertIn("losses 4.00 apart", rows["bench small against PyTorch"][1])

    def test_what_fails_costs_its_row(self):
        with open(self.refuse, "w", encoding="utf-8"):
            pass
        rows, _, results = self.measure()
        self.assertEqual(rows["bench accumulates"], ("FAIL", "dpc-run: error: no such GPU"))
        self.assertEqual(results["cases"], {})

    def test_without_pytorch(self):
        os.environ["TORCH_PYTHON"] = "/bin/false"
        rows, _, _ = self.measure()
        self.assertEqual((rows["bench small"][0], rows["bench small against PyTorch"][0]), ("ok", "-"))

    def test_no_time_left(self):
        rows, _, _ = self.measure(seconds=0)
        self.assertEqual(set(rows.values()), {("-", "no time left")})

    def test_predictions(self):
        """Accepts the times that dpc-opt itself predicts for the device; for other times, reports their deviation."""
        seconds, measured = {}, os.path.join(self.folder, "measured.json")
        e2e.write_json(measured, links.measurements())
        device, results = os.path.join(self.folder, "device.json"), os.path.join(self.folder, "results.json")
        e2e.must([e2e.tool("dpc-opt"), f"--calibrate={device}", f"--device={measured}"])
        cluster = planning.write_cluster(self.folder, "h100", 1, device)
        for case in self.cases:
            RUN.compile_case(case, e2e.BIN, "sm_90", cluster, os.path.join(self.folder, "again"), emit="report")
            seconds[case.name] = e2e.read_report(os.path.join(self.folder, "again"))["chosen"]["predicted"]["step_seconds"]
        for factor, code in ((1, 0), (1.25, 1)):
            e2e.write_json(results, {"device": "NVIDIA H200", "target": "sm_90", "cases": {name: {"step_seconds": s * factor} for name, s in seconds.items()}})
            shown = io.StringIO()
            with contextlib.redirect_stdout(shown):
                self.assertEqual(RUN.predict(types.SimpleNamespace(results=results, measured=measured, bin=e2e.BIN)), code)
            self.assertIn("mean error 0.0 %, 0 of 2" if factor == 1 else "mean error 20.0 %, 2 of 2", shown.getvalue())


    def test_wrong_files_are_named(self):
        for text in ("", "{", "[]", "{}", '{"device": "H", "target": "sm_90", "cases": {"small": {}}}'):
            path = os.path.join(self.folder, "wrong.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            with self.assertRaisesRegex(RUN.Failed, "wrong.json is not a results.json"):
                RUN.predict(types.SimpleNamespace(results=path, measured=path, bin=e2e.BIN))
        with self.assertRaisesRegex(RUN.Failed, "no /nowhere/dpc-opt: --bin"):
            RUN.pack(self.folder, "/nowhere", "sm_90")
        for pack, build, what in ((self.folder + "/none", self.folder, "run pack makes it"), (self.folder, self.folder, "gpu-check build makes it")):
            with self.assertRaisesRegex(RUN.Failed, what):
                RUN.Measure(types.SimpleNamespace(pack=pack, build=build, only="", seconds=9), None).run()

    def test_gpu_check_names_what_is_missing(self):
        check = os.path.join(e2e.SOURCE, "tools", "gpu-check")
        with open(os.path.join(self.folder, "pack.tar.gz"), "w", encoding="utf-8"):
            pass
        for words, what in ((["pack", "--bin=/nowhere", f"--out={self.folder}/out"], "no /nowhere/dpc-opt"), (["run", f"--pack={self.folder}/none"], "holds no pack.tar.gz"),
                            (["run", f"--pack={self.folder}", f"--build={self.folder}/build"], "cannot be unpacked")):
            done = e2e.call([sys.executable, check, *words])
            self.assertEqual(done.returncode, 1)
            self.assertIn(what, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "out")))


class GpuCheck(unittest.TestCase):
    def test_races_of_others_do_not_count(self):
        ours = "========= Error: Race reported between Write access at k15_adamw+0x10 and Read access at k15_adamw+0x20"
        theirs = ours.replace("k15_adamw", "sm90_xmma_gemm_bf16")
        self.assertEqual(CHECK.errors_of("racecheck", theirs), [])
        self.assertEqual(len(CHECK.errors_of("racecheck", theirs + "\n" + ours)), 1)
        self.assertEqual(len(CHECK.errors_of("racecheck", ours.replace("k15_adamw", "dpcFp8Transposed"))), 1)

    def test_wrong_memory_counts_in_any_kernel(self):
        said = "========= Invalid __global__ read of size 16 bytes\n=========     at sm90_xmma_gemm_bf16+0x10\n========= ERROR SUMMARY: 1 error\n"
        self.assertEqual(CHECK.errors_of("memcheck", said), ["Invalid __global__ read of size 16 bytes"])
        self.assertEqual(CHECK.errors_of("memcheck", "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"), [])

    def test_a_hang_is_a_row(self):
        done = CHECK.Ended([sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(60)"], 1, dict(os.environ))
        self.assertEqual((done.code, done.last), (124, "ended after 1 s"))
        self.assertIn("begun", done.output)

    def test_a_short_curve_is_compared_to_its_end(self):
        """PyTorch's curve of ResNet has fewer steps than a run."""
        oracle, plan = e2e.read_json(f"{e2e.MODELS}/resnet-tiny/oracle.json"), {"model": "resnet-tiny", "precision": "fp32"}
        self.assertLess(len(oracle["losses"]), CHECK.STEPS)
        more = [1.0] * (CHECK.STEPS - len(oracle["losses"]))
        rows = [{"loss": loss, "grad_norm": norm} for loss, norm in zip(oracle["losses"] + more, oracle["grad_norms"] + more)]
        self.assertEqual(CHECK.Checks.differences(None, plan, rows), (0, 0, True))
        rows[len(oracle["losses"]) - 1]["loss"] += 1
        self.assertFalse(CHECK.Checks.differences(None, plan, rows)[2])

    def test_products_of_experts_are_compared(self):
        """A run that returns the outputs of the CPU passes, and one of which an element differs fails."""
        shape, rows = CHECK.EXPERTS[-1], []
        name = CHECK.experts_name(*shape)
        with e2e.scratch() as folder:
            CHECK.pack_comparison(types.SimpleNamespace(out=folder, target="sm_90"), "experts", name, *CHECK.experts_program(*shape))
            outputs = os.path.join(folder, "experts", name, "outputs")
            kind, extents, values = e2e.read_npy(os.path.join(outputs, "dw.npy"))
            for first in (values[0], values[0] + 1):

                def call(words, first=first):
                    self.assertIn(f"--inputs={folder}/experts/{name}/inputs", words)
                    shutil.copytree(outputs, os.path.join(folder, name), dirs_exist_ok=True)
                    e2e.write_npy(os.path.join(folder, name, "dw.npy"), kind, extents, [first, *values[1:]])
                    return types.SimpleNamespace(code=0)

                check = types.SimpleNamespace(arguments=types.SimpleNamespace(pack=folder, only=""), scratch=folder, is_late=lambda name: False,
                                              dpc_run=lambda *words: words, call=call, table=types.SimpleNamespace(add=lambda *row: rows.append(row)))
                CHECK.Checks.compare(check, "experts", name, 3, 1e-5)
        self.assertEqual([row[:2] for row in rows], [("ok", name), ("FAIL", name)])

    def test_an_option_is_given_once(self):
        """dpc-run refuses an option that is given twice."""
        check = types.SimpleNamespace(arguments=types.SimpleNamespace(build="build", pack="pack"), scratch="runs")
        check.dpc_run = lambda *words: CHECK.Checks.dpc_run(check, *words)
        for more in ((), ("--gemm-cache=off",)):
            words = CHECK.Checks.train_words(check, {"name": "n", "model": "mlp"}, "/nowhere/metrics", more, 2)
            self.assertEqual(sum(word.startswith("--gemm-cache") for word in words), 1, words)

    def test_the_pack_holds_the_headers(self):
        """A machine with a GPU may have no header besides those of the compiler, the system and CUDA."""
        found = set()
        for folder in ("runtime", "tools/dpc-run", "tools/cli"):
            for place, _, files in os.walk(os.path.join(e2e.SOURCE, folder)):
                for name in files:
                    with open(os.path.join(place, name), encoding="utf-8") as file:
                        found |= set(re.findall(r"^#include <([^>]+)>", file.read(), re.M))
        root = lambda header: header.split("/")[0]
        system = {name for name in found if "." not in name or root(name) in ("sys", "netinet", "arpa", "linux")} | {
            "dlfcn.h", "fcntl.h", "link.h", "netdb.h", "poll.h", "sched.h", "unistd.h"}
        optional = {"dnnl.hpp", "mpi.h", "isa-l/crc.h", "nccl.h", "cudnn.h", "cudnn_frontend.h", "cublasLt.h"}
        needed = {root(name) for name in found - system - optional if not name.startswith("cuda")}
        self.assertLessEqual({"nlohmann", "CLI", "xxhash.h"}, needed)
        self.assertEqual(needed - set(CHECK.HEADERS), set())

    def test_the_matrix_holds_every_parallelism(self):
        plans = CHECK.matrix()
        self.assertEqual(len(plans), len(set(plans)))
        for key in ("dp=4", "tp=4", "pp=4", "cp=4", "zero=3"):
            self.assertTrue(any(key in strategy for *_, strategy in plans), key)
        self.assertEqual({model for model, *_ in plans}, {name for name in os.listdir(e2e.MODELS) if os.path.exists(e2e.model(name))} - {"moe-capacity"})


if __name__ == "__main__":
    unittest.main()
