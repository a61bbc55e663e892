#!/usr/bin/env python3
"""Checks an installation in its own folder: `cmake --install`, versions, --doctor, completion (long: the Debian package)."""
import json
import os
import re
import shutil
import subprocess
import unittest

import e2e

BUILD = os.path.dirname(e2e.BIN)
TOOLS = ("dpc-opt", "dpc-run", "dpc-model", "dpc-validate")

# Completes a command line as bash does. The words are split like words in bash.
ASK = """source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); "_${1//-/_}"; printf '%s\\n' "${COMPREPLY[@]}" """


def run(words, **variables):
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=e2e.TIMEOUT_SECONDS, env=dict(e2e.environment(), **variables))


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = e2e.scratch()
        cls.folder = cls.scratch.__enter__()
        cls.prefix = os.path.join(cls.folder, "prefix")
        done = run(["cmake", "--install", BUILD, "--prefix", cls.prefix])
        if done.returncode:
            raise e2e.ToolError(done.stderr[-600:])

    @classmethod
    def tearDownClass(cls):
        cls.scratch.__exit__(None, None, None)

    def tool(self, name):
        return os.path.join(self.prefix, "bin", name)

    def test_files(self):
        self.assertEqual(set(os.listdir(f"{self.prefix}/bin")), set(TOOLS))
        for path in ("share/dpc/devices/h100-sxm-80gb.json", "share/dpc/software/dpc-cuda.json", "share/dpc/clusters/dgx-h100-128.json",
                     "share/bash-completion/completions/dpc-opt", "share/bash-completion/completions/dpc-model",
                     "share/zsh/vendor-completions/_dpc-run", "share/zsh/vendor-completions/_dpc-validate", "share/doc/dpc/README.md"):
            self.assertTrue(os.path.exists(os.path.join(self.prefix, path)), path)

    def test_documentation(self):
        """Everything below examples/ that the README names is beside it, and the reference describes these programs."""
        folder = f"{self.prefix}/share/doc/dpc"
        with open(f"{folder}/README.md", encoding="utf-8") as file:
            named = set(re.findall(r"examples/[\w/.-]*\w", file.read()))
        self.assertGreater(len(named), 3)
        written = {os.path.relpath(os.path.join(at, name), e2e.SOURCE) for at, _, names in os.walk(f"{e2e.SOURCE}/examples")
                   for name in names if not at.endswith("__pycache__")}
        for path in sorted(named | written):
            self.assertTrue(os.path.exists(os.path.join(folder, path)), path)
        for frontend in ("onnx", "torch", "stablehlo"):  # messages name these files
            self.assertTrue(os.path.exists(f"{folder}/frontends/{frontend}/README.md"), frontend)
        with open(f"{folder}/reference/options.md", encoding="utf-8") as file:
            text = file.read()
        for name in TOOLS:
            self.assertIn(run([self.tool(name), "--help"]).stdout.splitlines()[0], text)
        for name in ("ops", "passes"):
            self.assertTrue(os.path.exists(f"{folder}/reference/{name}.md"), name)

    def test_a_plan_is_made_and_run(self):
        plan = f"{self.folder}/plan"
        done = run([self.tool("dpc-opt"), e2e.model("mlp"), "--cluster=local:2", "--global-batch=8", "--strategy=dp=2", "-o", plan])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("verified: 2 ranks", done.stdout)
        done = run([self.tool("dpc-run"), plan, "--steps=2", f"--batches={e2e.MODELS}/mlp/batches"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("step 2/2  loss ", done.stdout)
        self.assertIn("training the output 'loss'", done.stdout)

    def test_device_files_are_those_beside_it(self):
        devices = f"{self.prefix}/share/dpc/devices"
        shutil.copy(f"{devices}/h100-sxm-80gb.json", f"{devices}/another.json")
        cluster = f"{self.folder}/cluster.json"
        with open(cluster, "w") as file:
            json.dump({"version": 1, "name": "one", "groups": [{"nodes": 1, "devices_per_node": 2, "device": "another"}],
                       "levels": [{"name": "wire", "span": "cluster", "gigabytes_per_second": 10, "latency_microseconds": 3, "kind": "switch",
                                   "in_network_reduction": False}],
                       "host": {"memory_gibibytes": 8, "pcie_gigabytes_per_second": 10, "nvme_gigabytes_per_second": 1}}, file)
        words = [e2e.model("mlp"), f"--cluster={cluster}", "--global-batch=8", "--strategy=dp=2", "--emit=report", "--verify=off", "-o", f"{self.folder}/other"]
        done = run([self.tool("dpc-opt"), *words])
        self.assertEqual(done.returncode, 0, done.stderr)
        # dpc-opt in the build folder does not know this device
        self.assertEqual(run([e2e.tool("dpc-opt"), *words]).returncode, 1)

    def test_versions(self):
        for name in ("dpc-opt", "dpc-run"):
            done = run([self.tool(name), "--version"])
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertRegex(done.stdout.splitlines()[0], rf"^{name} \d+\.\d+\.\d+$")
            with open(os.path.join(e2e.SOURCE, "runtime", "plan", "Plan.h"), encoding="utf-8") as file:
                version = re.search(r"kPlanVersion = (\d+);", file.read())[1]
            self.assertIn(f"\nplan format: {version}\n", done.stdout)
            for component in ("oneDNN", "MPI", "CUDA plugin"):
                self.assertRegex(done.stdout, rf"\n{component}: \S+")
        self.assertRegex(run([self.tool("dpc-opt"), "--version"]).stdout, r"\nLLVM and MLIR: 22\.\d+")

    def test_doctor(self):
        done = run([self.tool("dpc-opt"), "--doctor"])
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        for what in ("linker of kernels", "LLVM and MLIR", "oneDNN", "device files", "dpc-run", "MPI", "CUDA plugin"):
            self.assertRegex(done.stdout, rf"\n?  (ok     |missing)  {what}: \S+")
        self.assertTrue(done.stdout.endswith("nothing essential is missing\n"))
        # --doctor also lists what --version lists.
        for name, version in re.findall(r"(?m)^([^:\n]+): (.*)$", run([self.tool("dpc-opt"), "--version"]).stdout):
            if name != "plan format" and version != "none":
                self.assertIn(f"  ok       {name}: {version}\n", done.stdout)
        ill = run([self.tool("dpc-opt"), "--doctor"], DPC_DEVICE_DIR="/nonexistent")
        self.assertEqual(ill.returncode, 1)
        self.assertRegex(ill.stdout, r"MISSING  device files: .*DPC_DEVICE_DIR")
        os.rename(self.tool("dpc-run"), self.tool("gone"))
        try:
            alone = run([self.tool("dpc-opt"), "--doctor"])
        finally:
            os.rename(self.tool("gone"), self.tool("dpc-run"))
        self.assertEqual(alone.returncode, 0)
        self.assertIn("  missing  dpc-run: ", alone.stdout)


class Completion(unittest.TestCase):
    def answers(self, *words):
        with e2e.scratch() as folder:
            script = os.path.join(folder, "script")
            with open(script, "w") as file:
                file.write(e2e.must([e2e.tool(words[0]), "--completion=bash"]))
            done = run(["bash", "-c", ASK, "bash", script, *words])
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split()

    def test_bash(self):
        self.assertEqual(self.answers("dpc-opt", "model.onnx", "--what"), ["--what-if"])
        self.assertEqual(self.answers("dpc-opt", "--glob"), ["--global-batch="])
        self.assertEqual(self.answers("dpc-opt", "--train", "=", "a"), ["adamw"])
        self.assertEqual(self.answers("dpc-opt", "--train", "="), ["adamw", "sgd"])
        self.assertEqual(self.answers("dpc-opt", "--emit", "=", "plan,rep"), ["plan,report"])
        self.assertEqual(self.answers("dpc-opt", "--cluster", "=", "x"), [])  # bash completes file names itself
        self.assertEqual(self.answers("dpc-run", "plan", "--comm", "m"), ["mpi"])
        self.assertIn("--checkpoint-every=", self.answers("dpc-run", "--check"))
        self.assertEqual(self.answers("dpc-validate", "runs.csv", "--p"), ["--plot="])

    def test_bash_of_subcommands(self):
        self.assertEqual(self.answers("dpc-model", "l"), ["llama"])
        self.assertEqual(self.answers("dpc-model", "--comp"), ["--completion="])
        self.assertEqual(self.answers("dpc-model", "--completion", "=", "z"), ["zsh"])
        self.assertEqual(self.answers("dpc-model", "llama", "--kv-h"), ["--kv-heads="])
        self.assertEqual(self.answers("dpc-model", "gpt", "--kv"), [])  # gpt has no option that begins with --kv
        self.assertEqual(self.answers("dpc-model", "moe", "--layers", "=", "4", "--ex"), ["--experts=", "--expert-ffn="])

    def test_every_option_is_known(self):
        for name, command, least in (("dpc-opt", [], 31), ("dpc-run", [], 31), ("dpc-validate", [], 6), ("dpc-model", ["moe"], 15)):
            shown = set(re.findall(r"(?m)^ {2}(?:-\w,)?(--[a-z][a-z-]+)", e2e.must([e2e.tool(name), *command, "--help"])))
            self.assertGreaterEqual(len(shown), least, name)
            for shell in ("bash", "zsh"):
                script = e2e.must([e2e.tool(name), f"--completion={shell}"])
                self.assertEqual([word for word in shown if word not in script], [])
            self.assertEqual(e2e.call([e2e.tool(name), "--completion=tcsh"]).returncode, 1)

    def test_shells_can_read_it(self):
        for shell in filter(shutil.which, ("bash", "zsh")):
            for name in TOOLS:
                done = subprocess.run([shell, "-n"], input=e2e.must([e2e.tool(name), f"--completion={shell}"]), capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""))


class Packing(unittest.TestCase):
    def pack(self, *words, **variables):
        script = os.path.join(e2e.SOURCE, "tools", "cmake", "CheckPacking.cmake")
        return run([shutil.which("cmake"), "-DCPACK_GENERATOR=DEB", *words, "-P", script], **variables)

    def test_what_is_missing_is_said(self):
        """Tests this with the package names before packing anything: cpack runs this first."""
        with open(f"{BUILD}/CPackConfig.cmake", encoding="utf-8") as file:
            self.assertRegex(file.read(), r'set\(CPACK_PROJECT_CONFIG_FILE "\S+/CheckPacking.cmake"\)')
        done = self.pack("-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF", PATH="/nowhere")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("cpack -G DEB: needs the Debian packages that are missing: dpkg-dev file", " ".join(done.stderr.split()))
        if shutil.which("dpkg-shlibdeps") and shutil.which("file"):
            self.assertEqual(self.pack().returncode, 0)


@unittest.skipUnless(os.environ.get("DPC_TEST_LONG") and shutil.which("cpack") and shutil.which("dpkg-shlibdeps"), "long")
class Package(unittest.TestCase):
    def test_its_files_are_those_that_are_installed(self):
        """Unpacks the package into a new root, compares it with `cmake --install`, and runs its programs there."""
        with e2e.scratch() as folder:
            done = run(["cpack", "-G", "DEB", "--config", f"{BUILD}/CPackConfig.cmake", "-B", folder])
            self.assertEqual(done.returncode, 0, done.stdout[-600:] + done.stderr[-600:])
            package, = (name for name in os.listdir(folder) if name.endswith(".deb"))
            self.assertEqual(run(["dpkg-deb", "--extract", f"{folder}/{package}", f"{folder}/root"]).returncode, 0)
            done = run(["cmake", "--install", BUILD, "--prefix", f"{folder}/prefix"])
            self.assertEqual(done.returncode, 0, done.stderr[-600:])

            def files_of(root):
                return {os.path.relpath(os.path.join(at, name), root) for at, _, names in os.walk(root) for name in names}

            self.assertEqual(files_of(f"{folder}/root/usr"), files_of(f"{folder}/prefix"))
            self.assertEqual(os.listdir(f"{folder}/root"), ["usr"])
            for name in TOOLS:
                done = run([f"{folder}/root/usr/bin/{name}", "--help"])
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_debian_package(self):
        with e2e.scratch() as folder:
            done = run(["cpack", "-G", "DEB", "--config", f"{BUILD}/CPackConfig.cmake", "-B", folder])
            self.assertEqual(done.returncode, 0, done.stdout[-600:] + done.stderr[-600:])
            package, = (name for name in os.listdir(folder) if name.endswith(".deb"))
            files = run(["dpkg-deb", "--contents", f"{folder}/{package}"]).stdout
            fields = run(["dpkg-deb", "--field", f"{folder}/{package}"]).stdout
        for name in TOOLS:
            self.assertRegex(files, rf"\./usr/bin/{name}\n")
        self.assertIn("./usr/share/dpc/devices/", files)
        self.assertRegex(fields, r"(?m)^Package: dpc$")
        self.assertRegex(fields, r"(?m)^Depends: .*lld-22")
        self.assertRegex(fields, r"(?m)^Depends: .*libmlir-22")


if __name__ == "__main__":
    unittest.main(verbosity=2)
