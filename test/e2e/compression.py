#!/usr/bin/env python3
"""Compressed collectives: counts the bytes that they send in plan.json, and checks that training stays close.

In int8 a block of 256 elements takes 260 bytes instead of 1024. The losses of 20 steps must stay as close to those
without compression as bf16's do (follow_curve.py), and must decrease in the same way.
"""
import unittest

import e2e

BLOCK, BLOCK_BYTES = 256, 260
OUTPUT_TOLERANCE = 2e-2


def compile_model(folder, ranks, strategy, words=(), model="gpt2-tiny"):
    return e2e.must([e2e.tool("dpc-opt"), e2e.model(model), f"--cluster=local:{ranks}", "--global-batch=8", "--lr=3e-3",
                     "--clip-grad-norm=1", f"--strategy={strategy}", *words, "-o", folder])


def sent(plan, ranks):
    """Returns the bytes that a rank sends in a step over the data axes, per op and element type, without norms and losses."""
    total = {}
    for instructions in plan["phases"].values():
        for i in instructions:
            if "group" not in i:
                continue
            names = {"all_reduce": i.get("buffers"), "reduce_scatter": i.get("ins"), "all_to_all": [i.get("in")],
                     "all_gather": i.get("outs")}[i["op"]]
            for buffer in (plan["buffers"][name] for name in names):
                if i["op"] != "all_reduce" or buffer["bytes"] > 16:
                    size = buffer["bytes"] * (ranks - 1) // ranks * (2 if i["op"] == "all_reduce" else 1)
                    key = i["op"], buffer["dtype"]
                    total[key] = total.get(key, 0) + size
    return total


class Bytes(unittest.TestCase):
    def sent(self, strategy, ranks, *words):
        with e2e.scratch() as folder:
            compile_model(f"{folder}/plan", ranks, strategy, ["--verify=off", *words])
            return sent(e2e.read_plan(f"{folder}/plan"), ranks)

    def test_data_parallel_sends_a_quarter(self):
        for ranks in (2, 4):
            plain = self.sent(f"dp={ranks}", ranks)
            coded = self.sent(f"dp={ranks}", ranks, "--compress-gradients=int8")
            self.assertEqual(set(plain), {("all_reduce", "f32")})
            self.assertEqual(set(coded), {(op, dtype) for op in ("all_to_all", "all_gather") for dtype in ("i8", "f32")})
            for op in ("all_to_all", "all_gather"):
                self.assertEqual(coded[op, "f32"] * BLOCK, coded[op, "i8"] * 4)
            # A bias of 64 elements takes one block.
            ratio = sum(plain.values()) / sum(coded.values())
            self.assertGreater(ratio, 3.75)
            self.assertLess(ratio, 4 * BLOCK / BLOCK_BYTES)

    def test_zero_2_scatters_a_quarter(self):
        plain = self.sent("dp=2,zero=2", 2)
        coded = self.sent("dp=2,zero=2", 2, "--compress-gradients=int8")
        scattered = sum(size for (op, _), size in coded.items() if op == "all_to_all") + coded.get(("reduce_scatter", "f32"), 0)
        self.assertGreater(plain["reduce_scatter", "f32"] / scattered, 3.5)
        # Updated parameters are not compressed.
        self.assertEqual(coded["all_gather", "f32"], plain["all_gather", "f32"])

    def test_zero_3_gathers_a_quarter(self):
        plain = self.sent("dp=2,zero=3", 2)
        coded = self.sent("dp=2,zero=3", 2, "--compress-weights=int8")
        gathered = sum(size for (op, _), size in coded.items() if op == "all_gather")
        self.assertGreater(plain["all_gather", "f32"] / gathered, 3.5)
        self.assertEqual(coded["reduce_scatter", "f32"], plain["reduce_scatter", "f32"])


