#!/usr/bin/env python3
"""Prints "passed failed skipped" for a result file of ctest or lit.

    count_results.py ctest FILE.xml | count_results.py lit FILE.json
"""
import json
import os
import sys
import xml.etree.ElementTree


def state(case):
    """"passed", "failed" or "skipped" for a <testcase> element."""
    status, note = case.get("status"), case.find("skipped")
    if status == "run":
        return "passed"
    # A test whose program was not built is "notrun" as a skipped one is.
    missing = note is not None and "Unable to find" in note.get("message", "")
    if status in ("notrun", "disabled") and not missing:
        return "skipped"
    return "failed"


def ctest(path):
    root = xml.etree.ElementTree.parse(path).getroot()
    states = [state(case) for case in root.iter("testcase")]
    return [states.count(name) for name in ("passed", "failed", "skipped")]


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
    print(*{"ctest": ctest, "lit": lit}[kind](path))
    return 0


if __name__ == "__main__":
    sys.exit(main())
