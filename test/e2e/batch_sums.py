#!/usr/bin/env python3
"""Losses that are ratios or products of sums over the batch do not depend on micro-batches, pipelines and ranks.

../fixtures/balance has a loss per unmasked token plus balance losses of experts; PyTorch computed its oracle from the
whole batch. The other losses are built here and compared with the same model without micro-batches.
"""
import array
import math
import os
import random
import unittest

import e2e
import heterogeneous_devices

BALANCE = os.path.join(e2e.SOURCE, "test", "fixtures", "balance")
ORACLE = e2e.read_json(os.path.join(BALANCE, "oracle.json"))
LOSS_TOLERANCE, GRAD_NORM_TOLERANCE = 1e-6, 1e-5
REMARK = "such sums are computed first"
# The layers are large enough that a pipeline divides them.
VOCABULARY, WIDTH, HIDDEN, LAYERS, BATCH, LENGTH, STEPS = 32, 16, 512, 4, 8, 8, 3


def onnx_one():
    from onnx import TensorProto, helper
    return helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0])


class BatchSums(e2e.ScratchTest):
    def compile(self, model, strategy, ranks, *words):
        """Returns the plan and the remarks of its report."""
        plan = os.path.join(self.folder, f"{os.path.basename(os.path.dirname(model))}-{strategy}-{ranks}".replace("/", "-"))
        e2e.must([e2e.tool("dpc-opt"), model, f"--cluster=local:{ranks}", f"--global-batch={BATCH}", f"--strategy={strategy}", "--train=sgd",
                  "--lr=0.1", "--momentum=0.9", "--clip-grad-norm=1", "-o", plan, *(words or ["--verify=off"])])
        return plan, " ".join(e2e.read_report(plan)["remarks"])

    def train(self, plan, batches, steps):
        metrics = plan + ".jsonl"
        e2e.must([e2e.tool("dpc-run"), plan, f"--batches={batches}", f"--steps={steps}", "--poison", f"--metrics={metrics}"])
        return e2e.read_metrics(metrics)

    def follows(self, rows, losses, norms, what):
        self.assertEqual(len(rows), len(losses))
        for row, loss, norm in zip(rows, losses, norms):
            self.assertLess(abs(row["loss"] / loss - 1), LOSS_TOLERANCE, f"{what}, step {row['step']}: {row['loss']} instead of {loss}")
            self.assertLess(abs(row["grad_norm"] / norm - 1), GRAD_NORM_TOLERANCE, f"{what}, step {row['step']}: norm {row['grad_norm']} instead of {norm}")


