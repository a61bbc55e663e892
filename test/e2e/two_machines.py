#!/usr/bin/env python3
"""A plan trained by mpirun across two machines follows the oracle.

usage: two_machines.py MODEL_DIR --strategy=dp=2,tp=2 --ranks=4

The machines are two network namespaces (two_hosts.py): half the ranks on each. Besides what follow_curve.py compares,
both host names must have been seen and bytes must have crossed the link. 77 where namespaces cannot be made.
"""
import argparse
import sys

import e2e
import follow_curve
import two_hosts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--strategy", required=True)
    parser.add_argument("--ranks", type=int, required=True)
    arguments = parser.parse_args()
    why = two_hosts.why_not()
    if why:
        e2e.skip(why)
    with two_hosts.TwoHosts() as hosts:
        launcher = hosts.mpirun(arguments.ranks // 2)
        names = set(e2e.must(launcher + ["hostname"]).split())
        if names != set(hosts.names):
            sys.exit(f"FAIL the processes ran on {sorted(names)}, not on {hosts.names}")
        before = hosts.sent_bytes()
        case = follow_curve.Case(arguments.model, arguments.strategy, arguments.ranks, "mpi")
        case.launcher = launcher
        good = case.follow()
        crossed = hosts.sent_bytes() - before
    print(f"{crossed} bytes from one machine to the other")
    sys.exit(0 if good and crossed > 1 << 20 else 1)


if __name__ == "__main__":
    main()
