#!/usr/bin/env python3
"""The tester of the search fails where a search loses, and only there: judged with made-up answers of dpc-opt."""
import contextlib
import io
import json
import math
import os
import random
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))

import cases  # noqa: E402
import draw  # noqa: E402
import e2e  # noqa: E402
import judge  # noqa: E402
import never_loses  # noqa: E402
import planner  # noqa: E402

CLUSTER = {"groups": [{"nodes": 2, "devices_per_node": 4, "device": "a100-sxm-80gb"}],
           "levels": [["nvlink", "node", 300, 3], ["infiniband", "cluster", 25, 8]], "host": [1024, 25, 12]}
PLAN = {"dp": 8, "tp": 1, "pp": 1, "vpp": 1, "cp": 1, "sp": False, "zero": 0, "hybrid_shard": 1, "schedule": "1f1b", "recompute": "none", "micro_batch": 1,
        "offload": "none"}


def make_case(*narrow, strategy=""):
    entries = [{"strategy": one} if isinstance(one, str) else {"cluster": one} for one in narrow]
    return {"model": {"family": "gpt2-tiny"}, "batch": 8, "words": ["--train=adamw"], "cluster": CLUSTER, "strategy": strategy, "narrow": entries}


def change_group(**changes):
    return {**CLUSTER, "groups": [{**CLUSTER["groups"][0], **changes}]}


class MadeUp(planner.Planner):
    """Answers with given seconds, by strategy; all other requests take `others` seconds."""

    def __init__(self, seconds, others=1.0, cluster_seconds=None):
        super().__init__("nowhere")
        self.by_strategy, self.others, self.cluster_seconds = seconds, others, cluster_seconds

    def ask(self, case, request):
        if request.cluster != CLUSTER:
            seconds = self.cluster_seconds
        else:
            seconds = self.by_strategy.get(cases.strategy_of(request.keys), self.others)
        if seconds is None:
            return planner.Outcome(message="no strategy fits")
        return seconds if isinstance(seconds, planner.Outcome) else planner.Outcome(seconds, PLAN, 2**30, "exact")


class Judge(unittest.TestCase):
    def lost(self, answers, *narrow, strategy="", **words):
        """[(kind, ratio, verdict)] of the lost comparisons."""
        verdict = judge.judge(make_case(*narrow, strategy=strategy), MadeUp(answers, **words))
        return [(one.kind, round(one.ratio, 6), one.verdict) for one in verdict.lost]

    def test_a_faster_plan_with_a_key(self):
        self.assertEqual(self.lost({"": 1.01}, "tp=2", "pp=2"), [("key", 1.01, "missed")] * 2)

    def test_within_the_tolerance(self):
        self.assertEqual(self.lost({"": 1.004}, "tp=2"), [])
        self.assertEqual(self.lost({"": 1.006}, "tp=2"), [("key", 1.006, "missed")])

    def test_a_slower_plan_with_a_key(self):
        self.assertEqual(self.lost({"": 0.5}, "tp=2"), [])

    def test_a_second_key(self):
        # The free search wins, but a key loses to the same key with another one.
        answers = {"": 0.9, "zero=1": 1.2, "zero=1,pp=2": 1.0}
        self.assertEqual(self.lost(answers, "zero=1", "zero=1,pp=2"), [("second key", 1.2, "missed")])
        self.assertEqual(self.lost({**answers, "zero=2": 1.2}, "zero=2", "zero=1,pp=2"), [])

    def test_another_price_for_the_same_plan(self):
        self.assertEqual(self.lost({"": 1.5, "tp=2": 1.0}, "tp=2", others=1.5), [("key", 1.5, "priced differently")])
        self.assertEqual(self.lost({"": 1.5, "tp=2": 1.0}, "tp=2", others=None), [("key", 1.5, "refused by name")])

    def test_requests_without_a_plan(self):
        self.assertEqual(self.lost({"": 1.0, "tp=2": None}, "tp=2"), [])
        self.assertEqual(self.lost({"": None}, "tp=2"), [("key", float("inf"), "missed")])

    def test_smaller_clusters(self):
        slow = {**CLUSTER, "levels": [CLUSTER["levels"][0], ["infiniband", "cluster", 12.5, 8]]}
        for kind, cluster in (("nodes", change_group(nodes=1)), ("devices", change_group(devices_per_node=3)), ("bandwidth", slow),
                              ("memory", change_group(values={"memory_gibibytes": 40})), ("host", {**CLUSTER, "host": [1024, 10, 12]})):
            self.assertEqual(self.lost({"": 1.1}, cluster, cluster_seconds=1.0), [(kind, 1.1, "missed")])
            self.assertEqual(self.lost({"": 1.1}, cluster, cluster_seconds=1.2), [])

    def test_the_plan_of_a_smaller_cluster_names_its_ranks(self):
        request = cases.name_plan({**PLAN, "dp": 2, "tp": "2x1"}, CLUSTER)
        self.assertEqual(cases.strategy_of(request.keys), "dp=2,tp=2x1,pp=1,vpp=1,cp=1,sp=false,zero=0,hybrid_shard=1,schedule=1f1b,recompute=none,"
                                                           "micro_batch=1,offload=none,ranks=4")

    def test_a_degree_needs_all_devices(self):
        def request(strategy, cluster=CLUSTER):
            return cases.Request(cases.keys_of(strategy), cluster)

        self.assertTrue(request("zero=1").contains(request("zero=1,dp=2,ranks=4")))
        self.assertTrue(request("dp=2").contains(request("dp=2,tp=4,ranks=8")))
        self.assertFalse(request("dp=2").contains(request("dp=2,tp=2,ranks=4")))
        self.assertTrue(request("zero=1").contains(request("zero=1,dp=2", change_group(nodes=1))))
        self.assertFalse(request("dp=2").contains(request("dp=2", change_group(nodes=1))))

    def test_what_is_not_narrower_is_refused(self):
        fast = {**CLUSTER, "levels": [["nvlink", "node", 301, 3], CLUSTER["levels"][1]]}
        other = change_group(device="h100-sxm-80gb", nodes=1)
        for narrow in (change_group(nodes=3), change_group(values={"memory_gibibytes": 96}), fast, other, CLUSTER, "auto"):
            with self.assertRaisesRegex(cases.CaseError, "is not narrower"):
                cases.requests_of(make_case(narrow))
        with self.assertRaisesRegex(cases.CaseError, "is not narrower"):
            cases.requests_of(make_case("tp=2", strategy="pp=2"))


