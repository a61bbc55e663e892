#!/usr/bin/env python3
"""Prints "passed failed skipped" for a result file of ctest or lit.

    count_results.py ctest FILE.xml | count_results.py lit FILE.json
"""
import json
import os
import sys
import xml.etree.ElementTree


def ctest(path):
    cases = list(xml.etree.ElementTree.parse(path).getroot().iter("testcase"))
    states = [case.get("status") for case in cases]
    passed = states.count("run")
    skipped = states.count("notrun") + states.count("disabled")
    # A test whose program is missing is "notrun" too, but carries a failure.
    missing = sum(case.get("status") == "notrun" and
                  case.find("skipped") is not None and
                  "not find" in (case.find("skipped").get("message") or "").lower()
                  for case in cases)
    return passed, len(cases) - passed - skipped + missing, skipped - missing


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
