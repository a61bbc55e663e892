#!/usr/bin/env python3
"""The simulated step (--emit=trace) and an executed step (dpc-run --trace) have the same events in the same order with the same names."""
import json
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
    """Returns names and events in order, by process and thread."""
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


    def simulated(self, folder, strategy, cluster, batch, *words):
        plan = os.path.join(folder, "plan")
        text = e2e.must([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), f"--cluster={cluster}", f"--global-batch={batch}", f"--strategy={strategy}",
                         "--emit=report,trace", "--verify=off", "-o", plan, *words])
        return text, f"{plan}/trace.json"

    def test_of_many_ranks_the_first_of_each_stage(self):
        cluster = os.path.join(e2e.SOURCE, "examples", "clusters", "dgx-h100-128.json")
        for strategy, batch, ranks in (("dp=512,pp=2,micro_batch=1", 4096, {0, 512}), ("dp=256,pp=4,micro_batch=1", 65536 * 5, {0, 768})):
            with self.subTest(strategy), e2e.scratch() as folder:
                text, path = self.simulated(folder, strategy, cluster, batch)
                left_out = e2e.read_json(path)["otherData"]["left_out"]
                self.assertIn(f"remark: trace.json: {left_out}", " ".join(text.split()))
                self.assertIn("of 1024 ranks: at most 200000 events are written", left_out)
                self.assertEqual({rank for rank, _ in tracks(path)}, ranks)
                self.assertLessEqual(sum(len(track["events"]) for track in tracks(path).values()), 200_000)
                self.assertLess(os.path.getsize(path), 60_000_000)

    def test_ranks_with_unlike_shares_have_times_of_their_own(self):
        """On heterogeneous devices, the fast rank's loop has more and shorter micro-batches; both ranks update together."""
        for strategy in ("dp=2,micro_batch=1,batch_shares=3:1", "dp=2,pp=2,micro_batch=1,batch_shares=3:1"):
            with self.subTest(strategy), e2e.scratch() as folder:
                cluster = os.path.join(folder, "cluster.json")
                groups = [{"nodes": 1, "devices_per_node": 2 if "pp" in strategy else 1, "device": name} for name in ("h100-sxm-80gb", "v100-sxm2-32gb")]
                with open(cluster, "w") as file:
                    json.dump({"version": 1, "name": "two kinds", "groups": groups,
                               "levels": [{"name": "wire", "span": "cluster", "gigabytes_per_second": 25, "latency_microseconds": 3, "kind": "switch",
                                           "in_network_reduction": False}],
                               "host": {"memory_gibibytes": 64, "pcie_gigabytes_per_second": 12, "nvme_gigabytes_per_second": 1}}, file)
                placement = ",placement=pp.dp" if "pp" in strategy else ""
                _, path = self.simulated(folder, strategy + placement, cluster, 8)
                loops, updates = {}, {}
                for event in e2e.read_json(path)["traceEvents"]:
                    if event["ph"] != "X" or event["tid"] != 0:
                        continue
                    phase, rank = event["args"]["phase"], event["pid"]
                    if "forward" in phase:
                        loops.setdefault(rank, {}).setdefault(event["args"]["micro_batch"], []).append(event["dur"])
                    elif "update" in phase:
                        updates.setdefault(rank, event["ts"])
                self.assertEqual(sorted({len(loop) for loop in loops.values()}), [2, 6])
                mean = {rank: sum(map(sum, loop.values())) / len(loop) for rank, loop in loops.items()}
                fast = [mean[rank] for rank, loop in loops.items() if len(loop) == 6]
                slow = [mean[rank] for rank, loop in loops.items() if len(loop) == 2]
                self.assertGreater(min(slow), 1.2 * max(fast), mean)
                self.assertGreater(min(fast), 0)
                stages = 2 if "pp" in strategy else 1
                self.assertEqual(len({round(at, 3) for at in updates.values()}), stages, updates)


class Profile(unittest.TestCase):
    """dpc-run --profile compares predicted and measured times under the names in both traces."""

    def compile(self, folder, emit):
        plan = os.path.join(folder, "plan")
        e2e.must([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), "--cluster=local:4", "--global-batch=8", "--strategy=dp=2,tp=2,micro_batch=2",
                  f"--emit={emit}", "--verify=off", "--init=random:1", "-o", plan])
        return plan

    def check(self, profile, plan, steps):
        self.assertEqual((profile["steps"], profile["ranks"]), (steps, 4))
        chosen = e2e.read_json(f"{plan}/report.json")["chosen"]
        timeline = chosen["detail"]["timeline"]
        end = (timeline["step_ticks"] - timeline["host_ticks"]) * timeline["tick_seconds"]
        self.assertAlmostEqual(profile["step"]["predicted_seconds"] / end, 1, delta=1e-3)
        rows = profile["rows"]
        differences = [abs(row["measured_seconds"] - row["predicted_seconds"]) for row in rows]  # every row has a prediction
        self.assertEqual(differences, sorted(differences, reverse=True))
        for key in ("times", "predicted_seconds", "measured_seconds"):
            for queue in profile["queues"]:
                added = sum(row[key] for row in rows if row["queue"] == queue["name"])
                self.assertAlmostEqual(added, queue[key], delta=1e-6 + 1e-6 * added)
        self.assertIn("all_reduce", {row["op"] for row in rows if row["queue"] == "comm"})
        self.assertTrue(any("blocks.*" in row["name"] for row in rows))
        self.assertFalse(any("blocks.0" in row["name"] for row in rows))

    def test_threads_and_processes(self):
        with e2e.scratch() as folder:
            plan = self.compile(folder, "plan,report,trace")
            launches = [[]] + ([e2e.mpirun(4)] if e2e.mpirun(4) else [])
            for launch in launches:
                text = e2e.must([*launch, e2e.tool("dpc-run"), plan, "--steps=3", "--profile"])
                self.assertIn("profile of 2 steps on 4 ranks", text)
                self.assertIn("all of the compute queue", text)
                profile = e2e.read_json(f"{plan}/profile.json")
                self.check(profile, plan, 2)
                with open(f"{plan}/report.html", encoding="utf-8") as file:
                    page = file.read()
                shown = page.split('id="measured">', 1)[1].split("</script>", 1)[0]
                self.assertEqual(json.loads(shown), profile)
            # dpc-opt can still replace the folder, including the page.
            self.compile(folder, "plan,report")
            self.assertFalse(os.path.exists(f"{plan}/profile.json"))

    def test_without_predictions(self):
        with e2e.scratch() as folder:
            plan = self.compile(folder, "plan")
            text = e2e.must([e2e.tool("dpc-run"), plan, "--steps=1", "--profile"])
            self.assertIn("--emit=plan,report,trace", text)
            profile = e2e.read_json(f"{plan}/profile.json")
            self.assertFalse(any("predicted_seconds" in row for row in profile["rows"] + [profile["step"]]))
            with open(f"{plan}/trace.json", "w") as file:
                file.write('{"traceEvents": [7]}')
            done = e2e.call([e2e.tool("dpc-run"), plan, "--steps=1", "--profile"])
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stderr, f"dpc-run: error: --profile: {plan}: trace.json: traceEvents[0] is not an event of dpc\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
