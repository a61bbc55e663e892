#!/usr/bin/env python3
"""Inference from .npy to .npy, weights from other files, and the files of --save-params."""
import array
import json
import os
import shutil
import unittest

import e2e

TOLERANCE = 1e-5
ABSTRACT = os.path.join(e2e.ONNX, "abstract.onnx")


class Inference(e2e.ScratchTest):
    def inputs(self, model):
        """Returns the first batch of a model's training data as the inputs of one step."""
        os.mkdir(self.path("in"))
        source = os.path.join(e2e.MODELS, model, "batches")
        for file in os.listdir(source):
            dtype, shape, values = e2e.read_npy(os.path.join(source, file))
            count = len(values) // shape[0]
            e2e.write_npy(self.path("in", file), dtype, shape[1:], values[:count])

    def outputs(self, model, strategy, ranks, launcher=(), *words):
        """Returns {output: (dtype, shape, values)} of one step."""
        plan, out = self.path(f"plan-{strategy}"), self.path(f"out-{strategy}")
        e2e.must([e2e.tool("dpc-opt"), model, "--infer", f"--cluster=local:{ranks}", "--global-batch=8", f"--strategy={strategy}", "-o", plan])
        self.assertFalse(e2e.read_plan(plan)["trains"])
        e2e.must([*launcher, e2e.tool("dpc-run"), plan, f"--inputs={self.path('in')}", f"--outputs={out}", *words])
        return {name: e2e.read_npy(os.path.join(out, name)) for name in sorted(os.listdir(out))}

    def same(self, got, want, tolerance=TOLERANCE):
        self.assertEqual(sorted(got), sorted(want))
        for name, (dtype, shape, values) in want.items():
            self.assertEqual(got[name][:2], (dtype, shape))
            self.assertLessEqual(e2e.largest_difference(got[name][2], values), tolerance, name)

    def test_ranks_infer_what_one_device_infers(self):
        for model in ("gpt2-tiny", "bert-tiny"):
            with self.subTest(model=model):
                shutil.rmtree(self.path("in"), ignore_errors=True)
                self.inputs(model)
                want = self.outputs(e2e.model(model), "dp=1", 1)
                oracle = e2e.read_json(os.path.join(e2e.MODELS, model, "oracle.json"))
                # The first loss of training is the loss with the weights in the file.
                self.assertLess(abs(want["loss.npy"][2][0] / oracle["losses"][0] - 1), 1e-5)
                for strategy, ranks in (("dp=3", 3), ("tp=3", 3), ("dp=2,tp=2", 4)):
                    self.same(self.outputs(e2e.model(model), strategy, ranks), want)

    def test_outputs_per_sample(self):
        """An output that is sharded over ranks and micro-batches is reassembled; x @ w + b is calculated by hand."""
        model, w = self.external_model()
        os.mkdir(self.path("in"))
        x = [((i * 37) % 101) / 50 - 1 for i in range(8 * 6)]
        e2e.write_npy(self.path("in", "x.npy"), "f4", (8, 6), x)
        want = [sum(x[i * 6 + k] * w[k * 4 + j] for k in range(6)) + w[24 + j] for i in range(8) for j in range(4)]
        for strategy, ranks in (("dp=1", 1), ("dp=3", 3), ("dp=2,micro_batch=1", 2), ("tp=3", 3)):
            with self.subTest(strategy=strategy):
                got = self.outputs(model, strategy, ranks)
                self.assertEqual(got["y.npy"][:2], ("f4", (8, 4)))
                self.assertLess(e2e.largest_difference(got["y.npy"][2], want), 1e-6)

    def test_a_model_that_returns_its_input(self):
        """Nothing needs computing."""
        with open(self.path("model.mlir"), "w", encoding="utf-8") as file:
            file.write("func.func @forward(%x: tensor<8x6xf32> {dpc.name = \"x\", dpc.role = \"input\"}) -> (tensor<8x6xf32> {dpc.name = \"y\"}) {\n"
                       "  return %x : tensor<8x6xf32>\n}\n")
        os.mkdir(self.path("in"))
        x = [float(i) for i in range(48)]
        e2e.write_npy(self.path("in", "x.npy"), "f4", (8, 6), x)
        for strategy, ranks in (("dp=1", 1), ("dp=3", 3), ("auto", 2)):
            with self.subTest(strategy=strategy):
                self.assertEqual(list(self.outputs(self.path("model.mlir"), strategy, ranks)["y.npy"][2]), x)

    def external_model(self):
        """The model of abstract.onnx with its weights in a file: w [6, 4], then b [4]."""
        import array
        w = array.array("f", [((i * 29) % 53) / 25 - 1 for i in range(28)])
        shutil.copy(ABSTRACT, self.path("model.onnx"))
        with open(self.path("weights.bin"), "wb") as file:
            file.write(w.tobytes())
        return self.path("model.onnx"), w

    def test_over_mpi(self):
        launcher = e2e.mpirun(2)
        if not launcher:
            self.skipTest("no mpirun on this machine")
        self.inputs("bert-tiny")
        want = self.outputs(e2e.model("bert-tiny"), "dp=1", 1)
        self.same(self.outputs(e2e.model("bert-tiny"), "tp=2", 2, launcher, "--comm=mpi"), want)


