"""What a plan's trace says of its instructions: dpc-run --trace=FILE.json, or dpc-opt's simulated one."""


def lane_of(plan, rank=0):
    """[(instruction, phase)] of a rank's compute queue, as they run in a step."""
    return [(instruction, entry["phase"]) for entry in plan["schedule"][rank]
            for instruction in plan["phases"][entry["phase"]] if instruction["queue"] == "compute"]


def durations_of(trace, lane):
    """Microseconds of every instruction of rank 0's lane: a list for each, of its steps. ValueError for another plan's trace."""
    events = [event["dur"] for event in trace["traceEvents"] if event["ph"] == "X" and event["pid"] == 0 and event["tid"] == 0]
    steps, rest = divmod(len(events), len(lane))
    if steps == 0 or rest:
        raise ValueError(f"the trace has {len(events)} events of a lane of {len(lane)}: it is of another plan")
    return [events[at::len(lane)] for at in range(len(lane))]
