#!/usr/bin/env python3
"""For bad plans, weights, data and options, dpc-run prints one clear line to stderr, exits with 1 and leaves existing files
unchanged, byte for byte.

With DPC_E2E_SHOW set, the messages are printed for reading.
"""
import json
import os
import random
import re
import shutil
import socket
import subprocess
import unittest
import unittest.mock

import bad_input
import e2e


class BadRun(bad_input.Refusal):
    """Inputs that dpc-run refuses."""

    @classmethod
    def setUpClass(cls):
        scratch = e2e.scratch()
        cls.made = scratch.__enter__()
        cls.addClassCleanup(scratch.__exit__, None, None, None)
        for ranks in (1, 2):
            e2e.must([e2e.tool("dpc-opt"), bad_input.MLP, f"--cluster=local:{ranks}", "--global-batch=8", f"--strategy=dp={ranks}", "--verify=off",
                      "-o", f"{cls.made}/{ranks}"])

    def setUp(self):
        super().setUp()
        shutil.copytree(f"{self.made}/2", self.path("plan"))
        shutil.copytree(bad_input.BATCHES, self.path("batches"))

    def run_plan(self, *mentions, words=(), batches=True):
        before = bad_input.snapshot(self.folder)
        self.refused([e2e.tool("dpc-run"), self.path("plan"), "--steps=1", *([f"--batches={self.path('batches')}"] if batches else []), *words],
                     *mentions)
        self.assertEqual(bad_input.snapshot(self.folder), before)

    def edit(self, change):
        """Changes the text of plan.json."""
        with open(self.path("plan", "plan.json")) as file:
            text = file.read()
        changed = change(text)
        self.assertNotEqual(changed, text)
        with open(self.path("plan", "plan.json"), "w") as file:
            file.write(changed)

    def test_good_run(self):
        """The valid input is accepted, so the other cases fail only because of their change."""
        e2e.must([e2e.tool("dpc-run"), self.path("plan"), "--steps=1", f"--batches={self.path('batches')}"])

    # Launchers.

    def processes(self, *changes):
        """stderr lines of two processes, as torchrun starts them; `changes` are the variables of each."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        started = []
        for rank, change in enumerate(changes):
            variables = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                         "MASTER_PORT": str(port), "DPC_JOB_TOKEN": "sesame", **change}
            started.append(subprocess.Popen([e2e.tool("dpc-run"), self.path("plan"), "--steps=1", "--timeout-seconds=5", f"--batches={self.path('batches')}"],
                                            env={**e2e.environment(), **variables}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
        lines = [process.communicate(timeout=e2e.TIMEOUT_SECONDS)[1].splitlines() for process in started]
        self.assertEqual([process.returncode for process in started], [1] * len(changes), lines)
        return lines

    def test_another_token_in_one_process(self):
        first, second = self.processes({}, {"DPC_JOB_TOKEN": "other"})
        self.assertIn("warning: a process from 127.0.0.1 gave another DPC_JOB_TOKEN", first[0])
        self.assertRegex(first[-1], r"error: rank 0 on \S+ waited 5 s in all_gather for rank 1")
        self.assertEqual(len(second), 1, second)
        self.assertRegex(second[0], r"error: rank 1 on \S+: .* has another DPC_JOB_TOKEN")

    def test_another_world_size_in_one_process(self):
        first, second = self.processes({}, {"WORLD_SIZE": "3"})
        self.assertIn("is rank 1 of a job of 3 ranks, not 2", first[0])
        self.assertEqual(len(second), 1, second)
        self.assertRegex(second[0], r"error: rank 1 on \S+: .* not rank 0 of this job of 3 ranks")
        _, second = self.processes({}, {"WORLD_SIZE": "1"})
        self.assertEqual(len(second), 1, second)
        self.assertRegex(second[0], r"error: rank 1 on \S+: RANK=1 must be less than WORLD_SIZE=1")

    # plan.json.

    def test_folder_without_plan(self):
        self.refused([e2e.tool("dpc-run"), self.path("nothing")], "nothing")
        os.remove(self.path("plan", "plan.json"))
        self.run_plan("plan.json", "No such file")

    def test_plan_of_another_version(self):
        version = e2e.read_plan(self.path("plan"))["version"]
        self.edit(lambda text: text.replace(f'"version": {version}', '"version": 1', 1))
        self.run_plan("plan.json", "version 1", f"reads {version}")

    def test_truncated_plan(self):
        self.edit(lambda text: text[:len(text) // 2])
        self.run_plan("plan.json", "JSON")

    def test_empty_plan(self):
        self.edit(lambda text: "")
        self.run_plan("plan.json", "JSON")
        self.edit(lambda text: "[]")
        self.run_plan("plan.json", "not a plan")

    def test_plan_with_one_number_changed(self):
        """Changes any number: a sample of them, or all with --long."""
        with open(self.path("plan", "plan.json")) as file:
            text = file.read()
        for match in self.numbers(text, 60):
            value = json.loads(match[0])
            with self.subTest(line=text[:match.start()].count("\n") + 1, value=value):
                self.rewrite(text[:match.start()] + json.dumps(value + 1) + text[match.end():])
                self.refused([e2e.tool("dpc-run"), self.path("plan"), "--steps=1"], "plan.json", "version" if match.start() < 20 else "changed")

    def numbers(self, text, count):
        """Returns matches of `count` numbers of a plan, or all with --long, except those within strings."""
        found = [match for match in re.finditer(r"(?<![\w.\"-])-?\d+(?:\.\d+)?(?![\w.\"])", text)
                 if text.count('"', 0, match.start()) % 2 == 0]
        self.assertGreater(len(found), 200)
        return found if bad_input.LONG else random.Random(1).sample(found, count)

    def rewrite(self, text):
        with open(self.path("plan", "plan.json"), "w") as file:
            file.write(text)

    def test_plan_with_one_number_changed_and_its_checksum(self):
        """Tests the checks behind the checksum: such a plan is refused in one line or runs, but neither crashes nor
        hangs.

        Operands of kernels are excluded: their sizes are compiled into kernels.so, and its hash protects them. So is
        the number of matrices of a GEMM: with strides of 0 the plan computes the same GEMM 2^50 times, which is valid
        but slow.
        """
        with open(self.path("plan", "plan.json")) as file:
            text = file.read()
        run = [e2e.tool("dpc-run"), self.path("plan"), "--steps=1", "--timeout-seconds=5"]
        refused = 0
        for match in self.numbers(text, 60):
            value = json.loads(match[0])
            line = text[text.rfind("\n", 0, match.start()):text.find("\n", match.end())]
            if '"op":"kernel"' in line or re.search('"batch2?": *$', text[:match.start()][-12:]):
                continue
            for other in (value + 1, -value - 1, value + 2**50):
                with self.subTest(line=text[:match.start()].count("\n") + 1, value=value, other=other):
                    changed = text[:match.start()] + json.dumps(other) + text[match.end():]
                    self.rewrite(changed)
                    checksum = re.search("contents have checksum ([0-9a-f]{16})", e2e.call(run).stderr)
                    if checksum:
                        self.rewrite(re.sub('"checksum": *"[0-9a-f]*"', f'"checksum": "{checksum[1]}"', changed))
                    done = e2e.call(run)
                    self.assertIn(done.returncode, (0, 1), done.stderr)
                    self.assertEqual(len(done.stderr.splitlines()), done.returncode, done.stderr)
                    refused += done.returncode
                    if os.environ.get("DPC_E2E_SHOW"):
                        print("   ", line.strip()[:60], value, "->", other, done.stderr.rstrip() or "runs")
        self.assertGreater(refused, 60)

    def test_plan_with_one_word_changed(self):
        self.edit(lambda text: text.replace('"all_reduce"', '"all_reduced"', 1))
        self.run_plan("plan.json", "changed")

    # Files that a plan needs.

    def test_missing_kernels(self):
        os.remove(self.path("plan", "kernels", "kernels.so"))
        self.run_plan("kernels.so")

    def test_other_kernels(self):
        with open(self.path("plan", "kernels", "kernels.so"), "ab") as file:
            file.write(b"\0")
        self.run_plan("kernels.so")
        shutil.copy(f"{self.made}/1/kernels/kernels.so", self.path("plan", "kernels", "kernels.so"))
        self.run_plan("kernels.so")

    def external_plan(self):
        """A plan of a model whose weights are in weights.bin."""
        model, data = self.path("abstract.onnx"), self.path("weights.bin")
        shutil.copy(os.path.join(e2e.ONNX, "abstract.onnx"), model)
        with open(data, "wb") as file:
            file.write(bytes(4 * (6 * 4 + 4)))
        e2e.must([e2e.tool("dpc-opt"), model, "--cluster=local:2", "--global-batch=8", "--verify=off", "-o", self.path("external")])
        run = [e2e.tool("dpc-run"), self.path("external")]
        e2e.must(run)
        return run, data

    def test_missing_weights(self):
        run, data = self.external_plan()
        os.remove(data)
        self.refused(run, "weights.bin", "No such file")

    def test_truncated_weights(self):
        run, data = self.external_plan()
        os.truncate(data, 50)
        self.refused(run, "weights.bin", "50")

    def test_changed_weights(self):
        run, data = self.external_plan()
        self.change_byte(data, 50)
        for words in ([], ["--init=zeros"]):
            with self.subTest(words=words):
                self.refused([*run, *words], "weights.bin", f"changed since the plan '{self.path('external')}'", "112 bytes", "dpc-opt")
        self.change_byte(data, 50)
        e2e.must(run)
        os.utime(data, (1, 1))  # the time does not matter
        e2e.must(run)

    def test_changed_model(self):
        """The weights are inside the model file; the other model has the same size."""
        for kind in ("onnx", "pt2"):
            with self.subTest(kind=kind):
                model, plan = self.path(f"model.{kind}"), self.path(kind)
                shutil.copy(os.path.join(e2e.MODELS, "mlp", f"model.{kind}"), model)
                e2e.must([e2e.tool("dpc-opt"), model, "--cluster=local:2", "--global-batch=8", "-o", plan])
                named = {file["file"] for file in e2e.read_plan(plan)["source_files"]}
                self.assertIn(os.path.realpath(model), {os.path.realpath(os.path.join(plan, file)) for file in named})
                run, saved = [e2e.tool("dpc-run"), plan, "--steps=1"], self.path(f"{kind}.safetensors")
                ran = e2e.call([*run, f"--save-params={saved}"])
                self.assertEqual((ran.returncode, ran.stderr), (0, ""))
                self.change_byte(model, self.offset_of_weights(plan, model))
                self.refused(run, f"model.{kind}", "changed since the plan", str(os.path.getsize(model)))
                # All values come from another file, but the program may have changed.
                ran = e2e.call([*run, f"--init={saved}"])
                self.assertEqual(ran.returncode, 0, ran.stderr)
                self.assertIn("dpc-run: warning: ", ran.stderr)
                self.assertIn("; the run takes no value from it, but its program may have changed as well: then compile again\n", ran.stderr)

    def test_changed_init_file(self):
        plan, saved = self.path("initialized"), self.path("saved.safetensors")
        e2e.must([e2e.tool("dpc-run"), self.path("plan"), "--steps=1", f"--save-params={saved}"])
        e2e.must([e2e.tool("dpc-opt"), bad_input.MLP, "--cluster=local:2", "--global-batch=8", f"--init={saved}", "-o", plan])
        run = [e2e.tool("dpc-run"), plan, "--steps=1"]
        e2e.must(run)
        self.change_byte(saved, self.offset_of_weights(plan, saved))
        self.refused(run, "saved.safetensors", "changed since the plan")
        # --init gives the values of all weights, so none is read at the place that the plan names.
        e2e.must([*run, f"--init={saved}"])

    @staticmethod
    def change_byte(path, offset):
        with open(path, "r+b") as file:
            file.seek(offset)
            old = file.read(1)[0]
            file.seek(offset)
            file.write(bytes([old ^ 1]))

    @staticmethod
    def offset_of_weights(plan, file):
        return next(tensor["source"]["offset"] for tensor in e2e.read_plan(plan)["tensors"]
                    if tensor["source"] and os.path.basename(tensor["source"]["file"]) == os.path.basename(file))

    def test_moved_plan(self):
        run, _ = self.external_plan()
        os.rename(self.path("external"), self.path("moved"))
        e2e.must([run[0], self.path("moved")])

    def test_data_that_comes_later(self):
        """A file that did not exist when the plan was compiled is not read: nothing tells whether it fits."""
        model, data = self.path("model.mlir"), self.path("late.bin")
        self.write("model.mlir", f"""func.func @forward(%w: tensor<4x4xf32> {{dpc.name = "w", dpc.role = "parameter",
            dpc.source = {{file = "{data}", offset = 0 : i64, bytes = 64 : i64, dtype = "f32"}}}},
            %x: tensor<8x4xf32> {{dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64}}) -> (tensor<8x4xf32> {{dpc.name = "y"}}) {{
          %y = dpc.matmul %x, %w : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
          return %y : tensor<8x4xf32>
        }}""")
        e2e.must([e2e.tool("dpc-opt"), model, "--cluster=local:1", "--infer", "-o", self.path("late")])
        self.assertIn("late.bin", "\n".join(e2e.read_report(self.path("late"))["remarks"]))
        self.write("late.bin", bytes(64))
        self.refused([e2e.tool("dpc-run"), self.path("late")], "'w'", "--init")
        e2e.must([e2e.tool("dpc-run"), self.path("late"), "--init=zeros"])

    def test_model_without_weights(self):
        e2e.must([e2e.tool("dpc-opt"), os.path.join(e2e.ONNX, "abstract.onnx"), "--cluster=local:2", "--global-batch=8", "--verify=off",
                  "-o", self.path("abstract")])
        self.refused([e2e.tool("dpc-run"), self.path("abstract")], "--init")

    # Data.

    def batch(self, name="x"):
        return self.path("batches", name + ".npy")

    def test_npy_of_another_shape(self):
        dtype, shape, values = e2e.read_npy(self.batch())
        for other in ((shape[0], shape[1] // 2, 2 * shape[2]), (shape[0] * shape[1], shape[2]), (shape[0] // 2, 2 * shape[1], shape[2])):
            with self.subTest(shape=other):
                e2e.write_npy(self.batch(), dtype, other, values)
                self.run_plan("x.npy", other[-1], shape[-1])

    def test_npy_of_another_type(self):
        dtype, shape, values = e2e.read_npy(self.batch())
        e2e.write_npy(self.batch(), "i8", shape, [int(v) for v in values])
        self.run_plan("x.npy", "i64", "f32")

    def test_missing_npy(self):
        os.remove(self.batch())
        self.run_plan("x.npy")
        self.run_plan("nowhere", words=[f"--batches={self.path('nowhere')}"], batches=False)

    def test_truncated_npy(self):
        for size in (0, 5, 60, os.path.getsize(self.batch()) - 1):
            with self.subTest(size=size):
                os.truncate(self.batch(), size)
                self.run_plan("x.npy")
                shutil.copy(os.path.join(bad_input.BATCHES, "x.npy"), self.batch())

    def test_npy_with_ids_out_of_range(self):
        dtype, shape, values = e2e.read_npy(self.batch("label"))
        values[0] = 1000000
        e2e.write_npy(self.batch("label"), dtype, shape, values)
        self.run_plan("label", "1000000")

    def test_npy_with_negative_ids(self):
        dtype, shape, values = e2e.read_npy(self.batch("label"))
        for value in (-1, -7):
            with self.subTest(value=value):
                values[3] = value
                e2e.write_npy(self.batch("label"), dtype, shape, values)
                self.run_plan("label.npy", f"element 3 of input 'label' is {value}, expected 0 to ")

    # Options and ranks.

    def test_options(self):
        for word, mention in (("--steps=0", "0"), ("--comm=pigeon", "pigeon"), ("--device=abacus", "abacus"), ("--init=randomly", "randomly"),
                              ("--frobnicate", "--frobnicate"), ("--device=cuda", "cuda"), ("--comm=nccl", "nccl"),
                              ("--metrics=/dev/null/m.jsonl", "/dev/null/m.jsonl"), ("--save-params=/dev/null/p", "/dev/null/p")):
            # No build runs on GPUs without its plugin, on any machine.
            with self.subTest(word=word), unittest.mock.patch.dict(os.environ, DPC_CUDA_PLUGIN="/nowhere.so"):
                self.refused([e2e.tool("dpc-run"), self.path("plan"), word], mention)

    def test_another_number_of_processes(self):
        launcher = e2e.mpirun(3)
        if not launcher:
            self.skipTest("no mpirun on this machine")
        self.refused(launcher + [e2e.tool("dpc-run"), self.path("plan"), "--comm=mpi"], "2 ranks", "3 processes", processes_may_add=True)

    def test_processes_that_run_different_things(self):
        if not e2e.mpirun(2):
            self.skipTest("no mpirun on this machine")
        other = self.path("other")
        e2e.must([e2e.tool("dpc-opt"), bad_input.MLP, "--cluster=local:2", "--global-batch=8", "--strategy=dp=2", "--lr=0.5", "--verify=off", "-o", other])
        shutil.copytree(self.path("batches"), self.path("others"))
        labels = self.path("others", os.listdir(self.path("others"))[0])
        with open(labels, "rb") as file:
            content = file.read()
        with open(labels, "wb") as file:  # the same arrays in another order
            file.write(content[:-64] + content[-32:] + content[-64:-32])
        def words(plan="plan", batches="batches", steps=2, *more):
            return [e2e.tool("dpc-run"), self.path(plan), "--batches=" + self.path(batches), f"--steps={steps}", "--comm=mpi", "--timeout-seconds=20", *more]

        for different, mention in ((words("other"), "rank 1: the hash of plan.json is "),
                                   (words(steps=3), "rank 1: --steps is 3, but on rank 0 it is 2; all processes need the same plan, data and options"),
                                   (words("plan", "batches", 2, "--on-nan=go-on"), "rank 1: --on-nan is go-on, but on rank 0 it is stop"),
                                   (words("plan", "batches", 2, "--init=zeros"), "rank 1: --init (or the hash of its file) is zeros, but on rank 0 it is not"),
                                   (words(batches="others"), "rank 1: the hash of the inputs is ")):
            with self.subTest(words=different):
                self.refused([*e2e.mpirun(1), *words(), ":", "-np", "1", *different], mention, processes_may_add=True)

    def test_no_processes(self):
        self.refused([e2e.tool("dpc-run"), self.path("plan"), "--comm=mpi"], "mpi")


if __name__ == "__main__":
    unittest.main(verbosity=2)
