#!/usr/bin/env python3
"""The backend tests of the onnx package: those that passed before still pass, on one rank and on several."""
import os
import subprocess
import sys
import unittest

import e2e

TOOL = os.path.join(e2e.SOURCE, "tools", "onnx-conformance")
PASSED = os.path.join(e2e.ONNX, "conformance.txt")
LONG = bool(os.environ.get("DPC_TEST_LONG"))


def conformance(*words):
    """The finished tool."""
    return subprocess.run([sys.executable, TOOL, *words], capture_output=True, text=True, check=False, env=dict(os.environ, DPC_BIN=e2e.BIN))


class Conformance(unittest.TestCase):
    def run_part(self, ranks, part):
        done = conformance(f"--ranks={ranks}", f"--check={PASSED}", f"--part={'1/1' if LONG else part}")
        print(done.stdout)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"\d+ of \d\d+ expected cases pass")

    def test_on_one_rank(self):
        self.run_part(1, "1/4")

    def test_over_two_ranks(self):
        self.run_part(2, "2/8")

    def test_over_three_ranks(self):
        self.run_part(3, "6/16")

    def test_a_case_that_no_longer_passes_is_named(self):
        """A test that can never pass represents a regression."""
        with e2e.scratch() as folder:
            expected = os.path.join(folder, "list.txt")
            with open(expected, "w", encoding="utf-8") as file:
                file.write("node/test_abs\nnode/test_nonzero_example\n")
            done = conformance("--suites=node", "--only=test_abs,test_nonzero_example", f"--check={expected}")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no longer passes: node/test_nonzero_example\n1 of 2 expected cases pass", done.stdout)
        self.assertRegex(done.stdout, r"operator NonZero returns a tensor whose shape depends on data")


if __name__ == "__main__":
    unittest.main(verbosity=2)
