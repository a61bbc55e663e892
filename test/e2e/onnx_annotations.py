#!/usr/bin/env python3
"""--emit=onnx: the plan as an annotated ONNX model, which is valid and means the same when it is imported.

Needs the onnx package, which is in the environment of the build folder.
"""
import json
import os
import unittest

import e2e
import exports

try:
    import onnx
except ImportError:
    e2e.run_in_build_environment("onnx")


def emit(source, folder, devices, strategy):
    """Returns the annotated model and the chosen strategy."""
    e2e.must([e2e.tool("dpc-opt"), source, f"--cluster=local:{devices}", "--global-batch=8", "--verify=off", "--emit=report,onnx",
              f"--strategy={strategy}", "-o", folder])
    with open(os.path.join(folder, "report.json"), encoding="utf-8") as file:
        report = json.load(file)
    return onnx.load(os.path.join(folder, "annotated.onnx")), report["chosen"]["strategy"]


def shape_of(spec):
    """Returns the shards of a spec: {dimension: [(factor, shards)]}."""
    return {dim.axis: [(simple.dim_value, simple.num_shards) for simple in dim.simple_sharding] for dim in spec.sharded_dim}


def holders(spec):
    """Returns the devices of every shard."""
    groups = {entry.key: list(entry.value) for entry in spec.index_to_device_group_map}
    return [groups.get(entry, [entry]) for entry in spec.device]


def specs_of(model, node, stage=False):
    found = next(n for n in model.graph.node if n.name == node)
    configuration = found.device_configurations[0]
    specs = {spec.tensor_name: (shape_of(spec), holders(spec)) for spec in configuration.sharding_spec}
    return (specs, configuration.pipeline_stage) if stage else specs


def annotations(model):
    return [[configuration.SerializeToString(deterministic=True) for configuration in node.device_configurations] for node in model.graph.node]


