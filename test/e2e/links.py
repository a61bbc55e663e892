#!/usr/bin/env python3
"""Measured links and GPUs: dpc-run measures; dpc-opt writes a cluster.json or a device file from it and plans with it."""
import json
import os
import sys
import unittest
import unittest.mock

import e2e

CLUSTER = {"version": 1, "name": "two ranks", "groups": [{"nodes": 1, "devices_per_node": 2, "device": "cpu-local"}],
           "levels": [{"name": "memory", "span": "node", "gigabytes_per_second": 123, "latency_microseconds": 456, "kind": "shared-memory"}]}


class Links(unittest.TestCase):
    def setUp(self):
        scratch = e2e.scratch()
        self.folder = scratch.__enter__()
        self.addCleanup(scratch.__exit__, None, None, None)
        self.given, self.table, self.out = (f"{self.folder}/{name}" for name in ("given.json", "links.txt", "measured.json"))
        with open(self.given, "w") as file:
            json.dump(CLUSTER, file)

    def refuse(self, words, *mentions):
        done = e2e.call(words)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        for mention in mentions:
            self.assertIn(mention, done.stderr)

    def test_measure_then_plan(self):
        e2e.must([e2e.tool("dpc-run"), f"--measure-links={self.table}", "--ranks=2"])
        said = e2e.must([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), f"--calibrate={self.out}", f"--cluster={self.given}",
                         f"--links={self.table}", "--global-batch=4", "--strategy=dp=2", "--verify=off", "-o", f"{self.folder}/plan"])
        given, measured = CLUSTER["levels"][0], e2e.read_json(self.out)["levels"][0]
        self.assertEqual(list(measured), list(given))
        self.assertRegex(said, r"(?m)^calibrated:\n  memory  [\d.e-]+ GB/s and [\d.e-]+ us, was 123 GB/s and 456 us$")
        self.assertTrue(0.01 < measured["gigabytes_per_second"] < 100, measured)
        self.assertTrue(0 < measured["latency_microseconds"] < 456, measured)
        same = e2e.must([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), f"--cluster={self.out}", "--global-batch=4",
                         "--strategy=dp=2", "--verify=off", "-o", f"{self.folder}/again"])
        self.assertIn("two ranks", same)
        self.assertEqual(*(e2e.read_report(f"{self.folder}/{plan}")["chosen"]["predicted"] for plan in ("plan", "again")))

    def test_over_mpi(self):
        launcher = e2e.mpirun(2)
        if not launcher:
            self.skipTest("no mpirun on this machine")
        e2e.must([*launcher, e2e.tool("dpc-run"), f"--measure-links={self.table}"])
        with open(self.table) as file:
            self.assertEqual(sum(line.startswith("#  Rank") for line in file), 2)

    def test_bad_input(self):
        opt, run = e2e.tool("dpc-opt"), e2e.tool("dpc-run")
        words = [opt, f"--calibrate={self.out}", f"--cluster={self.given}"]
        self.refuse(words + [f"--links={self.folder}/none"], "none", "cannot be read")
        with open(self.table, "w") as file:
            file.write("# Collective test starting: alltoall_perf\n")
        self.refuse(words + [f"--links={self.table}"], "alltoall_perf", "expected all_reduce_perf")
        self.refuse([opt, f"--calibrate={self.out}", "--cluster=local:2", f"--links={self.table}"], "--links needs --cluster=cluster.json")
        self.refuse([opt, f"--links={self.table}"], "--links needs")
        self.refuse([run, f"--measure-links={self.folder}/no/folder.txt", "--ranks=2"], "cannot be written")
        self.refuse([run, "--ranks=2"], "--ranks requires --measure-links")
        self.assertFalse(os.path.exists(self.out))


def measurements():
    """As dpc-run --measure-device writes them, for a GPU with 500 TFLOP/s whose GEMMs take 5 us more."""
    products = [{"type": "bf16", "m": m, "n": n, "k": k, "trans_a": False, "trans_b": True, "seconds": 5e-6 + 2 * m * n * k / 5e14}
                for m in (512, 2048, 8192) for n in (512, 4096) for k in (512, 4096)]
    return {"device_measurements": 1, "name": "NVIDIA H200", "libraries": "cuBLASLt 130000", "memory_bytes": 150109880320, "reserved_bytes": 800000000,
            "multiprocessors": 132, "launch_seconds": 1.5e-6, "products": products,
            "streams": [{"bytes": 536870912, "seconds": 536870912 / 4.2e12}],
            "host_copies": [{"bytes": 134217728, "to_device": True, "seconds": 134217728 / 5e10}]}


