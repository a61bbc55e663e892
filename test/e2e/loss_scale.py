#!/usr/bin/env python3
"""The loss scale: an overflow skips the step without any other effect, and training recovers.

Every step gets the same batch. A run whose first scale overflows k times must then equal, bit for bit, a run that
starts with the scale at which it recovers: parameters, optimizer states, step counter and the position in the learning
rate's schedule are unchanged. (follow_curve.py checks that fp16 trains like PyTorch.)
"""
import math
import os
import unittest

import e2e

FIXTURES = os.path.dirname(os.path.dirname(e2e.model("gpt2-tiny")))
# The first scale overflows about ten times before it has been halved enough. The second overflows for every gradient.
LARGE, HUGE = 2 ** 28, 2 ** 40
STEPS = 24


class Runs:
    """Runs of one model under one strategy on one repeated batch."""

    def __init__(self, folder, name, strategy, ranks, words=(), precision="fp16"):
        self.folder, self.name, self.ranks, self.precision = folder, name, ranks, precision
        self.words = [f"--strategy={strategy}", "--train=adamw", "--clip-grad-norm=1", *words]
        oracle = e2e.read_json(f"{FIXTURES}/{name}/oracle.json")
        for port in oracle["inputs"]:
            dtype, shape, values = e2e.read_npy(f"{FIXTURES}/{name}/batches/{port}.npy")
            self.batch = shape[1]
            one = values[:len(values) // shape[0]]
            e2e.write_npy(f"{folder}/{port}.npy", dtype, (STEPS,) + shape[1:], one * STEPS)

    def compile(self, loss_scale):
        """A plan folder."""
        plan = f"{self.folder}/plan-{loss_scale}"
        if not os.path.exists(plan):
            e2e.must([e2e.tool("dpc-opt"), e2e.model(self.name), f"--cluster=local:{self.ranks}", f"--global-batch={self.batch}",
                      f"--precision={self.precision}", f"--loss-scale={loss_scale}", "--verify=off", "-o", plan] + self.words)
        return plan

    def train(self, loss_scale, steps):
        """Returns (a row of metrics per step, the saved parameters)."""
        plan = self.compile(loss_scale)
        e2e.must([e2e.tool("dpc-run"), plan, f"--batches={self.folder}", f"--steps={steps}", "--poison",
                  f"--metrics={plan}.jsonl", f"--save-params={plan}.safetensors"])
        return e2e.read_metrics(f"{plan}.jsonl"), e2e.read_safetensors(f"{plan}.safetensors")


class LossScale(unittest.TestCase):
    def recovers(self, name, strategy, ranks, words=()):
        schedule = ["--lr=1e-3", "--lr-schedule=cosine,warmup=1,total=6", *words]
        with e2e.scratch() as folder:
            runs = Runs(folder, name, strategy, ranks, schedule)
            large = f"dynamic,init={LARGE},interval=3"
            rows, _ = runs.train(large, STEPS)
            bad = next(i for i, row in enumerate(rows) if not row["skipped"])
            print(name, strategy, f"{bad} steps skipped, from {LARGE} to {rows[bad]['loss_scale']}")
            self.assertGreater(bad, 2)
            self.assertEqual([row["loss_scale"] for row in rows[:bad + 1]], [LARGE / 2 ** i for i in range(bad + 1)])
            self.assertEqual({row["grad_norm"] for row in rows[:bad]}, {None})
            # Three good steps in a row double the scale. If the next step overflows, the scale is halved again.
            streak, scale = 0, rows[bad]["loss_scale"]
            for row in rows[bad:]:
                self.assertEqual(row["loss_scale"], scale)
                streak = 0 if row["skipped"] else streak + 1
                scale = scale / 2 if row["skipped"] else scale * 2 if streak == 3 else scale
                streak %= 3
            self.assertLess(rows[-1]["loss"], rows[0]["loss"])
            # Skipped steps change nothing.
            _, untouched = runs.train(large, bad)
            self.assertEqual(untouched, runs.train(large, 1)[1])
            good = 5
            _, late = runs.train(large, bad + good)
            _, early = runs.train(f"dynamic,init={rows[bad]['loss_scale']:.0f},interval=3", good)
            self.assertEqual(late, early)
            self.assertNotEqual(late, untouched)

    def test_one_rank(self):
        self.recovers("gpt2-tiny", "dp=1", 1)

    def test_sharded(self):
        self.recovers("llama-tiny", "dp=2,tp=2,zero=3,micro_batch=2", 4)

    def test_pipeline(self):
        self.recovers("gpt2-tiny", "pp=2,dp=2,zero=1,micro_batch=2", 4)

    def test_running_statistics(self):
        self.recovers("resnet-tiny", "dp=2", 2)

    def test_fixed(self):
        """A constant scale does not change; steps that overflow are still skipped."""
        with e2e.scratch() as folder:
            runs = Runs(folder, "bert-tiny", "dp=2", 2, ["--lr=1e-3"])
            rows, trained = runs.train("512", 3)
            self.assertEqual([(row["loss_scale"], row["skipped"]) for row in rows], [(512, 0)] * 3)
            _, initial = runs.train(str(HUGE), 1)
            rows, skipped = runs.train(str(HUGE), 3)
            self.assertEqual([(row["loss_scale"], row["skipped"]) for row in rows], [(HUGE, 1)] * 3)
            self.assertEqual(skipped, initial)
            self.assertNotEqual(trained, initial)

    def spoil(self, runs, bad):
        """Writes the file of mlp's x with an infinity in the first sample of each step in `bad`."""
        path = f"{runs.folder}/x.npy"
        dtype, shape, values = e2e.read_npy(path)
        size = len(values) // shape[0]
        e2e.write_npy(path, dtype, shape, [math.inf if i % size == 0 and i // size in bad else value for i, value in enumerate(values)])

    def test_without_an_end(self):
        """The run ends if the smallest scale still overflows, and after twenty skipped steps with a constant scale."""
        with e2e.scratch() as folder:
            runs = Runs(folder, "mlp", "dp=2", 2, ["--lr=1e-3"])
            self.spoil(runs, range(STEPS))
            for scale, step, why in (("dynamic,init=8", 4, "though the loss scale is 1, the smallest"), ("8", 20, "those of the 19 steps before")):
                done = e2e.call([e2e.tool("dpc-run"), runs.compile(scale), f"--batches={folder}"])
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertRegex(done.stderr, f"^dpc-run: error: step {step}: the gradients are not finite, .*{why}.*; input 'x' holds inf in sample 0; .*\n$")
                e2e.must([e2e.tool("dpc-run"), runs.compile(scale), f"--batches={folder}", "--on-nan=go-on"])

    def test_bad_samples_are_skipped_in_any_precision(self):
        for precision in ("fp32", "bf16"):
            with e2e.scratch() as folder:
                runs = Runs(folder, "mlp", "dp=2", 2, ["--lr=1e-3"], precision)
                _, good = runs.train(1, 3)
                self.spoil(runs, [1, 3])
                rows, values = runs.train(1, 5)
                self.assertEqual([row["skipped"] for row in rows], [0, 1, 0, 1, 0])
                self.assertEqual({row["loss_scale"] for row in rows}, {1})
                self.assertEqual(values, good, "three good steps of one batch")


if __name__ == "__main__":
    unittest.main(verbosity=2)
