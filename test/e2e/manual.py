#!/usr/bin/env python3
"""The manual's transcripts (examples/manual) match the programs' output, and the reference is complete.

A block marked `console` holds commands after "$ " and their output. Measured or predicted numbers may differ, with
their units and the spaces around them: these are numbers with a unit, a point or an exponent. Whole numbers without a
unit, such as degrees and counts, must match. "..." matches any number of lines, and at the end of a line or within it
any text. The test also runs the last column of the table in coming-from.md.
"""
import glob
import json
import os
import re
import subprocess
import sys
import unittest

import e2e

MANUAL = os.path.join(e2e.SOURCE, "examples", "manual")
NUMBER = r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?"
UNIT = r"(?: ?(?:s|ms|us|ns|B|KiB|MiB|GiB|TiB|%|tokens/s))?(?![A-Za-z])"
COUNT = r"\d+"


def blocks(text):
    """Returns the (command, expected lines) of every console block, by block."""
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.M | re.S):
        steps = []
        for line in block.splitlines():
            if line.startswith("$ "):
                steps.append((line[2:], []))
            else:
                steps[-1][1].append(line)
        yield steps


def pattern_of(line):
    """Returns a regular expression for a line that matches any spaces."""
    pattern = ""
    for piece in re.split(rf"(\.\.\.|(?<![A-Za-z_.]){NUMBER}{UNIT}|\s+)", line.strip()):
        if piece == "...":
            pattern += ".*"
        elif re.fullmatch(COUNT, piece):
            pattern += piece
        elif re.fullmatch(NUMBER + UNIT, piece):
            pattern += f"{NUMBER}{UNIT}"
        elif piece.isspace():
            pattern += r"\s+"
        else:
            pattern += re.escape(piece)
    return re.compile(pattern)


def mismatch(expected, printed):
    """Returns the first expected line that is missing or out of order, or None."""
    at, is_open = 0, False
    for line in expected:
        if line.strip() == "...":
            is_open = True
            continue
        pattern = pattern_of(line)
        while at < len(printed) and is_open and not pattern.fullmatch(printed[at].strip()):
            at += 1
        if at == len(printed) or not pattern.fullmatch(printed[at].strip()):
            return line
        at, is_open = at + 1, False
    return None if is_open or at == len(printed) else f"(nothing more, but there is {printed[at]!r})"


class Manual(unittest.TestCase):
    def run_guide(self, name):
        with open(os.path.join(MANUAL, name), encoding="utf-8") as file:
            text = file.read()
        steps = [step for block in blocks(text) for step in block]
        self.assertGreater(len(steps), 0)
        with e2e.scratch() as work:
            variables = dict(e2e.environment(), WORK=work, PATH=e2e.BIN + os.pathsep + os.environ["PATH"])
            for command, expected in steps:
                done = subprocess.run(command, shell=True, cwd=e2e.SOURCE, env=variables, capture_output=True, text=True, timeout=e2e.TIMEOUT_SECONDS)
                self.assertEqual(done.returncode, 0, f"{command}\n{done.stderr}")
                wrong = mismatch(expected, done.stdout.splitlines())
                self.assertIsNone(wrong, f"{name}: {command}\nexpected: {wrong}\nprinted:\n{done.stdout}")

    def test_plan_a_big_run(self):
        self.run_guide("plan-a-big-run.md")

    def test_train_my_model(self):
        self.run_guide("train-my-model.md")

    def test_write_a_pass(self):
        self.run_guide("write-a-pass.md")

    def test_coming_from(self):
        self.run_guide("coming-from.md")

    def test_every_guide_is_run(self):
        guides = {os.path.basename(path) for path in glob.glob(os.path.join(MANUAL, "*.md"))} - {"README.md", "glossary.md"}
        tested = {name[len("test_"):].replace("_", "-") + ".md" for name in dir(self) if name.startswith("test_")}
        self.assertEqual(guides - tested, set())


def here_column(text):
    """Yields the code in the first and last columns of each row, for tables whose last column is called "here"."""
    for table in re.findall(r"^\|[^\n]*\| here \|\n\| ---[^\n]*\n((?:\|.*\n)+)", text, re.M):
        for row in table.splitlines():
            columns = row.strip("|").split("|")
            yield re.findall(r"`([^`]+)`", columns[0]), re.findall(r"`([^`]+)`", columns[-1])


def commands_of(codes):
    """Yields the words of dpc-opt for each code of a row: options, a value of --strategy, or another value for the previous one."""
    words = []
    for code in codes:
        if code.startswith("--"):
            words = code.split()
        elif "=" in code:
            words = [f"--strategy={code}"]
        elif code.isupper():  # a name of the other trainer
            continue
        else:
            words = words[:-1] + [words[-1][:words[-1].rindex("=") + 1] + code]
        yield words


