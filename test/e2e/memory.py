#!/usr/bin/env python3
"""Planned memory is the memory that a process takes.

follow_curve.py compares the predicted peak with the arena under every strategy. Here the arena is compared with the
resident size of dpc-run: a run with a large batch is as much larger than one with a small batch as the plans say.
(A difference, because libraries and the mapped model file are in both.)
"""
import os
import subprocess
import unittest

import e2e

TOLERANCE = 0.10


def plan(folder, batch, ranks):
    strategy = f"dp={ranks},micro_batch={batch // ranks}"
    e2e.must([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), f"--cluster=local:{ranks}", f"--global-batch={batch}",
              f"--strategy={strategy}", "--verify=off", "-o", folder])
    arena = max(e2e.read_plan(folder)["arena_bytes"])
    peak = e2e.read_report(folder)["chosen"]["predicted"]["memory_bytes"]["peak"]
    return arena, peak


def resident_bytes(words):
    """The largest resident size of a command that must succeed."""
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=e2e.environment()) as child:
        errors = child.stderr.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise e2e.ToolError(errors.decode())
    return usage.ru_maxrss * 1024


class ResidentSize(unittest.TestCase):
    def grows_by_the_arena(self, ranks, small=8, large=256):
        arenas, residents = [], []
        with e2e.scratch() as folder:
            for batch in (small, large):
                arena, peak = plan(f"{folder}/{batch}", batch, ranks)
                self.assertLess(abs(peak / arena - 1), 0.02, f"predicted {peak}, arena {arena}")
                arenas.append(arena * ranks)
                residents.append(resident_bytes([e2e.tool("dpc-run"), f"{folder}/{batch}", "--steps=2"]))
        planned, measured = arenas[1] - arenas[0], residents[1] - residents[0]
        print(f"{ranks} ranks: arenas {arenas}, resident {residents}: {measured / planned - 1:+.1%}")
        # Small enough for every machine, large enough that a few MiB of scratch do not matter.
        self.assertGreater(planned, 100e6)
        self.assertLess(abs(measured / planned - 1), TOLERANCE)

    def test_one_rank(self):
        self.grows_by_the_arena(1)

    def test_ranks_of_one_process(self):
        self.grows_by_the_arena(2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
