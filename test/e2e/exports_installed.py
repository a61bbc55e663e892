#!/usr/bin/env python3
"""The targets' own code reads the files of --emit=TARGET, and trains as they say; runs with DPC_TEST_LONG (exports.py)."""
import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import unittest

import e2e
from exports import ALONE, LONG, NAMED, PACKAGES, PLANS, SETTINGS, emit, model, optimizer_of


@unittest.skipUnless(LONG, "installs the targets: runs with --long")
class Installed(unittest.TestCase):
    """Installs the targets in an environment."""

    @classmethod
    def setUpClass(cls):
        cls.folder = os.environ.get("DPC_EXPORTS_VENV") or os.path.join(os.path.dirname(e2e.BIN), "export-targets")
        cls.python = os.path.join(cls.folder, "bin", "python")
        complete = os.path.join(cls.folder, "complete")
        wanted = " ".join((*PACKAGES, *ALONE))
        found = ""
        if os.path.exists(complete):
            with open(complete, encoding="utf-8") as file:
                found = file.read()
        if found != wanted:
            subprocess.run([sys.executable, "-m", "venv", cls.folder], check=True)
            pip = [cls.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, *PACKAGES], check=True, env=dict(os.environ, DS_BUILD_OPS="0"))
            subprocess.run([*pip, "--no-deps", *ALONE], check=True)
            for version in ("0.2.2", "0.3.0"):
                subprocess.run([*pip, "--no-deps", "--upgrade", "--target", os.path.join(cls.folder, f"torchtitan-{version}"), f"torchtitan=={version}"], check=True)
            with open(complete, "w", encoding="utf-8") as file:
                file.write(wanted)


class Targets(Installed):
    """Each file is read by the code of its target."""

    def check(self, target, source=None, count=20):
        """Writes all plans that the target accepts and reads them with its code; `source` is the location of its code or schema."""
        with e2e.scratch() as folder:
            written = []
            for i, plan in enumerate(PLANS):
                sub = os.path.join(folder, str(i))
                os.makedirs(sub)
                settings = SETTINGS[i % len(SETTINGS)]
                done = emit(sub, plan, target, *settings)
                named = re.search(NAMED, done.stderr)
                if done.returncode and named:
                    done = emit(sub, (*plan[:2], named[1]), target, *settings)
                fewer = named and re.search(r",ranks=(\d+)", named[1])  # the best plan can leave devices idle
                if done.returncode == 0:
                    with open(os.path.join(sub, "job.json"), "w", encoding="utf-8") as file:
                        json.dump(optimizer_of(settings), file)
                    written.append((int(fewer[1]) if fewer else plan[1], os.path.join(sub, "out", "exports")))
            self.assertGreaterEqual(len(written), count)
            script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "exports_targets.py")
            done = subprocess.run([self.python, script, source or self.folder, target, *(f"{ranks}:{path}" for ranks, path in written)], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-2000:])
            self.assertIn(f"{len(written)} read", done.stdout)
            print(f"{target}: {len(written)} plans read")

    def test_accelerate(self):
        self.check("accelerate")

    def test_colossalai(self):
        self.check("colossalai")

    def test_deepspeed(self):
        self.check("deepspeed")

    def test_megatron(self):
        self.check("megatron")

    def test_torchtitan(self):
        self.check("torchtitan")

    @unittest.skipUnless(os.environ.get("DPC_CALCULON"), "DPC_CALCULON names no checkout of Calculon, which PyPI does not have")
    def test_calculon(self):
        self.check("calculon", os.environ["DPC_CALCULON"])

    @unittest.skipUnless(shutil.which("protoc"), "there is no protoc")
    def test_chakra(self):
        checkout = os.environ.get("DPC_CHAKRA")
        ours = os.path.join(e2e.SOURCE, "codegen", "export", "chakra.proto")
        self.check("chakra", os.path.join(checkout, "schema", "protobuf", "et_def.proto") if checkout else ours)


