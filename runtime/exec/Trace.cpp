#include "runtime/exec/Trace.h"

#include <cstdio>
#include <fstream>
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
      add({{"name", instruction.name.empty() ? op : instruction.name},
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

Status writeTrace(const std::string &path, const std::string &eventsJson) {
  std::ofstream out(path + ".new", std::ios::binary);
  out << "{\"traceEvents\": [\n" << eventsJson << "\n]}\n";
  out.close();
  if (!out || std::rename((path + ".new").c_str(), path.c_str()) != 0)
    return Status::io(path + ": cannot be written");
  return Status::success();
}

} // namespace dpc::rt
