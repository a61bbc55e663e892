#!/usr/bin/env python3
"""Chosen plans are at least as good as published ones (bench/plan-choice): the quickest cases, or all with DPC_TEST_LONG."""
import os
import subprocess
import sys
import unittest

import e2e


class PlanChoice(unittest.TestCase):
    def run_bench(self, *words):
        environment = dict(e2e.environment(), DPC_BIN=e2e.BIN, DPC_BUILD_DIR=self.folder)
        return subprocess.run([sys.executable, os.path.join(e2e.SOURCE, "bench", "plan-choice", "run"), *words], capture_output=True,
                              text=True, env=environment)

    def test_against_published_plans(self):
        with e2e.scratch() as self.folder:
            done = self.run_bench(*([] if os.environ.get("DPC_TEST_LONG") else ["--quick"]))
            print(done.stdout)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("sc21t1-0001  dp=32,tp=1,recompute=full,micro_batch=16  ", done.stdout)

    def test_says_what_is_unknown(self):
        with e2e.scratch() as self.folder:
            done = self.run_bench("--only=other")
            self.assertEqual(done.returncode, 1)
            self.assertIn("unknown 'other'", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
