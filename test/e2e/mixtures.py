#!/usr/bin/env python3
"""Mixtures of experts of transformers train as in torch, with every kind of parallelism, however the router spreads the rows (test/fixtures/mixtures)."""
import json
import os
import re
import unittest

import numpy as np

import e2e

FOLDER = os.path.join(e2e.SOURCE, "test", "fixtures", "mixtures")
LONG = bool(os.environ.get("DPC_TEST_LONG"))
LIMIT = 2e-5  # relative, of the loss of each step
RANKS = 4

RECORD = e2e.read_json(os.path.join(FOLDER, "curves.json"))

STRATEGIES = ["dp=4", "dp=2,tp=2", "dp=4,ep=4", "dp=2,tp=2,ep=2", "dp=2,pp=2,ep=2,micro_batch=1", "dp=4,ep=2,zero=3", "auto"]
# The drawn pairs of the usual run; --long has all.
USUAL = [("mixtral", "dp=4"), ("mixtral", "dp=2,tp=2,ep=2"), ("mixtral", "dp=4,ep=2,zero=3"), ("mixtral", "auto"), ("mixtral-batched", "dp=4,ep=4"),
         ("mixtral-skewed", "dp=4,ep=4"), ("mixtral-skewed", "dp=2,pp=2,ep=2,micro_batch=1"), ("qwen2-moe", "dp=2,tp=2"), ("qwen2-moe", "dp=4,ep=4"),
         ("qwen3-moe", "dp=4,ep=4"), ("qwen3-moe", "dp=2,pp=2,ep=2,micro_batch=1"), ("deepseek-v3", "dp=4,ep=4"), ("deepseek-v3", "dp=2,tp=2,ep=2"),
         ("deepseek-v3", "auto"), ("gpt-oss", "dp=4,ep=4"), ("gpt-oss", "dp=2,tp=2"), ("gpt-oss", "dp=2,pp=2,ep=2,micro_batch=1"),
         ("gpt-oss", "dp=2,cp=2"), ("gpt-oss", "dp=2,tp=2,ep=2"),
         ("gpt-oss-batched", "dp=4,ep=2,zero=3"), ("olmoe", "dp=4,ep=4"), ("glm4-moe", "dp=4,ep=2,zero=3"), ("glm4-moe", "dp=2,tp=2,ep=2")]
EXCHANGES = [("mixtral", "dp=4,ep=4"), ("mixtral-skewed", "dp=4,pp=2,ep=4,micro_batch=1"), ("deepseek-v3", "dp=8,ep=4,zero=3"),
             ("gpt-oss", "dp=4,ep=4,micro_batch=1,recompute=full"), ("mixtral-skewed", "dp=4,tp=2,ep=4"), ("qwen3-moe", "dp=4,cp=2,ep=4"),
             ("qwen3-moe", "dp=8,ep=4,zero=2", "--precision=bf16"), ("deepseek-v3", "dp=4,tp=2,ep=4,sp=true"),
             ("mixtral-skewed", "dp=4,tp=2,ep=4,sp=true"), ("qwen2-moe", "dp=4,tp=2,ep=4"), ("deepseek-v3", "dp=4,cp=2,ep=4"),
             ("mixtral-skewed", "ranks=4,dp=2,tp=2,ep=4"), ("deepseek-v3", "dp=4,tp=2,ep=8"), ("qwen3-moe", "ranks=4,dp=2,tp=2,ep=4")]
OTHERS = ["dp=2,ep=2,micro_batch=2,recompute=full", "tp=4,ep=4", "dp=2,tp=2,ep=4,zero=2", "dp=2,cp=2,ep=2"]


