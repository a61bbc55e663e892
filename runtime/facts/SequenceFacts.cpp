#include "runtime/facts/SequenceFacts.h"

#include "runtime/base/HostTensor.h"
#include "runtime/base/OneLine.h"
#include "runtime/base/Status.h"

#include <algorithm>

namespace dpc::rt {

/// Types, and the number up to which they hold all whole numbers.
static constexpr std::array<std::pair<DType, int64_t>, 2> kWhole = {
    {{DType::F16, 2048}, {DType::BF16, 256}}};

std::vector<SequenceFacts> sequencesOf(const std::vector<Port> &ports) {
  std::vector<SequenceFacts> found;
  for (size_t i = 0; i < ports.size(); ++i)
    if ((ports[i].use == InputUse::Ids ||
         ports[i].use == InputUse::IdsAndLabels) &&
        isInteger(ports[i].dtype) && ports[i].globalShape.size() == 2)
      found.emplace_back(i);
  return found;
}

void SequenceFacts::add(const Port &port, const void *data, int64_t count) {
  // Passages of few different ids are equal by chance.
  constexpr int64_t kLeastIds = 16;
  std::vector<int64_t> ids(port.globalShape.back());
  const auto length = static_cast<int64_t>(ids.size());
  for (int64_t begin = 0; length > 0 && begin < count; begin += length) {
    for (int64_t k = 0; k < length; ++k)
      ids[k] = static_cast<int64_t>(loadAsDouble(data, port.dtype, begin + k));
    addIds(port, ids);
    addLength(ids);
    if (port.limit - port.first >= kLeastIds)
      addPassages(ids);
  }
}

/// Runs of padding are no passages.
void SequenceFacts::addPassages(const std::vector<int64_t> &ids) {
  const auto length = static_cast<int64_t>(ids.size());
  RollingHash rolling(kPassage);
  int64_t changes = 0; // from one id to the next
  for (int64_t k = 0; k < length; ++k) {
    const int64_t before = k - kPassage;
    changes += k > 0 && ids[k] != ids[k - 1] ? 1 : 0;
    if (before >= 0)
      changes -= ids[before] != ids[before + 1] ? 1 : 0;
    const uint64_t hash =
        rolling.next(static_cast<uint64_t>(ids[k] + 1),
                     before < 0 ? 0 : static_cast<uint64_t>(ids[before] + 1));
    if (k + 1 >= kPassage && changes >= kPassage / 2)
      passages.add(mixed(hash), 0);
  }
}

void SequenceFacts::addLength(const std::vector<int64_t> &ids) {
  auto isPadding = [](int64_t id) {
    return [id](int64_t other) { return other == id; };
  };
  auto begin = std::find_if_not(ids.begin(), ids.end(), isPadding(ids.front()));
  auto end = std::find_if_not(ids.rbegin(), ids.rend(), isPadding(ids.back()));
  int64_t length =
      std::max<int64_t>(end.base() - begin, 0); // 0: all ids are equal
  if (sequences++ > 0) {
    isAscending &= length >= last;
    isDescending &= length <= last;
  }
  lengths.insert(length);
  last = length;
}

void SequenceFacts::addIds(const Port &port, const std::vector<int64_t> &row) {
  constexpr int64_t kMostRows = int64_t(1) << 22;
  occurs.resize(std::clamp<int64_t>(port.limit - port.first, 0, kMostRows));
  ids += static_cast<int64_t>(row.size());
  for (size_t k = 0; k < row.size(); ++k) {
    largest = std::max(largest, row[k]);
    if (const int64_t id = row[k] - port.first;
        id >= 0 && id < static_cast<int64_t>(occurs.size()))
      occurs[id] = true;
    for (size_t i = 0; i < rounded.size(); ++i)
      if (row[k] > kWhole[i].second) {
        ++rounded[i].above;
        rounded[i].odd += row[k] % 2;
      }
    counting +=
        k > 0 && (row[k] == row[k - 1] || row[k] == row[k - 1] + 1) ? 1 : 0;
  }
}

std::string SequenceFacts::roundedText(const Port &port) const {
  constexpr int64_t kLeast = 64; // ids, which are not all even by chance
  for (size_t i = 0; i < rounded.size(); ++i)
    if (rounded[i].above >= kLeast && rounded[i].odd == 0)
      return concat("input '", oneLine(port.name), "': none of the ",
                    rounded[i].above, " ids above ", kWhole[i].second,
                    " is odd: were they rounded to ", nameOf(kWhole[i].first),
                    "?");
  return "";
}

std::string SequenceFacts::usedText(const Port &port) const {
  constexpr int64_t kLeastRows = 64, kLeastOfHalf = 256, kLeastTimes = 2;
  // A model may pad its vocabulary, as GPT-2's from 50257 to 50304 ids.
  constexpr int64_t kMostPadded = 8; // one part in so many
  // Of frequent ids only, the largest has holes below it.
  constexpr int64_t kLeastTimesOfAll = 16, kMostHoles = 10;
  const int64_t rows = port.limit - port.first;
  const int64_t used = largest - port.first + 1;
  const bool isHalf =
      rows >= kLeastOfHalf && 2 * used <= rows && ids >= kLeastTimes * rows;
  const int64_t holes = used - std::ranges::count(occurs, true);
  const bool occurAll = kMostPadded * (rows - used) >= rows &&
                        kMostHoles * holes <= used &&
                        ids >= kLeastTimesOfAll * rows;
  if (rows < kLeastRows || (!isHalf && !occurAll) || 2 * counting > ids)
    return "";
  return concat("input '", oneLine(port.name), "': the largest of ", ids,
                " ids is ", largest,
                occurAll ? ", and nearly all up to it occur" : "",
                ", but the model has ", rows,
                " ids: does the tokenizer of the data belong to this model?");
}

std::string SequenceFacts::orderText(const Port &port) const {
  constexpr int64_t kLeastSequences = 16;
  constexpr size_t kLeastLengths = 5;
  return sequences >= kLeastSequences && lengths.size() >= kLeastLengths &&
                 (isAscending || isDescending)
             ? concat("the samples are sorted by the length of input '",
                      oneLine(port.name), "' without padding (", lengths.size(),
                      " lengths): a step sees similar lengths")
             : "";
}

} // namespace dpc::rt
