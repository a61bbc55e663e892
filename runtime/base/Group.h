//===- Group.h - groups of ranks, kinds of reductions -----------*- C++ -*-===//
#ifndef DPC_RUNTIME_BASE_GROUP_H
#define DPC_RUNTIME_BASE_GROUP_H

#include "runtime/base/EnumNames.h"

#include <string>
#include <string_view>
#include <vector>

namespace dpc::rt {

/// The sets of ranks that communicate along `axes`. Ranks in one set (a cell)
/// differ only in their coordinates along these axes.
struct Group {
  int id = -1; ///< equals its index in Plan::groups
  std::vector<std::string> axes;
  /// The cells: a partition of all ranks. Each inner list is ascending, and the
  /// position of a rank in its list is its index in the group. See
  /// groupMembers() in Plan.h.
  std::vector<std::vector<int>> members;
};

/// How a collective combines the values of the members.
enum class ReduceKind { Sum, Max, Min, Prod };

} // namespace dpc::rt

namespace dpc {
template <>
inline constexpr std::array<std::string_view, 4> kNamesOf<rt::ReduceKind> = {
    "sum", "max", "min", "prod"};
} // namespace dpc

#endif // DPC_RUNTIME_BASE_GROUP_H