def chain(first, second, inner, choices="16x2"):
    """A mixture in which the products have `first` and `second` experts, with `inner` columns between them, for the same ids."""
    rows = f"tensor<16x2x{inner}xf32>"
    x2, columns, op = (rows, inner, "unary tanh") if choices == "16x2" else ("tensor<16x2xf32>", 2, "reshape")
    move = f"  %b = dpc.{op} %h : {rows} -> {x2}\n"
    return f"""func.func @forward(
    %gate: tensor<16x4xf32> {{dpc.name = "gate", dpc.role = "parameter"}},
    %u: tensor<{first}x16x{inner}xf32> {{dpc.name = "u", dpc.role = "parameter"}},
    %d: tensor<{second}x{columns}x16xf32> {{dpc.name = "d", dpc.role = "parameter"}},
    %x: tensor<16x16xf32> {{dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64}}) -> (tensor<16x16xf32> {{dpc.name = "y"}}) {{
  %l = dpc.matmul %x, %gate : (tensor<16x16xf32>, tensor<16x4xf32>) -> tensor<16x4xf32>
  %v, %i = dpc.topk %l : tensor<16x4xf32> -> tensor<16x2xf32>, tensor<16x2xi64>
  %h = dpc.expert_matmul %x, %i, %u : (tensor<16x16xf32>, tensor<16x2xi64>, tensor<{first}x16x{inner}xf32>) -> {rows}
{move}  %y = dpc.expert_matmul %b, %i, %d : ({x2}, tensor<16x2xi64>, tensor<{second}x{columns}x16xf32>) -> tensor<16x2x16xf32>
  %w = dpc.broadcast %v dims = [0, 1] : tensor<16x2xf32> -> tensor<16x2x16xf32>
  %m = dpc.binary mul %y, %w : (tensor<16x2x16xf32>, tensor<16x2x16xf32>) -> tensor<16x2x16xf32>
  %z = dpc.reduce sum %m dims = [1] : tensor<16x2x16xf32> -> tensor<16x16xf32>
  return %z : tensor<16x16xf32>
}}
"""


