#!/usr/bin/env python3
"""--strategy=@FILE evaluates the configuration of another program."""
import json
import os
import unittest

import e2e


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def compile_with(folder, strategy, *more, ranks=4):
    return e2e.call([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), f"--cluster=local:{ranks}", "--verify=off", f"--strategy={strategy}", "-o",
                     os.path.join(folder, "out"), *more])


class Import(unittest.TestCase):
    def setUp(self):
        scratch = e2e.scratch()
        self.folder = scratch.__enter__()
        self.addCleanup(scratch.__exit__, None, None, None)

    def read(self, path, *more, ranks=4):
        done = compile_with(self.folder, "@" + path, "--emit=report", *more, ranks=ranks)
        self.assertEqual(done.returncode, 0, done.stderr)
        return e2e.read_report(os.path.join(self.folder, "out"))

    def refused(self, path, mention, *more):
        done = compile_with(self.folder, "@" + path, "--emit=report", *more)
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
        self.assertIn(mention, done.stderr)

    def test_what_is_exported_is_read_back(self):
        unstated = {"accelerate": ["--global-batch=8"], "galvatron": ["--precision=bf16"]}
        for target, name, strategy in (("megatron", "megatron.sh", "dp=2,pp=2,zero=1,micro_batch=2"), ("megatron", "megatron.sh", "tp=4,sp=true,recompute=full"),
                                       ("deepspeed", "ds_config.json", "dp=4,zero=3,micro_batch=1,offload=all"),
                                       ("accelerate", "accelerate.yaml", "dp=2,pp=2,zero=1,micro_batch=2"), ("galvatron", "galvatron.json", "dp=2,tp=2,micro_batch=2"),
                                       ("calculon", "calculon-execution.json", "dp=2,tp=2,zero=1,micro_batch=1"),
                                       ("colossalai", "colossalai.json", "dp=2,pp=2,zero=1,micro_batch=2"), ("colossalai", "opensora.py", "dp=2,pp=2,zero=1,micro_batch=2"),
                                       ("torchtitan", "torchtitan.py", "dp=2,pp=2,vpp=2,micro_batch=1"), ("torchtitan", "torchtitan.toml", "dp=2,tp=2,sp=true,zero=3,micro_batch=2")):
            with self.subTest(f"{target} {strategy}"):
                done = compile_with(self.folder, strategy, "--global-batch=8", "--precision=bf16", f"--emit=report,{target}")
                self.assertEqual(done.returncode, 0, done.stderr)
                out = os.path.join(self.folder, "out")
                expected = e2e.read_report(out)
                with open(os.path.join(out, "exports", name), encoding="utf-8") as file:
                    path = write(self.folder, name, file.read())
                report = self.read(path, *unstated.get(target, ()))
                self.assertEqual(report["chosen"]["strategy"], expected["chosen"]["strategy"])
                self.assertEqual(report["step"], expected["step"])
                self.assertAlmostEqual(report["chosen"]["predicted"]["step_seconds"] / expected["chosen"]["predicted"]["step_seconds"], 1, delta=1e-6)

    def test_what_has_no_effect_is_listed(self):
        path = write(self.folder, "ds.json", json.dumps({
            "train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "wall_clock_breakdown": True, "zero_optimization": {"stage": 2, "reduce_bucket_size": 1}}))
        report = self.read(path)
        self.assertEqual({key: report["chosen"]["strategy"][key] for key in ("dp", "zero", "micro_batch")}, {"dp": 4, "zero": 2, "micro_batch": 2})
        self.assertIn(f"{path}: read as a DeepSpeed configuration: --strategy=dp=4,tp=1,zero=2,micro_batch=2 --global-batch=8; "
                      "without effect: wall_clock_breakdown, zero_optimization.reduce_bucket_size",
                      report["remarks"])
        # Better plans are also listed, with their own micro-batches.
        rows = {row["name"]: row for row in report["baselines"]}
        self.assertIn("zero3", rows)
        self.assertNotEqual({row["strategy"]["micro_batch"] for row in rows.values()}, {2})

    def test_a_script_for_a_part_of_the_devices(self):
        script = write(self.folder, "part.sh", "torchrun --nproc_per_node 2 x --tensor-model-parallel-size 2 --micro-batch-size 1 --global-batch-size 8 --lr 1")
        out = os.path.join(self.folder, "out")
        words = [e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), "--cluster=local:4", "--verify=off", "--emit=report", "-o", out]
        shown = " ".join(e2e.must([*words, f"--strategy=@{script}"]).split())
        self.assertIn(f"{script}: read as a command with Megatron-LM's flags: --strategy=dp=1,tp=2,micro_batch=1,ranks=2 --global-batch=8; "
                      "1 setting without effect on the plan", shown)
        self.assertIn("uses 2 of 4 devices, as requested", shown)
        # Better plans use the same number of devices, and the printed strategies are valid options.
        report = e2e.read_report(out)
        self.assertEqual((report["chosen"]["devices"], report["better"]["devices"]), (2, 2))
        chosen = shown.split("chosen: ")[1].split(", ")[0]
        self.assertTrue(chosen.endswith(",ranks=2"), chosen)
        self.assertRegex(shown, r"better: --strategy=\S+,ranks=2, ")
        e2e.must([*words, "--global-batch=8", f"--strategy={chosen}"])
        self.assertEqual(e2e.read_report(out)["chosen"]["strategy"], report["chosen"]["strategy"])

    def test_keys_after_the_file_replace_its_own(self):
        path = write(self.folder, "ds.json", json.dumps({"train_batch_size": 8, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 2}}, indent=1))
        self.refused(path, "ds.json: line 5: zero_optimization.zero_hpz_partition_size=2 keeps a second copy of the parameters in each node")
        chosen = self.read(path + ",hybrid_shard=2,recompute=full")["chosen"]["strategy"]
        self.assertEqual({key: chosen[key] for key in ("dp", "zero", "hybrid_shard", "recompute")}, {"dp": 4, "zero": 3, "hybrid_shard": 2, "recompute": "full"})
        chosen = self.read(path + ",hybrid_shard=1,tp=2,zero=1")["chosen"]["strategy"]
        self.assertEqual({key: chosen[key] for key in ("dp", "tp", "zero")}, {"dp": 2, "tp": 2, "zero": 1})
        self.refused(path + ",zero", "'zero'; expected @FILE, or @FILE,KEY=VALUE,...")
        self.refused(path + ",zero=1,zero=2", "key 'zero' is given twice")
        self.refused(path + ",hybrid_shard=2,zero=7", "zero=7: bad value")
        self.refused(path + ",hybrid_shard=2,zeros=1", "unknown key 'zeros'")
        comma = write(self.folder, "a,tp=2.sh", "x --tensor-model-parallel-size 4 --micro-batch-size 8")
        self.assertEqual(self.read(comma, "--global-batch=8")["chosen"]["strategy"]["tp"], 4)

    def test_files_that_no_reader_knows(self):
        for name, text in (("a.json", '{"model_type": "gpt2"}'), ("a.toml", "[model]\nname = 'x'\n"), ("a.yaml", "lr: 1\n"), ("a.py", "lr = 1\n"), ("a.sh", "run --lr 1\n")):
            self.refused(write(self.folder, name, text), f"{name}: unknown kind of file, with settings such as ")

    def test_what_is_better_stands_beside_it(self):
        words = [e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), "--cluster=local:4", "--verify=off", "--emit=report"]
        out = os.path.join(self.folder, "out")
        e2e.must([*words, "--global-batch=8", "-o", out])
        best = e2e.read_report(out)["chosen"]
        slow = write(self.folder, "slow.sh", "x --tensor-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 8")
        done = e2e.must([*words, f"--strategy=@{slow}", "-o", out])
        report = e2e.read_report(out)
        self.assertEqual(report["chosen"]["strategy"]["tp"], 4)
        better = report["better"]
        self.assertEqual(better["strategy"], best["strategy"])
        self.assertAlmostEqual(better["step_seconds"], best["predicted"]["step_seconds"], delta=1e-3 * best["predicted"]["step_seconds"])
        self.assertAlmostEqual(better["saved_seconds"], report["chosen"]["predicted"]["step_seconds"] - better["step_seconds"], delta=1e-9)
        self.assertRegex(" ".join(done.split()), r"better: --strategy=dp=\S+, [\d.]+ ms a step \([\d.]+ % less than [\d.]+ ms\)")
        words[2] = "--cluster=local:2"  # the best plan is one that DeepSpeed's file can say
        e2e.must([*words, "--global-batch=8", "-o", out])
        best = e2e.read_report(out)["chosen"]
        found = write(self.folder, "best.json", json.dumps({
            "train_batch_size": 8, "train_micro_batch_size_per_gpu": best["strategy"]["micro_batch"], "zero_optimization": {"stage": best["strategy"]["zero"]}}))
        done = e2e.must([*words, f"--strategy=@{found}", "-o", out])
        self.assertEqual(e2e.read_report(out)["chosen"]["strategy"], best["strategy"])
        self.assertIsNone(e2e.read_report(out)["better"]["strategy"])
        self.assertIn("nothing better was found among ", done)

    def test_files_of_other_models_are_refused(self):
        self.refused(write(self.folder, "llama.sh", "x --micro-batch-size 1 --num-layers 4 --hidden-size 4096"),
                     "llama.sh: --hidden-size 4096, but the model has a hidden size of 64; expected a file for ", "--global-batch=8")
        self.refused(write(self.folder, "moe.sh", "x --micro-batch-size 1 --num-experts 8"), "moe.sh: --num-experts 8, but the model has no experts", "--global-batch=8")
        self.refused(write(self.folder, "ds.json", '{"vocabulary_size": 32000}'), "vocabulary_size=32000, but the model has a vocabulary of ", "--global-batch=8")

    def test_what_the_reading_program_sets_is_on(self):
        path = write(self.folder, "ds.json", json.dumps({
            "train_batch_size": 8, "train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 1}}))
        report = self.read(path)
        self.assertEqual(report["step"]["compute_type"], "bf16")
        self.assertTrue(any(" --precision=bf16" in text for text in report["remarks"]), report["remarks"])

    def test_what_has_no_key_is_refused(self):
        self.refused(write(self.folder, "a.json", '{"zero_optimization": {"stage": 3, "zero_hpz_partition_size": 2}}'), "zero_hpz_partition_size=2", "--global-batch=8")
        self.refused(write(self.folder, "a.sh", "x --tensor-model-parallel-size 3"), "a.sh: the product of tp=3", "--global-batch=8")
        self.refused(write(self.folder, "b.sh", "x --micro-batch-size 1 --global-batch-size 16"), "a global batch of 16, but --global-batch=8", "--global-batch=8")
        self.refused(os.path.join(self.folder, "none.json"), "none.json: cannot be read")


if __name__ == "__main__":
    unittest.main(verbosity=2)
