#!/usr/bin/env python3
"""A plan that mpirun trains across two machines follows the oracle.

usage: two_machines.py MODEL_DIR --strategy=dp=2,tp=2 --ranks=4 [--by-machines]

The machines are two network namespaces (two_hosts.py) with half the ranks each. Besides the checks of follow_curve.py,
both host names must appear and bytes must cross the link. The exit status is 77 if namespaces are unavailable. With
--by-machines the plan is compiled again for a cluster of two machines with hierarchical all_reduces, so that about half
the bytes cross.
"""
import argparse
import sys

import e2e
import follow_curve
import two_hosts


def train(hosts, arguments, cluster=None):
    """Returns whether the plan follows the oracle, and the bytes from one machine to the other."""
    before = hosts.sent_bytes()
    case = follow_curve.Case(arguments.model, arguments.strategy, arguments.ranks, "mpi")
    case.launcher, case.cluster = hosts.mpirun(arguments.ranks // 2), cluster
    good = case.follow()
    crossed = hosts.sent_bytes() - before
    print(f"{crossed} bytes from one machine to the other")
    return good and crossed > 1 << 20, crossed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--strategy", required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--by-machines", action="store_true")
    arguments = parser.parse_args()
    why = two_hosts.why_not()
    if why:
        e2e.skip(why)
    with two_hosts.TwoHosts() as hosts:
        names = set(e2e.must(hosts.mpirun(arguments.ranks // 2) + ["hostname"]).split())
        if names != set(hosts.names):
            sys.exit(f"FAIL the processes ran on {sorted(names)}, not on {hosts.names}")
        good, crossed = train(hosts, arguments)
        if arguments.by_machines:
            with e2e.scratch() as folder:
                kept, fewer = train(hosts, arguments, e2e.write_two_machines(folder, arguments.ranks // 2))
            good = good and kept and fewer < 0.6 * crossed
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
