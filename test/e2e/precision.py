#!/usr/bin/env python3
"""Mixed precision takes the expected bytes, counted in plan.json.

Per device and parameter, with AdamW over n ranks that share the states (data-parallel ranks, or the inner ranks of
hybrid_shard): 2 for the bf16 or fp16 copy that the model computes with, g for its gradient, 12 for the f32 master
weight and two states. fp16's loss scale and its two counters are three more numbers.

                none            zero=1            zero=2              zero=3
    formula     2 + g + 12      2 + g + 12 / n    2 + (g + 12) / n    (2 + g + 12) / n

With one micro-batch, g = 2. A gradient is then scattered as soon as it is computed, also in ZeRO-1, which thus takes
ZeRO-2's 2 / n: keeping all of it until the update costs memory and saves nothing. With several micro-batches, g = 4,
because their sums are f32, and ZeRO-1 keeps the whole sum. follow_curve.py checks that both train.
"""
import unittest

import e2e


def buffers_of(instruction):
    """Returns the ids of the buffers that an instruction names; a kernel's writes are positions in its list."""
    for key in ("in", "out", "a", "b", "c", "buffer"):
        if isinstance(instruction.get(key), int):
            yield instruction[key]
    for key in ("buffers", "ins", "outs"):
        yield from instruction.get(key, [])


def count(plan, dtype):
    """Returns the bytes of copies (in `dtype`), gradients, masters, states of parameters, and states of the step."""
    buffers = {buffer["id"]: buffer for buffer in plan["buffers"]}

    def root(number):
        parent = buffers[number].get("view_of", -1)
        return parent if parent >= 0 else number

    touched = {phase: {root(number) for instruction in instructions for number in buffers_of(instruction)}
               for phase, instructions in plan["phases"].items()}
    copies = touched["setup"] & (touched["forward"] | touched["backward"])
    # Without micro-batches, ZeRO-1 and ZeRO-2 gather in the forward pass. What is gathered then replaces its shard
    # until the update. ZeRO-3 gathers again in the backward pass, so it keeps the shards.
    gathers = {phase: [op for op in plan["phases"][phase] if op["op"] == "all_gather"] for phase in ("forward", "backward")}
    if not gathers["backward"]:
        for gather in gathers["forward"]:
            copies -= set(map(root, gather["ins"]))
            copies |= set(map(root, gather["outs"]))
    total = {"copies": sum(buffers[number]["bytes"] for number in copies if buffers[number]["dtype"] == dtype)}
    total["gradients"] = sum(b["bytes"] for b in buffers.values() if b["kind"] == "gradient" and b.get("view_of", -1) < 0)
    # Sums over micro-batches are filled with zeros in setup.
    sums = [buffers[op["buffer"]] for op in plan["phases"]["setup"] if op["op"] == "fill"]
    total["sums"] = sum(buffer["bytes"] for buffer in sums if buffer["shape"])
    for name, isOfParameter in (("states", True), ("scalars", False)):
        total[name] = sum(buffers[tensor["buffer"]]["bytes"] for tensor in plan["tensors"]
                          if tensor["role"] == "state" and bool(tensor["of"]) == isOfParameter)
    # Frozen tables are stored like parameters but have no states.
    names = {tensor["name"] for tensor in plan["tensors"]}
    total["masters"] = sum(buffers[tensor["buffer"]]["bytes"] for tensor in plan["tensors"]
                           if tensor["name"] + ".exp_avg" in names)
    return total


# Cosines and sines of llama-tiny's RoPE, [32, 8] each, which are also computed once per step.
ROPE_TABLES = 2 * 32 * 8 * 2


class BytesPerParameter(unittest.TestCase):
    def plan(self, strategy, ranks, precision):
        with e2e.scratch() as folder:
            e2e.must([e2e.tool("dpc-opt"), e2e.model("llama-tiny"), f"--cluster=local:{ranks}", "--global-batch=8",
                      "--clip-grad-norm=1", f"--strategy={strategy}", f"--precision={precision}", "--verify=off", "-o", folder])
            return e2e.read_plan(folder)

    def takes(self, strategy, ranks, copies, gradients, rest):
        for precision, dtype, scalars in (("bf16", "bf16", 0), ("fp16", "f16", 3)):
            with self.subTest(precision=precision):
                parameters = count(self.plan("dp=1", 1, precision), dtype)["masters"] // 4
                total = count(self.plan(strategy, ranks, precision), dtype)
                print(strategy, parameters, total)
                self.assertEqual(total["masters"] + total["states"], rest * parameters)
                self.assertEqual(total["scalars"], scalars * 4)
                self.assertEqual(total["copies"] - ROPE_TABLES, copies * parameters)
                kept = total["sums"] if "micro_batch" in strategy else total["gradients"]
                self.assertEqual(kept, gradients * parameters)

    def test_replicated(self):
        self.takes("dp=2", 2, copies=2, gradients=2, rest=12)
        self.takes("dp=2,micro_batch=1", 2, copies=2, gradients=4, rest=12)

    def test_zero_1(self):
        self.takes("dp=2,zero=1", 2, copies=2, gradients=1, rest=6)
        self.takes("dp=2,zero=1,micro_batch=1", 2, copies=2, gradients=4, rest=6)
        self.takes("dp=4,zero=1,micro_batch=1", 4, copies=2, gradients=4, rest=3)

    def test_zero_2(self):
        self.takes("dp=2,zero=2", 2, copies=2, gradients=1, rest=6)
        self.takes("dp=4,zero=2", 4, copies=2, gradients=0.5, rest=3)
        self.takes("dp=2,zero=2,micro_batch=1", 2, copies=2, gradients=2, rest=6)

    def test_zero_3(self):
        self.takes("dp=2,zero=3", 2, copies=1, gradients=1, rest=6)
        self.takes("dp=4,zero=3", 4, copies=0.5, gradients=0.5, rest=3)
        self.takes("dp=2,zero=3,micro_batch=1", 2, copies=1, gradients=2, rest=6)

    def test_hybrid_sharding(self):
        # The states are sharded over the inner two of four ranks.
        for micro, gradient in (("", 2), (",micro_batch=1", 4)):
            whole = gradient if micro else gradient / 2
            self.takes("dp=4,hybrid_shard=2,zero=1" + micro, 4, copies=2, gradients=whole, rest=6)
            self.takes("dp=4,hybrid_shard=2,zero=2" + micro, 4, copies=2, gradients=gradient / 2, rest=6)
            self.takes("dp=4,hybrid_shard=2,zero=3" + micro, 4, copies=1, gradients=gradient / 2, rest=6)


class Doubles(e2e.ScratchTest):
    def test_both_programs_say_that_a_model_computes_in_fp64(self):
        model = self.path("model.mlir")
        with open(model, "w") as file:
            file.write("""func.func @forward(%w: tensor<4x4xf64> {dpc.name = "w", dpc.role = "parameter"},
                %x: tensor<8x4xf64> {dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64}) -> (tensor<8x4xf64> {dpc.name = "y"}) {
              %y = dpc.matmul %x, %w : (tensor<8x4xf64>, tensor<4x4xf64>) -> tensor<8x4xf64>
              return %y : tensor<8x4xf64>
            }""")
        said = e2e.must([e2e.tool("dpc-opt"), model, "--cluster=local:1", "--infer", "-o", self.path("plan")])
        self.assertIn("computes in fp64", said)
        settings = {setting["name"]: setting["value"] for setting in e2e.read_plan(self.path("plan"))["settings"]}
        self.assertEqual(settings["precision"], "fp64")


if __name__ == "__main__":
    unittest.main(verbosity=2)
