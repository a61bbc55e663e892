#!/usr/bin/env python3
"""The memory of a resume on another plan is about that of a run from the start, for any size of the checkpoint."""
import os
import re
import subprocess
import unittest

from faults import e2e

ALLOWED = 24 << 10  # KiB more than in a run without resume: mapped windows of four ranks, and memory kept by allocators


def peak_of(words):
    """The peak of resident memory in KiB."""
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=e2e.environment()) as child:
        err = child.stderr.read()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise AssertionError(f"{words}: {err}")
    return used.ru_maxrss


class Memory(unittest.TestCase):
    def test_a_resume_takes_no_more_than_a_start(self):
        with e2e.scratch() as folder:
            model = os.path.join(folder, "gpt.onnx")
            e2e.must([e2e.tool("dpc-model"), "gpt", "--layers=2", "--hidden=512", "--heads=4", "--vocab=16384", "--seq=8", "-o", model])
            plans = {}
            for strategy in ("dp=2,zero=1", "tp=2"):
                plans[strategy] = os.path.join(folder, strategy)
                e2e.must([e2e.tool("dpc-opt"), model, "--cluster=local:2", "--global-batch=2", "--train=adamw", "--init=random:1", "--verify=off",
                          "--strategy=" + strategy, "-o", plans[strategy]])
            saved = os.path.join(folder, "saved")

            def words(strategy, steps, *more):
                return [e2e.tool("dpc-run"), plans[strategy], f"--steps={steps}", "--threads=1", *more]

            e2e.must(words("dp=2,zero=1", 1, "--checkpoint=" + saved))
            size = sum(os.path.getsize(os.path.join(saved, "step-1", name)) for name in os.listdir(os.path.join(saved, "step-1"))) >> 10
            start = peak_of(words("tp=2", 1))
            resume = peak_of(words("tp=2", 2, f"--resume={saved}/step-1"))
        print(f"checkpoint {size} KiB, peak {start} KiB from the start, {resume} KiB resumed")
        self.assertGreater(size, 5 * ALLOWED)
        self.assertLess(resume, start + ALLOWED)


if __name__ == "__main__":
    unittest.main(verbosity=2)
