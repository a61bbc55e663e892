#!/usr/bin/env python3
"""Properties of a training step besides its gradients, on one rank and with all kinds of parallelism at once.

The learning rate follows its schedule, a last batch that is not full has the weight of its samples, and parameters that
the loss does not depend on are named, unchanged and saved. (follow_curve.py covers clipping by the global norm:
resnet-tiny's gradients are always clipped, and its optimizer is SGD. communication.py checks that gradients are reduced
once per step.)
"""
import array
import math
import unittest

import e2e

# One rank, and strategies that combine all axes that affect the optimizer.
STRATEGIES = (("dp=1", 1), ("pp=2,dp=2,zero=1,micro_batch=2", 4), ("dp=2,tp=2,zero=3,micro_batch=2", 4), ("pp=2,tp=2,dp=2,zero=2,micro_batch=1", 8))


def compile_model(model, plan, strategy, ranks, batch, words):
    """Returns the output of dpc-opt."""
    return e2e.must([e2e.tool("dpc-opt"), model, f"--cluster=local:{ranks}", f"--global-batch={batch}", f"--strategy={strategy}",
                     "--verify=off", "-o", plan, *words])


def train(plan, batches, steps):
    """Returns (a row of metrics per step, the saved parameters)."""
    e2e.must([e2e.tool("dpc-run"), plan, f"--batches={batches}", f"--steps={steps}", "--poison", f"--metrics={plan}.jsonl",
              f"--save-params={plan}.safetensors"])
    return e2e.read_metrics(f"{plan}.jsonl"), e2e.read_safetensors(f"{plan}.safetensors")


def distance(a, b):
    """The largest difference of two sets of tensors."""
    return math.sqrt(math.fsum((x - y) ** 2 for name, (_, _, values) in a.items() for x, y in zip(values, b[name][2])))


class LearningRate(unittest.TestCase):
    """Plain SGD changes the parameters by the rate times the gradient."""

    def follows(self, schedule, rate):
        batches = e2e.MODELS + "/gpt2-tiny/batches"
        for strategy, ranks in STRATEGIES:
            with self.subTest(strategy=strategy), e2e.scratch() as folder:
                compile_model(e2e.model("gpt2-tiny"), f"{folder}/plan", strategy, ranks, 8,
                              ["--train=sgd", "--lr=0.25", f"--lr-schedule={schedule}"])
                rows, before = train(f"{folder}/plan", batches, 1)
                for step in range(2, 8):
                    rows, after = train(f"{folder}/plan", batches, step)
                    moved = distance(after, before) / rows[-1]["grad_norm"]
                    self.assertAlmostEqual(moved, rate(step - 1), delta=2e-4 * 0.25, msg=f"step {step}")
                    before = after

    def test_constant_after_warm_up(self):
        self.follows("constant,warmup=3", lambda s: 0.25 * min(1, s / 3))

    def test_cosine_to_a_least_rate(self):
        self.follows("cosine,warmup=2,total=5,min=0.05",
                     lambda s: 0.125 * s if s < 2 else 0.05 + 0.2 * (1 + math.cos(math.pi * min(1, (s - 2) / 3))) / 2)

    def test_linear(self):
        self.follows("linear,total=5", lambda s: 0.25 * max(0, 1 - s / 5))


class LastBatch(unittest.TestCase):
    """A batch of 8 samples, 3 of them without labels, is a batch of 5."""

    def test_weighs_what_it_holds(self):
        source = e2e.MODELS + "/gpt2-tiny/batches"
        words = ["--train=adamw", "--lr=1e-3", "--clip-grad-norm=0.3"]
        with e2e.scratch() as folder:
            for port in ("ids", "labels"):
                dtype, shape, values = e2e.read_npy(f"{source}/{port}.npy")
                row = shape[2]
                full, five = array.array(values.typecode), array.array(values.typecode)
                for step in range(3):
                    one = values[step * 8 * row:(step + 1) * 8 * row]
                    five += one[:5 * row]
                    rest = array.array(values.typecode, [-100] * (3 * row)) if port == "labels" else one[5 * row:]
                    full += one[:5 * row] + rest
                for name, samples, data in (("full", 8, full), ("five", 5, five)):
                    e2e.must(["mkdir", "-p", f"{folder}/{name}"])
                    e2e.write_npy(f"{folder}/{name}/{port}.npy", dtype, (3, samples, row), data)
            compile_model(e2e.model("gpt2-tiny"), f"{folder}/plan", "dp=1", 1, 5, words)
            want_rows, want = train(f"{folder}/plan", f"{folder}/five", 3)
            for strategy, ranks in STRATEGIES:
                with self.subTest(strategy=strategy):
                    compile_model(e2e.model("gpt2-tiny"), f"{folder}/{strategy}", strategy, ranks, 8, words)
                    rows, got = train(f"{folder}/{strategy}", f"{folder}/full", 3)
                    for a, b in zip(rows, want_rows):
                        self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-5)
                        self.assertAlmostEqual(a["grad_norm"], b["grad_norm"], delta=1e-4)
                    size = math.sqrt(math.fsum(x * x for _, _, values in want.values() for x in values))
                    self.assertLess(distance(got, want), 1e-4 * size)


class UnusedParameters(unittest.TestCase):
    NAMES = ("spare.weight", "other_head.bias")

    def model(self, folder):
        """gpt2-tiny with a second output, and two weights that only this output reads."""
        import onnx
        from onnx import TensorProto, helper
        model = onnx.load(e2e.model("gpt2-tiny"))
        graph = model.graph
        for name, shift in zip(self.NAMES, (0.5, 1.5)):
            graph.initializer.append(helper.make_tensor(name, TensorProto.FLOAT, [6], [shift + i for i in range(6)]))
        graph.node.append(helper.make_node("Mul", self.NAMES, ["product"]))
        graph.node.append(helper.make_node("ReduceSum", ["product"], ["other"], keepdims=0))
        graph.output.append(helper.make_tensor_value_info("other", TensorProto.FLOAT, []))
        onnx.save(model, f"{folder}/model.onnx")
        return f"{folder}/model.onnx"

    def test_are_named_left_and_saved(self):
        with e2e.scratch() as folder:
            model = self.model(folder)
            for strategy, ranks in STRATEGIES:
                with self.subTest(strategy=strategy):
                    said = compile_model(model, f"{folder}/plan", strategy, ranks, 8, ["--train=adamw", "--weight-decay=0.5"])
                    said = " ".join(said.split())  # the message is wrapped
                    self.assertEqual(said.count("not trained"), 1, said)
                    report = e2e.read_report(f"{folder}/plan")["parameters"]
                    _, saved = train(f"{folder}/plan", e2e.MODELS + "/gpt2-tiny/batches", 2)
                    for name, shift in zip(self.NAMES, (0.5, 1.5)):
                        self.assertIn(f"'{name}'", said)
                        self.assertNotIn(name, report["trained"])
                        self.assertEqual(list(saved[name][2]), [shift + i for i in range(6)])


if __name__ == "__main__":
    unittest.main(verbosity=2)
