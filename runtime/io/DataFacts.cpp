#include "runtime/io/DataFacts.h"

#include "runtime/base/HostTensor.h"
#include "runtime/base/OneLine.h"
#include "runtime/base/Wait.h"
#include "runtime/io/IndexCheck.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace dpc::rt {

/// Calls visit(element, value) for each element.
template <typename T, typename Visit>
static void visitAs(const void *data, int64_t count, const Visit &visit) {
  const T *values = static_cast<const T *>(data);
  for (int64_t i = 0; i < count; ++i)
    visit(i, values[i]);
}

template <typename Visit>
static void visitAll(DType dtype, const void *data, int64_t count,
                     const Visit &visit) {
  switch (dtype) {
  case DType::F32:
    return visitAs<float>(data, count, visit);
  case DType::I64:
    return visitAs<int64_t>(data, count, visit);
  case DType::I32:
    return visitAs<int32_t>(data, count, visit);
  default:
    for (int64_t i = 0; i < count; ++i)
      visit(i, loadAsDouble(data, dtype, i));
  }
}

void ArrayFacts::add(int64_t row, const void *data, int64_t count) {
  int64_t before = ignored;
  bool hasIgnored = port.ignored.has_value();
  double skipped = static_cast<double>(port.ignored.value_or(0));
  visitAll(port.dtype, data, count, [&](int64_t i, auto element) {
    auto value = static_cast<double>(element);
    if (hasIgnored && value == skipped) {
      ++ignored;
    } else if (std::isfinite(value)) {
      min = counted == 0 ? value : std::min(min, value);
      max = counted == 0 ? value : std::max(max, value);
      sum += value;
      ++counted;
    } else if (value < 0) {
      ++minusInfinite;
    } else if (!bad) {
      bad = {row, i, value};
    }
  });
  elements += count;
  if (count > 0 && ignored - before == count)
    ignoredRows.push_back(row);
}

static std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text,
                std::rint(value) == value && std::fabs(value) < 1e15 ? "%.0f"
                                                                     : "%.4g",
                value);
  return text;
}

static std::string percent(int64_t part, int64_t all) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g %%",
                100.0 * static_cast<double>(part) / static_cast<double>(all));
  return text;
}

std::string ArrayFacts::text() const {
  std::string text = "input '" + oneLine(port.name) + "': ";
  if (counted > 0)
    text += min == max ? "every value is " + number(min)
                       : number(min) + " to " + number(max);
  else
    text += "no finite value";
  if (counted > 0 && min != max && !isIndex(port))
    text += ", mean " + number(sum / static_cast<double>(counted));
  if (ignored > 0)
    text += ", " + percent(ignored, elements) + " ignored (" +
            std::to_string(*port.ignored) + ")";
  if (minusInfinite > 0)
    text += ", " + percent(minusInfinite, elements) + " -inf";
  if (counted > 0 && port.use == InputUse::Probabilities &&
      (min < 0 || max > 1))
    text += "; it holds the targets of a binary cross entropy, which are "
            "expected from 0 to 1";
  return text;
}

/// "input 'x' holds nan in sample 3, element 5"
static std::string badText(const ArrayFacts &facts, const std::string &unit) {
  return concat("input '", oneLine(facts.port.name), "' holds ",
                std::isnan(facts.bad->value) ? "nan" : "inf", " in ", unit, " ",
                facts.bad->row + (unit == "step" ? 1 : 0), ", element ",
                facts.bad->element);
}

Status DataFacts::check(bool acceptsNan) const {
  for (const ArrayFacts &facts : inputs) {
    if (facts.port.use == InputUse::Unread)
      continue;
    if (facts.bad && !acceptsNan)
      return Status::invalid(badText(facts, unit),
                             ", expected finite numbers; --on-nan=go-on "
                             "accepts them");
    // Rows that were not read may have labels.
    if (seen == rows && facts.ignored > 0 && facts.ignored == facts.elements)
      return Status::invalid("all labels of input '", oneLine(facts.port.name),
                             "' are ", *facts.port.ignored,
                             ", which the loss ignores; expected others");
  }
  return Status::success();
}

std::vector<std::string> DataFacts::texts() const {
  std::vector<std::string> texts;
  for (const ArrayFacts &facts : inputs) {
    texts.push_back(facts.text());
    if (facts.bad)
      texts.push_back(badText(facts, unit));
    // With one label a row, the line above says the same.
    if (!facts.ignoredRows.empty() && facts.elements > seen)
      texts.push_back(
          concat("input '", oneLine(facts.port.name), "': all labels of ",
                 facts.ignoredRows.size(), " of ", seen, " ", unit,
                 "s are ignored, first ", unit, " ",
                 facts.ignoredRows.front() + (unit == "step" ? 1 : 0)));
  }
  for (const auto &[first, second] : equal)
    texts.push_back("inputs '" + oneLine(inputs[first].port.name) + "' and '" +
                    oneLine(inputs[second].port.name) + "' hold equal values");
  for (const ShiftFacts &shift : shifts)
    if (std::string text =
            shift.text(inputs[shift.ids].port, inputs[shift.labels].port);
        !text.empty())
      texts.push_back(text);
  if (seen < rows)
    texts.push_back(
        concat("the values are those of ", seen, " of ", rows, " ", unit, "s",
               ranOutOfTime ? ", which are slow to read" : ", evenly spaced",
               "; a step checks the others"));
  return texts;
}

