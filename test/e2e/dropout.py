#!/usr/bin/env python3
"""Dropout and random numbers in training: every sharding drops the elements that one device drops, as specified in Dropout.h.

Needs the onnx package, which is in the environment of the build folder.
"""
import os
import unittest

import e2e

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    e2e.run_in_build_environment("onnx")

GOLDEN, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
TORCH = os.path.join(e2e.SOURCE, "test", "fixtures", "torch")
BATCH, COLUMNS = 10, 60
LOSS_TOLERANCE = 5e-6  # relative; after some steps, because sums are in another order


def high(z):
    """SplitMix64's finalizer without its last shift."""
    z = (z ^ z >> 30) * FIRST % 2**64
    return (z ^ z >> 27) * SECOND % 2**64


def mixed(z):
    z = high(z)
    return z ^ z >> 31


def masks(step, seed, p, shape, count):
    """Returns the elements that `count` dropouts keep in this step."""
    key = mixed((step << 32) + seed)
    for _ in range(count):
        yield np.array([high((key + (place + 1) * GOLDEN) % 2**64) >= int(p * 2**64) for place in range(int(np.prod(shape)))]).reshape(shape)
        key = mixed((key + GOLDEN) % 2**64)


def dropout(of, result, name="half"):
    return helper.make_node("Dropout", [of, name, "training"], [result])


def scalars(p):
    return [numpy_helper.from_array(np.array(p, np.float32), "half"), numpy_helper.from_array(np.array(True), "training")]


def write_columns(path, p=0.5, loss=True):
    """The loss is the sum of dropout(x w) + 4096 dropout(x w). With x = 2^sample, the gradients of w show which elements are kept."""
    nodes = [helper.make_node("Mul", ["x", "w"], ["y"]), dropout("y", "a"), dropout("y", "b"), helper.make_node("Mul", ["b", "more"], ["c"]),
             helper.make_node("Add", ["a", "c"], ["d"]), helper.make_node("ReduceSum", ["d"], ["loss"], keepdims=0)]
    weights = [numpy_helper.from_array(np.zeros(COLUMNS, np.float32), "w"), numpy_helper.from_array(np.full(COLUMNS, 4096, np.float32), "more")]
    output = helper.make_tensor_value_info("loss", TensorProto.FLOAT, []) if loss else helper.make_tensor_value_info("d", TensorProto.FLOAT, ["n", COLUMNS])
    graph = helper.make_graph(nodes if loss else nodes[:-1], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", COLUMNS])], [output],
                              weights + scalars(p))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def write_gpt(path, p):
    """gpt2-tiny with dropout after its softmaxes and after the GEMMs that end a branch."""
    model = onnx.load(e2e.model("gpt2-tiny"))
    nodes = []
    for node in model.graph.node:
        nodes.append(node)
        if node.op_type == "Softmax" or node.name.endswith(("proj/MatMul", "fc2/MatMul", "out/MatMul")):
            nodes.append(dropout(node.output[0] + "_whole", node.output[0]))
            node.output[0] += "_whole"
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(scalars(p))
    onnx.save(model, path)
    return sum(node.op_type == "Dropout" for node in nodes)


