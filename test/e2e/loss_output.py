#!/usr/bin/env python3
"""Which output is trained: the one called "loss", the only scalar, or the one that --loss-output names. Both programs say which."""
import json
import os
import unittest
import zipfile

import e2e

MLP = os.path.join(e2e.MODELS, "mlp")


def leaf():
    return {"type": None, "context": None, "children_spec": []}


def write_model(path, outputs):
    """Writes mlp/model.pt2 with a dict of outputs: {key: node}. The scalar `twice` is 2 * `cross_entropy_loss`; `linear_2` has the
    logits, and `sums` their sum per sample."""
    def tensor(name):
        return {"as_tensor": {"name": name}}

    with zipfile.ZipFile(os.path.join(MLP, "model.pt2")) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.infolist():
            data = old.read(entry)
            if entry.filename.endswith("models/model.json"):
                model = json.loads(data)
                module = model["graph_module"]
                graph = module["graph"]
                loss = tensor("cross_entropy_loss")
                graph["nodes"].append(dict(graph["nodes"][-1], target="torch.ops.aten.add.Tensor", name="twice", outputs=[tensor("twice")], inputs=[
                    {"name": name, "arg": loss, "kind": 1} for name in ("self", "other")]))
                graph["nodes"].append(dict(graph["nodes"][-1], target="torch.ops.aten.sum.dim_IntList", name="sums", outputs=[tensor("sums")], inputs=[
                    {"name": "self", "arg": tensor("linear_2"), "kind": 1}, {"name": "dim", "arg": {"as_ints": [1]}, "kind": 1}]))
                logits = graph["tensor_values"]["linear_2"]
                graph["tensor_values"]["sums"] = dict(logits, sizes=logits["sizes"][:1], strides=logits["strides"][1:])
                graph["tensor_values"]["twice"] = graph["tensor_values"]["cross_entropy_loss"]
                graph["outputs"] = [tensor(node) for node in outputs.values()]
                module["signature"]["output_specs"] = [{"user_output": {"arg": tensor(node)}} for node in outputs.values()]
                module["module_call_graph"][0]["signature"]["out_spec"] = json.dumps(
                    [1, {"type": "builtins.dict", "context": json.dumps(list(outputs)), "children_spec": [leaf() for _ in outputs]}])
                data = json.dumps(model).encode()
            new.writestr(entry.filename, data)


