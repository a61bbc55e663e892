#!/usr/bin/env python3
"""A search never loses to a search with less choice.

    never_loses.py [--cases=N] [--seed=N] [--minutes=N] [--results=FILE] [--keep=FOLDER]
    never_loses.py CASE.json ...            judges these cases alone
    never_loses.py --write=FOLDER CASE      writes the model and the clusters of a case (its file or JSON)

A plan that dpc-opt finds with keys fixed, or on a part of the cluster (fewer nodes or devices, less memory or bandwidth),
is a plan for the request without these limits, too. So the free search's plan is at most 0.5 % slower. Each case (draw.py)
is one free search and narrower ones (cases.py); every pair of requests of which one contains the other is compared.

Without arguments this judges the cases in losses/, which were lost once, and a fixed draw. With DPC_TEST_LONG the draw is
new each time, and larger. The seed is printed first; the same seed draws the same problems. Each lost comparison is
printed, the worst of a case with the commands that show it. --results appends a line of JSON for each case; --keep writes
the worst lost comparison of each case as a case, for losses/. The exit status is 1 if anything is lost.
"""
import argparse
import collections
import glob
import json
import os
import random
import shlex
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))

import cases  # noqa: E402
import draw  # noqa: E402
import e2e  # noqa: E402
import judge  # noqa: E402
import planner  # noqa: E402

LOSSES = os.path.join(HERE, "losses")
SEED, CASES = 1, 5
LONG_CASES, LONG_MINUTES = 200, 30


def named_model(case):
    model = case["model"]
    return " ".join([model["family"], *(f"{key}={value}" for key, value in model.get("dims", {}).items())])


def named_case(case):
    return f"{named_model(case)} on {cases.named_cluster(case['cluster'])}, batch {case['batch']}, {' '.join(case['words'])}"


def commands_of(case, one):
    """The commands that show a lost comparison, and the plan that wins in the wide request."""
    single = cases.case_of(case, one.wide, one.narrow)
    yield f"python3 test/search/never_loses.py --write=lost {shlex.quote(json.dumps(single))}"
    file = os.path.basename(planner.model_name(case["model"]))
    narrow = "wide" if one.narrow.cluster == one.wide.cluster else "narrow"
    for request, cluster in ((one.wide, "wide"), (one.narrow, narrow), (cases.name_plan(one.narrow_outcome.strategy, one.wide.cluster), "wide")):
        yield shlex.join(["dpc-opt", *planner.words_of(case, request, f"lost/{file}", f"lost/{cluster}.json"), "-o", "lost/report"])


def print_lost(where, case, one, commands):
    print(f"LOST {one.ratio:.4g}x, {one.verdict} ({one.kind}): {where}: {named_case(case)}")
    for name, request, outcome in (("wide", one.wide, one.wide_outcome), ("narrow", one.narrow, one.narrow_outcome)):
        print(f"  {name:7}{cases.strategy_of(request.keys) or 'auto'} on {cases.named_cluster(request.cluster)}: {outcome.shown()}")
    print(f"  by name in the wide request: {one.again.shown()}")
    for command in commands_of(case, one) if commands else ():
        print("  $", command)


def shown_request(request):
    return {"strategy": cases.strategy_of(request.keys), "cluster": request.cluster}


def record_of(where, verdict, seconds):
    """The JSON of a case: its requests, answers, and lost comparisons as cases."""
    answers = [{"request": entry, "seconds": None if outcome.seconds == planner.INFINITE else outcome.seconds,
                "bytes": outcome.bytes, "plan": planner.planning.named(outcome.strategy), "method": outcome.method, "message": outcome.message}
               for entry, outcome in zip([{}] + verdict.case["narrow"], verdict.outcomes)]
    lost = [{"kind": one.kind, "verdict": one.verdict, "ratio": one.ratio if one.ratio != planner.INFINITE else None,
             "again": one.again.shown(), "case": cases.case_of(verdict.case, one.wide, one.narrow)} for one in verdict.lost]
    return {"case": where, "model": verdict.case["model"], "batch": verdict.case["batch"], "words": verdict.case["words"],
            "cluster": verdict.case["cluster"], "strategy": verdict.case["strategy"], "answers": answers,
            "compared": dict(collections.Counter(one.kind for one in verdict.comparisons)), "lost": lost, "search_seconds": round(seconds, 2)}


class Tally:
    """Sums comparisons by kind and by family, and collects what is lost."""

    def __init__(self):
        self.kinds, self.families = collections.Counter(), collections.Counter()
        self.lost_kinds, self.lost_families, self.worst = collections.Counter(), collections.Counter(), {}
        self.cases = self.lost_cases = self.broken = self.planless = self.refused = 0

    def add(self, verdict):
        family = verdict.case["model"]["family"]
        self.cases += 1
        self.lost_cases += bool(verdict.lost)
        self.broken += len(verdict.broken)
        self.planless += not verdict.has_plan
        self.refused += sum(outcome.seconds == planner.INFINITE for outcome in verdict.outcomes)
        for one in verdict.comparisons:
            for name, totals, lost in ((one.kind, self.kinds, self.lost_kinds), (family, self.families, self.lost_families)):
                totals[name] += 1
                lost[name] += one.is_lost
                if one.is_lost:
                    self.worst[name] = max(self.worst.get(name, 0), one.ratio)

    def rows(self, totals, lost):
        for name in sorted(totals):
            yield f"  {name}: {totals[name]} compared, {lost[name]} lost" + (f", at worst {self.worst[name]:.4g}x" if lost[name] else "")

    @property
    def is_good(self):
        """Nothing is lost or broken, and most cases have a plan, without which nothing is compared."""
        return not self.lost_cases and not self.broken and self.planless * 2 < max(self.cases, 1)

    def print(self):
        for totals, lost in ((self.kinds, self.lost_kinds), (self.families, self.lost_families)):
            print("\n".join(self.rows(totals, lost)))
        print(f"{self.cases} cases: {self.lost_cases} lost a comparison, {self.planless} without any plan; {sum(self.kinds.values())} comparisons, "
              f"{sum(self.lost_kinds.values())} lost; {self.refused} requests without a plan, {self.broken} without an answer")


