#!/usr/bin/env python3
"""Models of dpc-model: every family compiles, agrees with one device and trains; large models are planned.

Their graphs are written as exporters write them, so fusions have to recognize attention, norms and others in them.
"""
import json
import math
import os
import re
import unittest

import e2e

SMALL = "--layers=2 --hidden=32 --heads=4".split()
TEXT = "--vocab=61 --seq=16".split()
LLAMA = [*SMALL, *TEXT, "--ffn=48", "--kv-heads=2"]
EXPERTS = "--experts=4 --topk=2 --expert-ffn=24 --shared-experts=1 --dense-layers=1 --group=8 --capacity=1".split()

LATENT = "--kv-heads=4 --ffn=48 --head-dim=8 --rope-dim=4 --value-dim=6 --q-rank=12 --kv-rank=10".split()
# What transformers counts in its models with the published sizes, without modules for multi-token prediction.
PUBLISHED = {"mixtral": 46702792704, "qwen3-30b-a3b": 30532122624, "qwen3-235b-a22b": 235093634560, "deepseek-v3": 671026404352,
             "kimi-k2": 1026408209408, "gpt-oss-20b": 20914757184, "gpt-oss-120b": 116829156672}

# By family: dims, a strategy for four ranks, and how many of some ops the fused graph has.
FAMILIES = {
    "gpt": ([*SMALL, *TEXT], "dp=2,tp=2", {"norm": 5, "gelu_tanh": 2, "cross_entropy": 1}),
    "bloom": ([*SMALL, *TEXT], "tp=2,cp=2,cp_kind=ulysses", {"norm": 6, "gelu_tanh": 2, "cross_entropy": 1}),
    "mpt": ([*SMALL, *TEXT], "dp=4,zero=3", {"norm": 5, "gelu": 2, "cross_entropy": 1}),
    "llama": (LLAMA, "tp=2,pp=2,micro_batch=2", {"norm": 5, "rope": 4, "silu": 2, "cross_entropy": 1}),
    "moe": ([*LLAMA, *EXPERTS], "dp=4,ep=2", {"norm": 5, "rope": 4, "silu": 3, "cross_entropy": 1}),
    "qwen3-30b-a3b": ([*LLAMA, *EXPERTS, "--head-dim=8"], "dp=2,tp=2,ep=2", {"norm": 9, "rope": 4, "silu": 3, "cross_entropy": 1}),
    "deepseek-v3": ([*SMALL, *TEXT, *EXPERTS, *LATENT, "--mtp=2"], "dp=2,tp=2", {"norm": 23, "rope": 8, "silu": 7, "attention": 4,
                                                                                        "cross_entropy": 3}),
    "gpt-oss-20b": ([*LLAMA, *EXPERTS, "--head-dim=8", "--window=4", "--glu-limit=0.1"], "dp=2,tp=2", {"norm": 5, "rope": 4, "silu": 2, "topk": 1,
                                                                                                    "cross_entropy": 1}),
    "bert": ([*SMALL, *TEXT], "tp=4,sp=true", {"norm": 6, "gelu": 3, "cross_entropy": 1}),
    "vit": ([*SMALL, *"--image=16 --patch=4 --classes=10".split()], "dp=2,tp=2", {"norm": 5, "gelu": 2, "cross_entropy": 1}),
    "dit": ([*SMALL, *"--image=8 --patch=2 --classes=10".split()], "dp=2,pp=2,micro_batch=1", {"norm": 5, "gelu_tanh": 2}),
}
CAUSAL = {"gpt", "bloom", "mpt", "llama", "moe", "qwen3-30b-a3b", "deepseek-v3", "gpt-oss-20b"}
LARGEST = "llama --layers=126 --hidden=16384 --ffn=53248 --heads=128 --kv-heads=8 --vocab=128256 --seq=8192".split()


def count_ops(text, name):
    """Counts ops `dpc.NAME`, or elementwise ops of the kind NAME."""
    return len(re.findall(rf"= dpc\.{name}\s|= dpc\.unary\s+{name}\s", text))