class Mixtures(e2e.ScratchTest):
    def setUp(self):
        super().setUp()
        self.data = self.path("data")
        os.mkdir(self.data)
        for name, batches in RECORD["batches"].items():
            values = np.array(batches, np.int64)
            np.save(os.path.join(self.data, f"{name}.npy"), values.reshape(-1, values.shape[-1]))

    def compile(self, name, strategy, *words, cluster=f"local:{RANKS}"):
        plan = self.path("plan")
        fixed = [] if strategy == "auto" else [f"--strategy={strategy}"]
        e2e.must([e2e.tool("dpc-opt"), os.path.join(FOLDER, f"{name}.pt2"), f"--cluster={cluster}", "--global-batch=8", "--train=adamw",
                     "--lr=1e-2", "--beta2=0.95", "--weight-decay=0.1", *fixed, *words, "-o", plan])
        return plan

    def losses(self, name, strategy, *words, **options):
        metrics = self.path("metrics.jsonl")
        e2e.must([e2e.tool("dpc-run"), self.compile(name, strategy, *words, **options), f"--data={self.data}",
                  f"--steps={len(RECORD['losses'][name])}", f"--metrics={metrics}", "--poison"])
        return [row["loss"] for row in e2e.read_metrics(metrics)]

    def follows(self, name, strategy, *words, limit=LIMIT, **options):
        with self.subTest(model=name, strategy=strategy, words=words):
            np.testing.assert_allclose(self.losses(name, strategy, *words, **options), RECORD["losses"][name], rtol=limit)

    def test_losses_are_torchs(self):
        for name, strategy in ((n, s) for n in RECORD["losses"] for s in STRATEGIES) if LONG else USUAL:
            self.follows(name, strategy)

    def test_other_keys_and_types(self):
        for strategy in OTHERS:
            self.follows("mixtral", strategy)
        self.follows("qwen3-moe", "dp=4,ep=2", "--precision=bf16", limit=2e-2)

    def test_exchanged_rows(self):
        """On slow links, rows travel to their experts: no rank gathers those of others."""
        links = self.path("links.json")
        with open(links, "w") as file:
            json.dump({"version": 1, "name": "eight ranks on slow links", "groups": [{"nodes": 1, "devices_per_node": 8, "device": "cpu-local"}],
                       "levels": [{"name": "link", "span": "node", "gigabytes_per_second": 0.5, "latency_microseconds": 0, "kind": "switch"}],
                       "host": {"memory_gibibytes": 16, "pcie_gigabytes_per_second": 10, "nvme_gigabytes_per_second": 1}}, file)
        for name, strategy, *words in EXCHANGES:
            limit = 2e-2 if words else LIMIT
            self.follows(name, strategy, *words, limit=limit, cluster=links)
            with self.subTest(model=name, strategy=strategy, words=words):
                plan = e2e.read_plan(self.path("plan"))
                tiles = [i for phase in plan["phases"].values() for i in phase if i["op"] == "expert_tiles"]
                self.assertTrue(tiles)
                self.assertEqual({tuple(plan["groups"][i["group"]]["axes"]) for i in tiles}, {("ep",)})
                self.assertEqual({i["queue"] for i in tiles}, {"comm"})
                chosen = e2e.read_report(self.path("plan"))["chosen"]
                most = 0.025 if name == "gpt-oss" else 0.02  # 2 KiB of 82 KiB
                self.assertLess(abs(chosen["predicted"]["memory_bytes"]["peak"] / max(plan["arena_bytes"]) - 1), most)
                self.assertTrue(any(t["what"] == "expert_tiles over ep" and t["seconds"] > 0 for t in chosen["detail"]["traffic"]))
                rows = e2e.read_metrics(self.path("metrics.jsonl"))
                fullest, most = [row["fullest_rank"] for row in rows], [row["expert_tiles"] for row in rows]
                self.assertGreaterEqual(min(fullest), 1)
                self.assertGreaterEqual(min(most), len(tiles) / 2)  # a rank of a pipeline has half of them
                if "skewed" in name:  # An expert has a row of each token: half of the rows.
                    self.assertGreater(np.mean(fullest), 1.3)

    def test_values_are_reduced_before_they_are_gathered(self):
        """The gradient of a mixture is summed over tp once, not as three stacks of the rows of all ranks of its experts."""
        dump = self.path("ir")
        self.compile("deepseek-v3", "dp=4,tp=2,ep=4", "--verify=off", f"--dump-ir-dir={dump}", cluster="local:8")
        with open(os.path.join(dump, "04-local.mlir")) as local:
            reductions = [line for line in local if "dpc.all_reduce" in line and 'axes = ["tp"]' in line]
        self.assertTrue(reductions)
        self.assertEqual([line for line in reductions if "tensor<128x16x" in line], [])

    def test_both_forms_are_one_program(self):
        """Tensors have other numbers, but the products are the same."""
        def products(name):
            dump = self.path("ir")
            self.compile(name, "dp=1", f"--dump-ir-dir={dump}")
            with open(os.path.join(dump, "01-fused.mlir")) as fused:
                text = fused.read()
            self.assertEqual(len(re.findall(r"dpc\.topk", text)), 2, "the router of each layer")
            return re.findall(r"dpc\.expert_matmul.*(tb)? : (.*)", text)

        self.assertEqual(len(products("mixtral")), 4)
        self.assertEqual(products("mixtral"), products("mixtral-batched"))

    def test_rows_of_other_experts_are_completed(self):
        """An axis splits 4 and 8 experts at other ids, and a row of two choices belongs to two experts."""
        for name, text in (("alike", chain(4, 4, 32)), ("other experts", chain(4, 8, 32)), ("other rows", chain(4, 4, 1, choices="16"))):
            for strategy in ("dp=4,ep=4", "dp=2,tp=2,ep=2", "dp=2,tp=2"):
                with self.subTest(name=name, strategy=strategy):
                    file = self.path("chain.mlir")
                    with open(file, "w") as out:
                        out.write(text)
                    said = e2e.must([e2e.tool("dpc-opt"), file, "--cluster=local:4", "--init=random:1", "--verify=on", f"--strategy={strategy}",
                                     "-o", self.path("plan")])
                    self.assertIn("verified: 4 ranks compute what one device computes", said)

    def test_experts_exchange_tokens_only(self):
        """Per layer, each rank gathers tokens, ids and gates, and gives back one sum per token: no rows between the two products."""
        dump = self.path("ir")
        self.compile("mixtral", "dp=4,ep=4", f"--dump-ir-dir={dump}")
        with open(os.path.join(dump, "04-local.mlir")) as local:
            forward = [line for line in local if '"forward"' in line and "dpc.group" not in line]
        sums = [line for line in forward if "reduce_scatter" in line]
        self.assertEqual([line.split(" -> ")[-1].strip() for line in sums], ["tensor<1x256xf32>"] * 2)

    def test_router_biases_balance_the_experts(self):
        """The biases count the tokens of all micro-batches and ranks."""
        words = ("--balance-experts=0.02",)
        for name, strategy in (("deepseek-v3", "dp=1"), ("deepseek-v3", "dp=4,ep=4"), ("deepseek-v3", "dp=2,pp=2,ep=2,micro_batch=1"),
                               ("glm4-moe", "dp=2,tp=2,recompute=full,micro_batch=2"), ("glm4-moe", "dp=4,ep=2,zero=3")):
            with self.subTest(model=name, strategy=strategy):
                losses = self.losses(name, strategy, *words)
                np.testing.assert_allclose(losses, RECORD["balanced"][name], rtol=LIMIT)
                self.assertGreater(max(abs(np.array(losses) / RECORD["losses"][name] - 1)), 1e-3, "the biases change the losses")
                loads = [row["fullest_expert"] for row in e2e.read_metrics(self.path("metrics.jsonl"))]
                self.assertLess(loads[-1], loads[0])
                self.assertGreaterEqual(min(loads), 1)
        done = e2e.call([e2e.tool("dpc-opt"), os.path.join(FOLDER, "mixtral.pt2"), "--cluster=local:1", "--global-batch=8", *words, "-o", self.path("plan")])
        self.assertEqual(done.returncode, 1)
        self.assertIn("mixtral.pt2 has no buffer that shifts only the choice of its experts", done.stderr)

    def report(self, strategy, routing, name="mixtral"):
        said = e2e.must([e2e.tool("dpc-opt"), os.path.join(FOLDER, f"{name}.pt2"), "--cluster=local:4", "--global-batch=4096", f"--strategy={strategy}",
                         f"--routing={routing}", "--verify=off", "--emit=report", "--report=json", "-o", self.path("report")])
        return json.loads(said)

    def test_a_skew_takes_time_where_experts_are_split(self):
        counts = self.path("counts.json")
        with open(counts, "w") as out:
            json.dump([[5, 1, 1, 1], [1, 1, 5, 1]], out)
        seconds = {}
        for strategy in ("dp=4", "dp=4,ep=4"):
            for routing in ("balanced", "zipf:1.2", counts):
                report = self.report(strategy, routing)
                seconds[strategy, routing] = report["chosen"]["predicted"]["step_seconds"]
                fullest = report["experts"]["fullest_rank"]
        self.assertEqual(report["experts"]["routing"], counts)
        self.assertEqual([fullest[counts], fullest["balanced"]], [2.5, 1.0])
        # Without ep, each rank has all experts.
        self.assertEqual(len({seconds["dp=4", routing] for routing in ("balanced", "zipf:1.2", counts)}), 1)
        self.assertLess(seconds["dp=4,ep=4", "balanced"], seconds["dp=4,ep=4", "zipf:1.2"])
        self.assertLess(seconds["dp=4,ep=4", "zipf:1.2"], seconds["dp=4,ep=4", counts])
        done = e2e.call([e2e.tool("dpc-opt"), os.path.join(FOLDER, "deepseek-v3.pt2"), "--cluster=local:4", "--global-batch=8", f"--routing={counts}",
                         "-o", self.path("plan")])
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"--routing={counts}: layer 0 has counts of 4 experts; accepted: 8, like the model", done.stderr)

    def test_a_remark_names_a_plan_that_a_skew_makes_faster(self):
        model, cluster = self.path("moe.onnx"), self.path("cluster.json")
        e2e.must([e2e.tool("dpc-model"), "moe", *"--layers=4 --hidden=1024 --heads=16 --kv-heads=4 --ffn=2048 --expert-ffn=2048 --experts=32 --topk=4"
                  " --seq=1024 --vocab=8000 --capacity=0".split(), "-o", model])
        links = e2e.read_json(f"{e2e.SOURCE}/examples/clusters/dgx-h100-1.json")
        links["levels"][0].update(in_network_reduction=False)
        with open(cluster, "w") as file:
            json.dump(links, file)
        reports = {}

        def report(routing, strategy):
            reports[routing, strategy] = json.loads(e2e.must([
                e2e.tool("dpc-opt"), model, f"--cluster={cluster}", "--global-batch=8", "--train=adamw", "--precision=bf16", f"--strategy={strategy}",
                f"--routing={routing}", "--verify=off", "--emit=report", "--report=json", "-o", self.path("report")]))

        report("balanced", "tp=1")
        report("zipf:1.2", "tp=1")
        chosen = reports["balanced", "tp=1"]["chosen"]
        self.assertEqual(chosen["strategy"]["ep"], 8)
        same = f"dp=8,ep=8,zero={chosen['strategy']['zero']}"
        report("zipf:1.2", same)
        remarks = [text for text in reports["balanced", "tp=1"]["remarks"] if text.startswith("if tokens choose experts as in zipf:1.2, this plan takes")]
        self.assertEqual(len(remarks), 1)
        self.assertEqual([text for text in reports["zipf:1.2", "tp=1"]["remarks"] if text.startswith("if tokens")], [])
        seconds = {key: report["chosen"]["predicted"]["step_seconds"] for key, report in reports.items()}
        self.assertIn(f"takes {1e3 * seconds['zipf:1.2', same]:.1f} ms a step, and dp=", remarks[0])
        # The search for this routing finds a plan that is at least as fast.
        self.assertLessEqual(seconds["zipf:1.2", "tp=1"], float(remarks[0].split(" ms: --routing")[0].split()[-1]) / 1e3 * 1.005)

    def test_plans_for_gpus_order_the_rows(self):
        """On GPUs, each product has a workspace for the order of its rows."""
        plan = e2e.read_json(os.path.join(self.compile("mixtral", "dp=2,tp=2,ep=2", "--target-gpu=sm_90", "--precision=bf16"), "plan.json"))
        products = [one for phase in plan["phases"].values() for one in phase if one["op"] == "expert_matmul"]
        # Two layers with two products, and for each a gradient of the rows and one of the matrices.
        self.assertEqual(sorted(one["kind"] for one in products), ["forward"] * 8 + ["grad_weight"] * 4)
        for one in products:
            self.assertEqual(plan["buffers"][one["workspace"]]["kind"], "workspace")
            self.assertEqual(one["compute"], "bf16")

    def test_predicted_memory_has_the_order_of_rows(self):
        """At the peak, the workspace of a product of narrow rows is live."""
        l, x, w, v, i, y = (f"tensor<{shape}>" for shape in ("4096x4xf32", "4096x2xf32", "4x2x2xf32", "4096x2xf32", "4096x2xi64", "4096x2x2xf32"))
        with open(self.path("rows.mlir"), "w") as file:
            file.write(f"""func.func @forward(%l: {l} {{dpc.name = "l", dpc.role = "input"}}, %x: {x} {{dpc.name = "x", dpc.role = "input"}},
    %w: {w} {{dpc.name = "w", dpc.role = "parameter"}}) -> ({y} {{dpc.name = "y"}}) {{
  %v, %i = dpc.topk %l : {l} -> {v}, {i}
  %y = dpc.expert_matmul %x, %i, %w : ({x}, {i}, {w}) -> {y}
  return %y : {y}
}}
""")
        for target in ([], ["--target-gpu=sm_90"]):
            e2e.must([e2e.tool("dpc-opt"), file.name, "--cluster=local:1", "--infer", "--init=random:1", "--verify=off", *target, "-o", self.path("plan")])
            arena = e2e.read_json(self.path("plan/plan.json"))["arena_bytes"]
            self.assertEqual(arena, [e2e.read_report(self.path("plan"))["chosen"]["predicted"]["memory_bytes"]["peak"]])


if __name__ == "__main__":
    unittest.main()
