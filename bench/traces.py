"""Reads the instructions of a plan and their times from a trace: of dpc-run --trace=FILE.json, or simulated by dpc-opt."""


def lane_of(plan, rank=0):
    """Returns [(instruction, phase)] for the compute queue of a rank, in the order of a step."""
    return [(instruction, entry["phase"]) for entry in plan["schedule"][rank]
            for instruction in plan["phases"][entry["phase"]] if instruction["queue"] == "compute"]


def durations_of(trace, lane):
    """Returns, for every instruction of the lane of rank 0, the microseconds in each step. Raises ValueError if the trace belongs to another plan."""
    events = [event["dur"] for event in trace["traceEvents"] if event["ph"] == "X" and event["pid"] == 0 and event["tid"] == 0]
    steps, rest = divmod(len(events), len(lane))
    if steps == 0 or rest:
        raise ValueError(f"the trace has {len(events)} events for a lane of {len(lane)}: it belongs to another plan")
    return [events[at::len(lane)] for at in range(len(lane))]
