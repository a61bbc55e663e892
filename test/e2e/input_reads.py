#!/usr/bin/env python3
"""What a plan knows of its inputs because of the ops that read them, and what dpc-run says of data that do not fit."""
import math
import os
import unittest

import e2e

BATCH, LENGTH, IDS, CLASSES, SAMPLES = 4, 8, 32, 3, 64

# Each model defines %s [4, 3] from its inputs.
MODEL = """
module {{
  func.func @forward(%w: tensor<32x16xf32> {{dpc.name = "w", dpc.role = "parameter"}},
                     %h: tensor<3x16xf32> {{dpc.name = "h", dpc.role = "parameter"}},
                     %g: tensor<3x8xf32> {{dpc.name = "g", dpc.role = "parameter"}}{inputs})
      -> (tensor<f32> {{dpc.loss, dpc.name = "loss"}}{metric_type}) {{
{scores}
{loss}
    %sum = dpc.reduce sum %each dims = [{dims}] : {each} -> tensor<f32>
    return %sum{metric} : tensor<f32>{metric_result}
  }}
}}
"""
ROWS = """
    %x = dpc.embedding %w, %ids : (tensor<32x16xf32>, tensor<4x8xi64>) -> tensor<4x8x16xf32>"""
LAST = ROWS + """
    %end = dpc.slice %x offsets = [0, {offset}, 0] strides = [1, 1, 1] : tensor<4x8x16xf32> -> tensor<4x1x16xf32>
    %p = dpc.reshape %end : tensor<4x1x16xf32> -> tensor<4x16xf32>
    %s = dpc.matmul %p, %h tb : (tensor<4x16xf32>, tensor<3x16xf32>) -> tensor<4x3xf32>"""
# The sum over the positions that are no padding.
POOLED = ROWS + """
    %mark = dpc.constant dense<1> : tensor<4x8xi64> -> tensor<4x8xi64>
    %is = dpc.compare ne %ids, %mark : (tensor<4x8xi64>, tensor<4x8xi64>) -> tensor<4x8xi1>
    %f = dpc.convert %is : tensor<4x8xi1> -> tensor<4x8xf32>
    %m = dpc.broadcast %f dims = [0, 1] : tensor<4x8xf32> -> tensor<4x8x16xf32>
    %k = dpc.binary mul %x, %m : (tensor<4x8x16xf32>, tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
    %p = dpc.reduce sum %k dims = [1] : tensor<4x8x16xf32> -> tensor<4x16xf32>
    %s = dpc.matmul %p, %h tb : (tensor<4x16xf32>, tensor<3x16xf32>) -> tensor<4x3xf32>"""
NUMBERS = """
    %s = dpc.matmul %x, %g tb : (tensor<4x8xf32>, tensor<3x8xf32>) -> tensor<4x3xf32>"""
# (x - 100) / 50, and an input of integers.
NORMALIZED = """
    %mean = dpc.constant dense<[[99.0, 101.0, 100.0, 100.0, 98.0, 102.0, 100.0, 100.0]]> : tensor<1x8xf32> -> tensor<1x8xf32>
    %means = dpc.broadcast %mean dims = [0, 1] : tensor<1x8xf32> -> tensor<4x8xf32>
    %d = dpc.constant dense<50.0> : tensor<4x8xf32> -> tensor<4x8xf32>
    %c = dpc.binary sub %x, %means : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %n = dpc.binary div %c, %d : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %tf = dpc.convert %t : tensor<4x8xi64> -> tensor<4x8xf32>
    %b = dpc.binary add %n, %tf : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %s = dpc.matmul %b, %g tb : (tensor<4x8xf32>, tensor<3x8xf32>) -> tensor<4x3xf32>"""
ENTROPY = """
    %each, %lse = dpc.cross_entropy %s, %label ignore_index = -100 : (tensor<4x3xf32>, tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>)"""
WEIGHTED = """
    %losses, %lse = dpc.cross_entropy %s, %label ignore_index = -100 : (tensor<4x3xf32>, tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>)
    %table = dpc.constant dense<[[0.0], [1.0], [2.5]]> : tensor<3x1xf32> -> tensor<3x1xf32>
    %v = dpc.embedding %table, %label : (tensor<3x1xf32>, tensor<4xi64>) -> tensor<4x1xf32>
    %u = dpc.reshape %v : tensor<4x1xf32> -> tensor<4xf32>
    %each = dpc.binary mul %losses, %u : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>"""
