#!/usr/bin/env python3
"""Checks which plans run attention as one instruction, that the report predicts their memory, and what --attention
refuses.

follow_curve.py checks that such plans train like PyTorch, with the runtime's loops on CPUs.
"""
import json
import sys
import unittest

import e2e


class Attention(unittest.TestCase):
    def compile(self, model, words, ranks=1):
        """Returns a plan's instructions by name, its arenas and the peak that the report predicts; or the one line of an error."""
        with e2e.scratch() as folder:
            done = e2e.call([e2e.tool("dpc-opt"), e2e.model(model), f"--cluster=local:{ranks}", "--global-batch=8", "--verify=off",
                             "--init=random:1", "-o", f"{folder}/plan", *words])
            if done.returncode:
                self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
                return done.stderr
            with open(f"{folder}/plan/plan.json", encoding="utf-8") as file:
                plan = json.load(file)
            counts = {}
            for instructions in plan["phases"].values():
                for instruction in instructions:
                    counts[instruction["op"]] = counts.get(instruction["op"], 0) + 1
            peak = e2e.read_json(f"{folder}/plan/report.json")["chosen"]["predicted"]["memory_bytes"]["peak"]
            return counts, max(plan["arena_bytes"]), peak

    def expect(self, model, words, forward, backward, ranks=1):
        counts, arena, peak = self.compile(model, words, ranks)
        self.assertEqual((counts.get("attention", 0), counts.get("attention_grad", 0)), (forward, backward), words)
        self.assertLessEqual(abs(peak - arena), 0.02 * arena, words)
        return counts, arena

    def test_gpus(self):
        gpu = ["--target-gpu=sm_90"]
        for precision in ("bf16", "fp16"):
            fused, less = self.expect("gpt2-tiny", [*gpu, f"--precision={precision}"], 4, 4)
            expanded, more = self.expect("gpt2-tiny", [*gpu, f"--precision={precision}", "--attention=expanded"], 0, 0)
            # In each of the 4 blocks, expanded attention has 7 GEMMs.
            self.assertEqual(expanded["matmul"] - fused["matmul"], 4 * 7)
            self.assertLess(fused["kernel"], expanded["kernel"])
            self.assertLessEqual(less, more)
        self.expect("gpt2-tiny", gpu, 0, 0)

    def test_strategies(self):
        gpu = ["--target-gpu=sm_80", "--precision=bf16"]
        for strategy, ranks, forward in (("tp=2", 2, 4), ("dp=2,zero=3", 2, 4), ("cp=2,cp_kind=ulysses", 2, 4),
                                         # 2 steps of a causal ring attend to 3 blocks of keys each.
                                         ("cp=2,cp_kind=ring", 2, 4 * 2 * 3),
                                         ("dp=1,micro_batch=2,recompute=full", 1, None)):
            with self.subTest(strategy=strategy):
                words = [*gpu, f"--strategy={strategy}"]
                if forward is None:  # The forward of all blocks but the last is recomputed.
                    counts, _ = self.compile("gpt2-tiny", words, ranks)[:2]
                    self.assertGreater(counts["attention"], 4)
                    self.assertEqual(counts["attention_grad"], 4)
                else:
                    self.expect("gpt2-tiny", words, forward, forward, ranks)

    def test_cpus(self):
        self.expect("gpt2-tiny", ["--precision=bf16"], 0, 0)
        self.expect("gpt2-tiny", ["--attention=fused"], 4, 4)

    def test_estimates_for_clusters_of_gpus(self):
        """Without a plan for GPUs, too, the attention that such plans would fuse has cuDNN's price, and nothing else has."""
        def seconds(model, *words):
            with e2e.scratch() as folder:
                e2e.must([e2e.tool("dpc-opt"), e2e.model(model), f"--cluster={e2e.SOURCE}/examples/clusters/dgx-h100-16.json", "--global-batch=32",
                          "--strategy=dp=16", "--emit=report", "-o", folder, *words])
                return e2e.read_json(f"{folder}/report.json")["chosen"]["predicted"]["step_seconds"]

        for model, precision, fuses in (("gpt2-tiny", "bf16", True), ("gpt2-tiny", "fp32", False), ("bert-tiny", "bf16", False)):
            with self.subTest(model=model, precision=precision):
                words = [model, f"--precision={precision}"]
                auto, expanded = seconds(*words), seconds(*words, "--attention=expanded")
                (self.assertLess if fuses else self.assertEqual)(auto, expanded)
                self.assertEqual(auto, seconds(*words, "--target-gpu=sm_90"))

    def test_workspace(self):
        """The workspace of cuDNN's gradient is planned and predicted only on GPUs; here it is a quarter of all memory."""
        kind = lambda extents, element="bf16": f"tensor<1x1x{extents}x{element}>"
        four, rows = kind("128x64"), kind("128", "f32")
        text = f"""func.func @forward(%q: {four} {{dpc.role = "input", dpc.name = "q"}}) -> ({four} {{dpc.name = "dq"}}) {{
  %o, %lse = dpc.attention %q, %q, %q scale = 0.125 causal : ({four}, {four}, {four}) -> ({four}, {rows})
  %dq, %dk, %dv = dpc.attention_grad %q, %q, %q, %o, %lse, %o scale = 0.125 causal : ({four}, {four}, {four}, {four}, {rows}, {four}) -> ({four}, {four}, {four})
  return %dq : {four}
}}
"""
        for words, planned in ((["--target-gpu=sm_90"], 1), (["--attention=fused"], 0)):
            with self.subTest(words=words), e2e.scratch() as folder:
                with open(f"{folder}/model.mlir", "w", encoding="utf-8") as file:
                    file.write(text)
                e2e.must([e2e.tool("dpc-opt"), f"{folder}/model.mlir", "--cluster=local:1", "--infer", "--verify=off", "-o", f"{folder}/plan", *words])
                plan = e2e.read_json(f"{folder}/plan/plan.json")
                found = [buffer["bytes"] for buffer in plan["buffers"] if buffer["name"] == "workspace of attention"]
                self.assertEqual(found, [128 * 65 * 4 + 128 * 128 * 2 + 4096] * planned)
                peak = e2e.read_json(f"{folder}/plan/report.json")["chosen"]["predicted"]["memory_bytes"]["peak"]
                self.assertLessEqual(abs(peak - plan["arena_bytes"][0]), 0.02 * plan["arena_bytes"][0])

    def test_masks(self):
        counts, _, _ = self.compile("bert-tiny", ["--target-gpu=sm_90", "--precision=bf16"])
        self.assertEqual((counts.get("attention", 0), counts.get("attention_grad", 0)), (0, 0))

    def test_refusals(self):
        for model, words, mentions in (
                ("gpt2-tiny", ["--target-gpu=sm_90"], ["is not a 16-bit type", "--precision=bf16", "--attention=expanded"]),
                ("bert-tiny", ["--precision=bf16"], ["additive mask", "--attention=expanded"])):
            with self.subTest(words=words):
                error = self.compile(model, [*words, "--attention=fused"], 2)
                self.assertIsInstance(error, str)
                for mention in mentions:
                    self.assertIn(mention, error)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
