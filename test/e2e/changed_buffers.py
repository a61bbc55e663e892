#!/usr/bin/env python3
"""Buffers that the forward changes have PyTorch's values on every sharding: counters, flags, histograms, means, and frozen weights that follow others."""
import os
import unittest

import e2e

TORCH = os.path.join(e2e.SOURCE, "test", "fixtures", "torch")
CHANGES = e2e.read_json(os.path.join(TORCH, "changes.json"))  # of make_changes.py
STEPS, BATCH, _ = CHANGES["shape"]
TOLERANCE = 2e-5
STRATEGIES = (("dp=1", 1), ("dp=1,micro_batch=2", 1), ("dp=2,micro_batch=2", 2), ("tp=2", 2), ("dp=2,zero=3", 2), ("pp=2,micro_batch=4", 2),
              ("pp=2,micro_batch=8,recompute=full", 2))


class ChangedBuffers(e2e.ScratchTest):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("batches"))
        e2e.write_npy(self.path("batches", "x.npy"), "f4", CHANGES["shape"], CHANGES["x"])
        e2e.write_npy(self.path("batches", "label.npy"), "i8", CHANGES["shape"][:2], CHANGES["label"])

    def compile(self, strategy, ranks, *words, model="changes"):
        plan = self.path("-".join([model, strategy, *words]))
        e2e.must([e2e.tool("dpc-opt"), os.path.join(TORCH, model + ".pt2"), f"--cluster=local:{ranks}", f"--global-batch={BATCH}",
                  f"--strategy={strategy}", "-o", plan, *(words or ("--train=sgd", f"--lr={CHANGES['lr']}"))])
        return plan

    def run_plan(self, plan, *words):
        """Returns the losses and the saved weights."""
        metrics, weights = plan + ".jsonl", plan + ".safetensors"
        if os.path.exists(metrics):
            os.remove(metrics)
        e2e.must([e2e.tool("dpc-run"), plan, "--batches=" + self.path("batches"), "--metrics=" + metrics, "--save-params=" + weights, *words])
        return [line["loss"] for line in e2e.read_metrics(metrics) if "loss" in line], e2e.read_safetensors(weights)

    def check_buffers(self, weights):
        for name, expected in CHANGES["buffers"].items():
            dtype, _, values = weights[name]
            if dtype in ("I32", "I64", "BOOL"):
                self.assertEqual(list(values), [int(value) for value in expected], name)
            else:
                self.assertLess(e2e.largest_difference(values, expected), TOLERANCE, name)
        self.assertEqual({weights[name][0] for name in ("steps", "powers", "odd", "mean")}, {"I64", "I32", "BOOL", "F32"})
        self.assertNotIn("unsaved", weights)

    def test_a_decomposed_batch_norm_trains_as_in_pytorch(self):
        normed = e2e.read_json(os.path.join(TORCH, "normed.json"))
        e2e.write_npy(self.path("batches", "x.npy"), "f4", normed["shape"], normed["x"])
        e2e.write_npy(self.path("batches", "label.npy"), "i8", normed["shape"][:2], normed["label"])
        for strategy, ranks in (("dp=1", 1), ("dp=2", 2)):
            losses, weights = self.run_plan(self.compile(strategy, ranks, model="normed"), f"--steps={STEPS}")
            self.assertLess(e2e.largest_difference(losses, normed["losses"]), TOLERANCE)
            for name in ("norm.running_mean", "norm.running_var"):
                self.assertLess(e2e.largest_difference(weights[name][2], normed["buffers"][name]), TOLERANCE, name)

    def test_training_is_as_in_pytorch(self):
        """A step is one forward of the whole batch: micro-batches and recomputation change no buffer twice."""
        for strategy, ranks in STRATEGIES:
            with self.subTest(strategy=strategy):
                # Batch norm has other statistics per micro-batch, so only the integers are compared.
                losses, weights = self.run_plan(self.compile(strategy, ranks), f"--steps={STEPS}")
                if "micro_batch" in strategy:
                    for name in ("steps", "powers", "odd", "seen"):
                        self.assertEqual(list(weights[name][2]), [int(value) for value in CHANGES["buffers"][name]], name)
                    self.assertLess(e2e.largest_difference(weights["mean"][2], CHANGES["buffers"]["mean"]), TOLERANCE)
                else:
                    self.assertLess(e2e.largest_difference(losses, CHANGES["losses"]), TOLERANCE)
                    self.check_buffers(weights)

    def test_a_resumed_run_continues_the_counters(self):
        plan, checkpoint = self.compile("dp=2", 2), "--checkpoint=" + self.path("checkpoint")
        self.run_plan(plan, "--steps=2", checkpoint)
        losses, weights = self.run_plan(plan, f"--steps={STEPS}", checkpoint, "--resume")
        self.assertLess(e2e.largest_difference(losses, CHANGES["losses"][2:]), TOLERANCE)
        self.check_buffers(weights)

    def test_inference_changes_buffers_once_per_step(self):
        plan = self.compile("dp=1", 1, "--infer")
        weights = self.run_plan(plan)[1]
        for name in ("steps", "powers", "odd", "seen"):
            self.assertEqual(list(weights[name][2]), [int(value) for value in CHANGES["buffers"][name]], name)

    def test_what_no_step_can_change_is_refused(self):
        for name, node, what in (("changed_input", "mul_", "changes the input 'x', and a step only reads its batch; change a copy, x = x.clone()"),
                                 ("changed_weight", "wrap_with_set_grad_enabled/mul_", "changes the weight 'first.weight', which the optimizer trains"),
                                 ("changed_tensor", "add_", "changes the tensor 'count', which is neither a parameter nor a buffer")):
            done = e2e.call([e2e.tool("dpc-opt"), os.path.join(TORCH, name + ".pt2"), "--cluster=local:1", f"--global-batch={BATCH}", "-o", self.path(name)])
            self.assertEqual(done.returncode, 1, name)
            self.assertIn(f"{name}.pt2: node ", done.stderr)
            self.assertIn(f"'{node}'", done.stderr)
            self.assertIn(what, done.stderr)


if __name__ == "__main__":
    unittest.main()
