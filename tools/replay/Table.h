//===- Table.h - Rows of a CSV file -----------------------------*- C++ -*-===//
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dpc::validate {

struct Row {
  int64_t line = 0;
  std::map<std::string, std::string> cells;

  /// Returns the cell without surrounding blanks, or "" if the file lacks the
  /// column.
  const std::string &at(const std::string &column) const;
  std::optional<int64_t> integer(const std::string &column) const;
  std::optional<double> number(const std::string &column) const;
  bool isEmpty(const std::string &column) const { return at(column).empty(); }
};

/// Reads a file with a header line; quoted cells may contain commas and line
/// ends. Fails if the file cannot be read, lacks a column of `required`, or has
/// a line with more or fewer cells than the header.
Expected<std::vector<Row>> readTable(const std::string &file,
                                     const std::vector<std::string> &required);

} // namespace dpc::validate
