#!/usr/bin/env python3
"""report.json's data about the simulated step adds up to its predicted numbers."""
import fcntl
import json
import math
import os
import pty
import struct
import subprocess
import termios
import unittest

import e2e

TENSORS = "dp=2,tp=2"
TO_TERMINAL = [e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), "--cluster=local:4", "--global-batch=8", "--emit=report", "--verify=off"]
STRATEGIES = [
    ("gpt2-tiny", 1, "dp=1"),
    ("gpt2-tiny", 4, "dp=2,tp=2,zero=2,micro_batch=2"),
    ("gpt2-tiny", 4, "dp=4,zero=3,micro_batch=1,recompute=full"),
    ("gpt2-tiny", 2, "dp=2,zero=1,offload=optimizer"),
    ("bert-tiny", 8, "dp=2,tp=2,pp=2,micro_batch=1"),
    ("bert-tiny", 4, "pp=4,micro_batch=1,schedule=zb-h1"),
    ("llama-tiny", 4, "dp=2,pp=2,vpp=2,micro_batch=1"),
    ("llama-tiny", 4, "dp=2,pp=2,micro_batch=1,batch_shares=5:3"),
    ("llama-tiny", 2, "dp=2,micro_batch=1,batch_shares=5:3"),
]


def report_of(folder, name, ranks, strategy, *more):
    plan = os.path.join(folder, "plan")
    e2e.must([e2e.tool("dpc-opt"), e2e.model(name), f"--cluster=local:{ranks}", "--global-batch=8", f"--strategy={strategy}",
              "--emit=report", "--verify=off", "-o", plan, *more])
    return e2e.read_json(os.path.join(plan, "report.json"))


def cluster_file(name):
    return os.path.join(e2e.SOURCE, "examples", "clusters", f"{name}.json")


def last_end(timeline):
    """Returns the seconds from the step's start to the end of its last phase, including the host's time after it."""
    ends = [begin + stage["phases"][phase]["ticks"] for stage in timeline["stages"] for phase, _, begin in stage["entries"]]
    return (max(ends) + timeline["host_ticks"]) * timeline["tick_seconds"]


def idle_seconds(timeline, stage):
    """Returns the part of the step that no phase of the stage covers, or during which a phase waits."""
    busy = 0
    for phase, _, _ in stage["entries"]:
        phase = stage["phases"][phase]
        begin, end = phase.get("wait", (0, 0))
        busy += phase["ticks"] - (end - begin)
    return (timeline["step_ticks"] - timeline["host_ticks"] - busy) * timeline["tick_seconds"]


class Report(unittest.TestCase):
    def check_agreement(self, report):
        predicted, detail = report["chosen"]["predicted"], report["chosen"]["detail"]
        seconds = predicted["step_seconds"]
        timeline = detail["timeline"]
        self.assertAlmostEqual(timeline["step_ticks"] * timeline["tick_seconds"] / seconds, 1, delta=1e-6)
        self.assertAlmostEqual(last_end(timeline) / seconds, 1, delta=1e-6)
        for stage in timeline["stages"]:
            if "stages" in predicted:
                self.assertAlmostEqual(idle_seconds(timeline, stage) / seconds,
                                       predicted["stages"][stage["stage"]]["idle_seconds"] / seconds, delta=1e-5)
        held = [sum(values) for values in zip(*detail["memory"]["bytes"].values())]
        self.assertAlmostEqual(max(held) / predicted["memory_bytes"]["peak"], 1, delta=1e-6)
        for level, expected in predicted["bytes_per_level"].items():
            sent = {}
            for row in detail["traffic"]:
                sent[row["stage"]] = sent.get(row["stage"], 0) + row["bytes_per_level"][level]
            self.assertAlmostEqual(max(sent.values(), default=0), expected, delta=1e-6 * expected + 16)

    def check_order(self, timeline):
        """A stage does one thing at a time, and each micro-batch runs forward before backward."""
        for stage in timeline["stages"]:
            free, forwards = 0, set()
            for phase, micro_batch, begin in stage["entries"]:
                entry = stage["phases"][phase]
                self.assertGreaterEqual(begin, free - 2)
                free = begin + entry["ticks"]
                kind, _, chunk = entry["name"].partition(".")
                if kind == "forward":
                    forwards.add((chunk, micro_batch))
                if kind == "backward":
                    self.assertIn((chunk, micro_batch), forwards)

    def test_details_agree_with_what_is_predicted(self):
        for name, ranks, strategy in STRATEGIES:
            with self.subTest(f"{name} {strategy}"), e2e.scratch() as folder:
                report = report_of(folder, name, ranks, strategy)
                self.check_agreement(report)
                self.check_order(report["chosen"]["detail"]["timeline"])

    def test_operators_of_megatron(self):
        with e2e.scratch() as folder:
            rows = report_of(folder, "gpt2-tiny", 4, TENSORS)["chosen"]["detail"]["operators"]
        kinds = {row["kind"].split(" (")[0] for row in rows if row["op"] == "matmul"}
        self.assertIn("column parallel", kinds)
        self.assertIn("row parallel", kinds)
        summed = [row for row in rows if row["kind"].startswith("row parallel")]
        self.assertTrue(all("partial over tp" in row["result"] for row in summed), summed)

    def test_page_holds_the_report(self):
        with e2e.scratch() as folder:
            report_of(folder, "gpt2-tiny", 4, TENSORS)
            with open(os.path.join(folder, "plan", "report.html"), encoding="utf-8") as file:
                page = file.read()
        self.assertLess(len(page.encode()), 2_000_000)
        self.assertEqual(page.count('id="report"'), 1)
        for word in ("src=", "href=\"http", "@import", "url(http"):
            self.assertNotIn(word, page.split("<script type", 1)[0])


