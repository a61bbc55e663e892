#!/usr/bin/env python3
"""Verification distinguishes the rounding of a model from the errors of a plan. (VerifyTest has wrong plans.)"""
import os
import random
import unittest

import e2e
import odd_models
import onnx
from onnx import TensorProto, helper


def sines(path, scale):
    """Writes a two-layer perceptron whose sum is multiplied by `scale` before the sine."""
    b = odd_models.Builder(random.Random(1))
    size, width, classes = 32, 64, 8
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", size]),
              helper.make_tensor_value_info("labels", TensorProto.INT64, ["batch"])]
    inner = b.op("Tanh", [b.linear("x", "inner", size, width)])
    outer = b.op("Mul", [b.linear(inner, "outer", width, size), b.constant(odd_models.np.float32(scale))])
    b.cross_entropy(b.linear(b.op("Sin", [outer]), "head", size, classes), "labels", classes)
    onnx.save(b.model("sines", inputs), path)


class Verification(unittest.TestCase):
    def compiled(self, scale):
        """Returns the verification in report.json of tensor-parallel `sines`: sums over two ranks are in another order."""
        with e2e.scratch() as folder:
            model = os.path.join(folder, "sines.onnx")
            sines(model, scale)
            said = e2e.must([e2e.tool("dpc-opt"), model, "--cluster=local:2", "--global-batch=8", "--strategy=tp=2", "--train=adamw",
                             "-o", os.path.join(folder, "plan")])
            return e2e.read_report(os.path.join(folder, "plan"))["verification"], said

    def test_usual_tolerances_are_enough_for_a_usual_model(self):
        seen, said = self.compiled(1)
        self.assertFalse(seen["magnifies_rounding"], seen)
        self.assertLess(seen["output_error"], 2e-4)
        self.assertNotIn("magnifies", said)

    def test_a_model_may_magnify_rounding(self):
        seen, said = self.compiled(3e4)
        self.assertTrue(seen["magnifies_rounding"], seen)
        self.assertLess(seen["tolerance_share"], 1)
        self.assertIn("the model magnifies rounding as much on one device", said)


if __name__ == "__main__":
    unittest.main()
