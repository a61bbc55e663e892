#!/usr/bin/env python3
"""Prints how many tests of ctest or lit passed, failed and were skipped, or which tests failed.

    count_results.py ctest FILE.xml | count_results.py lit FILE.json | count_results.py failures FILE.xml

`failures` prints each failed test of ctest and the last lines of its output.
"""
import json
import os
import sys
import xml.etree.ElementTree

LAST_LINES = 40  # of a failed test's output
LONGEST_LINE = 1000


def state(case):
    """Returns "passed", "failed" or "skipped" for a <testcase> element."""
    status, note = case.get("status"), case.find("skipped")
    if status == "run":
        return "passed"
    # "notrun" is a skipped test, or a test whose program was not built.
    missing = note is not None and "Unable to find" in note.get("message", "")
    if status in ("notrun", "disabled") and not missing:
        return "skipped"
    return "failed"


def ctest(path):
    root = xml.etree.ElementTree.parse(path).getroot()
    states = [state(case) for case in root.iter("testcase")]
    return [states.count(name) for name in ("passed", "failed", "skipped")]


def print_failures(path):
    root = xml.etree.ElementTree.parse(path).getroot()
    for case in root.iter("testcase"):
        if state(case) != "failed":
            continue
        lines = (case.findtext("system-out") or "").rstrip().splitlines()
        print(f"failed: {case.get('name')} after {float(case.get('time', 0)):.1f} s")
        if len(lines) > LAST_LINES:
            print(f"  .. {len(lines) - LAST_LINES} lines before")
        for line in lines[-LAST_LINES:]:
            print(f"  {line[:LONGEST_LINE]}")


def lit(path):
    with open(path, encoding="utf-8") as file:
        codes = [test["code"] for test in json.load(file)["tests"]]
    passed = sum(code in ("PASS", "XFAIL", "FLAKYPASS") for code in codes)
    skipped = sum(code in ("UNSUPPORTED", "SKIPPED", "EXCLUDED")
                  for code in codes)
    return passed, len(codes) - passed - skipped, skipped


def main():
    kind, path = sys.argv[1:]
    if not os.path.exists(path):
        return 1
    if kind == "failures":
        print_failures(path)
        return 0
    print(*{"ctest": ctest, "lit": lit}[kind](path))
    return 0


if __name__ == "__main__":
    sys.exit(main())
