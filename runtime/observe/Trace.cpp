#include "runtime/observe/Trace.h"

#include "runtime/base/WriteFile.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace dpc::rt {

using Json = nlohmann::ordered_json;

static Json nameEvent(const char *what, int rank, int queue,
                      const std::string &name) {
  return {{"name", what},
          {"ph", "M"},
          {"pid", rank},
          {"tid", queue},
          {"args", {{"name", name}}}};
}

/// Returns the name of the instruction or, for a GEMM without a name, its
/// sizes: "matmul 64x192x512".
static std::string eventName(const Instruction &instruction,
                             const std::string &op) {
  const auto *product = std::get_if<MatmulOp>(&instruction.op);
  bool isNamed = !instruction.name.empty() && instruction.name != op;
  if (isNamed || !product)
    return isNamed ? instruction.name : op;
  std::string text = op + " ";
  if (int64_t batch = product->batch * product->batch2; batch > 1)
    text += std::to_string(batch) + " of ";
  return concat(text, product->m, "x", product->n, "x", product->k);
}

std::string traceEventsJson(const std::vector<TraceLane> &lanes,
                            double origin) {
  std::string text;
  auto add = [&](const Json &event) {
    text += (text.empty() ? "" : ",\n") +
            event.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  for (const TraceLane &lane : lanes) {
    int queue = static_cast<int>(lane.queue);
    add(nameEvent("process_name", lane.rank, queue,
                  "rank " + std::to_string(lane.rank)));
    add(nameEvent("thread_name", lane.rank, queue,
                  std::string(nameOf(lane.queue))));
    for (const TraceEvent &event : lane.events) {
      const Instruction &instruction = *event.instruction;
      std::string op(opName(instruction.op));
      Json args = {{"step", event.step},
                   {"phase", event.entry->phase},
                   {"micro_batch", event.entry->microBatch}};
      double seconds = event.end - event.begin;
      if (instruction.flops > 0 && seconds > 0)
        args["gigaflops_per_second"] = instruction.flops / seconds * 1e-9;
      add({{"name", eventName(instruction, op)},
           {"cat", op},
           {"ph", "X"},
           {"ts", (event.begin - origin) * 1e6},
           {"dur", seconds * 1e6},
           {"pid", lane.rank},
           {"tid", queue},
           {"args", args}});
    }
  }
  return text;
}

int64_t eventsOfStep(const Plan &plan, int64_t rank) {
  int64_t events = 0;
  for (const ScheduleEntry &entry : plan.schedule[rank])
    events += static_cast<int64_t>(plan.phases.at(entry.phase).size());
  return events;
}

int64_t stepsToTrace(const Plan &plan) {
  constexpr int64_t kMostEvents = 1'000'000;
  int64_t events = 0;
  for (int64_t rank = 0; rank < plan.ranks(); ++rank)
    events += eventsOfStep(plan, rank);
  return std::max<int64_t>(2, kMostEvents / std::max<int64_t>(events, 1));
}

Status writeTrace(const std::string &path, const std::string &eventsJson,
                  const std::string &leftOut) {
  std::string head =
      leftOut.empty()
          ? ""
          : "\"otherData\": " + Json{{"left_out", leftOut}}.dump() + ",\n";
  return replaceFile(path, "{" + head + "\"traceEvents\": [\n" + eventsJson +
                               "\n]}\n");
}

} // namespace dpc::rt