F, N = "tensor<4x3xf32>", "tensor<4xf32>"
# - y * log(softmax(s)).
SOFT = f"""
    %top = dpc.reduce max %s dims = [1] : {F} -> {N}
    %tops = dpc.broadcast %top dims = [0] : {N} -> {F}
    %z = dpc.binary sub %s, %tops : ({F}, {F}) -> {F}
    %e = dpc.unary exp %z : {F} -> {F}
    %total = dpc.reduce sum %e dims = [1] : {F} -> {N}
    %log = dpc.unary log %total : {N} -> {N}
    %logs = dpc.broadcast %log dims = [0] : {N} -> {F}
    %lp = dpc.binary sub %z, %logs : ({F}, {F}) -> {F}
    %yl = dpc.binary mul %y, %lp : ({F}, {F}) -> {F}
    %each = dpc.unary neg %yl : {F} -> {F}"""
# A term of the weights alone.
DECAY = f"""
    %sq = dpc.binary mul %g, %g : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
    %norm = dpc.reduce sum %sq dims = [1] : tensor<3x8xf32> -> tensor<3xf32>
    %norms = dpc.broadcast %norm dims = [1] : tensor<3xf32> -> {F}
    %each = dpc.binary add %nll, %norms : ({F}, {F}) -> {F}"""
# max(0, 1 - y * s), and (y - s) ^ 2.
HINGE = f"""
    %ys = dpc.binary mul %y, %s : ({F}, {F}) -> {F}
    %one = dpc.constant dense<1.0> : {F} -> {F}
    %gap = dpc.binary sub %one, %ys : ({F}, {F}) -> {F}
    %each = dpc.unary relu %gap : {F} -> {F}"""
SQUARED = f"""
    %gap = dpc.binary sub %y, %s : ({F}, {F}) -> {F}
    %each = dpc.binary mul %gap, %gap : ({F}, {F}) -> {F}"""


