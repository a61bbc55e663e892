//===- OpTable.h - Interfaces of each op of the dialect ---------*- C++ -*-===//
#pragma once

#include <string>
#include <vector>

namespace dpc {

/// A column of the table.
enum class OpColumn { rule, cost, gradient, kernel, communication, lowering };

/// One registered op.
struct OpRow {
  std::string name; ///< "dpc.matmul"
  bool has[6] = {}; ///< By OpColumn.
};

std::vector<OpRow> opRows();

/// Returns why `op` lacks `column`, or "".
std::string whyNot(const std::string &op, OpColumn column);

std::string opTable();

} // namespace dpc
