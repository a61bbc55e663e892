#!/usr/bin/env python3
"""--eval-plan reports every output of one number over the whole data as PyTorch computes it, and leaves out what samples that fill the last step change."""
import os
import unittest

import e2e
from metrics import prometheus, scalars

TORCH = os.path.join(e2e.SOURCE, "test", "fixtures", "torch")
RECORD = e2e.read_json(os.path.join(TORCH, "evaluation.json"))  # of make_evaluation.py
BATCH, LENGTH, WIDTH = RECORD["shape"]
HELD_OUT = len(RECORD["held_label"]) // LENGTH
COUNTED = sum(label != -100 for label in RECORD["held_label"])
FILLED = {"spread", "count"}  # samples that fill a step change them
TOLERANCE = 1e-5


class EvaluationOutputs(e2e.ScratchTest):
    def setUp(self):
        super().setUp()
        self.data, self.held_out = self.write_samples("train", "x", "label", 2 * BATCH), self.write_samples("held-out", "held_x", "held_label", HELD_OUT)

    def write_samples(self, name, x, label, count):
        os.mkdir(self.path(name))
        e2e.write_npy(self.path(name, "x.npy"), "f4", (count, LENGTH, WIDTH), RECORD[x][:count * LENGTH * WIDTH])
        e2e.write_npy(self.path(name, "label.npy"), "i8", (count, LENGTH), RECORD[label][:count * LENGTH])
        return self.path(name)

    def plan(self, strategy, ranks, *words):
        plan = self.path("-".join([strategy, *words]).replace("/", "-"))
        if not os.path.exists(plan):
            e2e.must([e2e.tool("dpc-opt"), os.path.join(TORCH, "evaluation.pt2"), f"--cluster=local:{ranks}", f"--strategy={strategy}",
                      f"--global-batch={BATCH}", *(words or ["--train=sgd", f"--lr={RECORD['lr']}"]), "--verify=off", "-o", plan])
        return plan

    def evaluate(self, strategy, ranks, held_out, *words, before=(), evaluation=None):
        """Returns the lines of evaluations in the metrics file, and the finished process."""
        metrics = self.path("m.jsonl")
        ran = e2e.call([*before, e2e.tool("dpc-run"), self.plan(strategy, ranks), "--data=" + self.data, "--steps=2", "--eval-every=1",
                        "--eval-plan=" + self.plan(evaluation or strategy, ranks, "--infer"), "--eval-data=" + held_out, "--metrics=" + metrics, *words])
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return [row for row in e2e.read_metrics(metrics) if "eval_loss" in row], ran

    def check(self, rows, count, omitted=()):
        want = RECORD["evaluations"][str(count)]
        self.assertEqual([row["step"] for row in rows], [1, 2])
        for row, values in zip(rows, want):
            self.assertEqual(set(row), {"step", "eval_samples", *(f"eval_{name}" for name in values if name not in omitted)})
            self.assertEqual(row["eval_samples"], count)
            for name, value in values.items():
                if name not in omitted:
                    self.assertLess(abs(row[f"eval_{name}"] - value), TOLERANCE * abs(value), f"{name} after step {row['step']}")

    STRATEGIES = (("dp=1", 1), ("dp=2", 2), ("pp=2,micro_batch=2", 2), ("dp=2,pp=2,micro_batch=1", 4), ("tp=2", 2))

    def test_full_steps(self):
        """Steps have different numbers of labels, and one has none, which does not enter means over labels."""
        for strategy, ranks in self.STRATEGIES:
            with self.subTest(strategy):
                rows, ran = self.evaluate(strategy, ranks, self.held_out)
                self.check(rows, HELD_OUT)
                self.assertEqual(ran.stderr, "")
                self.assertIn("--eval-data: step 2: all labels are ignored, so that it does not count in means over labels\n", ran.stdout)

    def test_a_last_step_that_samples_fill(self):
        uneven = self.write_samples("uneven", "held_x", "held_label", HELD_OUT - 1)
        for strategy, ranks in self.STRATEGIES:
            with self.subTest(strategy):
                rows, ran = self.evaluate(strategy, ranks, uneven)
                self.check(rows, HELD_OUT - 1, FILLED)
                warnings = ran.stderr.splitlines()
                self.assertEqual(len(warnings), len(FILLED), ran.stderr)  # once, although there are two evaluations
                for line, name, why in zip(warnings, ("spread", "count"), (
                        "the output 'spread' depends on samples that only fill the step",
                        "the last step is filled with 1 sample whose labels 'label' are -100, but the output 'count' counts them")):
                    self.assertTrue(line.startswith(f"dpc-run: warning: --eval-data={uneven}: eval_{name} is left out: {why}"), line)
                    self.assertTrue(line.endswith("; compile the plan of --eval-plan with a --global-batch that divides 11, or give a multiple of 4 samples"), line)

    def test_another_layout_in_processes(self):
        if not e2e.mpirun(2):
            self.skipTest("mpirun is not installed")
        uneven = self.write_samples("uneven", "held_x", "held_label", HELD_OUT - 1)
        rows, ran = self.evaluate("pp=2,micro_batch=2", 2, uneven, before=e2e.mpirun(2), evaluation="dp=2")
        self.check(rows, HELD_OUT - 1, FILLED)
        self.assertEqual(ran.stderr.count("is left out"), len(FILLED))

    def test_a_last_step_without_labels(self):
        """Samples 4 to 6 have no labels, so that the loss of the second step, which sample 6 fills, is NaN."""
        few = self.write_samples("few", "held_x", "held_label", 7)
        rows, _ = self.evaluate("dp=2", 2, few)
        # The first step has all labels, so that it alone gives the means over labels.
        first, _ = self.evaluate("dp=2", 2, self.write_samples("first", "held_x", "held_label", BATCH))
        for row, alone in zip(rows, first):
            for name in ("eval_loss", "eval_ce", "eval_margin", "eval_decay"):
                self.assertAlmostEqual(row[name], alone[name], delta=TOLERANCE * abs(alone[name]))
            self.assertNotIn("eval_spread", row)
            self.assertNotEqual(row["eval_norm"], alone["eval_norm"])

    def test_all_destinations_agree(self):
        rows, ran = self.evaluate("dp=2", 2, self.held_out, f"--metrics=tensorboard:{self.path('tb')}", f"--metrics=prometheus:{self.path('m.prom')}")
        file, = os.listdir(self.path("tb"))
        shown, _ = scalars(self.path("tb", file))
        values = prometheus(self.path("m.prom"))
        names = [name for name in rows[0] if name not in ("step", "eval_samples")]
        self.assertEqual({tag for tag in shown if tag.startswith("eval_")}, set(names))
        for name in names:
            self.assertEqual([step for step, _ in shown[name]], [1, 2])
            for (_, value), row in zip(shown[name], rows):
                self.assertAlmostEqual(value, row[name], delta=1e-6 * abs(row[name]))
            self.assertEqual(values["dpc_" + name], rows[-1][name])
        said = [line for line in ran.stdout.splitlines() if "of --eval-data" in line]
        self.assertEqual(len(said), 2)
        self.assertTrue(said[1].startswith(f"step 2: loss {rows[1]['eval_loss']:.6g} over {COUNTED} labels of --eval-data  "), said)
        for name in names[1:]:
            self.assertIn(f"  {name} {rows[1][name]:.6g}", said[1])

    def test_labels_that_are_ignored_late_are_seen(self):
        """All labels of the first 150 steps count, so that only the last steps tell what the outputs are means over."""
        batch, steps = 2, 152
        count = batch * steps
        os.mkdir(self.path("late"))
        labels = [0] * (150 * batch * LENGTH) + [-100] * (2 * batch * LENGTH)
        labels[-2 * batch * LENGTH], labels[-1], labels[-2] = 1, 2, 3
        e2e.write_npy(self.path("late", "x.npy"), "f4", (count, LENGTH, WIDTH), [((7 * i) % 11 - 5) / 5 for i in range(count * LENGTH * WIDTH)])
        e2e.write_npy(self.path("late", "label.npy"), "i8", (count, LENGTH), labels)
        losses = []
        for size in (batch, count):
            plan, train = self.path(f"late-{size}"), self.path("train-0")
            words = [e2e.tool("dpc-opt"), os.path.join(TORCH, "evaluation.pt2"), "--cluster=local:1", "--verify=off"]
            e2e.must([*words, f"--global-batch={size}", "--infer", "-o", plan])
            said = e2e.must([e2e.tool("dpc-run"), plan, "--data=" + self.path("late")]).splitlines()[-1].split()
            self.assertEqual((said[0], *said[2:]), ("loss", "over", str(150 * batch * LENGTH + 3), "labels"))
            losses.append(float(said[1]))
            e2e.must([*words, f"--global-batch={BATCH}", "--train=sgd", "--lr=0", "-o", train])
            e2e.must([e2e.tool("dpc-run"), train, "--data=" + self.data, "--steps=1", "--eval-plan=" + plan, "--eval-data=" + self.path("late"),
                      "--metrics=" + self.path("m.jsonl")])
            losses.append(e2e.read_metrics(self.path("m.jsonl"))[-1]["eval_loss"])
        for loss in losses:
            self.assertLess(abs(loss - losses[2]), TOLERANCE * losses[2])

    def fails_in_processes(self, said, *words):
        """If rank 0 cannot write, both processes end with its line: none waits for it."""
        ran = e2e.call([*e2e.mpirun(2), e2e.tool("dpc-run"), *words, "--timeout-seconds=30"])
        self.assertEqual(ran.returncode, 1, ran.stderr)
        errors = [line for line in ran.stderr.splitlines() if line.startswith("dpc-run:")]
        self.assertEqual(len(errors), 1, ran.stderr)
        self.assertTrue(errors[0].startswith("dpc-run: error: " + said), errors)

    def test_no_process_waits_for_a_rank_0_that_cannot_write(self):
        """What the run writes first as PATH.new is a folder, which no check before the first step finds."""
        if not e2e.mpirun(2):
            self.skipTest("mpirun is not installed")
        train, infer = self.plan("dp=2", 2), self.plan("dp=2", 2, "--infer")
        parts = len(e2e.read_plan(train)["tensors"])
        for path in ("m.prom.new", "out/norm.npy.new", f"first/model-00001-of-{parts:05}.safetensors.new",
                     f"last/model-{parts:05}-of-{parts:05}.safetensors.new"):
            os.makedirs(self.path(path))
        data = "--data=" + self.data
        self.fails_in_processes(f"--metrics: {self.path('m.prom.new')}: cannot be written", train, data, f"--metrics=prometheus:{self.path('m.prom')}")
        self.fails_in_processes(f"{self.path('out')}", infer, "--inputs=" + self.write_samples("inputs", "x", "label", BATCH),
                                "--outputs=" + self.path("out"), "--trace=" + self.path("trace.json"))
        for folder in ("first", "last"):
            self.fails_in_processes(f"{self.path(folder)}", train, data, f"--export={self.path(folder)}", "--max-shard-size=1")


if __name__ == "__main__":
    unittest.main()
