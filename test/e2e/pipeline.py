#!/usr/bin/env python3
"""Pipelines fulfil what their schedules promise; counts it in plans.

follow_curve.py checks the results. This test counts in plans: live micro-batches on every stage, messages, the memory
of every stage against its prediction, and the idle time of schedules.
"""
import unittest

import e2e

TOLERANCE = 0.02
BATCH = 8
# The gradient norm is summed over the stages. Each stage sends one float.
NORM = 4


class Pipeline:
    """gpt2-tiny, planned with micro-batches of one sample."""

    def __init__(self, folder, strategy, ranks, model="gpt2-tiny", precision="fp32"):
        e2e.must([e2e.tool("dpc-opt"), e2e.model(model), f"--cluster=local:{ranks}", f"--global-batch={BATCH}",
                  f"--strategy={strategy},micro_batch=1", "--verify=off", f"--precision={precision}", "-o", folder])
        self.plan, chosen = e2e.read_plan(folder), e2e.read_report(folder)["chosen"]
        self.predicted, self.stages = chosen["predicted"], chosen["predicted"]["stages"]

    def alive(self):
        """Returns the frames of each stage; 1 if micro-batches need no frames."""
        slots = [0] * len(self.stages)
        for frame in self.plan["frames"]:
            slots[frame["stage"]] += frame["count"]
        return [max(1, count) for count in slots]

    def sent(self, rank):
        """Returns the bytes that a rank sends to other stages in a step."""
        total = 0
        for entry in self.plan["schedule"][rank]:
            for instruction in self.plan["phases"][entry["phase"]]:
                if instruction["op"] == "send":
                    total += self.plan["buffers"][instruction["buffer"]]["bytes"]
        return total


