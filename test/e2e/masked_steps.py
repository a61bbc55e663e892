#!/usr/bin/env python3
"""--last-batch=mask and --eval-data refuse a loss that counts the samples that only fill a step, at the start and when a run resumes;
only outputs with a value per sample omit these samples.

The models are built here: a cross entropy that ignores labels, to which a term without labels adds a little.
"""
import array
import os
import random
import unittest

import e2e

VOCABULARY, WIDTH, EXPERTS, LENGTH, BATCH = 32, 16, 4, 8, 4
SAMPLES = 10  # the last step of an epoch has 2 samples
COUNTED = "depends on samples that only fill the step"


def plain(add, constant, weight, x):
    return None


def weighted(add, constant, weight, x):
    """The cross entropy weighs classes."""
    return None


def balance(add, constant, weight, x):
    """0.001 sum_e P_e^2, the mean probability of each expert: a small balance loss."""
    share = add("ReduceMean", add("Softmax", add("MatMul", x, weight(WIDTH, EXPERTS)), axis=-1), axes=[0], keepdims=0)
    return add("Mul", constant([0.001], []), add("ReduceSum", add("Mul", share, share), keepdims=0))


def zero_router(add, constant, weight, x):
    """A router of zeros has the same loss for all inputs, but not the same gradient."""
    share = add("ReduceMean", add("MatMul", x, weight(WIDTH, EXPERTS, zero=True)), axes=[0], keepdims=0)
    return add("Mul", constant([0.001], []), add("ReduceSum", add("Tanh", share), keepdims=0))


