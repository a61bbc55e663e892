#!/usr/bin/env python3
"""How tools/test summarizes the results of ctest and lit: its totals, and why tests failed."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/check/count_results.py")
OUTPUT = "\n".join(f"line {i}" for i in range(100))
CTEST = f"""<testsuite>
<testcase name="right" time="1.0" status="run"><system-out>fine</system-out></testcase>
<testcase name="wrong" time="2.5" status="fail"><failure message=""/><system-out>{OUTPUT}</system-out></testcase>
<testcase name="elsewhere" time="0" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/></testcase>
<testcase name="unbuilt" time="0" status="notrun"><skipped message="Unable to find executable"/></testcase>
</testsuite>"""
LIT = {"tests": [{"code": code} for code in ("PASS", "XFAIL", "FAIL", "TIMEOUT", "UNSUPPORTED")]}


class CountedResults(unittest.TestCase):
    def call(self, kind, text):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "results")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            return subprocess.run([sys.executable, TOOL, kind, path], capture_output=True, text=True, check=True).stdout

    def test_what_was_not_built_has_failed(self):
        self.assertEqual(self.call("ctest", CTEST), "1 2 1\n")

    def test_lit(self):
        self.assertEqual(self.call("lit", json.dumps(LIT)), "2 2 1\n")

    def test_failures_show_the_end_of_their_output(self):
        lines = self.call("failures", CTEST).splitlines()
        self.assertEqual(lines[:2], ["failed: wrong after 2.5 s", "  .. 60 lines before"])
        self.assertEqual(lines[2:42], [f"  line {i}" for i in range(60, 100)])
        self.assertEqual(lines[42:], ["failed: unbuilt after 0.0 s"])


if __name__ == "__main__":
    unittest.main()