int64_t evenRow(int64_t i, int64_t count, int64_t rows) {
  if (count == 1)
    return 0;
  return (rows - 1) / (count - 1) * i +
         (rows - 1) % (count - 1) * i / (count - 1);
}

/// Returns the pairs of ports that could hold equal values by mistake. A loss
/// that shifts its labels reads the ids as labels.
static std::vector<std::pair<size_t, size_t>>
comparable(const std::vector<Port> &ports) {
  std::vector<std::pair<size_t, size_t>> pairs;
  for (size_t second = 0; second < ports.size(); ++second)
    for (size_t first = 0; first < second; ++first) {
      const Port &a = ports[first], &b = ports[second];
      if (a.dtype == b.dtype && a.globalShape == b.globalShape &&
          a.use != InputUse::ShiftedLabels && b.use != InputUse::ShiftedLabels)
        pairs.emplace_back(first, second);
    }
  return pairs;
}

static bool isInteger(const Port &port) {
  return port.dtype == DType::I64 || port.dtype == DType::I32;
}

static std::vector<ShiftFacts> shiftable(const std::vector<Port> &ports) {
  std::vector<ShiftFacts> pairs;
  for (size_t ids = 0; ids < ports.size(); ++ids)
    for (size_t labels = 0; labels < ports.size(); ++labels) {
      const Port &a = ports[ids], &b = ports[labels];
      if (isInteger(a) && isInteger(b) && a.globalShape == b.globalShape &&
          a.globalShape.size() >= 2 && a.use == InputUse::Ids &&
          (b.use == InputUse::Labels || b.use == InputUse::ShiftedLabels))
        pairs.push_back({ids, labels});
    }
  return pairs;
}

void ShiftFacts::add(const Port &idsPort, const void *idsData,
                     const Port &labelsPort, const void *labelsData,
                     int64_t count) {
  const int64_t length = idsPort.globalShape.back();
  auto idAt = [&](int64_t k) {
    return loadAsDouble(idsData, idsPort.dtype, k);
  };
  auto labelAt = [&](int64_t k) {
    return loadAsDouble(labelsData, labelsPort.dtype, k);
  };
  auto isIgnored = [&](int64_t k) {
    return labelsPort.ignored &&
           labelAt(k) == static_cast<double>(*labelsPort.ignored);
  };
  auto isOpen = [&] { return labelsLead.holds || idsLead.holds || same.holds; };
  for (int64_t begin = 0; isOpen() && begin < count; begin += length) {
    const int64_t last = begin + length - 1;
    bool isConstant = true;
    for (int64_t k = begin; k < last && isConstant; ++k)
      isConstant = idAt(k) == idAt(k + 1);
    for (int64_t k = begin; k < last && !isConstant; ++k) {
      hasIgnored |= isIgnored(k);
      if (!isIgnored(k)) {
        labelsLead.add(labelAt(k) == idAt(k + 1));
        same.add(labelAt(k) == idAt(k));
      }
      if (!isIgnored(k + 1))
        idsLead.add(idAt(k) == labelAt(k + 1));
    }
  }
}

std::string ShiftFacts::text(const Port &idsPort,
                             const Port &labelsPort) const {
  constexpr int64_t kLeast = 8; // fewer may be equal by chance
  std::string ids = "input '" + oneLine(idsPort.name) + "'";
  std::string labels = "input '" + oneLine(labelsPort.name) + "'";
  auto leads = [&](const Lead &lead) {
    return lead.holds && lead.pairs >= kLeast;
  };
  if (leads(labelsLead) && labelsPort.use == InputUse::ShiftedLabels)
    return labels + " holds the ids of the next position, and the loss shifts "
                    "its labels itself: it predicts two positions ahead";
  if (leads(same) && hasIgnored && labelsPort.use == InputUse::Labels)
    return labels + " holds the ids of the same position where it is not "
                    "ignored, and the loss does not shift its labels";
  return leads(idsLead)
             ? ids + " holds the labels of the next position: are the two "
                     "swapped?"
             : "";
}

static uint64_t mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
  return hash ^ hash >> 32;
}

/// Adds `bytes` bytes to `hash`.
static uint64_t hashOf(uint64_t hash, const std::byte *data, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, data + i, std::min<int64_t>(bytes - i, 8));
    hash = mix(hash, word);
  }
  return hash;
}

