#!/usr/bin/env python3
"""For bad input, dpc-opt prints one clear line to stderr, exits with 1 and leaves existing files unchanged, byte for
byte.

With DPC_E2E_SHOW set, the messages are printed for reading.
"""
import json
import os
import random
import re
import shutil
import subprocess
import time
import unittest

import e2e

LONG = bool(os.environ.get("DPC_TEST_LONG"))
GPT2, MLP = e2e.model("gpt2-tiny"), e2e.model("mlp")
BATCHES = os.path.join(e2e.MODELS, "mlp", "batches")

CLUSTER = {"version": 1, "name": "one node", "groups": [{"nodes": 1, "devices_per_node": 2, "device": "cpu-local"}],
           "levels": [{"name": "bus", "span": "node", "gigabytes_per_second": 10, "latency_microseconds": 1, "kind": "switch",
                       "in_network_reduction": False}],
           "host": {"memory_gibibytes": 8, "pcie_gigabytes_per_second": 10, "nvme_gigabytes_per_second": 1}}

# Internal words, which messages must not contain.
INTERNALS = re.compile(r"loc\(|\b(mlir|llvm|std|nlohmann|json\.exception)\b(::|\.)|assert|terminate|internal|pipeline|\d{20}", re.IGNORECASE)


def snapshot(folder):
    """Returns every folder below `folder`, and every file with its bytes, time and mode."""
    found = {}
    for path, _, files in os.walk(folder):
        found[os.path.relpath(path, folder)] = None
        for file in files:
            full = os.path.join(path, file)
            status = os.stat(full)
            with open(full, "rb") as data:
                found[os.path.relpath(full, folder)] = (data.read(), status.st_mtime_ns, status.st_mode)
    return found


class Refusal(e2e.ScratchTest):
    """Each case is a command and the parts that its one line must contain."""

    def write(self, name, data):
        with open(self.path(name), "wb" if isinstance(data, bytes) else "w") as file:
            file.write(data)
        return self.path(name)

    def refused(self, words, *mentions, processes_may_add=False):
        """Expects exit status 1 and one line with all of `mentions`. A launcher adds its own lines: `processes_may_add`."""
        done = e2e.call(words)
        lines = done.stderr.splitlines()
        if processes_may_add:
            lines = [line for line in lines if "error:" in line]
        if os.environ.get("DPC_E2E_SHOW"):
            print("   ", done.stderr.rstrip())
        shown = f"{' '.join(map(str, words))}: exit {done.returncode}, stderr:\n{done.stderr}\nstdout:\n{done.stdout}"
        self.assertEqual(done.returncode, 1, shown)
        self.assertEqual(len(lines), 1, shown)
        self.assertNotRegex(lines[0], INTERNALS)
        self.assertRegex(lines[0], r"^dpc-(opt|run): error: ")
        for mention in mentions:
            self.assertIn(str(mention), lines[0])


