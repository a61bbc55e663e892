#!/usr/bin/env python3
"""A long run: after the first checkpoints, its memory, descriptors and threads stay constant (20,000 steps with --long)."""
import os
import re
import statistics
import subprocess
import unittest

from faults import LONG, e2e

STEPS = 20000 if LONG else 160
EVERY = STEPS // 40  # steps between checkpoints, and between samples
GROWTH = 0.01 if LONG else 0.05  # the short run hardly reaches a steady state


def use_of(pid):
    """(resident KiB, open descriptors, threads)"""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        resident = int(re.search(r"VmRSS:\s+(\d+) kB", file.read()).group(1))
    return resident, len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task"))


class Soak(unittest.TestCase):
    def samples(self, folder):
        """The use of the run after every EVERY steps."""
        plan, batches = os.path.join(folder, "plan"), os.path.join(e2e.MODELS, "gpt2-tiny", "batches")
        e2e.must([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), "--cluster=local:4", "--strategy=dp=2,tp=2", "--global-batch=8", "--train=adamw",
                  "--lr=1e-4", "--verify=off", "-o", plan])
        infer = os.path.join(folder, "infer")
        e2e.must([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), "--infer", "--cluster=local:4", "--strategy=tp=4", "--global-batch=8", "--verify=off", "-o",
                  infer])
        words = [e2e.tool("dpc-run"), plan, "--batches=" + batches, f"--steps={STEPS}", "--threads=1", "--checkpoint=" + os.path.join(folder, "saved"),
                 f"--checkpoint-every={EVERY}", "--metrics=" + os.path.join(folder, "metrics.jsonl"), "--eval-plan=" + infer,
                 "--eval-data=" + self.held_out(folder, batches), f"--eval-every={EVERY}"]
        found = []
        # With several arenas, each thread would use a random one, and each arena would keep its peak.
        environment = dict(e2e.environment(), MALLOC_ARENA_MAX="1")
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as child:
            for line in child.stdout:
                step = re.match(r"step (\d+)/", line)
                # After the last step, the process may have ended.
                if step and int(step[1]) <= STEPS - EVERY and int(step[1]) % EVERY == 0:
                    found.append(use_of(child.pid))
        self.assertEqual(child.returncode, 0)
        self.assertEqual(sum("loss" in line for line in e2e.read_metrics(os.path.join(folder, "metrics.jsonl"))), STEPS)
        return found

    def held_out(self, folder, batches):
        """Eight samples."""
        os.mkdir(os.path.join(folder, "held-out"))
        for name in os.listdir(batches):
            dtype, shape, values = e2e.read_npy(os.path.join(batches, name))
            e2e.write_npy(os.path.join(folder, "held-out", name), dtype, shape[1:], values[:len(values) // shape[0]])
        return os.path.join(folder, "held-out")

    def test_nothing_grows(self):
        with e2e.scratch() as folder:
            found = self.samples(folder)
        self.assertGreaterEqual(len(found), 35)
        # The first fifth of the run allocates permanent memory: buffers of snapshots, and a cache per thread.
        fifth = len(found) // 5
        first, last = found[fifth:2 * fifth], found[-fifth:]
        # Allocators grow in large steps, so the median of many samples is compared.
        resident = [statistics.median(sample[0] for sample in part) for part in (first, last)]
        # The files of a checkpoint are open while it is written, so the minimum is compared.
        descriptors, threads = ([min(sample[i] for sample in part) for part in (first, last)] for i in (1, 2))
        print(f"{STEPS} steps: resident {resident[0]:.0f} KiB -> {resident[1]:.0f} KiB, descriptors {descriptors}, threads {threads}")
        self.assertLessEqual(abs(resident[1] - resident[0]), GROWTH * resident[0], found)
        self.assertEqual(descriptors[0], descriptors[1], found)
        self.assertEqual(threads[0], threads[1], found)


if __name__ == "__main__":
    unittest.main(verbosity=2)
