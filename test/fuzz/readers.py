#!/usr/bin/env python3
"""Damaged files: every reader accepts them or rejects them with one line, without a crash, a hang or a huge allocation."""
import glob
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

import e2e  # noqa: E402

LONG = bool(os.environ.get("DPC_TEST_LONG"))
FINDINGS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "findings")
FIXTURES = os.path.join(e2e.SOURCE, "test", "fixtures")


def small(pattern, limit=200_000):
    return sorted(path for path in glob.glob(os.path.join(e2e.SOURCE, pattern), recursive=True) if os.path.getsize(path) <= limit)


class Readers(unittest.TestCase):
    def damage(self, reader, files, runs):
        """Reads previous findings, then damaged files: the same ones every time, and other ones in the long test."""
        self.assertTrue(files)
        found = sorted(glob.glob(os.path.join(FINDINGS, reader + "-*")))
        if found:
            self.read([reader, "--runs=0", *found])
        for seed in range(1, 9 if LONG else 2):
            self.read([reader, f"--runs={runs * (10 if LONG else 1)}", f"--seed={seed}", *files])

    def read(self, words):
        with e2e.scratch() as folder:
            kept = os.path.join(folder, "finding")
            fuzz = e2e.tool("dpc-fuzz")
            done = subprocess.run([fuzz, *words, "--keep=" + kept], capture_output=True, text=True, check=False)
            size = os.path.getsize(kept) if os.path.exists(kept) else 0
            self.assertEqual(done.returncode, 0, f"{' '.join(words[:3])}: a file of {size} bytes: {done.stdout[-1000:]} {done.stderr[-2000:]}")

    def test_onnx(self):
        self.damage("onnx", small("test/fixtures/**/*.onnx"), 1500)

    def test_pt2(self):
        self.damage("pt2", small("test/fixtures/**/*.pt2"), 400)

    def test_program_of_pt2(self):
        self.damage("pt2-program", small("test/fixtures/**/*.pt2"), 400)

    def test_stablehlo(self):
        self.damage("stablehlo", small("test/fixtures/stablehlo/**/*.mlir"), 1500)

    def test_cluster(self):
        self.damage("cluster", small("examples/clusters/*.json"), 5000)

    def test_plan(self):
        self.damage("plan", small("test/fixtures/plans/*/plan.json"), 3000)

    def test_npy(self):
        self.damage("npy", small("test/fixtures/**/*.npy", 20_000), 3000)

    def test_safetensors(self):
        self.damage("safetensors", small("test/fixtures/**/*.safetensors"), 3000)

    def test_weight_index(self):
        self.damage("weight-index", small("test/fixtures/runtime/*.index.json"), 3000)

    def test_command_of_plan(self):
        self.damage("plan-command", small("test/fixtures/runtime/command.json"), 3000)

    def test_shard(self):
        self.damage("shard", small("test/fixtures/runtime/rank-*.safetensors"), 3000)

    def test_manifest(self):
        self.damage("manifest", small("test/fixtures/runtime/manifest.json"), 3000)


if __name__ == "__main__":
    unittest.main(verbosity=2)
