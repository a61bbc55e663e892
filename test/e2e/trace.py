#!/usr/bin/env python3
"""The simulated step (--emit=trace) and an executed one (dpc-run --trace) are the same events, in the same order, by the same names."""
import os
import unittest

import e2e

CASES = [
    ("gpt2-tiny", 4, "dp=2,tp=2,zero=2,micro_batch=2"),
    ("gpt2-tiny", 2, "dp=2,zero=1,offload=optimizer"),
    ("bert-tiny", 4, "dp=2,pp=2,micro_batch=1,zero=1"),
    ("llama-tiny", 2, "pp=2,vpp=2,schedule=interleaved,micro_batch=2"),
    ("llama-tiny", 2, "dp=2,micro_batch=1,batch_shares=5:3"),
]


def tracks(path):
    """By process and thread: its names, and its events in order."""
    result = {}
    for event in e2e.read_json(path)["traceEvents"]:
        track = result.setdefault((event["pid"], event["tid"]), {"names": [], "events": [], "times": []})
        if event["ph"] == "M":
            track["names"].append((event["name"], event["args"]["name"]))
        else:
            track["events"].append((event["name"], event["cat"], event["args"]["phase"], event["args"]["micro_batch"]))
            track["times"].append((event["ts"], event["ts"] + event["dur"]))
    return result


class Trace(unittest.TestCase):
    def check(self, name, ranks, strategy, folder):
        plan = os.path.join(folder, "plan")
        e2e.must([e2e.tool("dpc-opt"), e2e.model(name), f"--cluster=local:{ranks}", "--global-batch=8", f"--strategy={strategy}",
                  "--emit=plan,trace", "--verify=off", "--init=random:1", "-o", plan])
        e2e.must([e2e.tool("dpc-run"), plan, "--steps=1", f"--trace={folder}/executed.json"])
        simulated, executed = tracks(f"{plan}/trace.json"), tracks(f"{folder}/executed.json")
        self.assertEqual(set(simulated), set(executed))
        for track, expected in executed.items():
            self.assertEqual(simulated[track]["names"], expected["names"])
            self.assertEqual(simulated[track]["events"], expected["events"], track)
        chosen = e2e.read_json(f"{plan}/report.json")["chosen"]
        self.check_times(simulated, chosen)

    def check_times(self, simulated, chosen):
        timeline = chosen["detail"]["timeline"]
        end = (timeline["step_ticks"] - timeline["host_ticks"]) * timeline["tick_seconds"]
        last = 0
        for track in simulated.values():
            for (_, before), (begin, _) in zip(track["times"], track["times"][1:]):
                self.assertGreaterEqual(begin, before - 1e-6)
            last = max([last] + [after for _, after in track["times"]])
        self.assertAlmostEqual(last * 1e-6 / end, 1, delta=1e-3)

    def test_same_events_in_the_same_order(self):
        for name, ranks, strategy in CASES:
            with self.subTest(f"{name} {strategy}"), e2e.scratch() as folder:
                self.check(name, ranks, strategy, folder)


if __name__ == "__main__":
    unittest.main(verbosity=2)