class Terminal(unittest.TestCase):
    def shown(self, columns, **variables):
        """Returns what dpc-opt prints on a terminal with this many columns."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        with e2e.scratch() as folder:
            child = subprocess.Popen([*TO_TERMINAL, "-o", f"{folder}/plan"], stdout=theirs, stderr=subprocess.PIPE,
                                     env=dict(e2e.environment(), **variables))
            os.close(theirs)
            text = e2e.read_terminal(ours)
            _, error = child.communicate(timeout=e2e.TIMEOUT_SECONDS)
            os.close(ours)
            self.assertEqual(child.returncode, 0, error)
        return text.decode().replace("\r\n", "\n")

    def test_fits_a_screen(self):
        with e2e.scratch() as folder:
            piped = e2e.must([*TO_TERMINAL, "-o", f"{folder}/plan"])
        for columns, text in ((100, piped), (100, self.shown(100, TERM="dumb")), (140, self.shown(140, TERM="xterm", NO_COLOR="1"))):
            lines = text.splitlines()
            self.assertLessEqual(len(lines), 40, text)
            self.assertLessEqual(max(map(len, lines)), columns, text)
            self.assertNotIn("\x1b", text)
            for words in ("chosen: dp=", "bound by ", "memory of the fullest rank: parameters ", "over shared-memory", "baselines", "megatron-3d", "verified"):
                self.assertIn(words, text)

    def test_colors_only_where_wanted(self):
        text = self.shown(100, TERM="xterm", NO_COLOR="")
        self.assertIn("\x1b[1mchosen: ", text)
        self.assertEqual(text.count("\x1b[1m") + text.count("\x1b[2m"), text.count("\x1b[0m"))


class Precision(unittest.TestCase):
    """Training computes in bf16 on GPUs of sm_80 and later, unless --precision says otherwise."""

    def whole(self, cluster, *more):
        with e2e.scratch() as folder:
            path = cluster if cluster.startswith("local:") else os.path.join(e2e.SOURCE, "examples", "clusters", cluster + ".json")
            text = e2e.must([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), f"--cluster={path}", *more, *([] if "@" in str(more) else ["--global-batch=16"]),
                             "--emit=report", "--verify=off", "-o", os.path.join(folder, "plan")])
        return " ".join(text.split())

    def head(self, cluster, *more):
        return self.whole(cluster, *more).split("chosen: ")[0]

    def test_default(self):
        self.assertIn(", computes in bf16 (default on h100-sxm-80gb; --precision=fp32 changes it), trains", self.head("dgx-h100-1"))
        self.assertIn(", computes in fp32, trains", self.head("dgx-h100-1", "--precision=fp32"))
        self.assertIn(", computes in bf16, trains", self.head("dgx-h100-1", "--precision=bf16"))
        self.assertIn(", computes in fp32", self.head("dgx-h100-1", "--infer"))
        self.assertIn(", computes in fp32, trains", self.head("p3-16xlarge-8"))
        self.assertIn(", computes in fp32, trains", self.head("local:2"))

    def test_a_file_states_it(self):
        with e2e.scratch() as folder:
            path = os.path.join(folder, "ds.json")
            e2e.write_json(path, {"train_batch_size": 8, "zero_optimization": {"stage": 1}})
            self.assertIn(", computes in fp32, trains", self.head("dgx-h100-1", f"--strategy=@{path}"))


    def test_the_axes_of_hybrid_shard_are_explained(self):
        for strategy, count in (("dp=16,zero=1,hybrid_shard=8", 1), ("dp=16,zero=1", 0)):
            text = self.whole("a100-2x8", f"--strategy={strategy}")
            self.assertEqual(text.count("; ZeRO shards over dpi (hybrid_shard), dp are its copies"), count, text)


class Units(unittest.TestCase):
    def test_a_number_that_no_hardware_has_is_asked_about(self):
        cluster = e2e.read_json(os.path.join(e2e.SOURCE, "examples", "clusters", "a100-2x8.json"))
        cluster["levels"][1]["gigabytes_per_second"] = 200
        with e2e.scratch() as folder:
            path, out = os.path.join(folder, "cluster.json"), os.path.join(folder, "plan")
            e2e.write_json(path, cluster)
            done = e2e.call([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), f"--cluster={path}", "--global-batch=16", "--emit=report", "--verify=off", "-o", out])
            report = e2e.read_report(out)
        line = (f"{path}: levels[1].gigabytes_per_second=200 is 2 times the most that is known, 100 GB/s (NVIDIA ConnectX-8: an adapter of 800 Gb/s for each "
                "device): did you mean 200 gigabits (25 GB/s)?")
        self.assertEqual((done.returncode, done.stderr), (0, f"dpc-opt: warning: {line}\n"))
        self.assertIn(line, report["remarks"])


class WhatIf(unittest.TestCase):
    def test_changed_clusters_and_sequences(self):
        with e2e.scratch() as folder:
            cluster = e2e.write_two_machines(folder, 2)
            words = [e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), f"--cluster={cluster}", "--global-batch=8", "--emit=report", "--verify=off",
                     "--what-if", "--strategy=dp=4,micro_batch=2", "-o", f"{folder}/plan"]
            printed = json.loads(e2e.must(words + ["--report=json"]))
            report = e2e.read_json(f"{folder}/plan/report.json")
        self.assertEqual(printed["what_if"], report["what_if"])
        rows = {row["change"]: row for row in report["what_if"]}
        self.assertEqual(list(rows), ["one more node", "twice the memory", "half the bandwidth of ethernet", "sequences twice as long"])
        step = report["chosen"]["predicted"]["step_seconds"]
        self.assertAlmostEqual(rows["twice the memory"]["step_seconds"] / step, 1, delta=1e-6)
        self.assertGreater(rows["half the bandwidth of ethernet"]["step_seconds"], step)
        # dp=4 cannot use the two devices of one more node. A search could.
        self.assertIn("6 ranks", rows["one more node"]["why"])
        self.assertIn("--bind=seq=N", rows["sequences twice as long"]["why"])

    def test_longer_sequences(self):
        model = os.path.join(e2e.ONNX, "two-symbols.onnx")
        with e2e.scratch() as folder:
            e2e.must([e2e.tool("dpc-opt"), model, "--cluster=local:2", "--global-batch=8", "--bind=seq=4096", "--infer", "--emit=report",
                      "--verify=off", "--what-if", "-o", f"{folder}/plan"])
            report = e2e.read_json(f"{folder}/plan/report.json")
        rows = {row["change"]: row for row in report["what_if"]}
        self.assertGreater(rows["sequences twice as long"]["step_seconds"], report["chosen"]["predicted"]["step_seconds"])

    def test_longer_sequences_of_a_model_of_dims(self):
        """Its file has no dimension to bind, but records its dims."""
        with e2e.scratch() as folder:
            for sequence in (256, 512):
                e2e.must([e2e.tool("dpc-model"), "gpt", "--layers=2", "--hidden=64", "--heads=4", "--vocab=512", f"--seq={sequence}", "-o", f"{folder}/{sequence}.onnx"])
            words = ["--cluster=local:2", "--global-batch=8", "--strategy=dp=2", "--emit=report", "--verify=off"]
            e2e.must([e2e.tool("dpc-opt"), f"{folder}/256.onnx", *words, "--what-if", "-o", f"{folder}/plan"])
            e2e.must([e2e.tool("dpc-opt"), f"{folder}/512.onnx", *words, "-o", f"{folder}/longer"])
            row = e2e.read_json(f"{folder}/plan/report.json")["what_if"][-1]
            predicted = e2e.read_json(f"{folder}/longer/report.json")["chosen"]["predicted"]
        self.assertEqual(row["change"], "sequences twice as long")
        self.assertEqual(row["memory_bytes"], predicted["memory_bytes"]["peak"])
        self.assertAlmostEqual(row["step_seconds"] / predicted["step_seconds"], 1, delta=1e-6)

    def test_the_number_of_nodes_that_helps(self):
        """4 samples on 4 nodes have no use for 5 or 6 nodes, but for 8."""
        device = e2e.read_json(os.path.join(e2e.SOURCE, "cost-model", "devices", "cpu-local.json"))
        with e2e.scratch() as folder:
            path = os.path.join(folder, "cluster.json")
            e2e.write_json(path, {"version": 1, "groups": [{"nodes": 4, "devices_per_node": 1, "device": device}],
                                  "levels": [{"name": "wire", "span": "cluster", "gigabytes_per_second": 100, "latency_microseconds": 1, "kind": "switch"}]})
            e2e.must([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), f"--cluster={path}", "--global-batch=4", "--emit=report", "--verify=off", "--what-if",
                      "-o", f"{folder}/plan"])
            report = e2e.read_report(f"{folder}/plan")
        row = report["what_if"][0]
        self.assertEqual((row["change"], row["idle_devices"]), ("4 more nodes (1 or 2 more would add nothing)", 0))
        self.assertLess(row["step_seconds"], report["chosen"]["predicted"]["step_seconds"])

    def test_only_when_asked(self):
        with e2e.scratch() as folder:
            self.assertNotIn("what_if", report_of(folder, "mlp", 2, "dp=2"))


class Intervals(unittest.TestCase):
    """The interval is that of the table of measured errors; the memory of a plan for dpc-run is exact."""

    def report(self, folder, *more):
        e2e.must([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), f"--cluster={cluster_file('dgx-h100-1')}", "--global-batch=16", "--precision=bf16", "--emit=report",
                  "--verify=off", *more, "-o", f"{folder}/plan"])
        return e2e.read_report(f"{folder}/plan")

    def test_every_prediction_has_an_interval(self):
        with e2e.scratch() as folder:
            report = self.report(folder)
        for plan in [report["chosen"]["predicted"], *(row["predicted"] for row in report["candidates"] if "predicted" in row)]:
            low, high = plan["interval"]["step_seconds"]
            self.assertLess(low, high)
            self.assertNotIn("memory_bytes", plan["interval"])
        self.assertTrue(0 < report["chosen"]["chance_of_fastest"] <= 1)

    def test_memory_of_other_software_has_an_interval_and_a_verdict(self):
        with e2e.scratch() as folder:
            interval = self.report(folder, "--for=megatron", "--strategy=dp=8")["chosen"]["predicted"]["interval"]
        low, high = interval["memory_bytes"]
        self.assertLess(low, high)
        self.assertEqual(interval["memory_verdict"], "fits")

    def test_a_robust_plan_is_not_slower_at_the_upper_end(self):
        with e2e.scratch() as folder:
            upper = [self.report(folder, f"--objective={objective}", "--for=megatron")["chosen"]["predicted"]["interval"]["step_seconds"][1]
                     for objective in ("throughput", "robust")]
        self.assertLessEqual(upper[1], upper[0] * (1 + 1e-9))

    def test_a_folder_without_errors_is_named(self):
        with e2e.scratch() as folder:
            os.environ["DPC_MEASURED_DIR"] = folder
            try:
                remarks = " ".join(self.report(folder)["remarks"])
            finally:
                del os.environ["DPC_MEASURED_DIR"]
        self.assertIn("predictions have no intervals: unknown measured errors 'runs'", remarks)


class Job(unittest.TestCase):
    def plan(self, folder, *more, **checks):
        emit = [] if any(word.startswith("--emit") for word in more) else ["--emit=report"]
        done = e2e.call([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), "--global-batch=16", *emit, "--verify=off", *more, "-o", f"{folder}/plan"])
        self.assertEqual(done.returncode, checks.get("code", 0), done.stderr)
        return (e2e.read_report(f"{folder}/plan"), " ".join(done.stdout.split())) if done.returncode == 0 else done.stderr

    def test_time_price_and_energy(self):
        with e2e.scratch() as folder:
            report, text = self.plan(folder, f"--cluster={cluster_file('dgx-h100-1')}", "--tokens=1B", "--price=2.5")
        job, step = report["job"], report["chosen"]["predicted"]
        self.assertEqual(job["steps"], math.ceil(1e9 / report["step"]["tokens"]))
        self.assertAlmostEqual(job["step_seconds"] / (job["steps"] * step["step_seconds"]), 1, delta=1e-9)
        self.assertAlmostEqual(job["goodput"], job["step_seconds"] / job["seconds"], delta=1e-12)
        self.assertAlmostEqual(job["price"], 2.5 * 8 * job["seconds"] / 3600, delta=1e-6 * job["price"])
        self.assertAlmostEqual(job["joules_at_most"], 700 * 8 * job["seconds"], delta=1e-6 * job["joules_at_most"])
        for of_job, of_step in zip(job["seconds_interval"], step["interval"]["step_seconds"]):
            self.assertAlmostEqual(of_job / job["seconds"], of_step / step["step_seconds"], delta=1e-9)
        self.assertIn("job of 1B tokens: ", text)

    def test_clusters_are_compared(self):
        files = [cluster_file("dgx-h100-1"), cluster_file("p3-16xlarge-8")]
        with e2e.scratch() as folder:
            report, text = self.plan(folder, f"--cluster={','.join(files)}", "--precision=fp32", "--tokens=1B", "--price=2.5,1")
            alone, _ = self.plan(folder, f"--cluster={files[1]}", "--precision=fp32", "--tokens=1B", "--price=1")
        first, second = report["clusters"]
        self.assertEqual([first["cluster"], second["cluster"]], files)
        self.assertEqual(first["strategy"], report["chosen"]["strategy"])
        self.assertEqual(first["job"], report["job"])
        self.assertAlmostEqual(second["step_seconds"] / alone["chosen"]["predicted"]["step_seconds"], 1, delta=0.01)
        self.assertAlmostEqual(second["job"]["price"] / alone["job"]["price"], 1, delta=0.01)
        self.assertIn("devices step tokens/s job device-hours price", text)

    def test_a_deadline_needs_the_fewest_nodes(self):
        device = e2e.read_json(os.path.join(e2e.SOURCE, "cost-model", "devices", "cpu-local.json"))
        with e2e.scratch() as folder:
            path = os.path.join(folder, "cluster.json")

            def ask(nodes, *more):
                e2e.write_json(path, {"version": 1, "groups": [{"nodes": nodes, "devices_per_node": 1, "device": device}],
                                      "levels": [{"name": "wire", "span": "cluster", "gigabytes_per_second": 100, "latency_microseconds": 1, "kind": "switch"}]})
                return self.plan(folder, f"--cluster={path}", "--tokens=10M", *more)[0]
            seconds = {nodes: ask(nodes)["job"]["seconds"] for nodes in (1, 2, 3, 4)}
            self.assertLess(seconds[3], seconds[2])
            for given in (2, 4):  # fewer nodes than needed, and more
                answer = ask(given, f"--deadline={math.sqrt(seconds[2] * seconds[3])}s")["deadline"]
                self.assertEqual((answer["nodes"], answer["devices"]), (3, 3))
                self.assertAlmostEqual(answer["job"]["seconds"] / seconds[3], 1, delta=0.01)
            self.assertIn("no plan on up to 32 nodes is fast enough", ask(2, "--deadline=1s")["deadline"]["why"])
            self.assertIn("no plan on one node is fast enough", ask(1, "--deadline=1s")["deadline"]["why"])

    def test_bad_words(self):
        cluster = cluster_file("dgx-h100-1")
        for words, message in (
            (["--tokens=many"], "--tokens: 'many' is not an amount above 0, such as 15T, 300B or 1e9"),
            (["--tokens=1B", "--deadline=30"], "--deadline: '30' is not a duration such as 90s, 10m, 12h or 30d"),
            (["--price=2"], "--price needs --tokens"),
            (["--deadline=3d"], "--deadline needs --tokens"),
            (["--mtbf=3d"], "--mtbf needs --tokens"),
            (["--tokens=1B", "--price=1,2"], "--price has 2 values, and --cluster has 1"),
            (["--tokens=1B", "--emit=mlir"], "--tokens is for the report"),
            ([f"--cluster={cluster}"], f"--cluster={cluster} is given twice"),
            (["--cluster=no.json"], "no.json: cannot be read"),
        ):
            with self.subTest(words=words), e2e.scratch() as folder:
                self.assertIn(message, self.plan(folder, f"--cluster={cluster}", *words, code=1))


if __name__ == "__main__":
    unittest.main(verbosity=2)