class Draws(unittest.TestCase):
    def test_cases(self):
        """The same seed draws the same cases; each family and key appears; every request is narrower."""
        families, kinds, keys = set(), set(), set()
        first, again, other = (draw.Draw(seed, clusters=9) for seed in (3, 3, 4))
        answers = MadeUp({}, cluster_seconds=1.0)
        for number in range(150):
            case = first.case(number, answers)
            self.assertEqual(case, again.case(number, answers))
            self.assertNotEqual(case, other.case(number, answers))
            wide, *narrow = cases.requests_of(case)
            self.assertGreaterEqual(len(narrow), 6, case)
            families.add("fixture" if case["model"]["family"] in draw.FIXTURES else case["model"]["family"])
            kinds.update(cases.kind_of(wide, one) for one in narrow)
            keys.update(key for one in narrow for key in one.keys)
            if case["model"]["family"] in draw.BATCH_NORMS:
                self.assertFalse(any("micro_batch" in one.keys for one in narrow), case)
        self.assertEqual(families, set(draw.FAMILIES))
        self.assertEqual(kinds, {"key", "plan", "nodes", "devices", "memory", "bandwidth", "host"})
        self.assertLessEqual({"dp", "tp", "pp", "vpp", "cp", "cp_kind", "ep", "sp", "zero", "schedule", "recompute", "micro_batch", "offload"}, keys)

    def test_plans_next_to_the_plan(self):
        """They differ in at most two decisions, use as many ranks, and keep what a key requires of others."""
        case, changed = make_case(), set()
        for seed in range(200):
            for keys in draw.draw_neighbours(random.Random(seed), case, {**PLAN, "dp": 4, "pp": 2, "micro_batch": 2}, 2):
                ranks = math.prod(int(keys[key]) for key in ("dp", "tp", "pp", "cp"))
                self.assertEqual(ranks, 8)
                self.assertLessEqual(int(keys["micro_batch"]) * int(keys["dp"]), 8)
                self.assertEqual(int(keys["vpp"]) > 1, keys["schedule"] == "interleaved")
                changed.update(key for key in PLAN if keys[key] != str({**PLAN, "dp": 4, "pp": 2, "micro_batch": 2}[key]).lower())
        self.assertEqual(changed, set(PLAN) - {"hybrid_shard"})

    def test_keys_next_to_the_plan(self):
        drawn = [draw.near(random.Random(seed), [1, 2, 4, 8, 16, 32, 64], 8) for seed in range(200)]
        self.assertGreater(sum(value in (4, 16) for value in drawn), 100)
        self.assertEqual(set(drawn), {1, 2, 4, 8, 16, 32, 64})