def idle_times(plan, stages, chunks, seconds):
    """Returns the idle seconds of each stage when the tables of `plan` run on equal stages; a phase takes
    seconds[phase] / chunks.

    A forward waits for that of the previous virtual stage, a backward for that of the next one and for its own forward,
    and a weight gradient for its backward. This does not share code with the cost model's simulation, which has unit
    tests.
    """
    tables = []
    for stage in range(stages):
        rank = stage * (len(plan["schedule"]) // stages)
        entries = []
        for entry in plan["schedule"][rank]:
            name, phase, *chunk = entry["phase"].split(".")
            assert name == f"s{stage}", entry
            if phase in seconds:
                entries.append((phase, int(chunk[0] if chunk else 0) * stages + stage, entry["micro_batch"]))
        tables.append(entries)
    last, ended, clocks, next_entry = stages * chunks - 1, {}, [0.0] * stages, [0] * stages

    def needs(phase, virtual, mb):
        if phase == "forward":
            return [("forward", virtual - 1, mb)] if virtual else []
        if phase == "weight":
            return [("backward", virtual, mb)]
        return [("forward", virtual, mb)] + ([("backward", virtual + 1, mb)] if virtual < last else [])

    while any(next_entry[s] < len(tables[s]) for s in range(stages)):
        moved = False
        for stage in range(stages):
            while next_entry[stage] < len(tables[stage]):
                entry = tables[stage][next_entry[stage]]
                if not all(need in ended for need in needs(*entry)):
                    break
                begin = max([clocks[stage]] + [ended[need] for need in needs(*entry)])
                clocks[stage] = ended[entry] = begin + seconds[entry[0]] / chunks
                next_entry[stage] += 1
                moved = True
        assert moved, "the tables are stuck"
    work = sum(seconds.values()) * len({entry["micro_batch"] for entry in plan["schedule"][0]})
    return [max(clocks) - work] * stages


class Pipelines(unittest.TestCase):
    def make(self, strategy, ranks, model="gpt2-tiny", precision="fp32"):
        with e2e.scratch() as folder:
            made = Pipeline(f"{folder}/plan", strategy, ranks, model, precision)
        for stage, (predicted, arena) in enumerate(zip(made.stages, made.plan["arena_bytes"])):
            off = predicted["memory_bytes"] / arena - 1
            self.assertLess(abs(off), TOLERANCE, f"{strategy}, stage {stage}: predicted {predicted}, arena {arena}")
        return made

    def test_micro_batches_alive(self):
        stages = 4
        self.assertEqual(self.make("pp=4", stages).alive(), [4, 3, 2, 1])
        self.assertEqual(self.make("dp=2,pp=2,zero=3", stages).alive(), [2, 1])
        self.assertEqual(self.make("pp=3", 3, "llama-tiny").alive(), [3, 2, 1])
        self.assertEqual(self.make("pp=4,schedule=gpipe", stages).alive(), [BATCH] * stages)
        self.assertLessEqual(max(self.make("pp=4,schedule=zb-h1", stages, "llama-tiny").alive()), stages)

    def test_idle_time(self):
        bubbles = {name: self.make(f"pp=2,{name}", 2).predicted["bubble_fraction"]
                   for name in ("schedule=1f1b", "schedule=gpipe", "vpp=2", "schedule=zb-h1")}
        print(bubbles)
        # With equal stages, two chunks would halve the idle time. These stages differ, because estimates balance them.
        self.assertLess(bubbles["vpp=2"], 0.75 * bubbles["schedule=1f1b"])
        self.assertLess(bubbles["schedule=zb-h1"], 0.65 * bubbles["schedule=1f1b"])
        self.assertLess(abs(bubbles["schedule=gpipe"] / bubbles["schedule=1f1b"] - 1), 0.05)

    def test_idle_time_of_equal_stages(self):
        # Exact values from the schedules of the plans, where f, b and w are the seconds of forward, backward and weight
        # gradients. 1F1B and GPipe are idle for (stages - 1) (f + b), and with vpp chunks for 1 / vpp of this time.
        # ZB-H1 computes weight gradients meanwhile and is idle for (stages - 1) (f + b - w).
        whole, split = {"forward": 1.0, "backward": 2.0}, {"forward": 1.0, "backward": 1.0, "weight": 1.0}
        for stages in (2, 4):
            bubble = 3.0 * (stages - 1)
            cases = [("schedule=1f1b", 1, whole, bubble), ("schedule=gpipe", 1, whole, bubble),
                     ("schedule=zb-h1", 1, split, bubble / 3)]
            # gpt2-tiny has four blocks, so two stages can have two chunks each, but four stages cannot.
            if stages == 2:
                cases.append(("vpp=2", 2, whole, bubble / 2))
            for words, chunks, seconds, want in cases:
                with self.subTest(stages=stages, words=words):
                    plan = self.make(f"pp={stages},{words}", stages).plan
                    for idle in idle_times(plan, stages, chunks, seconds):
                        self.assertAlmostEqual(idle, want)

    def test_messages(self):
        # Activations cross the cut in one direction, and their gradients cross it in the other.
        made = self.make("pp=2", 2)
        sent = [made.sent(rank) for rank in (0, 1)]
        print(sent)
        self.assertGreater(min(sent), 0)
        self.assertEqual(sum(made.predicted["bytes_per_level"].values()), max(sent) + NORM)
        # With two chunks per stage, there are three cuts instead of one.
        more = self.make("pp=2,vpp=2", 2)
        sent = [more.sent(rank) for rank in (0, 1)]
        self.assertEqual(sum(more.predicted["bytes_per_level"].values()), max(sent) + NORM)

    def test_gradients_of_a_tied_parameter_meet_once_a_step(self):
        # The last stage sends the f32 gradient of the embedding to the first stage, also if both read a bf16 copy.
        for precision in ("fp32", "bf16"):
            made = self.make("pp=4,schedule=zb-h1", 4, precision=precision)
            sent = [made.plan["buffers"][instruction["buffer"]] for entry in made.plan["schedule"][3]
                    for instruction in made.plan["phases"][entry["phase"]] if instruction["op"] == "send" and (3 + instruction["shift"]) % 4 == 0]
            self.assertEqual([buffer["dtype"] for buffer in sent if buffer["shape"]], ["f32"], sent)
        self.assertLess(made.predicted["bubble_fraction"],
                        0.65 * self.make("pp=4,schedule=1f1b", 4, precision="bf16").predicted["bubble_fraction"])

    def test_a_stage_with_nothing_but_a_tied_head(self):
        # With this large a vocabulary, the last stage is only the head. It has no gradient to sum and no norm to
        # compute, but both stages must synchronize in the same order.
        with e2e.scratch() as folder:
            e2e.must([e2e.tool("dpc-model"), "gpt", "--layers=4", "--hidden=32", "--heads=4", "--vocab=5000", "--seq=16",
                      "-o", f"{folder}/tied.onnx"])
            e2e.must([e2e.tool("dpc-opt"), f"{folder}/tied.onnx", "--init=zeros", "--cluster=local:4", "--global-batch=8",
                      "--strategy=dp=2,pp=2,micro_batch=2", "-o", f"{folder}/plan"])
            report = e2e.read_report(f"{folder}/plan")
            self.assertEqual(len(report["chosen"]["predicted"]["stages"]), 2)
            self.assertEqual(report["verification"]["ranks"], 4)

    def test_with_everything_else(self):
        for strategy, ranks in (("dp=2,pp=2,zero=3", 4), ("tp=2,pp=2,recompute=full", 4)):
            made = self.make(strategy, ranks)
            self.assertEqual(len(made.stages), 2)
            self.assertGreater(made.predicted["bubble_fraction"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
