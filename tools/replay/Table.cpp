//===- Table.cpp - Rows of a CSV file -------------------------------------===//
#include "tools/replay/Table.h"
#include "runtime/base/ReadFile.h"

#include <csv.h>

#include <algorithm>
#include <charconv>
#include <iterator>

namespace dpc::validate {

const std::string &Row::at(const std::string &column) const {
  static const std::string none;
  auto found = cells.find(column);
  return found == cells.end() ? none : found->second;
}

template <typename T>
static std::optional<T> parseNumber(const std::string &text) {
  T value{};
  const char *end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end)
    return std::nullopt;
  return value;
}

std::optional<int64_t> Row::integer(const std::string &column) const {
  return parseNumber<int64_t>(at(column));
}

std::optional<double> Row::number(const std::string &column) const {
  return parseNumber<double>(at(column));
}

namespace {

struct Collector {
  std::vector<std::string> header, line;
  std::vector<Row> rows;
  int64_t lines = 0;
  std::string error;

  void endLine() {
    ++lines;
    if (header.empty()) {
      header = std::move(line);
    } else if (line.size() != header.size()) {
      if (error.empty())
        error = "row " + std::to_string(lines) + " has " +
                std::to_string(line.size()) + " cells, the header " +
                std::to_string(header.size());
    } else {
      Row row;
      row.line = lines;
      for (size_t i = 0; i < line.size(); ++i)
        row.cells[header[i]] = line[i];
      rows.push_back(std::move(row));
    }
    line.clear();
  }
};

} // namespace

static void takeCell(void *text, size_t size, void *collector) {
  static_cast<Collector *>(collector)->line.emplace_back(
      static_cast<const char *>(text), size);
}

static void takeEnd(int, void *collector) {
  static_cast<Collector *>(collector)->endLine();
}

Expected<std::vector<Row>> readTable(const std::string &file,
                                     const std::vector<std::string> &required) {
  Expected<std::string> bytes = readTextFile(file, "a CSV file");
  if (!bytes)
    return Error{bytes.message()};
  Collector collector;
  csv_parser parser;
  csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI);
  size_t parsed = csv_parse(&parser, bytes->data(), bytes->size(), takeCell,
                            takeEnd, &collector);
  bool isWhole = parsed == bytes->size() &&
                 csv_fini(&parser, takeCell, takeEnd, &collector) == 0;
  std::string error = collector.error;
  if (!isWhole)
    error = std::string("not a CSV file: ") + csv_strerror(csv_error(&parser));
  csv_free(&parser);
  for (const std::string &column : required)
    if (error.empty() &&
        std::find(collector.header.begin(), collector.header.end(), column) ==
            collector.header.end())
      error = "has no column '" + column + "'";
  if (!error.empty())
    return Error{file + ": " + error};
  return std::move(collector.rows);
}

} // namespace dpc::validate