class Program(e2e.ScratchTest):
    def run_with(self, planning, case):
        """Returns (whether all is good, what the tester prints, the record)."""
        path, results = self.path("case.json"), self.path("results.jsonl")
        e2e.write_json(path, case)
        arguments = never_loses.parse([path, f"--results={results}", f"--keep={self.path('kept')}"])
        with contextlib.redirect_stdout(io.StringIO()) as said:
            good = never_loses.run(arguments, planning)
        return good, said.getvalue(), e2e.read_metrics(results)[-1]

    def test_a_lost_case_is_reported_and_kept(self):
        planning = MadeUp({"": 2.0, "zero=1": 1.6})
        good, said, record = self.run_with(planning, make_case("tp=2", "zero=1", "pp=2"))
        self.assertFalse(good)
        self.assertRegex(said, r"LOST 2x, missed \(key\): case: gpt2-tiny on 2 x 4 a100-sxm-80gb, batch 8")
        self.assertIn("wide   auto on 2 x 4 a100-sxm-80gb: 2 s, 1 GiB: dp=8", said)
        self.assertRegex(said, r"\$ dpc-opt lost/gpt2-tiny.onnx --cluster=lost/wide.json --global-batch=8 --train=adamw --strategy=tp=2 ")
        self.assertIn("key: 3 compared, 3 lost, at worst 2x", said)
        self.assertEqual([(one["ratio"], one["kind"]) for one in record["lost"]], [(2.0, "key"), (2.0, "key"), (1.25, "key")])
        # What is recorded and kept are cases, which lose again.
        kept = cases.read_case(self.path("kept", os.listdir(self.path("kept"))[0]))
        self.assertEqual(kept, record["lost"][0]["case"])
        self.assertFalse(self.run_with(planning, kept)[0])
        self.assertTrue(self.run_with(MadeUp({}), kept)[0])

    def test_nothing_lost(self):
        good, said, record = self.run_with(MadeUp({"": 0.9}), make_case("tp=2"))
        self.assertTrue(good, said)
        self.assertEqual((record["lost"], record["compared"]), ([], {"key": 1}))
        self.assertFalse(os.path.exists(self.path("kept")))

    def test_without_answers_nothing_is_good(self):
        crashed = planner.Outcome(message="exit -11", broken=True)
        good, said, _ = self.run_with(MadeUp({"tp=2": crashed}), make_case("tp=2", "pp=2"))
        self.assertFalse(good)
        self.assertIn("BROKEN: case: gpt2-tiny on 2 x 4 a100-sxm-80gb, batch 8, --train=adamw, tp=2: exit -11", said)
        self.assertFalse(self.run_with(MadeUp({}, others=None), make_case("tp=2"))[0])

    def run_program(self, answer):
        """Runs the program with a dpc-opt that is a few lines of Python."""
        os.makedirs(self.path("bin"), exist_ok=True)
        with open(self.path("bin", "dpc-opt"), "w") as file:
            file.write(f"#!{sys.executable}\nimport json, os, sys\n{answer}\nout = sys.argv[-1]\nos.makedirs(out, exist_ok=True)\n"
                       "json.dump({'chosen': {'fits': True, 'strategy': " + repr(PLAN) + ", 'method': 'exact', 'predicted': "
                       "{'step_seconds': seconds, 'memory_bytes': {'peak': 1}}}}, open(out + '/report.json', 'w'))\n")
        os.chmod(self.path("bin", "dpc-opt"), 0o755)
        e2e.write_json(self.path("case.json"), make_case("tp=2"))
        return subprocess.run([sys.executable, never_loses.__file__, self.path("case.json")], capture_output=True, text=True,
                              env=dict(os.environ, DPC_BIN=self.path("bin"), DPC_SOURCE=e2e.SOURCE))

    def test_exit_status(self):
        lost = self.run_program("seconds = 1.2 if '--strategy=auto' in sys.argv else 1")
        self.assertEqual(lost.returncode, 1, lost.stderr)
        self.assertIn("LOST 1.2x", lost.stdout)
        good = self.run_program("seconds = 1")
        self.assertEqual(good.returncode, 0, good.stdout + good.stderr)
        self.assertIn("1 cases: 0 lost a comparison", good.stdout)
        broken = self.run_program("os.abort() if '--strategy=tp=2' in sys.argv else None; seconds = 1")
        self.assertEqual(broken.returncode, 1, broken.stdout)
        self.assertIn("BROKEN", broken.stdout)

    def test_files_to_reproduce(self):
        never_loses.write_case(self.path("lost"), json.dumps(make_case(change_group(nodes=1))))
        self.assertEqual(sorted(os.listdir(self.path("lost"))), ["gpt2-tiny.onnx", "narrow.json", "wide.json"])
        self.assertEqual([e2e.read_json(self.path("lost", name))["groups"][0]["nodes"] for name in ("wide.json", "narrow.json")], [2, 1])

    def test_bad_cases(self):
        for text, said in (("{", "case.json: not JSON"), ('{"model": {}}', "case.json: keys ['model']; expected "),
                           (json.dumps(make_case("auto")), "is not narrower")):
            with open(self.path("case.json"), "w") as file:
                file.write(text)
            done = e2e.call([sys.executable, never_loses.__file__, self.path("case.json")])
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
            self.assertIn(said, done.stderr)

    def test_kept_cases_are_cases(self):
        names = os.listdir(never_loses.LOSSES)
        self.assertGreaterEqual(len(names), 4)
        for name in names:
            self.assertTrue(cases.read_case(os.path.join(never_loses.LOSSES, name))["narrow"], name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