class Models(e2e.ScratchTest):
    def model(self, words):
        file = self.path("model.onnx")
        return file, e2e.must([e2e.tool("dpc-model"), *words, "-o", file])

    def test_every_family_trains(self):
        for family, (words, strategy, ops) in FAMILIES.items():
            with self.subTest(family=family):
                self.check_family(family, words, strategy, ops)

    def check_family(self, family, words, strategy, ops):
        file, _ = self.model([family, *words])
        plan, dump = self.path(f"plan-{family}"), self.path(f"dump-{family}")
        said = e2e.must([e2e.tool("dpc-opt"), file, "--cluster=local:4", "--global-batch=4", f"--strategy={strategy}", "--init=random:1",
                         "--verify=on", f"--dump-ir-dir={dump}", "-o", plan])
        self.assertIn("verified: 4 ranks compute what one device computes", said)
        with open(os.path.join(dump, "01-fused.mlir"), encoding="utf-8") as fused:
            text = fused.read()
        attention = [line for line in text.splitlines() if "dpc.attention" in line]
        self.assertEqual(len(attention), ops.get("attention", 2))
        self.assertEqual(sum("causal" in line for line in attention), len(attention) if family in CAUSAL else 0)
        for name, count in ops.items():
            self.assertEqual(count_ops(text, name), count, name)
        metrics = self.path(f"{family}.jsonl")
        e2e.must([e2e.tool("dpc-run"), plan, "--steps=3", f"--metrics={metrics}"])
        losses = [line["loss"] for line in e2e.read_metrics(metrics)]
        self.assertEqual(len(losses), 3)
        self.assertTrue(all(math.isfinite(loss) for loss in losses))

    def test_without_slots_every_choice_is_computed(self):
        """The products pick the matrices of the chosen experts, so that ep finds them and no token is dropped."""
        for family, mixtures in (("moe", 1), ("deepseek-v3", 3), ("gpt-oss-20b", 1)):
            words, _, ops = FAMILIES[family]
            ops = {**ops, "expert_matmul": 3 * mixtures, "topk": mixtures}
            with self.subTest(family=family):
                self.check_family(family, [*(word for word in words if not word.startswith("--capacity")), "--capacity=0"], "dp=4,ep=4", ops)
                report = e2e.read_report(self.path(f"plan-{family}"))
                self.assertEqual(report["experts"]["experts_per_rank"], 1)
                self.assertEqual(report["experts"]["experts_per_token"], 2)
                self.assertNotIn("choices_without_slot", report["experts"])

    def test_the_report_names_latent_attention_and_further_tokens(self):
        words, _, _ = FAMILIES["deepseek-v3"]
        file, _ = self.model(["deepseek-v3", *words])
        out = self.path("named")
        said = e2e.must([e2e.tool("dpc-opt"), file, "--cluster=local:2", "--global-batch=4", "--verify=off", "--emit=report", "-o", out])
        self.assertIn("multi-head latent (MLA), 4 heads with keys of 12 and values of 6", " ".join(said.split()))
        self.assertIn("multi-token prediction (MTP): 2 further tokens at each position", said)
        report = e2e.read_report(out)
        self.assertEqual(report["attention"], {"heads": 4, "key_heads": 4, "key_size": 12, "value_size": 6, "latent": 10, "query_latent": 12,
                                               "layers": 4, "window": 0, "windowed_layers": 0, "layers_with_sinks": 0})
        self.assertEqual(report["further_tokens"], 2)
        done = e2e.call([e2e.tool("dpc-opt"), file, "--cluster=local:2", "--global-batch=4", "--strategy=dp=2", "--verify=off", "--emit=megatron", "-o", out])
        self.assertEqual(done.returncode, 1)
        self.assertIn("dpc's export for Megatron-LM has no multi-token prediction", done.stderr)

    def test_windows_and_sinks_are_named_and_fused(self):
        """The trace shows what is priced: attention, and no softmax. A window removes scores, and with them time."""
        seconds = []
        for window in (0, 128):
            file, _ = self.model(["gpt-oss-20b", *"--layers=2 --hidden=512 --heads=8 --kv-heads=2 --vocab=1024 --seq=8192".split(), f"--window={window}"])
            out = self.path(f"windows-{window}")
            command = [e2e.tool("dpc-opt"), file, "--global-batch=16", "--precision=bf16", "--verify=off", "-o", out]
            said = e2e.must([*command, f"--cluster={e2e.SOURCE}/examples/clusters/dgx-h100-1.json", "--strategy=ranks=1", "--emit=trace"])
            self.assertIn("attention: sinks (scores without values) in 2 of 2 layers", said)
            self.assertEqual("attention: a window of 128 keys in 1 of 2 layers" in said, window > 0)
            with open(os.path.join(out, "trace.json"), encoding="utf-8") as trace:
                events = [event for event in json.load(trace)["traceEvents"] if event.get("cat") == "attention"]
            self.assertEqual(len(events), 4)  # forward and backward
            seconds.append(sum(event["dur"] for event in events))
        self.assertLess(seconds[1], 0.6 * seconds[0])

    def test_exports_refuse_windows_and_sinks(self):
        words, _, _ = FAMILIES["gpt-oss-20b"]
        for window, reason in (("4", "has no windows of keys"), ("0", "has no attention sinks")):
            file, _ = self.model(["gpt-oss-20b", *(word for word in words if not word.startswith("--window")), f"--window={window}"])
            refused = e2e.call([e2e.tool("dpc-opt"), file, "--cluster=local:2", "--global-batch=4", "--strategy=dp=2", "--verify=off", "--emit=megatron",
                                "-o", self.path("out")])
            self.assertIn(reason, refused.stderr)

    def test_latent_attention_is_fused_where_cudnn_takes_it(self):
        """Heads of 192 and 128 elements on Hopper, not on Ampere. The trace shows what is priced."""
        file, _ = self.model("deepseek-v3 --layers=1 --dense-layers=1 --hidden=64 --heads=2 --kv-heads=2 --ffn=64 --q-rank=16 --kv-rank=16"
                             " --vocab=128 --seq=64".split())
        for cluster, count in (("dgx-h100-1", 1), ("a100-2x8", 0)):
            out = self.path(cluster)
            e2e.must([e2e.tool("dpc-opt"), file, f"--cluster={e2e.SOURCE}/examples/clusters/{cluster}.json", "--global-batch=16", "--precision=bf16",
                      "--strategy=ranks=1", "--verify=off", "--emit=trace", "-o", out])
            with open(os.path.join(out, "trace.json"), encoding="utf-8") as trace:
                events = json.load(trace)["traceEvents"]
            self.assertEqual(sum(event.get("cat") == "attention" for event in events), count, cluster)

    def test_tensor_parallel_experts_compute_whole_rows(self):
        """Rows are not resharded between the products, and travel by an exchange, forward and backward. GPT-OSS has biases and limits."""
        for name, family, strategy in (("deepseek", "deepseek-v3 --layers=1 --dense-layers=0", "dp=64,tp=2,ep=64,sp=true"),
                                       ("whole", "deepseek-v3 --layers=1 --dense-layers=0", "dp=64,tp=2,ep=128,sp=true"),
                                       ("gpt-oss", "gpt-oss-20b --layers=1", "dp=64,tp=2,ep=32,sp=true"), ("plain", "gpt-oss-20b --layers=1", "dp=128,ep=32")):
            file, _ = self.model([*family.split(), "--vocab=1024"])
            dump = self.path(f"rows-{name}")
            e2e.must([e2e.tool("dpc-opt"), file, f"--cluster={e2e.SOURCE}/examples/clusters/dgx-h100-16.json", "--global-batch=1024", "--train=adamw",
                      "--precision=bf16", f"--strategy={strategy},micro_batch=1", "--verify=off", "--emit=mlir", f"--dump-ir-dir={dump}",
                      "-o", self.path("out")])
            with open(os.path.join(dump, "03-sharded.mlir"), encoding="utf-8") as sharded, open(os.path.join(dump, "04-local.mlir"), encoding="utf-8") as local:
                self.assertEqual([line for line in sharded if "dpc.reshard" in line and "routed" in line], [], name)
                self.assertEqual(local.read().count('exchange = ["ep"]'), 2, name)

    def test_gradients_are_summed_in_f32(self):
        """Also those of a loss that needs the labels of all micro-batches before its first gradient."""
        words, _, _ = FAMILIES["deepseek-v3"]
        file, _ = self.model(["deepseek-v3", *words])
        out = self.path("sums")
        e2e.must([e2e.tool("dpc-opt"), file, "--cluster=local:2", "--global-batch=8", "--train=adamw", "--precision=bf16",
                  "--strategy=dp=2,micro_batch=1", "--verify=off", "--emit=mlir", "-o", out])
        with open(os.path.join(out, "program.mlir"), encoding="utf-8") as program:
            sums = [line.rstrip() for line in program if "dpc.accumulate" in line]
        self.assertGreater(len(sums), 50)
        self.assertEqual([line for line in sums if not line.endswith("f32>")], [])

    def test_the_largest_model_is_read_and_recognized(self):
        file, said = self.model(LARGEST)
        self.assertIn("405.85 billion parameters", said)
        text = e2e.must([e2e.tool("dpc-opt"), file, "--global-batch=16", "--infer", "--emit=mlir"])
        attention = [line for line in text.splitlines() if "dpc.attention" in line]
        # The mask of the 8192 x 8192 scores is recognized without reading every element.
        self.assertEqual(sum("causal" in line for line in attention), 126)

    def test_published_models_have_their_parameters(self):
        import onnx
        for name, count in PUBLISHED.items():
            with self.subTest(model=name):
                file, _ = self.model([name])
                graph = onnx.load(file, load_external_data=False).graph
                weights = [tensor for tensor in graph.initializer if tensor.data_location == onnx.TensorProto.EXTERNAL]
                self.assertEqual(sum(math.prod(tensor.dims) for tensor in weights), count)

    def test_bad_dims_are_refused(self):
        for words, mentions in (
            (["gpt", "--heads=7"], "--heads=7: must divide --hidden=768"),
            (["deepseek-v3", "--mtp=4096"], "--mtp=4096: expected 0 to 4095"),
            (["llama", "--kv-heads=3"], "--kv-heads=3: must divide --heads=32"),
            (["gpt", "--layers=x"], "--layers"),
            (["gpt", "--layers=0"], "--layers=0: expected 1 to"),
            (["gpt", "--experts=8"], "--experts=8"),
            (["llama", "--q-rank=64"], "--kv-rank=0: --q-rank, --rope-dim and --value-dim need latent attention"),
            (["llama", "--kv-rank=-3"], "--kv-rank=-3: expected 0 to"),
            (["deepseek-v3", "--qk-norm"], "--qk-norm: latent attention norms"),
            (["deepseek-v3", "--rope-dim=63"], "--rope-dim=63: must be even"),
            (["deepseek-v3", "--kv-heads=8"], "--kv-heads=8: latent attention has keys for each of the 128 heads"),
            (["deepseek-v3", "--biases"], "--biases: latent attention has none"),
            (["moe", "--capacity=-1"], "--capacity=-1.000000: expected a number from 0 to the number of experts, 8"),
            (["moe", "--glu-limit=nan"], "--glu-limit=nan: "),
            (["llama", "--window=-1"], "--window=-1: expected 0 to"),
            (["gptx"], "gptx: unknown family; accepted: gpt, bloom"),
            ([], "A subcommand is required"),
            (["gpt", "-o", self.path("no", "such.onnx")], "such.onnx: cannot be written"),
        ):
            with self.subTest(words=words):
                done = e2e.call([e2e.tool("dpc-model"), *words])
                self.assertEqual(done.returncode, 1)
                self.assertEqual(done.stdout, "")
                lines = done.stderr.splitlines()
                self.assertEqual(len(lines), 1, done.stderr)
                self.assertIn(mentions, lines[0])


if __name__ == "__main__":
    unittest.main()
