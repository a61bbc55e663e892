//===- OpTable.h - What each op of the dialect has --------------*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_OPTABLE_H
#define DPC_TOOLS_DRIVER_OPTABLE_H

#include <string>
#include <vector>

namespace dpc {

/// What the compiler asks ops; a column of the table.
enum class OpColumn { rule, cost, gradient, kernel, communication, lowering };

/// One registered op. Indexed by OpColumn.
struct OpRow {
  std::string name; ///< "dpc.matmul"
  bool has[6] = {};
};

/// All ops of the dialect by name, as the interfaces that are registered say.
std::vector<OpRow> opRows();

/// Why `op` needs none of `column`; "" if nobody has given a reason.
std::string whyNot(const std::string &op, OpColumn column);

/// The table in Markdown, and below it the reasons for what is missing.
std::string opTable();

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_OPTABLE_H
