#!/usr/bin/env python3
"""--metrics: JSON lines, TensorBoard's event files and Prometheus text agree about a run, also about a resumed run.

The test reads event files as the formats are documented: records of length, checksum, data and checksum (tensorflow's
lib/io/record_writer.h), CRC-32C (RFC 3720, B.4), protobuf's wire format, fields of event.proto and summary.proto.
"""
import json
import os
import struct
import subprocess
import sys
import unittest

import e2e
from loss_output import MLP, write_model

READ = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1]).Reload()
print(json.dumps({tag: [[event.step, event.value] for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}))
"""


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def records(data):
    """Yields the data of every record after checking its checksums."""
    at = 0
    while at < len(data):
        length, check = struct.unpack_from("<QI", data, at)
        assert check == masked(data[at:at + 8]), "checksum of a length"
        body = data[at + 12:at + 12 + length]
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked(body), "checksum of data"
        yield body
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7f) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """Yields (field, value) of a protobuf message; values of fixed size are bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(kind)
            if size is None:
                assert kind == 2, kind
                size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        yield key >> 3, value


def scalars(path):
    """Returns what TensorBoard shows of a file: by tag, [step, value]; and the steps at which a run restarts."""
    shown, starts, versions = {}, [], []
    with open(path, "rb") as file:
        for event in map(dict, map(fields, records(file.read()))):
            assert struct.unpack("<d", event[1])[0] > 1.7e9, "wall time"
            step = event.get(2, 0)
            if 3 in event:
                versions.append(event[3])
            if 7 in event:
                assert dict(fields(event[7])) == {1: 1}, "SessionLog.START"
                starts.append(step)
            for field, value in fields(event.get(5, b"")):
                value = dict(fields(value))
                shown.setdefault(value[1].decode(), []).append((step, struct.unpack("<f", value[2])[0]))
    assert versions == [b"brain.Event:2"]
    return shown, starts


def prometheus(path):
    """Returns values by name; each follows its help text and type."""
    values, types = {}, {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = line.split()
            if words[:2] == ["#", "TYPE"]:
                types[words[2]] = words[3]
            elif words[0] != "#":
                assert words[0] in types and len(words) == 2, line
                values[words[0]] = float(words[1])
    assert types.pop("dpc_steps_total") == "counter" and set(types.values()) == {"gauge"}
    return values


class Metrics(e2e.ScratchTest):
    def setUp(self):
        super().setUp()
        self.plan = f"{self.folder}/plan"
        e2e.must([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), "--cluster=local:2", "--global-batch=8", "--strategy=dp=2", "--clip-grad-norm=1",
                  "--verify=off", "-o", self.plan])

    def train(self, steps, *words):
        e2e.must([e2e.tool("dpc-run"), self.plan, f"--batches={e2e.MODELS}/gpt2-tiny/batches", f"--steps={steps}", f"--metrics={self.folder}/m.jsonl",
                  f"--metrics=tensorboard:{self.folder}/tb", f"--metrics=prometheus:{self.folder}/m.prom", f"--checkpoint={self.folder}/ck", *words])
        return e2e.read_metrics(f"{self.folder}/m.jsonl"), sorted(os.listdir(f"{self.folder}/tb"))

    def check(self, shown, rows):
        self.assertEqual(set(shown), {"loss", "grad_norm", "lr", "step_seconds", "tokens_per_second", "samples_per_second"})
        for tag, values in shown.items():
            self.assertEqual([step for step, _ in values], [row["step"] for row in rows])
            for (_, value), row in zip(values, rows):
                self.assertAlmostEqual(value / row[tag], 1, delta=1e-6)

    def test_all_say_the_same(self):
        rows, (first,) = self.train(3)
        self.assertEqual([row["step"] for row in rows], [1, 2, 3])
        self.assertRegex(first, r"^events\.out\.tfevents\.\d+")
        shown, starts = scalars(f"{self.folder}/tb/{first}")
        self.check(shown, rows)
        self.assertEqual(starts, [])
        values = prometheus(f"{self.folder}/m.prom")
        self.assertEqual(values.pop("dpc_steps_total"), 3)
        self.assertEqual(values, {f"dpc_{key}": value for key, value in rows[-1].items() if key != "step"})

        rows, files = self.train(5, "--resume")
        self.assertEqual((files[0], len(files)), (first, 2))
        shown, starts = scalars(f"{self.folder}/tb/{files[1]}")
        self.check(shown, rows[3:])
        self.assertEqual(starts, [4])
        self.assertEqual(prometheus(f"{self.folder}/m.prom")["dpc_steps_total"], 5)

    def test_places_that_cannot_be_written(self):
        for word in ("tensorboard:/dev/null/x", "prometheus:/dev/null/x", "jsonl:/dev/null/x"):
            done = e2e.call([e2e.tool("dpc-run"), self.plan, "--steps=1", f"--metrics={word}"])
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertRegex(done.stderr, r"^dpc-run: error: --metrics: /dev/null/x\b.*\n$")

    def test_only_results_of_an_earlier_run_are_replaced(self):
        other = self.path("notes.txt")
        for option in ("--metrics", "--metrics=prometheus:", "--save-params", "--trace"):
            with open(other, "w") as file:
                file.write("precious and rather long\n")
            word = option + other if option.endswith(":") else f"{option}={other}"
            done = e2e.call([e2e.tool("dpc-run"), self.plan, "--steps=1", word])
            name = option.split("=")[0]
            self.assertEqual((done.returncode, done.stderr), (1, f"dpc-run: error: {name}: {other} is no file of an earlier {name}, and the run would "
                                                                 "replace it; choose another path, or remove the file\n"))
            with open(other) as file:
                self.assertEqual(file.read(), "precious and rather long\n")
            for _ in range(2):
                e2e.must([e2e.tool("dpc-run"), self.plan, "--steps=1", word.replace(other, self.path("own" + name))])
            os.remove(self.path("own" + name))

    def test_a_full_disk_is_said_once(self):
        done = e2e.call([e2e.tool("dpc-run"), self.plan, "--steps=2", "--metrics=/dev/full"])
        self.assertEqual((done.returncode, done.stderr),
                         (0, "dpc-run: warning: --metrics: /dev/full cannot be written: No space left on device; the run continues\n"))

    @unittest.skipUnless(os.environ.get("DPC_TEST_LONG"), "long: installs tensorboard")
    def test_tensorboard_reads_it(self):
        self.train(3)
        rows, _ = self.train(5, "--resume")
        environment = f"{self.folder}/venv"
        e2e.must([sys.executable, "-m", "venv", environment])
        e2e.must([f"{environment}/bin/pip", "install", "--quiet", "--disable-pip-version-check", "tensorboard"])
        done = subprocess.run([f"{environment}/bin/python", "-c", READ, f"{self.folder}/tb"], capture_output=True, text=True, timeout=e2e.TIMEOUT_SECONDS)
        self.assertEqual(done.returncode, 0, done.stderr[-600:])
        self.check({tag: values for tag, values in json.loads(done.stdout).items()}, rows)


class Outputs(e2e.ScratchTest):
    """The model's outputs and the learning rate of every step."""

    def setUp(self):
        super().setUp()
        self.model, self.plan, self.metrics = f"{self.folder}/model.pt2", f"{self.folder}/plan", f"{self.folder}/m.jsonl"
        write_model(self.model, {"twice": "twice", "loss": "cross_entropy_loss", "sums": "sums", "logits": "linear_2"})

    def compile(self, *words, plan=None):
        e2e.must([e2e.tool("dpc-opt"), self.model, "--cluster=local:2", "--strategy=dp=2", "--global-batch=8", "--verify=off", "-o", plan or self.plan,
                  *words])

    def run_plan(self, *words):
        e2e.must([e2e.tool("dpc-run"), self.plan, f"--metrics={self.metrics}", *words])
        return e2e.read_metrics(self.metrics)

    def write_first_batch(self):
        """Writes the samples of the first batch; returns their folder."""
        data = f"{self.folder}/data"
        os.mkdir(data)
        for name in os.listdir(f"{MLP}/batches"):
            dtype, shape, values = e2e.read_npy(f"{MLP}/batches/{name}")
            e2e.write_npy(f"{data}/{name}", dtype, shape[1:], values[:len(values) // shape[0]])
        return data

    def mean_of_sums(self):
        """The mean that an inference plan computes from the first batch and the first weights."""
        self.compile("--infer")
        e2e.must([e2e.tool("dpc-run"), self.plan, f"--data={self.write_first_batch()}", f"--outputs={self.folder}/outputs"])
        dtype, shape, values = e2e.read_npy(f"{self.folder}/outputs/sums.npy")
        self.assertEqual((dtype, shape), ("f4", (8,)))
        return sum(values) / len(values)

    def test_outputs_keep_their_keys(self):
        self.compile("--train=sgd", "--lr=0.1")
        rows = self.run_plan(f"--batches={MLP}/batches", "--steps=3", f"--metrics=tensorboard:{self.folder}/tb", f"--metrics=prometheus:{self.folder}/m.prom")
        for row in rows:
            self.assertAlmostEqual(row["twice"] / row["loss"], 2, delta=1e-5)
            self.assertNotIn("logits", row)
        self.assertAlmostEqual(rows[0]["sums"], self.mean_of_sums(), delta=1e-5)
        file, = os.listdir(f"{self.folder}/tb")
        shown, _ = scalars(f"{self.folder}/tb/{file}")
        values = prometheus(f"{self.folder}/m.prom")
        for name in ("twice", "sums", "lr"):
            self.assertEqual([step for step, _ in shown[name]], [1, 2, 3])
            for (_, value), row in zip(shown[name], rows):
                self.assertAlmostEqual(value, row[name], delta=1e-6 * abs(row[name]))
            self.assertEqual(values[f"dpc_{name}"], rows[-1][name])

    def test_the_rate_follows_its_schedule(self):
        """Also over a resumed run."""
        self.compile("--train=sgd", "--lr=0.1", "--lr-schedule=linear,warmup=2,total=6")
        words = [f"--batches={MLP}/batches", f"--checkpoint={self.folder}/ck"]
        self.run_plan(*words, "--steps=3")
        rows = self.run_plan(*words, "--steps=6", "--resume")
        self.assertEqual([row["step"] for row in rows], [1, 2, 3, 4, 5, 6])
        for row, want in zip(rows, (0, 0.05, 0.1, 0.075, 0.05, 0.025)):
            self.assertAlmostEqual(row["lr"], want, delta=1e-9)

    def test_inference_knows_the_loss_of_the_model(self):
        """No output is called "loss", so the option names it also for inference."""
        write_model(self.model, {"ce": "cross_entropy_loss", "total": "twice"})
        data, losses = self.write_first_batch(), {}
        for name in ("ce", "total"):
            self.compile("--infer", f"--loss-output={name}")
            self.assertEqual(e2e.read_plan(self.plan)["loss_output"], name)
            words = e2e.must([e2e.tool("dpc-run"), self.plan, f"--data={data}"]).splitlines()[-1].split()
            self.assertEqual((words[0], words[3]), ("loss", "8"))
            losses[name] = float(words[1])
        self.assertAlmostEqual(losses["total"] / losses["ce"], 2, delta=1e-4)

    def test_metrics_have_the_loss_of_an_inference_plan(self):
        """Also if another output is called "loss"."""
        write_model(self.model, {"loss": "cross_entropy_loss", "total": "twice"})
        self.compile("--infer", "--loss-output=total")
        row, mean = self.run_plan(f"--data={self.write_first_batch()}")
        self.assertAlmostEqual(row["loss"] / row["output.loss"], 2, delta=1e-5)
        self.assertNotIn("total", row)
        self.assertEqual((mean["step"], mean["eval_samples"]), (1, 8))
        said = e2e.must([e2e.tool("dpc-run"), self.plan, f"--metrics={self.metrics}", f"--data={self.folder}/data"])
        self.assertIn(f"{self.metrics} had 2 lines of another run, which this one replaces", said)
        self.assertAlmostEqual(mean["eval_loss"], row["loss"], delta=1e-6)

    def test_evaluation_computes_the_loss_that_is_trained(self):
        write_model(self.model, {"loss": "cross_entropy_loss", "total": "twice"})
        data, evaluation = self.write_first_batch(), f"{self.folder}/eval-plan"
        self.compile("--train=sgd", "--lr=0.1", "--loss-output=total")
        words = [f"--data={data}", "--steps=1", f"--eval-plan={evaluation}", f"--eval-data={data}"]
        self.compile("--infer", plan=evaluation)
        done = e2e.call([e2e.tool("dpc-run"), self.plan, *words])
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
        self.assertIn("its loss is 'loss', but the training plan trains 'total'; compile both with --loss-output=total", done.stderr)
        self.compile("--infer", "--loss-output=total", plan=evaluation)
        self.assertTrue(any("eval_loss" in row for row in self.run_plan(*words)))


if __name__ == "__main__":
    unittest.main(verbosity=2)