class BalanceLoss(BatchSums):
    def check(self, strategy, ranks):
        plan, remarks = self.compile(os.path.join(BALANCE, "model.onnx"), strategy, ranks)
        rows = self.train(plan, os.path.join(BALANCE, "batches"), ORACLE["steps"])
        self.follows(rows, ORACLE["losses"], ORACLE["grad_norms"], strategy)
        return plan, remarks

    def test_the_whole_batch_needs_no_second_pass(self):
        for strategy, ranks in (("dp=1", 1), ("dp=2,tp=2", 4), ("pp=2,dp=2,micro_batch=8", 4)):
            _, remarks = self.check(strategy, ranks)
            self.assertNotIn(REMARK, remarks, strategy)

    def test_accumulation(self):
        for strategy, ranks in (("dp=1,micro_batch=2", 1), ("dp=1,micro_batch=3", 1), ("dp=2,micro_batch=1", 2), ("dp=3,micro_batch=1", 3),
                                ("dp=2,tp=2,zero=3,micro_batch=2", 4), ("dp=2,micro_batch=2,recompute=full", 2)):
            plan, remarks = self.check(strategy, ranks)
            self.assertIn(REMARK, remarks, strategy)
            self.assertIn("(all such sums: node '/ReduceSum_1', node '/layers.3/ReduceMean_1', ", remarks, strategy)
            # The first pass has one forward entry per micro-batch, before the loop.
            phases = [entry["phase"] for entry in e2e.read_json(os.path.join(plan, "plan.json"))["schedule"][0]]
            loop, passes = [p for p in phases if p not in ("setup", "update")], phases.count("forward.1")
            self.assertEqual(loop[:passes], ["forward"] * passes, strategy)
            self.assertEqual(loop[passes:], ["forward.1", "backward.1"] * passes, strategy)

    def test_pipelines(self):
        for strategy, ranks in (("pp=2,micro_batch=2", 2), ("dp=2,pp=2,micro_batch=1", 4), ("pp=2,tp=2,micro_batch=2", 4),
                                ("pp=2,micro_batch=1,schedule=gpipe", 2), ("pp=2,micro_batch=2,schedule=zb-h1", 2),
                                ("pp=2,vpp=2,micro_batch=2", 2), ("dp=2,pp=2,zero=1,micro_batch=2,recompute=full", 4)):
            _, remarks = self.check(strategy, ranks)
            self.assertIn(REMARK, remarks, strategy)

    def test_plans_are_verified(self):
        for strategy, ranks in (("dp=2,micro_batch=2", 2), ("dp=2,pp=2,micro_batch=2", 4)):
            plan, _ = self.compile(os.path.join(BALANCE, "model.onnx"), strategy, ranks, "--verify=on")
            self.assertEqual(e2e.read_report(plan)["verification"]["scope"], "full")

    def test_shares_stay_even(self):
        """The ranks add their sums in every micro-batch, so that they need equally many."""
        strategy, node = "dp=4,micro_batch=1", r"node '[^']+' makes data-parallel ranks synchronize in every micro-batch .*, because micro-batches read sums"
        words = ["--train=sgd", "--lr=0.1", "--verify=off"]
        compile = [e2e.tool("dpc-opt"), os.path.join(BALANCE, "model.onnx"), f"--cluster={heterogeneous_devices.write_cluster(self.folder)}",
                   "--global-batch=16", *words, "-o", os.path.join(self.folder, "plan")]
        done = e2e.call([*compile, f"--strategy={strategy},batch_shares=3:1"])
        said = " ".join(done.stderr.split())
        self.assertEqual(done.returncode, 1, said)
        self.assertRegex(said, r"balance/model\.onnx: batch_shares=3:1: " + node)
        self.assertIn("expected batch_shares=even", said)
        # Without shares in the strategy, the report says why they are even.
        e2e.must([*compile, f"--strategy={strategy}"])
        self.assertRegex(" ".join(e2e.read_report(os.path.join(self.folder, "plan"))["remarks"]),
                         "the batch is shared evenly among faster and slower devices: " + node)

    def test_a_search_prices_micro_batches(self):
        """Micro-batches are candidates like others: none is rejected."""
        plan, _ = self.compile(os.path.join(BALANCE, "model.onnx"), "pp=2", 2)
        candidates = e2e.read_report(plan)["candidates"]
        self.assertTrue(any(c["strategy"]["micro_batch"] < BATCH for c in candidates))
        self.assertEqual([c["rejected"] for c in candidates if "rejected" in c and c["strategy"]["micro_batch"] < BATCH], [])


class SamplesApart(BatchSums):
    def test_lookups_of_samples_do_not_mix_them(self):
        """Positions that all samples share, and x[arange(batch), i], do not depend on other samples."""
        model = os.path.join(e2e.SOURCE, "test", "fixtures", "torch", "placed.pt2")
        random.seed(5)
        batches = self.path("batches")
        os.mkdir(batches)
        for name, shape, end in (("ids", [STEPS, BATCH, LENGTH], 32), ("labels", [STEPS, BATCH], 4)):
            values = [random.randrange(end) for _ in range(math.prod(shape))]
            e2e.write_npy(os.path.join(batches, name + ".npy"), "i8", shape, values)
        rows = None
        for strategy, ranks in (("dp=1", 1), ("dp=1,micro_batch=1", 1), ("dp=2,pp=2,micro_batch=2", 4)):
            plan, _ = self.compile(model, strategy, ranks, "--verify=on")
            rows = rows or self.train(plan, batches, STEPS)
            self.follows(self.train(plan, batches, STEPS), [r["loss"] for r in rows], [r["grad_norm"] for r in rows], strategy)