class BadCompilation(Refusal):
    """Inputs that dpc-opt refuses; an older plan in the output folder survives, but not as plan.json."""

    @classmethod
    def setUpClass(cls):
        scratch = e2e.scratch()
        cls.kept = scratch.__enter__()
        cls.addClassCleanup(scratch.__exit__, None, None, None)
        e2e.must([e2e.tool("dpc-opt"), MLP, "--cluster=local:2", "--global-batch=8", "--strategy=dp=2", "--verify=off", "-o", f"{cls.kept}/plan"])
        cls.before = snapshot(cls.kept)

    def compile(self, model, *mentions, words=(), cluster="local:2", batch=8):
        self.refused([e2e.tool("dpc-opt"), model, f"--cluster={cluster}", *([f"--global-batch={batch}"] if batch else []), "-o",
                      f"{self.kept}/plan", *words], *mentions)
        previous = f"{self.kept}/plan/plan.json.previous"
        if os.path.exists(previous):  # the command would write a plan
            self.assertFalse(os.path.exists(f"{self.kept}/plan/plan.json"))
            os.rename(previous, f"{self.kept}/plan/plan.json")
        self.assertEqual(snapshot(self.kept), self.before, "the older plan changed")

    def fixture(self, name):
        return os.path.join(e2e.ONNX, name + ".onnx")

    # Models.

    def test_truncated_model(self):
        with open(GPT2, "rb") as file:
            data = file.read()
        for size in (0, 1, 100, len(data) // 2, len(data) - 1):
            with self.subTest(size=size):
                self.compile(self.write("cut.onnx", data[:size]), "cut.onnx")

    def test_garbage_model(self):
        self.compile(self.write("noise.onnx", random.Random(0).randbytes(4096)), "noise.onnx", "ONNX")
        self.compile(self.write("text.onnx", "hello\n"), "text.onnx", "ONNX")

    def test_damaged_pt2(self):
        with open(MLP.replace(".onnx", ".pt2"), "rb") as file:
            data = file.read()
        for size in (0, 1, 100, len(data) // 2, len(data) - 1):
            with self.subTest(size=size):
                self.compile(self.write("cut.pt2", data[:size]), "cut.pt2")
        self.compile(self.write("noise.pt2", random.Random(0).randbytes(4096)), "noise.pt2", "torch.export.save")
        self.compile(self.write("text.pt2", "hello\n"), "text.pt2", "torch.export.save")
        other = data.replace(b'"major": 8', b'"major": 9')
        self.compile(self.write("other.pt2", other), "other.pt2")

    def test_missing_model(self):
        self.compile(self.path("none.onnx"), "none.onnx", "No such file")
        self.compile(self.path("none.pt2"), "none.pt2", "No such file")

    def test_unknown_kind_of_model(self):
        self.compile(self.write("model.pb", b""), "model.pb", ".onnx")

    def test_unknown_operator(self):
        self.compile(self.fixture("unknown-op"), "unknown-op.onnx", "frob", "Frobnicate")

    def test_unbound_dimension(self):
        self.compile(self.fixture("two-symbols"), "two-symbols.onnx", "'seq'", "--bind=seq=N")

    def test_unknown_dimension(self):
        self.compile(self.fixture("two-symbols"), "'sek'", "'seq'", words=["--bind=sek=3"])

    def test_missing_global_batch(self):
        self.compile(MLP, "model.onnx", "--global-batch", batch=None)

    def test_if_on_data(self):
        self.compile(self.fixture("if-on-data"), "if-on-data.onnx", "choice", "If", "'c'")

    def test_shape_that_depends_on_data(self):
        self.compile(self.fixture("nonzero"), "nonzero.onnx", "NonZero", "shape depends on data")

    def test_training_without_loss(self):
        self.compile(self.fixture("linear"), "--train=adamw", "loss", words=["--train=adamw"])

    # Clusters.

    def cluster(self, *mentions, **changes):
        """Compiles for CLUSTER with `changes`: dotted paths to values, or to None for a missing field."""
        data = json.loads(json.dumps(CLUSTER))
        for path, value in changes.items():
            *steps, last = path.split("__")
            place = data
            for step in steps:
                place = place[int(step) if step.isdigit() else step]
            if value is None:
                del place[last]
            else:
                place[last] = value
        self.compile(MLP, "cluster.json", *mentions, cluster=self.write("cluster.json", json.dumps(data)))

    def test_good_cluster(self):
        """The valid input is accepted, so the other cases fail only because of their change."""
        e2e.must([e2e.tool("dpc-opt"), MLP, "--cluster=" + self.write("cluster.json", json.dumps(CLUSTER)), "--global-batch=8",
                  "--verify=off", "-o", self.path("plan")])

    def test_cluster_with_missing_field(self):
        for field in ("version", "groups", "levels"):
            with self.subTest(field=field):
                self.cluster(field, "missing", **{field: None})
        for group, fields in (("groups", ("nodes", "devices_per_node", "device")),
                              ("levels", ("name", "span", "gigabytes_per_second", "latency_microseconds"))):
            for field in fields:
                with self.subTest(field=field):
                    self.cluster(group, field, "missing", **{f"{group}__0__{field}": None})

    def test_cluster_with_negative_field(self):
        for path in ("groups__0__nodes", "groups__0__devices_per_node", "levels__0__gigabytes_per_second",
                     "levels__0__latency_microseconds", "host__memory_gibibytes"):
            with self.subTest(path=path):
                self.cluster(path.split("__")[-1], "-3", **{path: -3})

    def test_cluster_with_wrong_type(self):
        self.cluster("nodes", '"many"', **{"groups__0__nodes": "many"})
        self.cluster("levels", "3", levels=3)
        self.cluster("gigabytes_per_second", "true", **{"levels__0__gigabytes_per_second": True})

    def test_cluster_with_two_levels_of_a_name(self):
        self.cluster("levels[1].name", "a second time", levels=[dict(level, name="wire") for level in CLUSTER["levels"] * 2])

    def test_cluster_with_unknown_names(self):
        self.cluster("warp-drive", **{"groups__0__device": "warp-drive"})
        self.cluster("galaxy", **{"levels__0__span": "galaxy"})
        self.cluster("version", "7", version=7)

    def test_cluster_that_is_not_json(self):
        self.compile(MLP, "cluster.json", "JSON", cluster=self.write("cluster.json", '{"version": 1,'))
        self.compile(MLP, "cluster.json", cluster=self.write("cluster.json", "[1, 2]"))
        self.compile(MLP, "none.json", cluster=self.path("none.json"))

    def test_cluster_word(self):
        for word in ("local:0", "local:-1", "local:two", "local:"):
            with self.subTest(word=word):
                self.compile(MLP, word, cluster=word)

    # Strategies and options.

    def test_strategy_of_another_number_of_ranks(self):
        self.compile(MLP, "dp=3", "2", words=["--strategy=dp=3"])
        self.compile(MLP, "dp=2,tp=2", "= 2,", words=["--strategy=dp=2,tp=2"])

    def test_strategy_words(self):
        for word, mention in (("xp=2", "xp"), ("dp=two", "two"), ("dp=0", "dp=0"), ("dp=-2", "-2"), ("dp", "dp"), ("dp=2,sp=maybe", "maybe"),
                              ("dp=2,dp=1", "dp"), ("zero=4", "4"), ("schedule=zigzag", "zigzag"), ("", ""), ("dp=2,placement=", "it names nothing")):
            with self.subTest(word=word):
                self.compile(MLP, "strategy", mention, words=[f"--strategy={word}"])

    def test_more_micro_batches_than_a_schedule_holds(self):
        self.compile(MLP, "micro_batch=1", "62500000 micro-batches", "at most 65536", "micro_batch=954", batch=125000000,
                     words=["--strategy=dp=2,micro_batch=1"])

    def test_options(self):
        for word, mention in (("--train=adam", "adam"), ("--lr=fast", "fast"), ("--precision=fp12", "fp12"), ("--objective=fame", "fame"),
                              ("--micro-batch=0", "0"), ("--emit=poem", "poem"), ("--verify=maybe", "maybe"), ("--frobnicate", "--frobnicate"),
                              ("--target-cpu=abacus", "abacus"), ("--init=randomly", "--init=randomly: expected random:SEED"), ("--lr-schedule=cosine,warmup=x", "warmup"),
                              ("--lr-schedule=cosine,total=9,min=1", "min=1"),
                              ("--loss=l1", "l1"), ("--bind=seq", "seq"), ("--frozen=nothing.*", "nothing.*")):
            with self.subTest(word=word):
                self.compile(MLP, mention, words=[word, "--verify=off"] if "verify" not in word else [word])

    def test_nothing_to_train(self):
        self.compile(MLP, "nothing to train: all parameters are frozen, by --frozen or by requires_grad=False in the model", words=["--frozen=*"])

    def test_a_buffer_is_not_frozen(self):
        changes = os.path.join(e2e.SOURCE, "test", "fixtures", "torch", "changes.pt2")
        self.compile(changes, "--frozen=norm.running_*: matches only buffers of ", "which are never trained", words=["--frozen=norm.running_*,first.*"])

    def test_a_constant_loss_scale_that_overflows(self):
        self.compile(MLP, "verification failed: --loss-scale=1e+30: gradients overflow", "a smaller scale or dynamic is accepted",
                     words=["--precision=fp16", "--loss-scale=1e30", "--strategy=dp=2"])

    def test_optimizer_options(self):
        for name in ("lr", "beta1", "beta2", "eps", "weight-decay", "clip-grad-norm"):
            for value in ("-3", "nan", "inf"):
                with self.subTest(name=name, value=value):
                    self.compile(MLP, f"--{name}", value, "at least 0" if name != "eps" else "above 0", words=[f"--{name}={value}"])
        self.compile(MLP, "--beta2", "below 1", words=["--beta2=1"])
        self.compile(MLP, "--eps", "above 0", words=["--eps=0"])
        self.compile(MLP, "--momentum", "-1", words=["--train=sgd", "--momentum=-1"])
        self.compile(MLP, "--momentum", "--train=sgd", words=["--train=adamw", "--momentum=0.9"])
        self.compile(MLP, "--beta1", "--train=adamw", words=["--train=sgd", "--beta1=0.9"])

    def test_loss_scale(self):
        for value in ("0", "-2", "static", "dynamic,init=0", "dynamic,grow=2", "1024,interval=3", "inf"):
            with self.subTest(value=value):
                self.compile(MLP, f"--loss-scale={value}", "dynamic[,init=N,interval=N]",
                             words=["--precision=fp16", f"--loss-scale={value}"])
        self.compile(MLP, "--loss-scale=dynamic", "fp32", "--loss-scale=1", words=["--loss-scale=dynamic"])
        self.compile(MLP, "--compress-gradients=topk", "--loss-scale",
                     words=["--loss-scale=1", "--strategy=dp=2", "--compress-gradients=topk:0.25", "--verify=off"])

    def test_words_that_contradict(self):
        self.compile(MLP, "--device-file=none.json", "local:N", cluster=self.write("cluster.json", json.dumps(CLUSTER)),
                     words=["--device-file=none.json"])
        self.compile(MLP, "--micro-batch=2", "micro_batch=4", words=["--micro-batch=2", "--strategy=dp=2,micro_batch=4"])
        self.compile(self.fixture("two-symbols"), "seq", "twice", words=["--bind=seq=2,seq=3"])

    def test_name_that_is_not_utf8(self):
        with open(MLP, "rb") as file:
            data = file.read()
        self.assertIn(b"l1.bias", data)
        self.compile(self.write("latin.onnx", data.replace(b"l1.bias", b"l1.bi\xffs")), "latin.onnx", "l1.bi?s", "UTF-8")

    def test_error_in_ir_has_its_place(self):
        self.compile(self.write("bad.mlir", "module {\n  dpc.nosuch\n}\n"), "bad.mlir:2:3", "dpc.nosuch")

    def test_bad_global_batch(self):
        for batch in ("0", "-8", "eight", "1.5", "99999999999999"):
            with self.subTest(batch=batch):
                self.compile(MLP, "--global-batch", batch, batch=batch)

    # Output.

    def test_output_that_is_no_plan(self):
        os.mkdir(self.path("thesis"))
        self.write("thesis/chapter1.txt", "precious")
        self.write("file", "precious")
        before = snapshot(self.folder)
        for name in ("thesis", "file"):
            with self.subTest(name=name):
                self.refused([e2e.tool("dpc-opt"), MLP, "--cluster=local:1", "--global-batch=8", "-o", self.path(name)], name, "not a plan folder")
                self.assertEqual(snapshot(self.folder), before)

    def test_output_with_files_of_others(self):
        shutil.copytree(f"{self.kept}/plan", self.path("plan"))
        self.write("plan/trained.safetensors", "precious")
        before = snapshot(self.folder)
        self.refused([e2e.tool("dpc-opt"), MLP, "--cluster=local:1", "--global-batch=8", "-o", self.path("plan")], "trained.safetensors",
                     "the plan of an earlier compile is now ")
        self.refused([e2e.tool("dpc-run"), self.path("plan"), "--steps=1"], "the last dpc-opt into this folder has failed or still runs")
        os.rename(self.path("plan", "plan.json.previous"), self.path("plan", "plan.json"))
        self.assertEqual(snapshot(self.folder), before, "only plan.json may be set aside")

    def test_a_failed_compile_leaves_no_plan_that_runs(self):
        plan, previous = self.path("plan"), self.path("plan", "plan.json.previous")
        shutil.copytree(f"{self.kept}/plan", plan)
        run, words = [e2e.tool("dpc-run"), plan, "--steps=1", "--init=random:1"], [e2e.tool("dpc-opt"), MLP, "--cluster=local:2", "-o", plan]
        for wrong in (["--global-batch=eight"], ["--gloabl-batch=8"], ["--train="], ["--global-batch=8", "--strategy=@none.json"]):
            with self.subTest(wrong=wrong):
                self.refused([*words, *wrong], "the plan of an earlier compile is now " + previous)
                self.refused(run, "the last dpc-opt into this folder has failed or still runs")
                os.rename(previous, self.path("plan", "plan.json"))
        self.refused([*words, "--global-batch=eight", "--emit=report"], "eight")
        e2e.must(run)  # a command that writes no plan leaves the plan
        for _ in range(2):  # the second failure keeps what the first one set aside
            self.refused([*words, "--global-batch=8", "--strategy=dp=3"], "dp=3")
            self.refused(run, "the last dpc-opt into this folder has failed or still runs", f"mv {previous} {plan}/plan.json")
        self.refused([*words, "--global-batch=8", "--emit=report"], "holds a plan")
        os.rename(previous, self.path("plan", "plan.json"))
        e2e.must(run)
        self.refused([*words, "--global-batch=8", "--strategy=dp=3"], "the plan of an earlier compile is now " + previous)
        e2e.must([*words, "--global-batch=8", "--strategy=dp=2", "--verify=off"])
        e2e.must(run)
        self.assertFalse(os.path.exists(previous))

    def test_a_killed_compile_leaves_no_plan_that_runs(self):
        plan, previous = self.path("plan"), self.path("plan", "plan.json.previous")
        shutil.copytree(f"{self.kept}/plan", plan)
        model = self.path("pipe.onnx")
        os.mkfifo(model)  # dpc-opt waits for its contents
        child = subprocess.Popen([e2e.tool("dpc-opt"), model, "--cluster=local:2", "--global-batch=8", "-o", plan], stderr=subprocess.DEVNULL)
        while not os.path.exists(previous) and child.poll() is None:
            time.sleep(0.01)
        child.kill()
        child.wait()
        self.refused([e2e.tool("dpc-run"), plan, "--steps=1"], "the last dpc-opt into this folder has failed or still runs")

    def test_report_onto_a_plan(self):
        self.compile(MLP, "holds a plan", words=["--emit=report"])

    def test_output_that_cannot_be_made(self):
        self.refused([e2e.tool("dpc-opt"), MLP, "--cluster=local:1", "--global-batch=8", "-o", "/dev/null/plan"], "/dev/null/plan")


if __name__ == "__main__":
    unittest.main(verbosity=2)
