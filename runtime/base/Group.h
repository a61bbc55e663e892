//===- Group.h - groups of ranks, kinds of reductions -----------*- C++ -*-===//
#ifndef DPC_RUNTIME_BASE_GROUP_H
#define DPC_RUNTIME_BASE_GROUP_H

#include <string>
#include <string_view>
#include <vector>

namespace dpc::rt {

/// The groups of ranks that communicate along `axes`: the ranks of a group
/// differ only in their coordinates along these axes.
struct Group {
  int id = -1; ///< equals its index in Plan::groups
  std::vector<std::string> axes;
  /// A partition of all ranks; each inner list ascends. The index of a rank in
  /// its group is its position in its list. See groupMembers() in Plan.h.
  std::vector<std::vector<int>> members;
};

/// How a collective combines the values of the members.
enum class ReduceKind { Sum, Max, Min, Prod };
/// "sum", "max", "min" or "prod".
std::string_view nameOf(ReduceKind kind);

} // namespace dpc::rt

#endif // DPC_RUNTIME_BASE_GROUP_H
