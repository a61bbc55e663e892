"""Compares the answers to the requests of a case: a wider request's plan is at most TOLERANCE slower, or larger if memory is the objective."""
from dataclasses import dataclass

import cases
import planner

TOLERANCE = 0.005


@dataclass
class Comparison:
    """Two requests, of which the wide one contains the narrow one, and their answers."""
    wide: cases.Request
    narrow: cases.Request
    wide_outcome: planner.Outcome
    narrow_outcome: planner.Outcome
    again: planner.Outcome = None

    @property
    def kind(self):
        return cases.kind_of(self.wide, self.narrow)

    @property
    def is_lost(self):
        return self.wide_outcome.value > self.narrow_outcome.value * (1 + TOLERANCE)

    @property
    def ratio(self):
        """How much slower, or larger, the wide request's plan is; infinite where it has none."""
        return self.wide_outcome.value / self.narrow_outcome.value

    @property
    def verdict(self):
        """Why it is lost: the wide request misses the plan, or the plan costs something else there."""
        if self.again.value * (1 + TOLERANCE) < self.wide_outcome.value:
            return "missed"
        return "refused by name" if self.again.value == planner.INFINITE else "priced differently"


class Verdict:
    """The answers to a case's requests and all comparisons between them."""

    def __init__(self, case, requests, outcomes):
        self.case, self.requests, self.outcomes = case, requests, outcomes
        self.comparisons = [Comparison(wide, narrow, wide_outcome, narrow_outcome)
                            for wide, wide_outcome in zip(requests, outcomes) for narrow, narrow_outcome in zip(requests, outcomes)
                            if wide != narrow and wide.contains(narrow) and narrow_outcome.value != planner.INFINITE]
        self.lost = sorted((one for one in self.comparisons if one.is_lost), key=lambda one: -one.ratio)

    @property
    def broken(self):
        """The answers that are neither a plan nor one line."""
        return [(request, outcome) for request, outcome in zip(self.requests, self.outcomes) if outcome.broken]

    @property
    def has_plan(self):
        return any(outcome.value != planner.INFINITE for outcome in self.outcomes)


def judge(case, planning, requests=None):
    """Asks for all requests of a case, and names the plan of each narrow request that wins on the wide request's cluster."""
    requests = requests or cases.requests_of(case)
    verdict = Verdict(case, requests, [planning.plan(case, request) for request in requests])
    for one in verdict.lost:
        one.again = planning.plan(case, cases.name_plan(one.narrow_outcome.strategy, one.wide.cluster))
    return verdict
