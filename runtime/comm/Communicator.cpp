#include "runtime/comm/Communicator.h"

#include <cstdio>

namespace dpc::rt {

Status lateRanks(int rank, double seconds, const std::string &call,
                 const std::vector<int> &late) {
  std::string list;
  for (int each : late)
    list += (list.empty() ? "" : ", ") + std::to_string(each);
  char text[32];
  std::snprintf(text, sizeof text, "%g", seconds);
  return Status::timeout(
      "rank ", rank, " waited ", text, " s in ", call, " for rank ",
      (list.empty() ? "(unknown: no rank is missing now)" : list));
}

} // namespace dpc::rt