class OtherLosses(BatchSums):
    """Losses of a small model, built node by node."""

    def setUp(self):
        super().setUp()
        rng = random.Random(3)
        os.mkdir(os.path.join(self.folder, "batches"))
        for name in ("ids", "labels"):
            values = array.array("q", (rng.randrange(VOCABULARY) for _ in range(STEPS * BATCH * LENGTH)))
            e2e.write_npy(os.path.join(self.folder, "batches", name + ".npy"), "i8", (STEPS, BATCH, LENGTH), values)

    def model(self, name, loss, divides=False, between=None):
        """`loss` gets a function that adds a node, the losses of all tokens, and the probabilities of a router per layer.
        With `divides`, the embeddings are divided by a sum over the batch. `between` gets and returns the hidden values."""
        import onnx
        from onnx import TensorProto, helper
        rng, nodes, weights = random.Random(5), [], []

        def constant(values, dims, dtype=TensorProto.FLOAT):
            weights.append(helper.make_tensor(f"c{len(weights)}", dtype, dims, values))
            return weights[-1].name

        def weight(*dims):
            size = dims[0] * dims[1]
            return constant([rng.uniform(-0.2, 0.2) for _ in range(size)], dims)

        def add(op, *inputs, **attributes):
            nodes.append(helper.make_node(op, inputs, [f"v{len(nodes)}"], name=f"{op}_{len(nodes)}", **attributes))
            return nodes[-1].output[0]

        rows = constant([-1, WIDTH], [2], TensorProto.INT64)
        x, routers = add("Reshape", add("Gather", weight(VOCABULARY, WIDTH), "ids"), rows), []
        if divides:
            x = add("Div", x, add("Sqrt", add("ReduceMean", add("Mul", x, x), keepdims=0)))
        for _ in range(LAYERS):
            routers.append(add("Softmax", add("MatMul", x, weight(WIDTH, 4)), axis=-1))
            x = add("Add", x, add("MatMul", add("Tanh", add("MatMul", x, weight(WIDTH, HIDDEN))), weight(HIDDEN, WIDTH)))
            x = between(add, constant, x) if between else x
        labels = add("Reshape", "labels", constant([-1], [1], TensorProto.INT64))
        tokens = add("SoftmaxCrossEntropyLoss", add("MatMul", x, weight(WIDTH, VOCABULARY)), labels, reduction="none")
        nodes.append(helper.make_node("Identity", [loss(add, constant, tokens, routers)], ["loss"]))
        inputs = [helper.make_tensor_value_info(n, TensorProto.INT64, ["batch", LENGTH]) for n in ("ids", "labels")]
        graph = helper.make_graph(nodes, "model", inputs, [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])], weights)
        os.mkdir(os.path.join(self.folder, name))
        path = os.path.join(self.folder, name, "model.onnx")
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        return path

    def rows(self, model, strategy, ranks):
        plan, remarks = self.compile(model, strategy, ranks)
        return self.train(plan, os.path.join(self.folder, "batches"), STEPS), remarks

    def check(self, model, strategies):
        want, _ = self.rows(model, "dp=1", 1)
        for strategy, ranks in strategies:
            rows, remarks = self.rows(model, strategy, ranks)
            self.follows(rows, [row["loss"] for row in want], [row["grad_norm"] for row in want], strategy)
            self.assertIn(REMARK, remarks, strategy)

    STRATEGIES = (("dp=1,micro_batch=3", 1), ("dp=2,micro_batch=2", 2), ("pp=2,micro_batch=2", 2), ("dp=2,pp=2,micro_batch=1", 4),
                  ("dp=2,zero=2,micro_batch=2,recompute=selective", 2))

    def test_perplexity(self):
        def loss(add, constant, tokens, routers):
            return add("Exp", add("Mul", constant([0.3], []), add("ReduceMean", tokens, keepdims=0)))
        self.check(self.model("perplexity", loss), self.STRATEGIES)

    @staticmethod
    def ratio(add, constant, tokens, routers):
        """The mean loss of tokens, divided by a sum of router probabilities."""
        spread = add("ReduceMean", add("Mul", routers[-1], routers[-1]), keepdims=0)
        return add("Div", add("ReduceMean", tokens, keepdims=0), spread)

    def test_dropout(self):
        """The pass that computes the sums drops what the loop drops: else the ratio would be one of different values."""
        def between(add, constant, x):
            return add("Dropout", x, constant([0.3], []), constant([True], [], 9))  # 9: bool
        model = self.model("dropout", self.ratio, between=between)
        self.check(model, self.STRATEGIES)
        without, _ = self.rows(self.model("whole", self.ratio), "dp=1", 1)
        dropped, _ = self.rows(model, "dp=1", 1)
        self.assertGreater(abs(dropped[0]["loss"] / without[0]["loss"] - 1), 1e-3)

    def test_batch_norm(self):
        """Each micro-batch is normalized by its own statistics, in every pass: the plan is verified against one device."""
        def between(add, constant, x):
            scale, bias, mean, var = (constant([v + 0.01 * i for i in range(WIDTH)], [WIDTH]) for v in (1.0, 0.0, 0.0, 1.0))
            return add("BatchNormalization", x, scale, bias, mean, var, training_mode=1)
        model = self.model("norm", self.ratio, between=between)
        for strategy, ranks in (("dp=1,micro_batch=4", 1), ("dp=2,micro_batch=2", 2), ("pp=2,micro_batch=4", 2)):
            plan, remarks = self.compile(model, strategy, ranks, "--verify=on")
            self.assertIn(REMARK, remarks, strategy)
            self.assertEqual(e2e.read_report(plan)["verification"]["scope"], "full", strategy)

    def test_what_a_pass_fetches_and_recomputes(self):
        """Every pass reads offloaded parameters, and the last one recomputes."""
        model = self.model("fetched", self.ratio)
        self.check(model, (("dp=2,micro_batch=2,offload=all", 2), ("dp=2,micro_batch=1,zero=3,offload=all,recompute=full", 2),
                           ("pp=2,micro_batch=2,offload=optimizer,recompute=full", 2), ("dp=2,pp=2,micro_batch=1,recompute=selective", 4)))

    def test_schedules_of_pipelines(self):
        model = self.model("schedules", self.ratio)
        self.check(model, tuple((f"{strategy},micro_batch=1", ranks) for strategy, ranks in
                                (("pp=2,schedule=1f1b", 2), ("pp=4,schedule=1f1b", 4), ("pp=2,vpp=2", 2), ("dp=2,pp=2,vpp=2,recompute=full", 4),
                                 ("pp=2,schedule=zb-h1", 2), ("dp=2,pp=2,schedule=zb-h1", 4), ("pp=2,schedule=gpipe", 2))))

    def test_constants_are_no_sums_of_the_loop(self):
        """The number of tokens is a constant: a loss that divides by it needs no pass, whatever else is in the fraction."""
        def count(add, constant, tokens):
            one = add("ConstantOfShape", add("Shape", tokens), value=onnx_one())
            return add("ReduceSum", one, keepdims=0)

        def mean(add, constant, tokens, routers):
            return add("Div", add("ReduceSum", tokens, keepdims=0), count(add, constant, tokens))

        def both(add, constant, tokens, routers):
            return add("Add", mean(add, constant, tokens, routers), self.ratio(add, constant, tokens, routers))
        model = self.model("count", mean)
        want, _ = self.rows(model, "dp=1", 1)
        rows, remarks = self.rows(model, "dp=2,micro_batch=2", 2)
        self.follows(rows, [row["loss"] for row in want], [row["grad_norm"] for row in want], "count")
        self.assertNotIn(REMARK, remarks)
        self.check(self.model("both", both), self.STRATEGIES[:3])

    def test_a_ratio_over_stages(self):
        """Numerator and denominator are sums of different stages of a pipeline."""
        def loss(add, constant, tokens, routers):
            spread = [add("ReduceMean", add("Mul", r, r), keepdims=0) for r in routers]
            above = add("Add", add("ReduceMean", tokens, keepdims=0), spread[-1])
            return add("Div", above, add("Add", constant([1.0], []), spread[0]))
        self.check(self.model("ratio", loss), self.STRATEGIES)

    def test_a_second_pass_is_in_the_predicted_time(self):
        def mean(add, constant, tokens, routers):
            return add("ReduceMean", tokens, keepdims=0)

        def ratio(add, constant, tokens, routers):
            return add("Div", mean(add, constant, tokens, routers), add("ReduceMean", add("Mul", routers[0], routers[0]), keepdims=0))
        seconds = {}
        for loss in (mean, ratio):
            plan, _ = self.compile(self.model("timed-" + loss.__name__, loss), "dp=1,micro_batch=2", 1)
            seconds[loss] = e2e.read_report(plan)["chosen"]["predicted"]["step_seconds"]
        self.assertGreater(seconds[ratio], seconds[mean])

    def test_a_sum_in_the_forward_pass(self):
        """The gradient of a sum that the forward pass reads is again a sum over the batch."""
        def loss(add, constant, tokens, routers):
            share = add("Div", tokens, add("ReduceMean", tokens, keepdims=0))
            return add("ReduceMean", add("Mul", share, tokens), keepdims=0)
        self.check(self.model("last", loss), self.STRATEGIES)
        self.check(self.model("first", lambda add, constant, tokens, routers: add("ReduceMean", tokens, keepdims=0), divides=True),
                   self.STRATEGIES[:2])

    def test_a_long_chain_of_sums_is_refused(self):
        """Each layer divides by a sum over the batch, so that each sum needs those before it, in both directions."""
        def between(add, constant, x):
            return add("Div", x, add("Sqrt", add("ReduceMean", add("Mul", x, x), keepdims=0)))

        def twice(add, constant, x):
            return between(add, constant, add("Tanh", between(add, constant, x)))

        def loss(add, constant, tokens, routers):
            return add("ReduceMean", tokens, keepdims=0)
        self.check(self.model("short", loss, between=between), self.STRATEGIES[:2])  # two sums per layer
        model = self.model("long", loss, between=twice)
        done = e2e.call([e2e.tool("dpc-opt"), model, "--cluster=local:1", f"--global-batch={BATCH}", "--strategy=dp=1,micro_batch=2", "--train=sgd",
                         "--lr=0.1", "-o", os.path.join(self.folder, "plan")])
        said = " ".join(done.stderr.split())
        self.assertEqual(done.returncode, 1, said)
        self.assertRegex(said, r"long/model\.onnx: node '[^']+' reads a sum over the whole batch that depends on a chain of other such sums; "
                               r"the chain takes \d+ more passes over the micro-batches, expected at most 8, or one micro-batch")
        self.compile(model, "dp=1", 1)

    def test_what_a_pipeline_cannot_run_ahead_is_named(self):
        model = self.model("refused", lambda add, constant, tokens, routers: add("ReduceMean", tokens, keepdims=0), divides=True)
        done = e2e.call([e2e.tool("dpc-opt"), model, "--cluster=local:2", f"--global-batch={BATCH}", "--strategy=pp=2,micro_batch=2", "--train=sgd",
                         "--lr=0.1", "-o", os.path.join(self.folder, "plan")])
        said = " ".join(done.stderr.split())
        self.assertEqual(done.returncode, 1, said)
        for part in ("refused/model.onnx: node '", "summed over all micro-batches", "pp=1 or one micro-batch"):
            self.assertIn(part, said)
        # A search says why it leaves such pipelines out.
        _, remarks = self.compile(model, "pp=2", 2)
        self.assertIn("a pipeline cannot run it ahead", remarks)


if __name__ == "__main__":
    unittest.main(verbosity=2)
