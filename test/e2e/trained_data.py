#!/usr/bin/env python3
"""The profile of the training data, which checkpoints and weights keep, against the data of evaluation, inference and another training."""
import json
import os
import unittest

import numpy

import e2e

MODEL = """module {{
  func.func @forward(%w: tensor<6x3xf32> {{dpc.name = "w", dpc.role = "parameter"}}{more},
                     %x: tensor<8x6xf32> {{dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64}},
                     %y: tensor<8xi64> {{dpc.name = "y", dpc.role = "input", dpc.batch_dim = 0 : i64}})
      -> (tensor<f32> {{dpc.loss, dpc.name = "loss"}}) {{
    %h = dpc.matmul %x, %w : (tensor<8x6xf32>, tensor<6x3xf32>) -> tensor<8x3xf32>
    {body}
    %losses, %ls = dpc.cross_entropy %s, %y ignore_index = -100 : (tensor<8x3xf32>, tensor<8xi64>) -> (tensor<8xf32>, tensor<8xf32>)
    %total = dpc.reduce sum %losses dims = [0] : tensor<8xf32> -> tensor<f32>
    %share = dpc.constant dense<0.125> : tensor<f32> -> tensor<f32>
    %loss = dpc.binary mul %total, %share : (tensor<f32>, tensor<f32>) -> tensor<f32>
    return %loss : tensor<f32>
  }}
}}"""
ONE = MODEL.format(more="", body="%s = dpc.reshape %h : tensor<8x3xf32> -> tensor<8x3xf32>")
CUT = MODEL.format(more="", body="%s = dpc.unary relu %h : tensor<8x3xf32> -> tensor<8x3xf32>")
TWO = MODEL.format(more=', %v: tensor<3x3xf32> {dpc.name = "v", dpc.role = "parameter"}',
                   body="%s = dpc.matmul %h, %v : (tensor<8x3xf32>, tensor<3x3xf32>) -> tensor<8x3xf32>")