class Training(unittest.TestCase):
    def losses(self, ranks, strategy, *words):
        with e2e.scratch() as folder:
            compile_model(f"{folder}/plan", ranks, strategy, ["--verify=off", *words])
            e2e.must([e2e.tool("dpc-run"), f"{folder}/plan", f"--batches={e2e.MODELS}/gpt2-tiny/batches", "--steps=20", "--poison",
                      f"--metrics={folder}/metrics"])
            return [row["loss"] for row in e2e.read_metrics(f"{folder}/metrics")]

    def test_losses_stay_close(self):
        want = self.losses(1, "dp=1")
        gradients, weights = "--compress-gradients=int8", "--compress-weights=int8"
        for ranks, strategy, words in [(4, "dp=4", [gradients]), (3, "dp=3,micro_batch=1", [gradients]),
                                       (6, "dp=2,tp=3", [gradients]), (4, "dp=2,zero=2,pp=2,micro_batch=2", [gradients]),
                                       (3, "dp=3,zero=3", [gradients, weights]), (4, "cp=2,tp=2,sp=true", [gradients]),
                                       (4, "dp=4,zero=3,hybrid_shard=2,recompute=full", [gradients, weights]),
                                       (2, "dp=2", [gradients, "--precision=bf16"])]:
            with self.subTest(strategy=strategy, words=words):
                got = self.losses(ranks, strategy, *words)
                self.assertNotEqual(got, want)
                self.assertLess(got[-1], got[0] - 0.5 * (want[0] - want[-1]))
                self.assertLess(max(abs(a - b) / b for a, b in zip(got, want)), OUTPUT_TOLERANCE)

    def test_small_buckets_change_nothing(self):
        # Each tensor begins a new block, so the order of tensors does not affect blocks.
        words = ["--compress-gradients=int8"]
        self.assertEqual(self.losses(2, "dp=2", *words), self.losses(2, "dp=2", *words, "--bucket-mb=1"))

    def test_verification_knows(self):
        for strategy, words in [("dp=2", ["--compress-gradients=int8"]),
                                ("dp=2,zero=3", ["--compress-gradients=int8", "--compress-weights=int8"])]:
            with e2e.scratch() as folder:
                compile_model(f"{folder}/plan", 2, strategy, ["--verify=on", *words])
                remarks = " ".join(e2e.read_report(f"{folder}/plan")["remarks"])
                self.assertIn("approximate: gradients are sent as int8", remarks)


class TopK(Training):
    def test_losses_stay_close(self):
        want = self.losses(1, "dp=1")
        share = "--compress-gradients=topk:0.25"
        for ranks, strategy, words in [(4, "dp=4", [share]), (3, "dp=3,micro_batch=1", [share]), (6, "dp=2,tp=3", [share]),
                                       (4, "dp=2,pp=2,micro_batch=2", [share]), (2, "dp=2,recompute=full", [share, "--precision=bf16"])]:
            with self.subTest(strategy=strategy, words=words):
                got = self.losses(ranks, strategy, *words)
                self.assertNotEqual(got, want)
                # Each element is sent about every fourth step, so its updates are late but not lost.
                self.assertLess(got[-1], got[0] - 0.5 * (want[0] - want[-1]))
                self.assertLess(max(abs(a - b) / b for a, b in zip(got, want)), OUTPUT_TOLERANCE)

    def test_small_buckets_change_nothing(self):
        words = ["--compress-gradients=topk:0.05"]
        self.assertEqual(self.losses(2, "dp=2", *words), self.losses(2, "dp=2", *words, "--bucket-mb=1"))

    def test_all_of_it_is_exact(self):
        # A sum of two ranks does not depend on the order.
        for strategy in ("dp=2", "dp=2,micro_batch=2"):
            want, got = self.losses(2, strategy), self.losses(2, strategy, "--compress-gradients=topk:1")
            self.assertLess(max(abs(a - b) / b for a, b in zip(got, want)), 1e-6)

    def test_verification_knows(self):
        with e2e.scratch() as folder:
            compile_model(f"{folder}/plan", 2, "dp=2", ["--verify=on", "--compress-gradients=topk:0.01"])
            remarks = " ".join(e2e.read_report(f"{folder}/plan")["remarks"])
            self.assertIn("approximate: gradients are sent as topk:0.01", remarks)
            plan = e2e.read_plan(f"{folder}/plan")
        # Each rank sends 3 of 256 elements, each with its index, to the other rank.
        gathered = {key: size for key, size in sent(plan, 2).items() if key[0] == "all_gather"}
        residuals = [tensor for tensor in plan["tensors"] if tensor["slot"] == "residual"]
        rows = sum(plan["buffers"][tensor["buffer"]]["bytes"] for tensor in residuals) // 1024
        self.assertEqual(gathered, {("all_gather", "f32"): rows * 12, ("all_gather", "i8"): rows * 3})


class Refusals(unittest.TestCase):
    def refused(self, ranks, strategy, *words):
        with e2e.scratch() as folder:
            done = e2e.call([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), f"--cluster=local:{ranks}", "--global-batch=8",
                             f"--strategy={strategy}", *words, "-o", f"{folder}/plan"])
            self.assertEqual(done.returncode, 1)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            return done.stderr

    def test_nothing_to_compress(self):
        self.assertIn("dp=1 and cp=1", self.refused(2, "tp=2", "--compress-gradients=int8"))
        self.assertIn("zero=2", self.refused(2, "dp=2,zero=2", "--compress-weights=int8"))
        self.assertIn("zero=1", self.refused(2, "dp=2,zero=1", "--compress-gradients=topk:0.1"))
        self.assertIn("topk:SHARE", self.refused(2, "dp=2", "--compress-gradients=topk:2"))
        self.assertIn("inference", self.refused(2, "dp=2", "--compress-gradients=int8", "--infer"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