class InputReads(e2e.ScratchTest):
    def compile(self, scores, loss, metric="", batch=4, **inputs):
        """Returns what the plan knows of each input, by name."""
        arguments = "".join(f',\n    %{name}: tensor<{kind}> {{dpc.name = "{name}", dpc.role = "input", dpc.batch_dim = 0 : i64}}' for name, kind in inputs.items())
        rank = 2 if "label" not in inputs else 1
        with open(self.path("model.mlir"), "w") as file:
            text = MODEL.format(inputs=arguments, scores=scores, loss=loss, dims="0, 1" if rank == 2 else "0", each=F if rank == 2 else N,
                                metric=metric and f", %{metric}", metric_result=metric and ", tensor<f32>",
                                metric_type=metric and f', tensor<f32> {{dpc.name = "{metric}"}}')
            file.write(text.replace("<4x", f"<{batch}x"))
        e2e.must([e2e.tool("dpc-opt"), self.path("model.mlir"), "--cluster=local:1", "--strategy=dp=1", "--train=sgd", "--lr=0.1", "--init=random:1",
                  "-o", self.path("plan")])
        return {port["name"]: port["dependence"] for port in e2e.read_plan(self.path("plan"))["inputs"]}

    def run_on(self, **arrays):
        """Runs the plan on arrays of (type, shape of a sample, value(sample, k)) and returns the lines that dpc-run prints."""
        os.makedirs(self.path("data"), exist_ok=True)
        for name, (kind, shape, value) in arrays.items():
            count = math.prod(shape)
            e2e.write_npy(self.path(f"data/{name}.npy"), kind, (SAMPLES, *shape), [value(i, k) for i in range(SAMPLES) for k in range(count)])
        return " ".join(e2e.must([e2e.tool("dpc-run"), self.path("plan"), "--data=" + self.path("data"), "--steps=1", "--shuffle=1"]).split())

    def test_the_last_position(self):
        read = self.compile(LAST.format(offset=LENGTH - 1), ENTROPY, ids="4x8xi64", label="4xi64")
        self.assertTrue(read["ids"]["reads_last"])
        padded = ("i8", (LENGTH,), lambda i, k: 2 + (7 * i + 5 * k + i * k) % 29 if k < 3 + i % 4 else 0)
        self.assertIn("the loss reads the scores of the last position only, but 64 of 64 samples end with a run of 0",
                      self.run_on(ids=padded, label=("i8", (), lambda i, k: i % CLASSES)))
        self.assertFalse(self.compile(LAST.format(offset=0), ENTROPY, ids="4x8xi64", label="4xi64")["ids"]["reads_last"])

    def test_padding(self):
        read = self.compile(POOLED, ENTROPY, ids="4x8xi64", label="4xi64")
        self.assertEqual((read["ids"]["padding"], read["ids"]["reads_last"]), (1, False))
        self.assertIsNone(self.compile(LAST.format(offset=0), ENTROPY, ids="4x8xi64", label="4xi64")["ids"]["padding"])

    def test_numbers(self):
        read = self.compile(NORMALIZED, ENTROPY, x="4x8xf32", t="4x8xi64", label="4xi64")
        self.assertAlmostEqual(read["x"]["shift"], 100)
        self.assertAlmostEqual(read["x"]["scale"], 1 / 50)
        self.assertEqual((read["x"]["converted_to"], read["t"]["converted_to"], read["label"]["converted_to"]), (None, "f32", None))
        printed = self.run_on(x=("f4", (8,), lambda i, k: (i * (k + 3) % 17) / 8 - 1), t=("i8", (8,), lambda i, k: 1700000000 + i + k),
                              label=("i8", (), lambda i, k: i % CLASSES))
        self.assertIn("the model first computes (x - 100) / 50, after which the numbers are -2", printed)
        self.assertIn("become 1 in f32", printed)

    def test_class_weights(self):
        read = self.compile(NUMBERS, WEIGHTED, x="4x8xf32", label="4xi64")
        self.assertEqual((read["label"]["class_weights"], read["x"]["class_weights"]), ([0, 1, 2.5], []))
        self.assertEqual((read["x"]["shift"], read["x"]["scale"]), (None, None))
        self.assertEqual(self.compile(NUMBERS, ENTROPY, x="4x8xf32", label="4xi64")["label"]["class_weights"], [])

    def test_means_over_ignored_labels(self):
        """An accuracy is wrong where the loss ignores labels."""
        accuracy = ENTROPY + """
    %values, %chosen = dpc.topk %s : tensor<4x3xf32> -> tensor<4x1xf32>, tensor<4x1xi64>
    %choice = dpc.reshape %chosen : tensor<4x1xi64> -> tensor<4xi64>
    %hit = dpc.compare eq %choice, %label : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi1>
    %hits = dpc.convert %hit : tensor<4xi1> -> tensor<4xf32>
    %count = dpc.reduce sum %hits dims = [0] : tensor<4xf32> -> tensor<f32>
    %quarter = dpc.constant dense<0.25> : tensor<f32> -> tensor<f32>
    %accuracy = dpc.binary mul %count, %quarter : (tensor<f32>, tensor<f32>) -> tensor<f32>"""
        read = self.compile(NUMBERS, accuracy, metric="accuracy", x="4x8xf32", label="4xi64")
        self.assertEqual((read["label"]["counted_by"], read["x"]["counted_by"]), ("accuracy", ""))
        printed = self.run_on(x=("f4", (8,), lambda i, k: (i * (k + 3) % 17) / 8), label=("i8", (), lambda i, k: i % CLASSES if i % 4 else -100))
        self.assertIn("25 % ignored (-100), but output 'accuracy' is a mean over all labels", printed)
        # A sum counts the right ones.
        count = accuracy.replace("dense<0.25>", "dense<1.0>")
        self.assertEqual(self.compile(NUMBERS, count, metric="accuracy", x="4x8xf32", label="4xi64")["label"]["counted_by"], "")

    def test_targets(self):
        decayed = SOFT.replace("%each = dpc.unary neg %yl", "%nll = dpc.unary neg %yl") + DECAY
        for loss, classes, ignores in ((SOFT, 1, False), (decayed, 1, False), (HINGE, None, True), (SQUARED, None, False)):
            with self.subTest(loss):
                read = self.compile(NUMBERS, loss, x="4x8xf32", y="4x3xf32")
                self.assertEqual((read["y"]["class_dim"], read["y"]["ignores_zero"]), (classes, ignores))
        # A mean divides by the number of elements, also where a small model has fewer.
        mean = HINGE.replace("%each = dpc.unary relu %gap", "%all = dpc.unary relu %gap") + f"""
    %share = dpc.constant dense<{1 / 96}> : {F} -> {F}
    %each = dpc.binary mul %all, %share : ({F}, {F}) -> {F}"""
        self.assertTrue(self.compile(NUMBERS, mean, batch=32, x="4x8xf32", y="4x3xf32")["y"]["ignores_zero"])


if __name__ == "__main__":
    unittest.main()