class Losses(Installed):
    """From the same weights and batches, the target trains as dpc does. exports_train.py says what is the target's own code.

    All run on CPUs with gloo. The files of accelerate and Colossal-AI name no optimizer, so the script states dpc's. DeepSpeed compiles its
    optimizer on the first run, which takes minutes.
    """
    STEPS, BATCH, TOKENS, WORDS = 2, 8, 32, 512

    def write_batches(self, folder):
        draw = random.Random(3)
        batches = [{name: [[draw.randrange(self.WORDS) for _ in range(self.TOKENS)] for _ in range(self.BATCH)] for name in ("ids", "labels")} for _ in range(self.STEPS)]
        with open(f"{folder}/batches.json", "w", encoding="utf-8") as file:
            json.dump(batches, file)
        os.makedirs(f"{folder}/batches")
        for name in ("ids", "labels"):
            flat = [word for batch in batches for sample in batch[name] for word in sample]
            e2e.write_npy(f"{folder}/batches/{name}.npy", "i8", (self.STEPS, self.BATCH, self.TOKENS), flat)

    def losses_of(self, folder, target, ranks, strategy):
        """Returns the losses of dpc-run, and writes what the target starts with."""
        out = f"{folder}/out"
        e2e.must([e2e.tool("dpc-opt"), model("gpt"), f"--cluster=local:{ranks}", f"--global-batch={self.BATCH}", "--precision=fp32", "--verify=off", "--clip-grad-norm=1", "--lr=1e-2",
                  "--init=random:1", f"--emit=plan,report,{target}", f"--strategy={strategy}", "-o", out])
        self.write_batches(out)
        run = [e2e.tool("dpc-run"), out, f"--batches={out}/batches"]
        e2e.must([*run, "--steps=1", f"--save-params={out}/weights.safetensors"])
        e2e.must([*run, f"--steps={self.STEPS}", f"--init={out}/weights.safetensors", f"--metrics={out}/steps.jsonl"])
        with open(f"{out}/steps.jsonl", encoding="utf-8") as file:
            return [json.loads(line)["loss"] for line in file]

    def compare(self, target, ranks, strategy, *launcher, path=""):
        with e2e.scratch() as folder, socket.socket() as probe:
            ours = self.losses_of(folder, target, ranks, strategy)
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
            probe.close()
            words = [word.format(out=f"{folder}/out", port=port, ranks=ranks) for word in launcher]
            script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "exports_train.py")
            done = subprocess.run([self.python, "-W", "ignore", *words, script, target, f"{folder}/out"], capture_output=True, text=True,
                                  env=dict(os.environ, CUDA_VISIBLE_DEVICES="", DS_ACCELERATOR="cpu", PYTHONPATH=os.path.join(self.folder, path) if path else "",
                                           TORCH_EXTENSIONS_DIR=os.path.join(self.folder, "extensions")))
            found = re.search(r"^losses (.*)$", done.stdout, re.M)
            self.assertTrue(found, done.stdout[-1000:] + done.stderr[-3000:])
            theirs = json.loads(found[1])
            self.assertEqual(len(theirs), self.STEPS)
            for a, b in zip(theirs, ours, strict=True):
                self.assertAlmostEqual(a, b, delta=5e-5 * b)
            print(f"{target}: losses {theirs}, dpc's {ours}")

    RUN = ("-m", "torch.distributed.run", "--nproc-per-node={ranks}", "--master-port={port}")

    def test_megatron(self):
        self.compare("megatron", 1, "dp=1")

    def test_torchtitan(self):
        self.compare("torchtitan", 2, "dp=2,zero=3", *self.RUN, path="torchtitan-0.2.2")

    def test_accelerate(self):
        self.compare("accelerate", 2, "dp=2", "-m", "accelerate.commands.launch", "--config_file={out}/exports/accelerate.yaml", "--main_process_port={port}")

    def test_colossalai(self):
        self.compare("colossalai", 2, "dp=2", *self.RUN)

    def test_deepspeed(self):
        self.compare("deepspeed", 2, "dp=2,zero=1", *self.RUN)


if __name__ == "__main__":
    unittest.main(verbosity=2)