class Dropout(unittest.TestCase):
    def setUp(self):
        scratch = e2e.scratch()
        self.folder = scratch.__enter__()
        self.addCleanup(scratch.__exit__, None, None, None)

    def kept(self, ranks, strategy, steps, words=(), model=None):
        """Returns the elements that both dropouts kept in the last step."""
        batches = f"{self.folder}/batches"
        if not model:
            model = f"{self.folder}/columns.onnx"
            words = [*words, "--trainable=w", "--frozen=more"]
            write_columns(model)
        os.makedirs(batches, exist_ok=True)
        x = np.repeat(2.0 ** np.arange(BATCH, dtype=np.float32)[:, None], COLUMNS, 1)
        np.save(f"{batches}/x.npy", np.stack([x] * steps))
        plan = f"{self.folder}/plan"
        e2e.must([e2e.tool("dpc-opt"), model, f"--cluster=local:{ranks}", f"--global-batch={BATCH}", f"--strategy={strategy}", "--train=sgd", "--lr=1",
                  "--verify=off", "-o", plan, *words])
        total = [np.zeros(COLUMNS)]
        for count in (steps - 1, steps):
            if count:
                e2e.must([e2e.tool("dpc-run"), plan, f"--batches={batches}", f"--steps={count}", "--poison", f"--save-params={plan}.safetensors"])
                total.append(np.array(e2e.read_safetensors(f"{plan}.safetensors")["w"][2], np.float64))
        bits = np.rint((total[-2] - total[-1]) / 2).astype(np.int64)
        rows = np.array([(bits >> b) & 1 for b in range(24)], bool)
        return rows[:BATCH], rows[12:12 + BATCH]

    def test_every_sharding_keeps_the_same(self):
        for step, seed in ((1, 0), (2, 0), (1, 7)):
            want = list(masks(step, seed, 0.5, (BATCH, COLUMNS), 2))
            for ranks, strategy in ((1, "dp=1"), (2, "dp=2,micro_batch=3"), (4, "dp=4"), (2, "tp=2"), (4, "dp=2,tp=2,micro_batch=1")):
                if strategy != "dp=1" and (step, seed) != (2, 0):
                    continue
                with self.subTest(step=step, seed=seed, strategy=strategy):
                    for got, mask in zip(self.kept(ranks, strategy, step, words=[f"--seed={seed}"]), want):
                        self.assertTrue(np.array_equal(got, mask))

    def test_torch_models_keep_the_same(self):
        want = list(masks(1, 0, 0.5, (BATCH, COLUMNS), 2))
        for got, mask in zip(self.kept(2, "dp=2", 1, model=f"{TORCH}/columns.pt2"), want):
            self.assertTrue(np.array_equal(got, mask))

    def test_attention_of_torch(self):
        """Dropout of attention probabilities and of whole channels."""
        os.mkdir(f"{self.folder}/batches")
        np.save(f"{self.folder}/batches/x.npy", np.random.default_rng(1).standard_normal((3, 8, 6, 16), np.float32))
        losses = {}
        for ranks, strategy in ((1, "dp=1"), (3, "dp=3"), (2, "tp=2"), (2, "dp=2,micro_batch=1")):
            plan = f"{self.folder}/plan"
            e2e.must([e2e.tool("dpc-opt"), f"{TORCH}/attention.pt2", f"--cluster=local:{ranks}", "--global-batch=8", f"--strategy={strategy}", "--train=sgd",
                      "--lr=0.5", "--verify=off", "-o", plan])
            e2e.must([e2e.tool("dpc-run"), plan, f"--batches={self.folder}/batches", "--steps=3", "--poison", f"--metrics={plan}.jsonl"])
            losses[strategy] = [row["loss"] for row in e2e.read_metrics(f"{plan}.jsonl")]
        one = losses.pop("dp=1")
        for strategy, got in losses.items():
            self.assertLess(max(abs(a - b) / b for a, b in zip(got, one)), LOSS_TOLERANCE, strategy)

    def test_masks_look_drawn(self):
        """The share of kept elements, and its agreement between steps, dropouts and adjacent elements, within four standard deviations."""
        count, p = 20000, 0.3
        drawn = [mask for step in (1, 2) for mask in masks(step, 0, p, (count,), 2)]
        kept = 1 - p
        for mask in drawn:
            self.assertLess(abs(mask.mean() - kept), 4 * (kept * p / count) ** 0.5)
        agree = kept * kept + p * p
        pairs = [(a, b) for i, a in enumerate(drawn) for b in drawn[:i]] + [(mask[1:], mask[:-1]) for mask in drawn]
        for a, b in pairs:
            self.assertLess(abs((a == b).mean() - agree), 4 * (agree * (1 - agree) / len(a)) ** 0.5)

    def test_models_train_alike(self):
        model, batches = f"{self.folder}/gpt.onnx", e2e.MODELS + "/gpt2-tiny/batches"
        losses = {}
        for p, ranks, strategy in ((0.1, 1, "dp=1"), (0.0, 1, "dp=1"), (0.1, 3, "dp=3"), (0.1, 4, "dp=2,tp=2,micro_batch=2"), (0.1, 2, "pp=2,micro_batch=4"),
                                   (0.1, 2, "dp=2,zero=3,micro_batch=2,recompute=full"), (0.1, 2, "tp=2,sp=true,recompute=selective")):
            self.assertGreater(write_gpt(model, p), 4)
            plan = f"{self.folder}/plan"
            e2e.must([e2e.tool("dpc-opt"), model, f"--cluster=local:{ranks}", "--global-batch=8", f"--strategy={strategy}", "--train=adamw", "--lr=4e-3",
                      "--verify=off", "-o", plan])
            e2e.must([e2e.tool("dpc-run"), plan, f"--batches={batches}", "--steps=4", "--poison", f"--metrics={plan}.jsonl"])
            losses[p, strategy] = [row["loss"] for row in e2e.read_metrics(f"{plan}.jsonl")]
        one = losses.pop((0.1, "dp=1"))
        without = losses.pop((0.0, "dp=1"))
        self.assertGreater(max(abs(a - b) for a, b in zip(one, without)), 1e-3)
        for (_, strategy), got in losses.items():
            worst = max(abs(a - b) / b for a, b in zip(got, one))
            print(f"{strategy}: {worst:.1e} from one device")
            self.assertLess(worst, LOSS_TOLERANCE, strategy)

    def test_plans_are_verified(self):
        write_gpt(f"{self.folder}/gpt.onnx", 0.1)
        said = e2e.must([e2e.tool("dpc-opt"), f"{self.folder}/gpt.onnx", "--cluster=local:2", "--global-batch=8", "--strategy=dp=2", "--train=adamw",
                         "--verify=on", "-o", f"{self.folder}/plan"])
        self.assertIn("2 ranks compute what one device computes", said)

    def test_one_export_trains_and_evaluates(self):
        """--infer turns dropout off, so the same file makes the plan of --eval-plan: the loss is 4097 sum(x w)."""
        x = np.random.default_rng(2).standard_normal((2 * BATCH, COLUMNS)).astype(np.float32)
        for name, part in (("train", x[:BATCH]), ("held-out", x[BATCH:])):
            os.mkdir(f"{self.folder}/{name}")
            np.save(f"{self.folder}/{name}/x.npy", part)
        for name, words in (("plan", ["--train=sgd", "--lr=1e-4"]), ("eval-plan", ["--infer"])):
            said = e2e.must([e2e.tool("dpc-opt"), f"{TORCH}/columns.pt2", "--cluster=local:2", f"--global-batch={BATCH}", "--strategy=dp=2", "--verify=off",
                             "-o", f"{self.folder}/{name}", *words])
            self.assertEqual("--infer: dropout off" in " ".join(said.split()), name == "eval-plan", said)
        ran = e2e.call([e2e.tool("dpc-run"), f"{self.folder}/plan", f"--data={self.folder}/train", "--steps=1", f"--eval-plan={self.folder}/eval-plan",
                        f"--eval-data={self.folder}/held-out", "--eval-every=1", f"--metrics={self.folder}/m.jsonl",
                        f"--save-params={self.folder}/w.safetensors"])
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))  # the two plans have the same loss
        got, = (row["eval_loss"] for row in e2e.read_metrics(f"{self.folder}/m.jsonl") if "eval_loss" in row)
        terms = 4097 * x[BATCH:] * np.array(e2e.read_safetensors(f"{self.folder}/w.safetensors")["w"][2], np.float64)
        self.assertGreater(abs(terms.sum()), 1)
        self.assertLess(abs(got - terms.sum()), 1e-5 * np.abs(terms).sum())

    def test_attention_of_torch_evaluates_without_dropout(self):
        """Also the attention whose training drops probabilities: samples have the same loss in any batch, at any place and step."""
        os.mkdir(f"{self.folder}/data")
        np.save(f"{self.folder}/data/x.npy", np.random.default_rng(3).standard_normal((8, 6, 16), np.float32))
        losses = []
        for batch in (8, 1):
            plan = f"{self.folder}/plan-{batch}"
            e2e.must([e2e.tool("dpc-opt"), f"{TORCH}/attention.pt2", "--infer", "--cluster=local:1", f"--global-batch={batch}", "--verify=off", "-o", plan])
            said = e2e.must([e2e.tool("dpc-run"), plan, f"--data={self.folder}/data"]).splitlines()[-1].split()
            self.assertEqual((said[0], said[3]), ("loss", "8"))
            losses.append(float(said[1]))
        self.assertLess(abs(losses[0] / losses[1] - 1), LOSS_TOLERANCE)

    def test_random_numbers_have_the_moments_of_torch(self):
        """The loss of (w - 1)^2 from w = 0 on, and 1 more for each operator whose numbers look wrong."""
        os.mkdir(f"{self.folder}/batches")
        np.save(f"{self.folder}/batches/x.npy", np.ones((3, 4, 2), np.float32))
        for ranks, strategy in ((1, "dp=1"), (2, "dp=2,micro_batch=1"), (2, "tp=2")):
            plan = f"{self.folder}/plan"
            e2e.must([e2e.tool("dpc-opt"), f"{TORCH}/random.pt2", f"--cluster=local:{ranks}", "--global-batch=4", f"--strategy={strategy}", "--train=sgd",
                      "--lr=0.25", "--verify=off", "-o", plan])
            e2e.must([e2e.tool("dpc-run"), plan, f"--batches={self.folder}/batches", "--steps=3", "--poison", f"--metrics={plan}.jsonl"])
            self.assertEqual([row["loss"] for row in e2e.read_metrics(f"{plan}.jsonl")], [1, 0.25, 0.0625], strategy)
        done = e2e.call([e2e.tool("dpc-opt"), f"{TORCH}/random.pt2", "--infer", "--cluster=local:1", "--global-batch=4", "-o", plan])
        self.assertIn("draws random numbers, which inference does not support", done.stderr)

    def test_inference_leaves_nothing_out(self):
        write_columns(f"{self.folder}/plain.onnx", loss=False)
        done = e2e.call([e2e.tool("dpc-opt"), f"{self.folder}/plain.onnx", "--cluster=local:1", "--global-batch=4", "-o", f"{self.folder}/plan"])
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
        self.assertIn("has dropout in training mode, but no loss", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