class Tester:
    def __init__(self, planning, results=None, keep=None):
        self.planning, self.results, self.keep, self.tally = planning, results, keep, Tally()

    def judge(self, where, case):
        begin = self.planning.seconds
        verdict = judge.judge(case, self.planning)
        self.tally.add(verdict)
        for request, outcome in verdict.broken:
            print(f"BROKEN: {where}: {named_case(case)}, {cases.strategy_of(request.keys) or 'auto'}: {outcome.message}")
        for one in verdict.lost:
            print_lost(where, case, one, commands=one is verdict.lost[0])
        print(f"{where}: {named_case(case)}: {len(verdict.comparisons)} comparisons, {len(verdict.lost)} lost", flush=True)
        if self.results:
            with open(self.results, "a") as file:
                file.write(json.dumps(record_of(where, verdict, self.planning.seconds - begin)) + "\n")
        if self.keep and verdict.lost:
            self.keep_worst(where, verdict)

    def keep_worst(self, where, verdict):
        """Writes the worst lost comparison of a case as a case."""
        os.makedirs(self.keep, exist_ok=True)
        worst = verdict.lost[0]
        name = f"{verdict.case['model']['family']}-{where.replace(' ', '-').replace('/', '-')}.json"
        with open(os.path.join(self.keep, name), "w") as file:
            file.write(json.dumps(cases.case_of(verdict.case, worst.wide, worst.narrow), indent=1) + "\n")


def write_case(folder, text):
    """Writes the model and the clusters of a case of one comparison."""
    case = json.loads(text) if text.lstrip().startswith("{") else cases.read_case(text)
    os.makedirs(folder, exist_ok=True)
    requests = cases.requests_of(case)
    planner.write_model(folder, case["model"], copies=True)
    for name, request in zip(["wide", "narrow", *(f"narrow-{i}" for i in range(2, len(requests)))], requests):
        e2e.write_json(os.path.join(folder, f"{name}.json"), cases.describe_cluster(request.cluster))


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    is_long = bool(os.environ.get("DPC_TEST_LONG"))
    parser.add_argument("files", nargs="*", help="cases; by default those in losses/ and a draw")
    parser.add_argument("--cases", type=int, default=LONG_CASES if is_long else CASES, help="cases to draw")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6) if is_long else SEED)
    parser.add_argument("--minutes", type=float, default=LONG_MINUTES if is_long else None, help="draw no case after this time")
    parser.add_argument("--devices", type=int, default=512 if is_long else 32, help="devices of the largest cluster")
    parser.add_argument("--billions", type=float, default=100 if is_long else 2, help="billions of parameters of the largest model, about")
    parser.add_argument("--requests", type=int, default=None if is_long else 6, help="narrow requests of a case; by default all")
    parser.add_argument("--results", help="a file to which a line of JSON is appended for each case")
    parser.add_argument("--keep", help="a folder for the worst lost comparison of each case")
    parser.add_argument("--write", help="a folder for the model and the clusters of a case")
    arguments = parser.parse_args(words)
    if arguments.write and len(arguments.files) != 1:
        parser.error(f"--write={arguments.write}: {len(arguments.files)} cases; expected one, as a file or as JSON")
    return arguments


def run(arguments, planning):
    """Judges what is asked for; returns whether nothing is lost."""
    begin, tester = time.monotonic(), Tester(planning, arguments.results, arguments.keep)
    for path in arguments.files or sorted(glob.glob(os.path.join(LOSSES, "*.json"))):
        tester.judge(os.path.basename(path).removesuffix(".json"), cases.read_case(path))
    if not arguments.files:
        drawn = draw.Draw(arguments.seed, arguments.devices, arguments.billions * 1e9, requests=arguments.requests)
        for number in range(arguments.cases):
            if arguments.minutes and time.monotonic() - begin > arguments.minutes * 60:
                print(f"{number} of {arguments.cases} cases drawn in {arguments.minutes:g} minutes")
                break
            tester.judge(f"case {arguments.seed}-{number}", drawn.case(number, planning))
    tester.tally.print()
    print(f"seed={arguments.seed}: {planning.asked} searches in {planning.seconds:.0f} s")
    return tester.tally.is_good


def main():
    arguments = parse(sys.argv[1:])
    try:
        import onnx  # noqa: F401
    except ImportError:
        e2e.run_in_build_environment("onnx")
    try:
        if arguments.write:
            return write_case(arguments.write, arguments.files[0])
        for path in arguments.files:
            cases.read_case(path)
    except cases.CaseError as error:
        sys.exit(f"error: {error}")
    print(f"seed={arguments.seed} cases={0 if arguments.files else arguments.cases}", flush=True)
    with e2e.scratch() as folder:
        sys.exit(0 if run(arguments, planner.Planner(folder)) else 1)


if __name__ == "__main__":
    main()
