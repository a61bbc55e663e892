#!/usr/bin/env python3
"""Recomputation trades time for memory, and the plan states it.

follow_curve.py checks the results. This test compares the arenas of plans without, with selective and with full
recomputation with each other and with the predictions, and also the predicted times.
"""
import unittest

import e2e


def plan(folder, strategy, ranks, recompute):
    e2e.must([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), f"--cluster=local:{ranks}", "--global-batch=64",
              f"--strategy={strategy},recompute={recompute}", "--verify=off", "-o", folder])
    chosen = e2e.read_report(folder)["chosen"]
    assert chosen["strategy"]["recompute"] == recompute
    return max(e2e.read_plan(folder)["arena_bytes"]), chosen["predicted"]


class Recompute(unittest.TestCase):
    def frees(self, strategy, ranks, selective, full):
        """At most these shares of the memory remain."""
        with e2e.scratch() as folder:
            plans = {kind: plan(f"{folder}/{kind}", strategy, ranks, kind) for kind in ("none", "selective", "full")}
        for kind, (arena, predicted) in plans.items():
            peak = predicted["memory_bytes"]["peak"]
            self.assertLess(abs(peak / arena - 1), 0.02, f"{kind}: predicted {peak}, arena {arena}")
        arenas = {kind: arena for kind, (arena, _) in plans.items()}
        seconds = {kind: predicted["step_seconds"] for kind, (_, predicted) in plans.items()}
        sent = {kind: sum(predicted["bytes_per_level"].values()) for kind, (_, predicted) in plans.items()}
        print(strategy, arenas, seconds, sent)
        self.assertLess(arenas["selective"], selective * arenas["none"])
        self.assertLess(arenas["full"], full * arenas["none"])
        # A forward phase is a third of the work. Elementwise ops are a small part of a forward phase.
        self.assertLess(1.005 * seconds["none"], seconds["selective"])
        self.assertLess(1.1 * seconds["none"], seconds["full"])
        self.assertLess(seconds["full"], 1.4 * seconds["none"])
        return sent

    def test_one_rank(self):
        self.frees("dp=1", 1, selective=0.75, full=0.4)

    def test_tensor_parallel_sums_again(self):
        sent = self.frees("tp=2", 2, selective=0.75, full=0.4)
        self.assertEqual(sent["selective"], sent["none"])
        self.assertLess(sent["none"], sent["full"])

    def test_shares_of_a_sequence_are_gathered_again(self):
        sent = self.frees("tp=2,sp=true", 2, selective=0.75, full=0.4)
        self.assertLess(sent["none"], sent["selective"])
        # Blocks end where a rank has a share, so their sums are not repeated.
        self.assertLessEqual(sent["selective"], sent["full"])

    def test_gathers_are_shared_with_the_backward_phase(self):
        sent = self.frees("dp=2,zero=3", 2, selective=0.9, full=0.45)
        self.assertEqual(sent["selective"], sent["none"])
        # Only biases are gathered again, because no gradient op reads them.
        self.assertLess(sent["full"], 1.1 * sent["none"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
