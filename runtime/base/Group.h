//===- Group.h - groups of ranks, kinds of reductions -----------*- C++ -*-===//
#pragma once

#include "runtime/base/EnumNames.h"

#include <string>
#include <string_view>
#include <vector>

namespace dpc::rt {

/// The sets of ranks that communicate along `axes`. The ranks of one set (a
/// cell) have equal coordinates along all other axes.
struct Group {
  int id = -1; ///< index in Plan::groups
  std::vector<std::string> axes;
  /// The cells, which contain every rank once, in ascending order (see
  /// groupMembers() in Plan.h). The index of a rank in its cell is its index in
  /// the group.
  std::vector<std::vector<int>> members;
};

/// How a collective combines the values of a cell's ranks.
enum class ReduceKind { Sum, Max, Min, Prod };

} // namespace dpc::rt

namespace dpc {
template <>
inline constexpr std::array<std::string_view, 4> kNamesOf<rt::ReduceKind> = {
    "sum", "max", "min", "prod"};
} // namespace dpc