class Annotated(unittest.TestCase):
    def setUp(self):
        scratch = e2e.scratch()
        self.folder = scratch.__enter__()
        self.addCleanup(scratch.__exit__, None, None, None)

    def emit(self, source, devices, strategy, name="out"):
        return emit(source, os.path.join(self.folder, name), devices, strategy)

    def test_it_is_the_source_with_annotations(self):
        source = onnx.load(e2e.model("gpt2-tiny"))
        model, _ = self.emit(e2e.model("gpt2-tiny"), 4, "dp=2,tp=2")
        onnx.checker.check_model(model, full_check=True)
        self.assertGreaterEqual(model.ir_version, 11)
        self.assertEqual([(c.name, c.num_devices) for c in model.configuration], [("dpc", 4)])
        self.assertIn("dp=2,tp=2", {p.key: p.value for p in model.metadata_props}["dpc.strategy"])
        for node in model.graph.node:
            del node.device_configurations[:]
            del node.metadata_props[:]
        for node in source.graph.node:
            del node.metadata_props[:]
        self.assertEqual(model.graph, source.graph)

    def test_every_plan_passes_the_checker(self):
        """The models of exports.py that have weights. Checks also what the checker does not: configurations, devices, tensors and axes exist."""
        plans = [plan for plan in exports.PLANS if plan[0] not in exports.RECIPES]
        plans = plans if exports.LONG else plans[::8]
        for name, ranks, strategy in plans:
            with self.subTest(model=name, strategy=strategy):
                model, _ = self.emit(e2e.model(name), ranks, strategy)
                onnx.checker.check_model(model, full_check=True)
                self.assertEqual([(c.name, c.num_devices) for c in model.configuration], [("dpc", ranks)])
                for node in model.graph.node:
                    for configuration in node.device_configurations:
                        self.assertEqual(configuration.configuration_id, "dpc")
                        for spec in configuration.sharding_spec:
                            self.assertIn(spec.tensor_name, [*node.input, *node.output])
                            devices = [device for group in holders(spec) for device in group]
                            self.assertLessEqual(set(devices), set(range(ranks)))
                self.assertTrue(any(annotations(model)))
        print(f"onnx: {len(plans)} plans checked")

    def test_tensor_parallel_layers(self):
        """Columns of heads, of each of q, k and v; then rows, whose sums no spec can express."""
        model, _ = self.emit(e2e.model("gpt2-tiny"), 4, "dp=2,tp=2")
        whole, batch, rank = [[0, 1, 2, 3]], [[0, 1], [2, 3]], [[0], [1], [2], [3]]
        tensor = [[0, 2], [1, 3]]
        self.assertEqual(specs_of(model, "/body/wte/Gather"), {
            "body.wte.weight": ({0: [(0, 2)]}, tensor), "ids": ({0: [(0, 2)]}, batch)})
        block = "/body/blocks.0/"
        self.assertEqual(specs_of(model, block + "qkv/MatMul"), {
            block + "ln1/LayerNormalization_output_0": ({0: [(0, 2)]}, batch),
            block + "qkv/Transpose_output_0": ({1: [(3, 1), (64, 2)]}, tensor),
            block + "qkv/MatMul_output_0": ({0: [(0, 2)], 2: [(3, 1), (64, 2)]}, rank)})
        # Attention is one op in the plan, so the sharding of the scores follows from q and k.
        self.assertEqual(specs_of(model, block + "Softmax")[block + "Softmax_output_0"], ({0: [(0, 2)], 1: [(0, 2)]}, rank))
        self.assertNotIn(block + "proj/MatMul_output_0", specs_of(model, block + "proj/MatMul"))
        proj = next(n for n in model.graph.node if n.name == block + "proj/MatMul")
        self.assertEqual({p.key: p.value for p in proj.metadata_props if p.key.startswith("dpc.")},
                         {f"dpc.partial.{block}proj/MatMul_output_0": "sum over tp"})
        self.assertEqual(specs_of(model, "/body/wpe/Gather")["body.wpe.weight"], ({}, whole))

    def test_stages_have_their_devices(self):
        model, _ = self.emit(e2e.model("gpt2-tiny"), 2, "pp=2")
        for stage, block in enumerate(("/body/blocks.0/", "/body/blocks.3/")):
            specs, found = specs_of(model, block + "qkv/MatMul", stage=True)
            self.assertEqual(found, stage)
            self.assertEqual(specs[block + "qkv/Transpose_output_0"], ({}, [[stage]]))

    def test_gathered_weights_are_annotated_as_they_are_read(self):
        model, _ = self.emit(e2e.model("mlp"), 2, "dp=2,zero=3")
        self.assertEqual(specs_of(model, "l1/Gemm")["l1.weight"], ({}, [[0, 1]]))

    def test_what_is_written_is_what_is_read(self):
        """A strategy that is searched with an annotated model shards like the strategy that wrote it."""
        for name, devices, strategy, keys in (
                ("gpt2-tiny", 4, "dp=2,tp=2", {"dp": 2, "tp": 2}), ("bert-tiny", 3, "tp=3", {"tp": 3}), ("llama-tiny", 4, "dp=2,pp=2", {"dp": 2, "pp": 2}),
                ("gpt2-tiny", 4, "dp=2,cp=2,cp_kind=ring", {"dp": 2, "cp": 2}), ("resnet-tiny", 2, "tp=2", {"tp": 2})):
            with self.subTest(model=name, strategy=strategy):
                written, _ = self.emit(e2e.model(name), devices, strategy, "first")
                path = os.path.join(self.folder, "first", "annotated.onnx")
                kind = ",".join(word for word in strategy.split(",") if word.startswith("cp_kind"))
                read, chosen = self.emit(path, devices, kind or "auto", "second")
                self.assertEqual({key: chosen[key] for key in keys}, keys)
                self.assertEqual(annotations(read), annotations(written))

    def test_a_layout_that_search_would_not_choose_is_kept(self):
        """The mlp's first layer by rows and its second by columns: one of them contradicts the other."""
        model = onnx.load(e2e.model("mlp"))
        model.ir_version = 11
        model.configuration.add(name="two", num_devices=2)
        for node, weight, axis in (("l1/Gemm", "l1.weight", 1), ("l2/Gemm", "l2.weight", 0)):
            configuration = next(n for n in model.graph.node if n.name == node).device_configurations.add(configuration_id="two")
            spec = configuration.sharding_spec.add(tensor_name=weight, device=[0, 1])
            spec.sharded_dim.add(axis=axis).simple_sharding.add(num_shards=2)
        path = os.path.join(self.folder, "given.onnx")
        onnx.save(model, path)
        read, chosen = self.emit(path, 2, "auto")
        self.assertEqual(chosen["tp"], 2)
        self.assertEqual(specs_of(read, "l1/Gemm")["l1.weight"][0], {1: [(0, 2)]})
        self.assertEqual(specs_of(read, "l2/Gemm")["l2.weight"][0], {0: [(0, 2)]})
        done = e2e.call([e2e.tool("dpc-opt"), path, "--cluster=local:2", "--global-batch=8", "--strategy=dp=2", "-o", f"{self.folder}/no"])
        self.assertEqual(done.returncode, 1)
        self.assertIn("the model's shardings are over a mesh of tp=2", done.stderr)

    def test_only_onnx_models_are_annotated(self):
        done = e2e.call([e2e.tool("dpc-opt"), "model.pt2", "--cluster=local:2", "--emit=onnx"])
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
        self.assertIn("'model.pt2' is not an .onnx file", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