class HereColumn(unittest.TestCase):
    """dpc-opt accepts the options that coming-from.md lists under "here", and they have the described effect."""

    def files(self, folder, theirs):
        """Writes the files that rows refer to: the configuration that the left side shows."""
        with open(f"{folder}/ds_config.json", "w") as file:
            json.dump({"train_batch_size": 16, "train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 1}}, file)
        with open(f"{folder}/pretrain.sh", "w") as file:
            flags = " ".join(theirs)
            file.write("torchrun pretrain_gpt.py --micro-batch-size 2 --global-batch-size 16 " + flags[flags.find("--"):] + "\n")
        with open(f"{folder}/maxtext.yml", "w") as file:
            file.write("\n".join(["per_device_batch_size: 4", *re.findall(r"\w+: \w+$", "\n".join(theirs), re.M)]))

    def run_row(self, words, folder):
        asked = dict(pair.split("=", 1) for word in words if word.startswith("--strategy=") for pair in word.split("=", 1)[1].split(",") if pair[0] != "@")
        model = "moe-tiny" if "ep" in asked else "gpt2-tiny"
        ranks = 16 if "ep" in asked or "hybrid_shard" in asked else 4
        line = [word.replace("@", f"@{folder}/") for word in words]
        if not any(word.startswith("--cluster=") for word in words):
            line.append(f"--cluster=local:{ranks}")
        if not any("ds_config" in word for word in words):
            line.append("--global-batch=16")
        done = e2e.call([e2e.tool("dpc-opt"), e2e.model(model), *line, "--emit=report", "--verify=off", "-o", f"{folder}/plan"])
        self.assertEqual(done.returncode, 0, f"{' '.join(words)}\n{done.stderr}")
        strategy = e2e.read_report(f"{folder}/plan")["chosen"]["strategy"]
        for key, value in asked.items():
            self.assertEqual(str(strategy[key]).lower(), value, f"{' '.join(words)}: {key}")

    def test_it_is_taken(self):
        with open(os.path.join(MANUAL, "coming-from.md"), encoding="utf-8") as file:
            rows = list(here_column(file.read()))
        self.assertGreater(len(rows), 12)
        count = 0
        with e2e.scratch() as folder:
            for theirs, codes in rows:
                self.assertGreater(len(codes), 0, theirs)
                self.files(folder, theirs)
                for words in commands_of(codes):
                    self.run_row(words, folder)
                    count += 1
        self.assertGreater(count, 25)

    def test_a_renamed_key_is_found(self):
        with e2e.scratch() as folder:
            for words in (["--strategy=dp=4,zerro=1"], ["--precission=bf16"], ["--strategy=dp=4,zero=4"]):
                with self.assertRaises(AssertionError):
                    self.run_row(words, folder)


class Comparing(unittest.TestCase):
    """The comparison tool of these tests can fail."""

    def test_what_may_differ(self):
        for expected, printed in (("1.5 ms a step", "20 us a step"), ("a ... c", "a b b c"), ("loss 6.2  x", "loss -0.1 x"), ("5 s, 12 tokens/s", "7 s, 8 tokens/s"), ("17 GiB of 5 GiB", "3.25 MiB of 6 GiB")):
            self.assertIsNone(mismatch([expected], [printed]))
        self.assertIsNone(mismatch(["a", "...", "c"], ["a", "b", "b", "c"]))

    def test_what_may_not(self):
        for expected, printed in ((["a"], ["b"]), (["a"], ["a", "b"]), (["a", "b"], ["a"]), (["dp=2"], ["tp=2"]), (["a", "...", "c"], ["a", "b"]), (["zero-1"], ["one-1"]),
                                  (["dp=2,tp=4"], ["dp=4,tp=2"]), (["4 ranks"], ["2 ranks"]), (["step 1/20"], ["step 2/20"])):
            self.assertIsNotNone(mismatch(expected, printed), expected)


class Reference(unittest.TestCase):
    def test_is_complete(self):
        with e2e.scratch() as folder:
            done = subprocess.run([os.path.join(e2e.SOURCE, "tools", "reference"), folder], capture_output=True, text=True,
                                  env=dict(os.environ, DPC_BUILD_DIR=os.path.dirname(e2e.BIN)))
            self.assertEqual(done.returncode, 0, done.stderr)
            texts = {}
            for name in ("options", "ops", "passes"):
                with open(f"{folder}/{name}.md", encoding="utf-8") as file:
                    texts[name] = file.read()
        defined = set()
        for path in glob.glob(os.path.join(e2e.SOURCE, "ir", "*.td")):
            with open(path, encoding="utf-8") as file:
                defined |= set(re.findall(r"^def Dpc_\w+Op *: *\w+<\"(\w+)\"", file.read(), re.M))
        self.assertGreater(len(defined), 40)
        self.assertEqual([name for name in sorted(defined) if f"`dpc.{name}`" not in texts["ops"]], [])
        listed = set(re.findall(r"^ +--(dpc-[a-z-]+)", e2e.must([e2e.tool("dpc-opt"), "--help-passes"]), re.M))
        self.assertGreater(len(listed), 15)
        self.assertEqual([name for name in sorted(listed) if f"`-{name}`" not in texts["passes"]], [])
        for tool in ("dpc-opt", "dpc-run", "dpc-model", "dpc-validate"):
            self.assertIn(e2e.must([e2e.tool(tool), "--help"]).rstrip(), texts["options"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