class MeasuredGpu(Links):
    """The measurements are invented, so no GPU is needed."""
    test_measure_then_plan = test_over_mpi = None

    def test_a_device_file_is_fitted_and_planned_for(self):
        with open(self.table, "w") as file:
            json.dump(measurements(), file)
        opt = e2e.tool("dpc-opt")
        said = e2e.must([opt, f"--calibrate={self.out}", f"--device={self.table}"])
        self.assertIn("calibrated, NVIDIA H200:", said)
        self.assertRegex(said, r"the formula is off by +[\d.]+ % in the mean of 12 GEMMs")
        self.assertIn(f"wrote {self.out}", said)
        device = e2e.read_json(self.out)
        self.assertEqual(device["name"], "h200-sxm-141gb")
        self.assertEqual(device["memory_fraction"]["value"], 0.875)
        chosen = []
        # the device itself, a file in the folder of the cluster file, and a path
        for named in (device, "measured.json", self.out):
            with open(self.given, "w") as file:
                json.dump({**CLUSTER, "groups": [{"nodes": 1, "devices_per_node": 2, "device": named}]}, file)
            e2e.must([opt, e2e.model("gpt2-tiny"), f"--cluster={self.given}", "--global-batch=4", "--verify=off", "--emit=report", "-o", f"{self.folder}/plan"])
            chosen.append(e2e.read_report(f"{self.folder}/plan")["chosen"]["predicted"])
        self.assertEqual(chosen[0], chosen[1])
        self.assertEqual(chosen[0], chosen[2])
        e2e.must([e2e.tool("dpc-run"), f"--measure-links={self.folder}/links2.txt", "--ranks=2"])
        # the calibrated file gets a path to the device file, because it is in another folder
        os.mkdir(f"{self.folder}/else")
        with open(self.given, "w") as file:
            json.dump({**CLUSTER, "groups": [{"nodes": 1, "devices_per_node": 2, "device": "measured.json"}]}, file)
        e2e.must([opt, e2e.model("gpt2-tiny"), f"--cluster={self.given}", f"--calibrate={self.folder}/else/out.json", f"--links={self.folder}/links2.txt",
                  "--global-batch=4", "--verify=off", "--emit=report", "-o", f"{self.folder}/plan"])
        self.assertEqual(e2e.read_json(f"{self.folder}/else/out.json")["groups"][0]["device"], self.out)
        with open(self.given, "w") as file:
            json.dump({**CLUSTER, "groups": [{"nodes": 1, "devices_per_node": 2, "device": "none.json"}]}, file)
        self.refuse([opt, e2e.model("gpt2-tiny"), f"--cluster={self.given}"], "groups[0].device: ", "none.json: cannot be read; expected a device file")

    def test_bad_input(self):
        opt, run = e2e.tool("dpc-opt"), e2e.tool("dpc-run")
        self.refuse([opt, f"--calibrate={self.out}", f"--device={self.folder}/none"], "--device=", "none", "cannot be read", "dpc-run --measure-device")
        with open(self.table, "w") as file:
            json.dump({**measurements(), "launch_seconds": -1}, file)
        self.refuse([opt, f"--calibrate={self.out}", f"--device={self.table}"], "links.txt: launch_seconds", "a number > 0")
        self.refuse([opt, e2e.model("gpt2-tiny"), f"--calibrate={self.out}", f"--device={self.table}"], "as the device of a group")
        self.refuse([opt, e2e.model("gpt2-tiny"), "--cluster=local:2", "--device=cuda"], "--device=cuda is for --calibrate=FILE")
        self.refuse([run, f"--measure-device={self.out}"], "give --device=cuda")
        self.refuse([run, f"--measure-device={self.folder}/no/folder.json", "--device=cuda"], "cannot be written")
        self.assertFalse(os.path.exists(self.out))

    def test_without_a_gpu_it_is_said(self):
        with unittest.mock.patch.dict(os.environ, DPC_CUDA_PLUGIN=f"{self.folder}/none.so"):
            for words in ([e2e.tool("dpc-run"), f"--measure-device={self.out}", "--device=cuda"], [e2e.tool("dpc-opt"), f"--calibrate={self.out}", "--device=cuda"]):
                self.refuse(words, "--device=cuda: ", "none.so")
        self.assertFalse(os.path.exists(self.out))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