class TrainedData(e2e.ScratchTest):
    def plan(self, name, model=ONE, *words):
        with open(self.path(name + ".mlir"), "w") as file:
            file.write(model)
        words = words or ("--train=sgd", "--lr=0.01")
        e2e.must([e2e.tool("dpc-opt"), self.path(name + ".mlir"), "--cluster=local:1", "--init=random:1", "--verify=off", *words, "-o", self.path(name)])
        return self.path(name)

    def data(self, name, scale=1.0, order=range(6), seed=1):
        """Samples whose elements have different means."""
        random = numpy.random.default_rng(seed)
        x = random.standard_normal((160, 6)) + 2 * numpy.arange(6)
        os.makedirs(self.path(name))
        numpy.save(self.path(f"{name}/x.npy"), numpy.ascontiguousarray(scale * x[:, list(order)], "f4"))
        numpy.save(self.path(f"{name}/y.npy"), random.integers(0, 3, 160))
        return "--data=" + self.path(name)

    def said(self, plan, *words):
        return e2e.must([e2e.tool("dpc-run"), plan, *words])

    def test_other_data_than_that_of_training_is_said(self):
        plan = self.plan("train")
        weights, folder, saved = self.path("w.safetensors"), self.path("exported"), self.path("saved")
        own = self.data("own")
        self.said(plan, own, "--steps=4", "--save-params=" + weights, "--export=" + folder, "--checkpoint=" + saved)
        infer = self.plan("infer", ONE, "--infer")
        permuted = self.data("permuted", order=[1, 0, 2, 3, 4, 5], seed=2)
        bytes_ = self.data("bytes", scale=255, seed=3)
        other = self.data("other", seed=4)
        for origin, path in (("--init", weights), ("--init", folder), ("--resume", f"{saved}/step-4")):
            where = f"in the data that trained {path} ({own})"
            run = [infer, f"{origin}={path}"]
            self.assertIn(f"input 'x': positions along dimension 1 are in another order than {where}: 0 resembles 1, 1 resembles 0\n", self.said(*run, permuted))
            self.assertIn(f", but {where} ", self.said(*run, bytes_))
            self.assertIn(f"about 100 % of the samples of {own} are also {where}\n", self.said(*run, own))
            self.assertNotIn(where, self.said(*run, other))
        # Training from the weights, and continued training with other data.
        self.assertIn("another order than in the data that trained " + weights, self.said(plan, "--init=" + weights, permuted, "--steps=1"))
        again = [f"--checkpoint={saved}", "--resume", "--new-data", "--steps=8"]
        self.assertIn(f"another order than in the data that trained {saved}/step-4", self.said(plan, *again, permuted))
        # The checkpoint now has the profile of the new data.
        self.assertNotIn("another order", self.said(infer, f"--resume={saved}/step-8", permuted))
        self.assertIn("another order", self.said(infer, f"--resume={saved}/step-8", own))

    def test_samples_that_trained_the_weights_are_said(self):
        plan, weights, saved = self.plan("train"), self.path("w.safetensors"), self.path("saved")
        evaluates = ["--eval-plan=" + self.plan("infer", ONE, "--infer"), "--steps=1", "--init=" + weights]
        own = self.data("own")
        x, y = (numpy.load(self.path(f"own/{name}.npy")) for name in "xy")
        other = self.data("other", seed=4)
        for name, first, end in (("fold", 0, 96), ("rest", 96, 160)):
            os.makedirs(self.path(name))
            numpy.save(self.path(f"{name}/x.npy"), x[first:end])
            numpy.save(self.path(f"{name}/y.npy"), y[first:end])
        fold, rest = "--data=" + self.path("fold"), "--eval-data=" + self.path("rest")
        self.said(plan, own, "--steps=4", "--save-params=" + weights, "--checkpoint=" + saved)
        where = f"in the data that trained {weights} ({own})"
        # Another fold is no held-out data for weights that all folds have trained.
        self.assertIn(f"about 100 % of the samples of --eval-data are also {where}\n", self.said(plan, *evaluates, fold, rest))
        self.assertNotIn(where, self.said(plan, *evaluates, fold, "--eval-data=" + self.path("other")))
        # Training continues with the same samples, and its held-out data are new.
        self.assertNotIn("are also", self.said(plan, own, "--init=" + weights, "--steps=2"))
        again = [plan, own, f"--checkpoint={saved}", "--resume", evaluates[0]]
        self.assertNotIn("are also", self.said(*again, "--steps=6", "--eval-data=" + self.path("other")))
        # The run says the same of its own data.
        said = self.said(*again, "--steps=8", rest)
        self.assertIn(f"64 of 64 samples of --eval-data are also in {own}\n", said)
        self.assertNotIn("are also in the data that trained", said)

    def test_evaluation_is_compared_with_training(self):
        words = [self.data("own"), "--steps=2", "--eval-plan=" + self.plan("infer", ONE, "--infer")]
        self.data("bytes", scale=255, seed=3)
        self.data("other", seed=4)
        plan = self.plan("train")
        self.assertIn(f", but in {words[0]} ", self.said(plan, *words, "--eval-data=" + self.path("bytes")))
        self.assertNotIn(f"in {words[0]} ", self.said(plan, *words, "--eval-data=" + self.path("other")))

    def test_another_graph_than_that_of_training_is_said(self):
        own, weights, saved = self.data("own"), self.path("w.safetensors"), self.path("saved")
        self.said(self.plan("train"), own, "--steps=2", "--save-params=" + weights, "--checkpoint=" + saved)
        infer, other = self.plan("infer", ONE, "--infer"), self.plan("other", CUT, "--infer")
        for origin in ("--init=" + weights, f"--resume={saved}/step-2"):
            path = origin.split("=")[1]
            said = f"the plan computes the loss by another graph than the one that trained {path}: is it the same model?"
            self.assertIn(said, self.said(other, origin, own))
            self.assertNotIn("another graph", self.said(infer, origin, own))
        same, cut = self.plan("same"), self.plan("cut", CUT)
        said = f"the plan trains another graph than the one that trained {weights}: is it the same model?"
        self.assertIn(said, self.said(cut, "--init=" + weights, own, "--steps=1"))
        self.assertNotIn("another graph", self.said(same, "--init=" + weights, own, "--steps=1"))
        # A part of the weights is for another model.
        self.assertNotIn("another graph", self.said(cut, "--init=" + weights, "--init-partial", own, "--steps=1"))

    def test_a_damaged_profile_is_said(self):
        plan, weights, own = self.plan("train"), self.path("w.safetensors"), self.data("own")
        self.said(plan, own, "--steps=1", "--save-params=" + weights)
        with open(weights, "rb") as file:
            content = file.read()
        with open(weights, "wb") as file:
            file.write(content.replace(b'\\"samples\\"', b'\\"sampler\\"'))
        self.assertIn("w.safetensors: samples: ", said := self.said(plan, own, "--steps=1", "--init=" + weights))
        self.assertIn("the data is not compared with that of training", said)

    def test_weights_of_another_model_are_refused(self):
        saved, weights, own = self.path("saved"), self.path("w.safetensors"), self.data("own")
        self.said(self.plan("two", TWO), own, "--steps=1", "--checkpoint=" + saved, "--save-params=" + weights)
        for plan in (self.plan("one"), self.plan("infer", ONE, "--infer")):
            for word in (f"--resume={saved}/step-1", "--init=" + weights):
                ran = e2e.call([e2e.tool("dpc-run"), plan, own, "--steps=2", word])
                self.assertEqual(ran.returncode, 1, word)
                self.assertIn("'v'", ran.stderr)
                self.assertIn("--init-partial", ran.stderr)
                self.said(plan, own, "--steps=2", word, "--init-partial")

    def test_values_of_the_model_file_are_said(self):
        weights = numpy.random.default_rng(5).standard_normal((6, 3)).astype("f4")
        with open(self.path("w.bin"), "wb") as file:
            file.write(weights.tobytes())
        source = f'dpc.source = {{file = "{self.path("w.bin")}", offset = 0 : i64, bytes = 72 : i64, dtype = "f32"}}'
        plan = self.plan("stored", ONE.replace('dpc.role = "parameter"', f'dpc.role = "parameter", {source}', 1))
        head = json.dumps({"w": {"dtype": "F32", "shape": weights.shape, "data_offsets": [0, weights.nbytes]}}).encode()
        with open(self.path("same.safetensors"), "wb") as file:
            file.write(len(head).to_bytes(8, "little") + head + weights.tobytes())
        words, trained = [plan, self.data("own"), "--steps=1"], self.path("trained.safetensors")
        same = self.said(*words, "--init=" + self.path("same.safetensors"), "--save-params=" + trained)
        self.assertIn("same.safetensors are those of the model file: are they trained?", same)
        self.assertNotIn("are they trained?", self.said(*words, "--init=" + trained))


if __name__ == "__main__":
    unittest.main()