def rename(file, names):
    """Renames tensors of a .safetensors file."""
    with open(file, "rb") as opened:
        size = int.from_bytes(opened.read(8), "little")
        header, data = json.loads(opened.read(size)), opened.read()
    text = json.dumps({names.get(name, name): entry for name, entry in header.items()}).encode()
    with open(file, "wb") as opened:
        opened.write(len(text).to_bytes(8, "little") + text + data)


class Weights(e2e.ScratchTest):
    def compile(self, model, name, ranks, *words):
        e2e.must([e2e.tool("dpc-opt"), model, f"--cluster=local:{ranks}", "--global-batch=8", "--verify=off", "-o", self.path(name), *words])
        return self.path(name)

    def saved(self, plan, *words):
        """Returns the parameters after a run as {name: (dtype, shape, values)}."""
        file = self.path("saved.safetensors")
        e2e.must([e2e.tool("dpc-run"), plan, "--steps=1", f"--save-params={file}", *words])
        return e2e.read_safetensors(file)

    def test_random_weights_do_not_depend_on_the_ranks(self):
        one = self.saved(self.compile(ABSTRACT, "one", 1), "--init=random:1")
        self.assertEqual({name: shape for name, (_, shape, _) in one.items()}, {"w": (6, 4), "b": (4,)})
        self.assertGreater(len(set(one["w"][2])), 20)
        for strategy, ranks in (("tp=3", 3), ("dp=2,tp=2", 4)):
            self.assertEqual(self.saved(self.compile(ABSTRACT, strategy, ranks, f"--strategy={strategy}"), "--init=random:1"), one)
        self.assertNotEqual(self.saved(self.path("one"), "--init=random:2"), one)
        zero = self.saved(self.path("one"), "--init=zeros")
        self.assertEqual({x for _, _, values in zero.values() for x in values}, {0.0})

    def test_an_export_in_several_files_is_read_again(self):
        """The files have the same tensors as --save-params, and an index of their locations."""
        plan, folder = self.compile(e2e.model("gpt2-tiny"), "gpt2", 2, "--strategy=tp=2", "--train=adamw"), self.path("export")
        saved = self.saved(plan, "--export=" + folder, "--max-shard-size=100KB")
        index = e2e.read_json(os.path.join(folder, "model.safetensors.index.json"))
        files = sorted(name for name in os.listdir(folder) if name.endswith(".safetensors"))
        self.assertGreater(len(files), 3)
        self.assertEqual(files, [f"model-{i + 1:05}-of-{len(files):05}.safetensors" for i in range(len(files))])
        tensors = {}
        for name in files:
            held = e2e.read_safetensors(os.path.join(folder, name))
            self.assertTrue(len(held) == 1 or sum(4 * len(values) for _, _, values in held.values()) <= 100_000, name)
            self.assertEqual([index["weight_map"][tensor] for tensor in held], [name] * len(held))
            tensors.update(held)
        self.assertEqual(tensors, saved)
        self.assertEqual(index["metadata"]["total_size"], sum(4 * len(values) for _, _, values in saved.values()))
        infer = self.compile(e2e.model("gpt2-tiny"), "infer", 1, "--infer")
        self.assertNotEqual(self.saved(infer), saved)
        self.assertEqual(self.saved(infer, "--init=" + folder), saved)
        self.assertEqual(self.saved(infer, "--init=" + os.path.join(folder, "model.safetensors.index.json")), saved)
        # A plan that is compiled with these parameters continues the training.
        train = ["--strategy=dp=2,zero=3", "--train=adamw"]
        again = self.compile(e2e.model("gpt2-tiny"), "again", 2, *train, "--init=" + folder)
        after = self.saved(again)
        self.assertNotEqual(after, saved)
        fresh = self.compile(e2e.model("gpt2-tiny"), "fresh", 2, *train)
        self.assertEqual(self.saved(fresh, "--init=" + folder), after)
        self.assertNotEqual(self.saved(fresh), after)
        done = e2e.call([e2e.tool("dpc-run"), plan, "--steps=1", "--export=" + folder, "--max-shard-size=lots"])
        self.assertEqual((done.returncode, "is not a size such as 5GB" in done.stderr), (1, True), done.stderr)

    def test_init_file_comes_before_the_weights_of_the_model(self):
        """Training continues with saved parameters, although the model file has its own."""
        with e2e.scratch() as folder:
            plan, kept = f"{folder}/plan", f"{folder}/kept.safetensors"
            e2e.must([e2e.tool("dpc-opt"), e2e.model("mlp"), "--cluster=local:2", "--global-batch=8", "--train=sgd",
                      "--lr=0.1", "--verify=off", "-o", plan])
            batches = os.path.join(os.path.dirname(e2e.model("mlp")), "batches")

            def losses(steps, *words):
                metrics = f"{folder}/metrics.jsonl"
                e2e.must([e2e.tool("dpc-run"), plan, f"--batches={batches}", f"--steps={steps}", f"--metrics={metrics}", *words])
                return [row["loss"] for row in e2e.read_metrics(metrics)]
            first = losses(1, f"--save-params={kept}")[0]
            self.assertNotAlmostEqual(losses(1, f"--init={kept}")[0], first, places=4)
            with open(kept, "rb") as file:
                saved = file.read()
            with open(kept, "wb") as file:  # tensor names of another model
                file.write(saved.replace(b'"l', b'"q'))
            done = e2e.call([e2e.tool("dpc-run"), plan, "--steps=1", f"--init={kept}"])
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, r"^[^\n]*has no tensor of the plan, such as '[^\n]*\n$")

    def test_frozen_weights_are_saved_and_start_another_run(self):
        """As in LoRA: training changes some weights, and the file has all."""
        for form in ("onnx", "pt2"):
            model = os.path.join(e2e.MODELS, "mlp", f"model.{form}")
            whole = self.compile(model, "whole", 1, "--infer")
            start = self.saved(whole)
            self.assertEqual(sorted(start), [f"l{i}.{kind}" for i in (1, 2, 3) for kind in ("bias", "weight")])
            for ranks, strategy in ((1, "dp=1"), (2, "dp=2,zero=3"), (2, "tp=2"), (2, "pp=2")):
                with self.subTest(form=form, strategy=strategy):
                    plan = self.compile(model, "plan", ranks, "--train=sgd", "--lr=0.1", "--frozen=l1.*", f"--strategy={strategy}")
                    after = self.saved(plan)
                    self.assertEqual({name: after[name] == value for name, value in start.items()}, {name: name.startswith("l1.") for name in start})
                    shutil.copy(self.path("saved.safetensors"), self.path("kept.safetensors"))
                    self.assertEqual(self.saved(whole, f"--init={self.path('kept.safetensors')}"), after)

    def test_values_of_the_model_that_may_be_a_mistake_are_said(self):
        """Trained matrices of zeros, and trained matrices that are equal but not tied."""
        matrix, model, weights = [i / 7 for i in range(32)], self.path("model.mlir"), self.path("weights.bin")
        values = {"a": matrix, "b": matrix, "zero": [0] * 32, "one": [1] * 32, "two": [1] * 32}
        with open(weights, "wb") as file:
            array.array("f", [x for value in values.values() for x in value]).tofile(file)
        arguments = [f'%{name}: tensor<4x8xf32> {{dpc.name = "{name}", dpc.role = "parameter", dpc.source = {{file = "{weights}", offset = {128 * i} : i64, '
                     'bytes = 128 : i64, dtype = "f32"}}' for i, name in enumerate(values)]
        ops = [f"  %{i} = dpc.binary add %{i - 1 if i else 'x'}, %{name} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>" for i, name in enumerate(values)]
        with open(model, "w", encoding="utf-8") as file:
            file.write("\n".join([f'func.func @forward({", ".join(arguments)}, %x: tensor<4x8xf32> {{dpc.name = "x", dpc.role = "input"}})',
                                  '    -> (tensor<f32> {dpc.name = "loss", dpc.loss}) {', *ops,
                                  f"  %loss = dpc.reduce sum %{len(ops) - 1} dims = [0, 1] : tensor<4x8xf32> -> tensor<f32>", "  return %loss : tensor<f32>", "}", ""]))
        e2e.must([e2e.tool("dpc-opt"), model, "--cluster=local:1", "-o", self.path("plan")])
        remarks = e2e.read_report(self.path("plan"))["remarks"]
        self.assertIn(f"all values of 1 trained weight are zero in {model}: 'zero'", remarks)
        self.assertIn(f"the values of 'a' and 'b' are equal in {model}, but the plan trains them separately", remarks)
        e2e.must([e2e.tool("dpc-opt"), model, "--cluster=local:1", "-o", self.path("infer"), "--infer"])
        self.assertFalse([remark for remark in e2e.read_report(self.path("infer"))["remarks"] if "values" in remark])

    def test_every_name_of_an_init_file_is_checked(self):
        model, kept = e2e.model("mlp"), self.path("kept.safetensors")
        start = self.saved(self.compile(model, "whole", 1, "--infer"))
        train = ["--train=sgd", "--lr=0.1"]
        after = self.saved(self.compile(model, "plan", 2, *train))
        shutil.copy(self.path("saved.safetensors"), kept)
        rename(kept, {"l1.bias": "l1.bais"})
        compiling = [e2e.tool("dpc-opt"), model, "--cluster=local:2", "--global-batch=8", "--verify=off", "-o", self.path("again"), *train]
        for words in ([e2e.tool("dpc-run"), self.path("plan"), "--steps=1"], compiling):
            done = e2e.call([*words, f"--init={kept}"])
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(f"{kept} lacks 1 weight of the plan: 'l1.bias' (similar: 'l1.bais'); it has 1 tensor that the model lacks: 'l1.bais'; "
                          "--init-partial accepts missing and unknown names", done.stderr)
            done = e2e.call([*words, f"--init={kept}", "--init-partial"])
            self.assertEqual(done.returncode, 0, done.stderr)
            said = " ".join(done.stdout.split())
            self.assertIn(f"1 weight that {kept} lacks keeps the values of the plan: 'l1.bias'", said)
            self.assertIn(f"1 tensor of {kept} that the model lacks is ignored: 'l1.bais'", said)
        self.assertEqual(self.saved(self.path("whole"), f"--init={kept}", "--init-partial"), {**after, "l1.bias": start["l1.bias"]})

    def test_a_tied_weight_has_two_names(self):
        """PyTorch's state_dict has both, as --save-params does; a file for --init may have either, and --export has the first."""
        plan = self.compile(os.path.join(e2e.MODELS, "gpt2-tiny", "model.pt2"), "tied", 1, "--infer")
        saved, kept = self.saved(plan, "--init=random:1"), self.path("kept.safetensors")
        self.assertEqual(saved["body.head.weight"], saved["body.wte.weight"])
        shutil.copy(self.path("saved.safetensors"), kept)
        self.assertEqual(self.saved(plan, f"--init={kept}"), saved)
        e2e.must([e2e.tool("dpc-run"), plan, "--steps=1", "--init=random:1", f"--export={self.path('export')}"])
        shutil.copy(self.path("export", "model.safetensors"), kept)
        self.assertEqual(saved.keys() - e2e.read_safetensors(kept).keys(), {"body.head.weight"})
        rename(kept, {"body.wte.weight": "body.head.weight"})
        self.assertEqual(self.saved(plan, f"--init={kept}"), saved)

    def test_init_of_the_compiler_stays_with_the_plan(self):
        want = self.saved(self.compile(ABSTRACT, "one", 1), "--init=random:7")
        shutil.copy(self.path("saved.safetensors"), self.path("kept.safetensors"))
        for init in ("random:7", f"{self.path('kept.safetensors')}"):
            self.assertEqual(self.saved(self.compile(ABSTRACT, "two", 2, f"--init={init}")), want)
        zero = self.saved(self.compile(ABSTRACT, "two", 2, "--init=zeros"))
        self.assertEqual({x for _, _, values in zero.values() for x in values}, {0.0})

    def test_saved_parameters_go_on_elsewhere(self):
        """Two other ranks start from what tp=3 trained; nothing is lost or moved."""
        loss = "--loss=mse", "--train=sgd", "--lr=0.1"
        want = self.saved(self.compile(ABSTRACT, "trained", 3, "--strategy=tp=3", *loss), "--init=random:1")
        shutil.copy(self.path("saved.safetensors"), self.path("kept.safetensors"))
        start = self.saved(self.compile(ABSTRACT, "again", 2, "--infer"), f"--init={self.path('kept.safetensors')}")
        self.assertEqual(start, want)
        untrained = self.saved(self.path("again"), "--init=random:1")
        self.assertNotEqual(untrained, want)

    def test_parameters_keep_the_names_and_shapes_of_the_model(self):
        oracle = e2e.read_json(os.path.join(e2e.MODELS, "gpt2-tiny", "oracle.json"))
        saved = self.saved(self.compile(e2e.model("gpt2-tiny"), "gpt2", 4, "--strategy=tp=4,sp=true"))
        self.assertEqual([name for name in oracle["param_norms"] if name not in saved], [])
        self.assertEqual(saved["body.blocks.0.qkv.weight"][1], (192, 64))


if __name__ == "__main__":
    unittest.main(verbosity=2)