std::string commonText(const DataFacts &training, const DataFacts &heldOut) {
  bool isSame = training.unit == "sample" && heldOut.unit == "sample" &&
                training.inputs.size() == heldOut.inputs.size();
  for (size_t i = 0; isSame && i < training.inputs.size(); ++i) {
    const ArrayFacts &a = training.inputs[i], &b = heldOut.inputs[i];
    isSame = a.port.name == b.port.name && a.port.dtype == b.port.dtype &&
             a.elements / training.seen == b.elements / heldOut.seen;
  }
  if (!isSame)
    return "";
  int64_t common = std::count_if(
      heldOut.hashes.begin(), heldOut.hashes.end(), [&](uint64_t hash) {
        return std::binary_search(training.hashes.begin(),
                                  training.hashes.end(), hash);
      });
  if (common == 0)
    return "";
  bool isComplete =
      static_cast<int64_t>(training.hashes.size()) == training.rows &&
      static_cast<int64_t>(heldOut.hashes.size()) == heldOut.rows;
  return concat(isComplete ? "" : "at least ", common, " of ", heldOut.rows,
                " samples of --eval-data ", common == 1 ? "is" : "are",
                " also in --data");
}

/// Returns how many of `rows` rows of `bytes` bytes a pass reads. Rows with
/// gaps between them are slow to read.
static int64_t rowsToRead(int64_t rows, int64_t bytes, int64_t mostBytes) {
  constexpr int64_t kMostSpaced = int64_t(1) << 13;
  int64_t most = mostBytes / std::max<int64_t>(bytes, 1);
  return rows <= most
             ? rows
             : std::min(rows, std::clamp(most, int64_t(2), kMostSpaced));
}

/// Adds the rows from `first` on, of which the first is read `number` of `all`.
static void addBlock(DataFacts &facts, int64_t first, int64_t count,
                     const std::vector<int64_t> &perRow,
                     const std::vector<std::byte *> &arrays, int64_t number,
                     int64_t all) {
  constexpr int64_t kMostHashes = int64_t(4) << 20;
  const int64_t spacing = (all + kMostHashes - 1) / kMostHashes;
  auto bytesOf = [&](size_t k) {
    return perRow[k] * sizeOf(facts.inputs[k].port.dtype);
  };
  for (int64_t row = 0; row < count; ++row) {
    uint64_t hash = 0;
    for (size_t k = 0; k < arrays.size(); ++k) {
      const std::byte *data = arrays[k] + row * bytesOf(k);
      facts.inputs[k].add(first + row, data, perRow[k]);
      if (facts.unit == "sample" && (number + row) % spacing == 0)
        hash = hashOf(hash, data, bytesOf(k));
    }
    if (facts.unit == "sample" && (number + row) % spacing == 0)
      facts.hashes.push_back(hash);
  }
  for (ShiftFacts &shift : facts.shifts)
    shift.add(facts.inputs[shift.ids].port, arrays[shift.ids],
              facts.inputs[shift.labels].port, arrays[shift.labels],
              count * perRow[shift.ids]);
}

Expected<DataFacts> scanRows(const std::vector<Port> &ports,
                             const std::vector<int64_t> &perRow,
                             const std::string &unit, int64_t rows,
                             const ReadRows &read, const ScanLimits &limits) {
  constexpr int64_t kBlockBytes = int64_t(1) << 20;
  DataFacts facts;
  facts.unit = unit;
  facts.rows = rows;
  facts.equal = comparable(ports);
  facts.shifts = shiftable(ports);
  int64_t bytes = 0; // of a row
  for (size_t i = 0; i < ports.size(); ++i) {
    facts.inputs.emplace_back().port = ports[i];
    bytes += perRow[i] * sizeOf(ports[i].dtype);
  }
  const int64_t toRead = rowsToRead(rows, bytes, limits.bytes);
  int64_t block = 1;
  if (toRead == rows)
    block = std::clamp(kBlockBytes / std::max<int64_t>(bytes, 1), int64_t(1),
                       std::max<int64_t>(rows, 1));
  std::vector<HostTensor> arrays;
  std::vector<std::byte *> to;
  arrays.reserve(ports.size());
  to.reserve(ports.size());
  for (size_t i = 0; i < ports.size(); ++i)
    arrays.push_back(HostTensor::zeros(ports[i].dtype, {block, perRow[i]}));
  for (HostTensor &array : arrays)
    to.push_back(array.data.data());
  const double end = nowSeconds() + limits.seconds;
  for (int64_t i = 0; i < toRead; i += block) {
    facts.ranOutOfTime = i > 0 && nowSeconds() > end;
    if (facts.ranOutOfTime)
      break;
    int64_t first = evenRow(i, toRead, rows);
    int64_t count = std::min(block, toRead - i);
    facts.seen += count;
    DPC_TRY(read(first, count, to));
    addBlock(facts, first, count, perRow, to, i, toRead);
    // After a last block of fewer rows, the rest is of a block that was equal.
    std::erase_if(facts.equal, [&](const auto &pair) {
      return arrays[pair.first].data != arrays[pair.second].data;
    });
  }
  // Inputs of one constant, such as two masks of ones, are no mistake.
  std::erase_if(facts.equal, [&](const auto &pair) {
    const ArrayFacts &first = facts.inputs[pair.first];
    return first.counted == 0 || first.min == first.max;
  });
  std::sort(facts.hashes.begin(), facts.hashes.end());
  return facts;
}

} // namespace dpc::rt