class MaskedSteps(e2e.ScratchTest):
    def setUp(self):
        super().setUp()
        rng = random.Random(3)
        self.data = os.path.join(self.folder, "data")
        os.mkdir(self.data)
        for name in ("ids", "labels"):
            values = array.array("q", (rng.randrange(1, VOCABULARY) for _ in range(SAMPLES * LENGTH)))
            e2e.write_npy(os.path.join(self.data, name + ".npy"), "i8", (SAMPLES, LENGTH), values)

    def model(self, term):
        import onnx
        from onnx import TensorProto, helper
        rng, nodes, weights = random.Random(5), [], []

        def constant(values, dims, dtype=TensorProto.FLOAT):
            weights.append(helper.make_tensor(f"c{len(weights)}", dtype, dims, values))
            return weights[-1].name

        def weight(*dims, zero=False):
            return constant([0.0 if zero else rng.uniform(-0.5, 0.5) for _ in range(dims[0] * dims[1])], dims)

        def add(op, *inputs, **attributes):
            nodes.append(helper.make_node(op, inputs, [f"v{len(nodes)}"], name=f"{op}_{len(nodes)}", **attributes))
            return nodes[-1].output[0]

        x = add("Reshape", add("Gather", weight(VOCABULARY, WIDTH), "ids"), constant([-1, WIDTH], [2], TensorProto.INT64))
        labels = add("Reshape", "labels", constant([-1], [1], TensorProto.INT64))
        classes = [constant([1.0 + 0.01 * (i % 5) for i in range(VOCABULARY)], [VOCABULARY])] if term is weighted else []
        loss = add("SoftmaxCrossEntropyLoss", add("MatMul", x, weight(WIDTH, VOCABULARY)), labels, *classes, reduction="mean", ignore_index=-100)
        more = term(add, constant, weight, x)
        nodes.append(helper.make_node("Add", [loss, more], ["loss"], name="total") if more
                     else helper.make_node("Identity", [loss], ["loss"], name="total"))
        inputs = [helper.make_tensor_value_info(n, TensorProto.INT64, ["batch", LENGTH]) for n in ("ids", "labels")]
        graph = helper.make_graph(nodes, "model", inputs, [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])], weights)
        path = os.path.join(self.folder, term.__name__ + ".onnx")
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        return path

    def plan(self, term, strategy, ranks, *words, batch=BATCH):
        plan = os.path.join(self.folder, "-".join([term.__name__, strategy, str(batch), *words]))
        e2e.must([e2e.tool("dpc-opt"), self.model(term), f"--cluster=local:{ranks}", f"--global-batch={batch}", f"--strategy={strategy}",
                  *(words or ["--train=sgd", "--lr=0.1"]), "--verify=off", "-o", plan])
        return plan

    def refused(self, words, *parts):
        ran = e2e.call([e2e.tool("dpc-run"), *words])
        self.assertEqual(ran.returncode, 1, ran.stdout + ran.stderr)
        for part in parts:
            self.assertIn(part, ran.stderr)
        self.assertEqual(ran.stderr.count("dpc-run: error: "), 1, ran.stderr)
        return ran.stdout

    STRATEGIES = (("dp=1", 1), ("dp=2", 2), ("dp=2,micro_batch=1", 2), ("tp=2", 2))

    def test_a_value_per_class_is_no_value_per_sample(self):
        """There are as many classes as samples in a step; the plan says which output has a value per sample."""
        import onnx
        from onnx import TensorProto, helper
        nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("ReduceSum", ["y", "last"], ["each"], keepdims=0),
                 helper.make_node("ReduceMean", ["y"], ["classes"], axes=[0], keepdims=0), helper.make_node("ReduceMean", ["y"], ["loss"], keepdims=0)]
        weights = [helper.make_tensor("w", TensorProto.FLOAT, [3, BATCH], [0.1 * i for i in range(3 * BATCH)]),
                   helper.make_tensor("last", TensorProto.INT64, [1], [1])]
        outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
                   for name, shape in (("loss", []), ("each", ["batch"]), ("classes", [BATCH]))]
        graph = helper.make_graph(nodes, "model", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])], outputs, weights)
        model, data, out = (os.path.join(self.folder, name) for name in ("classes.onnx", "rows", "out"))
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
        os.mkdir(data)
        e2e.write_npy(os.path.join(data, "x.npy"), "f4", (SAMPLES, 3), [float(i % 7) for i in range(3 * SAMPLES)])
        for strategy, ranks in self.STRATEGIES:
            infer, train = (os.path.join(self.folder, f"{kind}-{strategy}") for kind in ("infer", "train"))
            words = [e2e.tool("dpc-opt"), model, f"--cluster=local:{ranks}", f"--global-batch={BATCH}", f"--strategy={strategy}", "--verify=off"]
            e2e.must([*words, "--infer", "-o", infer])
            self.refused([infer, "--data=" + data], "output 'loss' has one value for a step of 4 samples")
            e2e.must([e2e.tool("dpc-run"), infer, "--data=" + data, "--last-batch=drop", "--outputs=" + out])
            shapes = {name: e2e.read_npy(os.path.join(out, name + ".npy"))[1] for name in ("each", "classes", "loss")}
            self.assertEqual(shapes, {"each": (8,), "classes": (2, BATCH), "loss": (2,)}, strategy)
            # A step of training returns the mean of a value per sample, and no other value but scalars.
            e2e.must([*words, "--train=sgd", "--lr=0.1", "-o", train])
            self.assertEqual([port["name"] for port in e2e.read_plan(train)["outputs"]], ["loss", "each", "grad_norm"])
            self.assertIn('output "classes" is not returned by a training step', " ".join(e2e.read_report(train)["remarks"]))

    def test_training(self):
        for strategy, ranks in self.STRATEGIES:
            words = ["--data=" + self.data, "--last-batch=mask"]
            e2e.must([e2e.tool("dpc-run"), self.plan(plain, strategy, ranks), *words])
            for term in (balance, zero_router):
                self.refused([self.plan(term, strategy, ranks), *words], "--last-batch=mask: ", COUNTED, "--last-batch=drop or --last-batch=wrap",
                             "a --global-batch that divides 10")

    def test_inference(self):
        words = ["--data=" + self.data, "--last-batch=mask"]
        e2e.must([e2e.tool("dpc-run"), self.plan(plain, "dp=2", 2, "--infer"), *words])
        self.refused([self.plan(balance, "dp=2", 2, "--infer"), *words], "--last-batch=mask: ", COUNTED, "--last-batch=drop")

    def test_evaluation(self):
        for term in (plain, balance):
            words = [self.plan(term, "dp=2", 2), "--data=" + self.data, "--steps=1", "--eval-data=" + self.data,
                     "--eval-plan=" + self.plan(term, "dp=2", 2, "--infer")]
            if term is plain:
                e2e.must([e2e.tool("dpc-run"), *words])
            else:
                # before the first step
                self.assertNotIn("step 1", self.refused(words, "--eval-data=", COUNTED, "a --global-batch that divides 10"))

    def test_losses_that_weigh_classes_have_no_mean_over_labels(self):
        part = "--eval-data={}: the loss is a mean neither over the labels of 'labels' nor over samples".format(self.data)
        words = [self.plan(weighted, "dp=2", 2), "--data=" + self.data, "--steps=1", "--eval-data=" + self.data]
        said = self.refused([*words, "--eval-plan=" + self.plan(weighted, "dp=2", 2, "--infer")], part, "plan with --global-batch=10")
        self.assertNotIn("step 1", said)
        self.refused([self.plan(weighted, "dp=2", 2, "--infer"), "--data=" + self.data, "--last-batch=mask"],
                     part.replace("--eval-data", "--data"), "plan with --global-batch=10")
        e2e.must([e2e.tool("dpc-run"), *words, "--eval-plan=" + self.plan(weighted, "dp=2", 2, "--infer", batch=SAMPLES)])

    def test_a_run_that_resumes(self):
        """Batches of 5 fill all steps, so that a run only meets the check when it resumes with batches of 4: after 5 samples, 5 remain."""
        for term in (plain, balance):
            saved = os.path.join(self.folder, "saved-" + term.__name__)
            words = ["--data=" + self.data, "--last-batch=mask"]
            e2e.must([e2e.tool("dpc-run"), self.plan(term, "dp=1", 1, batch=5), *words, "--steps=1", "--checkpoint=" + saved])
            words = [self.plan(term, "dp=2", 2), *words, "--resume=" + os.path.join(saved, "step-1")]
            if term is balance:
                self.refused(words, "--last-batch=mask: ", COUNTED)
                continue
            # The check does not change the run: its values are those of the checkpoint.
            metrics, alone = os.path.join(self.folder, "metrics"), os.path.join(self.folder, "alone")
            e2e.must([e2e.tool("dpc-run"), *words, "--metrics=" + metrics])
            self.assertEqual([row["step"] for row in e2e.read_metrics(metrics)], [2, 3])
            e2e.must([e2e.tool("dpc-run"), words[0], "--data=" + self.data, words[-1], "--steps=2", "--metrics=" + alone])
            self.assertEqual(e2e.read_metrics(metrics)[0]["loss"], e2e.read_metrics(alone)[0]["loss"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