class LossOutput(e2e.ScratchTest):
    def compile(self, outputs, *words):
        write_model(self.path("model.pt2"), outputs)
        return e2e.call([e2e.tool("dpc-opt"), self.path("model.pt2"), "--cluster=local:2", "--strategy=dp=2", "--global-batch=8", "-o", self.path("plan"), *words])

    def trained(self, outputs, *words):
        """Returns the name of the trained output, which everything says alike, and the loss of the first step."""
        done = self.compile(outputs, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        name = e2e.read_plan(self.path("plan"))["loss_output"]
        self.assertIn(f"trains the output '{name}'", " ".join(done.stdout.split()))
        self.assertEqual(e2e.read_report(self.path("plan"))["loss_output"], name)
        said = e2e.must([e2e.tool("dpc-run"), self.path("plan"), f"--batches={MLP}/batches", "--steps=1", f"--metrics={self.path('run.jsonl')}"])
        self.assertIn(f"training the output '{name}': ", said)
        loss = e2e.read_metrics(self.path("run.jsonl"))[-1]["loss"]
        os.remove(self.path("run.jsonl"))
        return name, loss

    def refused(self, outputs, *words):
        """Returns the one line of the refusal."""
        done = self.compile(outputs, *words)
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
        self.assertFalse(os.path.exists(self.path("plan")))
        return done.stderr

    def test_the_output_called_loss_is_trained_at_any_place(self):
        _, once = self.trained({"loss": "cross_entropy_loss"})
        for outputs in ({"ce": "cross_entropy_loss", "loss": "twice"}, {"loss": "twice", "ce": "cross_entropy_loss"}):
            name, loss = self.trained(outputs)
            self.assertEqual(name, "loss")
            self.assertAlmostEqual(loss, 2 * once, delta=1e-5 * once)
            self.assertEqual({port["name"] for port in e2e.read_plan(self.path("plan"))["outputs"]}, {"ce", "loss", "grad_norm"})

    def test_the_only_scalar_is_trained(self):
        self.assertEqual(self.trained({"logits": "linear_2", "total": "twice"})[0], "total")

    def test_the_option_chooses(self):
        both = {"loss": "cross_entropy_loss", "total": "twice"}
        _, once = self.trained(both)
        name, loss = self.trained(both, "--loss-output=total")
        self.assertEqual(name, "total")
        self.assertAlmostEqual(loss, 2 * once, delta=1e-5 * once)
        self.assertIn("--loss-output=total", e2e.read_json(self.path("plan", "command.json"))["words"])
        # In the plan the trained output is "loss", and the model's output of this name is another one.
        self.assertEqual({port["name"] for port in e2e.read_plan(self.path("plan"))["outputs"]}, {"loss_", "loss", "grad_norm"})

    def test_what_is_not_clear_is_refused(self):
        error = self.refused({"ce": "cross_entropy_loss", "total": "twice"})
        for part in (self.path("model.pt2"), "'ce', 'total'", "--loss-output=NAME", "--infer"):
            self.assertIn(part, error)
        # An output called "loss" that is no scalar does not make another output the loss.
        error = self.refused({"loss": "linear_2", "accuracy": "twice"})
        for part in ("'loss' is [8, ", "and a loss is one float: return its .mean() from the model, or train 'accuracy'", "--loss-output=NAME"):
            self.assertIn(part, error)

    def test_a_loss_per_sample_is_not_trained(self):
        error = self.refused({"loss": "sums"})
        self.assertIn("it is not clear which output is trained: 'loss' is [8] f32, and a loss is one float: return its .mean() from the model, "
                      "or confirm inference with --infer", error)
        self.assertEqual(self.compile({"loss": "sums"}, "--infer", "--emit=report").returncode, 0)

    def test_inference_needs_no_loss(self):
        done = self.compile({"ce": "cross_entropy_loss", "total": "twice"}, "--infer")
        self.assertEqual(done.returncode, 0, done.stderr)
        plan = e2e.read_plan(self.path("plan"))
        self.assertEqual(([port["name"] for port in plan["outputs"]], plan["loss_output"]), (["ce", "total"], ""))
        self.assertNotIn("trains the output", done.stdout)
        self.assertNotIn("loss_output", e2e.read_report(self.path("plan")))

    def test_an_option_that_names_no_loss_is_refused(self):
        outputs = {"logits": "linear_2", "total": "twice"}
        self.assertIn("--loss-output=nothing: no output has this name; accepted: 'logits', 'total'", self.refused(outputs, "--loss-output=nothing"))
        self.assertRegex(self.refused(outputs, "--loss-output=logits"),
                         r"--loss-output=logits: the output is \[8, \d+\] f32; accepted: a float scalar \(return its .mean\(\) from the model\)")
        self.assertIn("--loss-output and --loss exclude each other", self.refused(outputs, "--loss-output=total", "--loss=mse"))

    def test_modules_in_dpcs_ir(self):
        """The option marks a result of @forward; a finished step has nothing to choose."""
        with open(self.path("model.mlir"), "w", encoding="utf-8") as file:
            file.write("""
func.func @forward(%w: tensor<4xf32> {dpc.name = "w", dpc.role = "parameter"},
                   %x: tensor<8x4xf32> {dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64})
    -> (tensor<f32> {dpc.name = "a", dpc.loss}, tensor<f32> {dpc.name = "b"}) {
  %v = dpc.broadcast %w dims = [1] : tensor<4xf32> -> tensor<8x4xf32>
  %y = dpc.binary mul %v, %x : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %s = dpc.reduce sum %y dims = [0, 1] : tensor<8x4xf32> -> tensor<f32>
  %t = dpc.binary add %s, %s : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %s, %t : tensor<f32>, tensor<f32>
}
""")
        words = [e2e.tool("dpc-opt"), self.path("model.mlir"), "--cluster=local:1", "--emit=report,mlir", "--verify=off", "-o", self.path("plan")]
        for option, name in (("", "a"), ("--loss-output=b", "b")):
            e2e.must([*words, "--init=zeros", *filter(None, [option])])
            self.assertEqual(e2e.read_report(self.path("plan"))["loss_output"], name)
        step = self.path("step.mlir")
        with open(step, "w", encoding="utf-8") as file:
            file.write(e2e.must([e2e.tool("dpc-opt"), self.path("model.mlir"), "--dpc-differentiate"]))
        done = e2e.call([e2e.tool("dpc-opt"), step, "--cluster=local:1", "--loss-output=b", "--emit=report", "-o", self.path("other")])
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
        self.assertIn("--loss-output=b is for modules with @forward", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
