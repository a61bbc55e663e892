#!/usr/bin/env python3
"""Planned memory equals the memory of a process.

follow_curve.py compares the predicted peak with the arena under every strategy. This test compares the arena with the
resident size of dpc-run: a run with a large batch exceeds one with a small batch by the difference of their plans. (It
compares a difference because both include libraries and the mapped model file.)
"""
import os
import subprocess
import unittest

import e2e

TOLERANCE = 0.10


def plan(folder, batch, ranks):
    strategy = f"dp={ranks},micro_batch={batch // ranks}"
    e2e.must([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), f"--cluster=local:{ranks}", f"--global-batch={batch}",
              f"--strategy={strategy}", "--verify=off", "-o", folder])
    arena = max(e2e.read_plan(folder)["arena_bytes"])
    peak = e2e.read_report(folder)["chosen"]["predicted"]["memory_bytes"]["peak"]
    return arena, peak


def resident_bytes(words):
    """Returns the largest resident size of a command that must succeed."""
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=e2e.environment()) as child:
        errors = child.stderr.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise e2e.ToolError(errors.decode())
    return usage.ru_maxrss * 1024


class ResidentSize(unittest.TestCase):
    def grows_by_the_arena(self, ranks, small=8, large=256):
        arenas, residents = [], []
        with e2e.scratch() as folder:
            for batch in (small, large):
                arena, peak = plan(f"{folder}/{batch}", batch, ranks)
                self.assertLess(abs(peak / arena - 1), 0.02, f"predicted {peak}, arena {arena}")
                arenas.append(arena * ranks)
                residents.append(resident_bytes([e2e.tool("dpc-run"), f"{folder}/{batch}", "--steps=2"]))
        planned, measured = arenas[1] - arenas[0], residents[1] - residents[0]
        print(f"{ranks} ranks: arenas {arenas}, resident {residents}: {measured / planned - 1:+.1%}")
        # Small enough for every machine, and large enough that a few MiB of scratch do not matter.
        self.assertGreater(planned, 100e6)
        self.assertLess(abs(measured / planned - 1), TOLERANCE)

    def test_one_rank(self):
        self.grows_by_the_arena(1)

    def test_ranks_of_one_process(self):
        self.grows_by_the_arena(2)

    def test_offload_to_disk_takes_memory_away(self):
        """Files do not count towards the resident size of a process."""
        size, layers = 1536, 8
        weights = "".join(f'%w{i}: tensor<{size}x{size}xf32> {{dpc.name = "w{i}", dpc.role = "parameter"}}, '
                          for i in range(layers))
        body = "".join(f"%{i + 1} = dpc.matmul %{i}, %w{i} : (tensor<8x{size}xf32>, tensor<{size}x{size}xf32>) -> "
                       f"tensor<8x{size}xf32>\n" for i in range(layers)).replace("%0,", "%x,")
        arenas, residents = {}, {}
        with e2e.scratch() as folder:
            with open(f"{folder}/model.mlir", "w") as file:
                file.write(f"""func.func @forward({weights}
                    %x: tensor<8x{size}xf32> {{dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64}})
                    -> (tensor<f32> {{dpc.name = "loss", dpc.loss}}) {{
                  {body} %l = dpc.reduce sum %{layers} dims = [0, 1] : tensor<8x{size}xf32> -> tensor<f32>
                  return %l : tensor<f32>
                }}""")
            for what in ("none", "all,offload_to=disk"):
                plan = f"{folder}/{what}"
                e2e.must([e2e.tool("dpc-opt"), f"{folder}/model.mlir", "--cluster=local:1", "--verify=off",
                          f"--strategy=dp=1,offload={what}", "-o", plan])
                arenas[what] = max(e2e.read_plan(plan)["arena_bytes"])
                residents[what] = resident_bytes([e2e.tool("dpc-run"), plan, "--steps=2", "--init=random:1"])
        planned, measured = (sizes["none"] - sizes["all,offload_to=disk"] for sizes in (arenas, residents))
        print(f"offload: arenas {arenas}, resident {residents}: {measured / planned - 1:+.1%}")
        self.assertGreater(planned, 100e6)
        self.assertLess(abs(measured / planned - 1), TOLERANCE)


if __name__ == "__main__":
    unittest.main(verbosity=2)
