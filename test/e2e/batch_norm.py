#!/usr/bin/env python3
"""Batch norm: running statistics change as in PyTorch, and a remark says that micro-batches change the result."""
import math
import os
import unittest

import e2e
import loss_suspicions

MODEL = os.path.join(e2e.MODELS, "resnet-tiny")
ORACLE = e2e.read_json(os.path.join(MODEL, "oracle.json"))
TOLERANCE = 1e-4


class BatchNorm(unittest.TestCase):
    def setUp(self):
        scratch = e2e.scratch()
        self.folder = scratch.__enter__()
        self.addCleanup(scratch.__exit__, None, None, None)

    def compile(self, strategy, ranks, *words, train=("--train=sgd", "--momentum=0.9")):
        """Compiles into self.folder/STRATEGY; returns the folder and the remarks of its report."""
        plan = os.path.join(self.folder, strategy)
        optimizer = ORACLE["optimizer"]
        e2e.must([e2e.tool("dpc-opt"), e2e.model("resnet-tiny"), f"--cluster=local:{ranks}", "--global-batch=8",
                  f"--strategy={strategy}", "-o", plan, *train, f"--lr={optimizer['lr']}", "--clip-grad-norm=1", *words])
        return plan, " ".join(e2e.read_report(plan)["remarks"])

    def test_running_means_move(self):
        for strategy, ranks in (("dp=1", 1), ("dp=2,tp=2,zero=3", 4), ("pp=2", 2)):
            plan, _ = self.compile(strategy, ranks, "--verify=off")
            e2e.must([e2e.tool("dpc-run"), plan, f"--batches={MODEL}/batches", f"--steps={ORACLE['steps']}",
                      f"--save-params={plan}.safetensors"])
            saved = e2e.read_safetensors(f"{plan}.safetensors")
            self.assertIn("body.b.running_var", saved)
            self.assertEqual(len(ORACLE["buffer_norms"]), 20)
            for name, norm in ORACLE["buffer_norms"].items():
                got = math.sqrt(math.fsum(x * x for x in saved[name][2]))
                self.assertLess(abs(got / norm - 1), TOLERANCE, f"{strategy}: {name}")

    def test_inference_normalizes_by_running_statistics(self):
        """The file is in training mode; with --infer, the loss of a sample does not depend on the other samples."""
        data = os.path.join(self.folder, "data")
        os.mkdir(data)
        for file in os.listdir(os.path.join(MODEL, "batches")):
            dtype, shape, values = e2e.read_npy(os.path.join(MODEL, "batches", file))
            e2e.write_npy(os.path.join(data, file), dtype, shape[1:], values[:len(values) // shape[0]])
        losses = []
        for batch in (8, 1):
            plan = os.path.join(self.folder, f"infer-{batch}")
            said = e2e.must([e2e.tool("dpc-opt"), e2e.model("resnet-tiny"), "--infer", "--cluster=local:1", f"--global-batch={batch}", "--verify=off", "-o", plan])
            self.assertIn("--infer: batch norm by running statistics", " ".join(said.split()))
            words = e2e.must([e2e.tool("dpc-run"), plan, f"--data={data}"]).splitlines()[-1].split()
            self.assertEqual((words[0], words[3]), ("loss", "8"))
            losses.append(float(words[1]))
        self.assertLess(abs(losses[0] / losses[1] - 1), TOLERANCE)

    def test_a_search_leaves_the_batch_whole(self):
        _, remarks = self.compile("auto", 2, "--verify=off")
        self.assertIn("micro-batches were not searched", remarks)

    def test_micro_batches_are_as_on_one_device(self):
        """Each micro-batch is normalized by its own statistics, which span the ranks: the plan is verified, with a remark."""
        for strategy, ranks in (("dp=1,micro_batch=4", 1), ("dp=2,micro_batch=2", 2), ("pp=2,micro_batch=4", 2)):
            plan, remarks = self.compile(strategy, ranks, "--verify=on")
            self.assertIn("statistics over each of 2 micro-batches", remarks)
            self.assertEqual(e2e.read_report(plan)["verification"]["scope"], "full")

    def test_convolutions_read_kept_activations(self):
        """A chunk keeps activations in a frame and computes others outside: such plans are valid and correct."""
        rows = []
        for strategy, ranks in (("dp=2,micro_batch=2", 2), ("dp=2,pp=2,vpp=2,micro_batch=2", 4)):
            plan, _ = self.compile(strategy, ranks, "--verify=off", train=("--train=adamw",))
            e2e.must([e2e.tool("dpc-run"), plan, f"--batches={MODEL}/batches", "--steps=1", "--poison", f"--metrics={plan}.jsonl"])
            rows += e2e.read_metrics(f"{plan}.jsonl")
        for value in ("loss", "grad_norm"):
            self.assertLess(abs(rows[1][value] / rows[0][value] - 1), TOLERANCE, value)

    def test_one_element_has_no_statistics(self):
        with open(os.path.join(self.folder, "flat.mlir"), "w") as file:
            file.write("module {" + loss_suspicions.normed(0.9) + "}")
        words = [e2e.tool("dpc-opt"), os.path.join(self.folder, "flat.mlir"), "--cluster=local:1", "--init=random:1", "--train=sgd", "--lr=0.1", "-o",
                 os.path.join(self.folder, "flat")]
        done = e2e.call([*words, "--strategy=dp=1,micro_batch=1"])
        self.assertEqual(done.returncode, 1)
        self.assertIn("batch norm gets one element of each channel in each of 8 micro-batches: its result would be its bias, whatever its input is; "
                      "a larger micro_batch is accepted", done.stderr)
        e2e.must([*words, "--strategy=dp=1,micro_batch=2"])

    def test_micro_batches_of_different_sizes_are_refused(self):
        done = e2e.call([e2e.tool("dpc-opt"), e2e.model("resnet-tiny"), "--cluster=local:1", "--global-batch=8",
                         "--strategy=dp=1,micro_batch=3", "-o", self.folder])
        self.assertEqual(done.returncode, 1)
        self.assertIn("a batch of 8 cannot be split into 1 x 3", done.stderr)


if __name__ == "__main__":
    unittest.main()
