#define XXH_INLINE_ALL
#include "runtime/facts/SampleFacts.h"

#include "runtime/base/HostTensor.h"
#include "runtime/base/OneLine.h"
#include "runtime/base/Status.h"
#include "runtime/facts/PaddingFacts.h"

#include <algorithm>
#include <cstring>
#include <xxhash.h>

namespace dpc::rt {

/// Elements of larger samples are not compared.
static constexpr int64_t kMostElements = int64_t(1) << 20;

/// Fewer samples may have equal elements by chance.
static constexpr int64_t kLeastSamples = 16;

/// Whether the input tells what a sample is, as opposed to what it looks like.
static bool isLabel(const Port &port) {
  return port.use == InputUse::Labels || port.use == InputUse::Probabilities;
}

/// Whether the input may have the targets of a loss on numbers. If the compiler
/// has found none, every input of numbers may.
static bool isTarget(const Port &port, const std::vector<Port> &ports) {
  bool areKnown = std::ranges::any_of(
      ports, [](const Port &one) { return one.dependence.isTarget; });
  return port.use == InputUse::Data && isFloat(port.dtype) &&
         (port.dependence.isTarget || !areKnown);
}

/// Whether a sample of the input is a row of class labels that a loss counts.
static bool isRowOfLabels(const Port &port) {
  return (port.use == InputUse::Labels || port.use == InputUse::ShiftedLabels ||
          port.use == InputUse::IdsAndLabels) &&
         port.globalShape.size() == 2;
}

SampleFacts::SampleFacts(const std::vector<Port> &ports,
                         std::vector<int64_t> perSample, bool comparesRounded)
    : ports(ports), perSample(std::move(perSample)), varying(ports.size()),
      leaks(ports.size()) {
  for (size_t i = 0; i < ports.size(); ++i)
    if (this->perSample[i] == 1 &&
        (isLabel(ports[i]) || isTarget(ports[i], ports)))
      orders.emplace(i, LabelOrder(numElements(ports[i].globalShape)));
  for (size_t i = 0; i < ports.size(); ++i)
    if (ports[i].use == InputUse::Data && this->perSample[i] <= kMostElements)
      leaks[i].counter = CounterLeak(ports[i].dtype, this->perSample[i]);
  findTarget();
  if (target)
    watchLeaks();
  if (comparesRounded && std::ranges::any_of(ports, [](const Port &port) {
        return port.dtype == DType::F32 || port.dtype == DType::F64;
      }))
    rounded = {{DType::F16, {}}, {DType::BF16, {}}};
}

void SampleFacts::findTarget() {
  for (const auto &[input, order] : orders)
    if (isLabel(ports[input]))
      target = input;
  bool hasLabels = std::ranges::any_of(ports, [](const Port &port) {
    return isLabel(port) || isRowOfLabels(port);
  });
  if (!hasLabels && orders.size() == 1)
    target = orders.begin()->first;
}

void SampleFacts::watchLeaks() {
  constexpr int64_t kMostRanked = 1024; // elements
  const bool isFloatTarget = isFloat(ports[*target].dtype);
  for (size_t i = 0; i < ports.size(); ++i) {
    const DType type = ports[i].dtype;
    if (i == *target || !isFloat(type) || ports[i].use != InputUse::Data ||
        perSample[i] > kMostElements)
      continue;
    leaks[i].line = LabelLeak(type, perSample[i]);
    if (!isFloatTarget)
      leaks[i].classes = ClassLeak(type, perSample[i]);
    else if (perSample[i] <= kMostRanked)
      leaks[i].rank = RankLeak(type, perSample[i]);
  }
}

int64_t SampleFacts::bytesOf(size_t input) const {
  return perSample[input] * sizeOf(ports[input].dtype);
}

void SampleFacts::Varying::add(const std::byte *sample, int64_t elements,
                               int64_t width) {
  if (first.empty()) {
    first.assign(sample, sample + elements * width);
    varies.resize(elements);
    return;
  }
  for (int64_t i = 0; i < elements; ++i)
    if (!varies[i])
      varies[i] =
          std::memcmp(first.data() + i * width, sample + i * width, width) != 0;
}

/// Whether the elements are ones beside zeros, as in a mask of a padded text. A
/// few elements are in two runs by chance.
static bool isMaskOfText(const std::byte *sample, DType dtype, int64_t count) {
  constexpr int64_t kLeast = 4; // elements
  int64_t changes = 0;
  double last = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double value = loadAsDouble(sample, dtype, i);
    if (value != 0 && value != 1)
      return false;
    changes += i > 0 && value != last ? 1 : 0;
    last = value;
  }
  return count >= kLeast && changes <= 1;
}

void SampleFacts::add(const std::vector<const std::byte *> &arrays,
                      bool isHashed) {
  uint64_t data = 0, all = 0;
  for (size_t i = 0; i < ports.size(); ++i) {
    const Port &port = ports[i];
    leaks[i].counter.add(arrays[i]);
    if ((isFloat(port.dtype) || isRowOfLabels(port) ||
         port.dependence.weighsLoss) &&
        perSample[i] > 1 && perSample[i] <= kMostElements) {
      varying[i].add(arrays[i], perSample[i], sizeOf(port.dtype));
      varying[i].isMask = varying[i].isMask &&
                          isMaskOfText(arrays[i], port.dtype, perSample[i]);
    }
    if (isPadded(port))
      runs[i].add(arrays[i], port.dtype, perSample[i]);
    if (!isHashed)
      continue;
    all = XXH3_64bits_withSeed(arrays[i], bytesOf(i), all);
    if (!isLabel(port))
      data = XXH3_64bits_withSeed(arrays[i], bytesOf(i), data);
  }
  if (target) {
    double label = loadAsDouble(arrays[*target], ports[*target].dtype, 0);
    for (size_t i = 0; i < ports.size(); ++i) {
      leaks[i].line.add(arrays[i], label);
      leaks[i].rank.add(arrays[i], label);
      leaks[i].classes.add(arrays[i], label);
    }
  }
  for (auto &[input, order] : orders)
    order.add(loadAsDouble(arrays[input], ports[input].dtype, 0));
  if (isHashed)
    hashes.emplace_back(data, all);
  for (auto &[type, roundedHashes] : rounded)
    if (isHashed)
      roundedHashes.push_back(roundedHash(arrays, type));
  ++added;
}

void SampleFacts::finish() {
  std::ranges::sort(hashes);
  whole.reserve(hashes.size());
  for (const auto &[data, all] : hashes)
    whole.push_back(all);
  std::ranges::sort(whole);
  for (auto &[type, roundedHashes] : rounded)
    std::ranges::sort(roundedHashes);
}

/// Hashes some elements of each input, evenly spaced.
uint64_t SampleFacts::roundedHash(const std::vector<const std::byte *> &arrays,
                                  DType type) const {
  constexpr int64_t kMost = 64; // elements, which are slow to round
  uint64_t hash = 0;
  std::vector<std::byte> narrow;
  for (size_t i = 0; i < ports.size(); ++i) {
    if (!isFloat(ports[i].dtype)) {
      hash = XXH3_64bits_withSeed(arrays[i], bytesOf(i), hash);
      continue;
    }
    const int64_t count = std::min(perSample[i], kMost);
    narrow.assign(count * sizeOf(type), std::byte{0});
    for (int64_t k = 0; k < count; ++k)
      storeFromDouble(
          narrow.data(), type, k,
          loadAsDouble(arrays[i], ports[i].dtype, k * perSample[i] / count));
    hash = XXH3_64bits_withSeed(narrow.data(), narrow.size(), hash);
  }
  return hash;
}

/// Says which elements of a sample have one value in all samples.
std::string SampleFacts::constantText(size_t input) const {
  const Port &port = ports[input];
  int64_t equal = std::ranges::count(varying[input].varies, false);
  // Masks of padded texts begin with positions that all texts have.
  const bool isMask = port.dependence.weighsLoss || port.dependence.hidden ||
                      varying[input].isMask;
  return isFloat(port.dtype) && !isMask && equal > 0 && equal < perSample[input]
             ? concat("input '", oneLine(port.name), "': ", equal, " of ",
                      perSample[input], " elements of a sample ",
                      equal == 1 ? "has" : "have", " one value in all samples")
             : "";
}

bool SampleFacts::isPadding(const Port &labels) const {
  return std::ranges::any_of(runs, [&](const auto &one) {
    const Port &ids = ports[one.first];
    return ids.first == labels.first && ids.limit == labels.limit &&
           (one.second.isPadding({labels.first, true}) ||
            one.second.isPadding({labels.first, false}));
  });
}

std::string SampleFacts::counterText(size_t input) const {
  const std::string text = leaks[input].counter.text();
  return text.empty() ? ""
                      : concat("input '", oneLine(ports[input].name),
                               "': ", text, ": is it data?");
}

/// Returns the input of weights for the losses of an input of labels.
std::optional<size_t> SampleFacts::weightsOf(size_t labels) const {
  for (size_t i = 0; i < ports.size(); ++i)
    if (ports[i].dependence.weighsLoss && !varying[i].first.empty() &&
        perSample[i] == perSample[labels])
      return i;
  return std::nullopt;
}

/// Whether no sample has a weight of 0 at these positions.
bool SampleFacts::areWeighted(size_t weights, int64_t first,
                              int64_t count) const {
  for (int64_t i = first; i < first + count; ++i)
    if (varying[weights].varies[i] ||
        loadAsDouble(varying[weights].first.data(), ports[weights].dtype, i) ==
            0)
      return false;
  return true;
}

/// Whether labels are of the vocabulary of the ids, and no tags of them.
bool SampleFacts::areOfText(const Port &labels) const {
  return labels.use == InputUse::IdsAndLabels ||
         std::ranges::any_of(ports, [&](const Port &port) {
           return port.use == InputUse::Ids && port.limit == labels.limit &&
                  port.globalShape == labels.globalShape;
         });
}

/// Says that all rows of labels begin or end with the same value several times,
/// or that all texts begin with two marks. Other equal positions are usual,
/// such as a last label that ends the text.
std::string SampleFacts::paddingText(size_t input) const {
  const Port &port = ports[input];
  const Varying &rows = varying[input];
  const auto length = static_cast<int64_t>(rows.varies.size());
  if (!isRowOfLabels(port) || length == 0)
    return "";
  auto at = [&](int64_t i) {
    return static_cast<int64_t>(loadAsDouble(rows.first.data(), port.dtype, i));
  };
  auto run = [&](int64_t begin, int64_t step) {
    int64_t count = 0;
    for (int64_t i = begin;
         i >= 0 && i < length && !rows.varies[i] && at(i) == at(begin);
         i += step)
      ++count;
    return count;
  };
  for (bool isEnd : {true, false}) {
    int64_t count = run(isEnd ? length - 1 : 0, isEnd ? -1 : 1);
    int64_t first = isEnd ? length - count : 0, label = at(first);
    if (count < 2 || count == length || label == port.ignored)
      continue;
    const std::optional<size_t> weights = weightsOf(input);
    if (weights && !areWeighted(*weights, first, count))
      continue;
    if (!isEnd && count == 2 && !weights && areOfText(port))
      return concat("input '", oneLine(port.name), "': all ", added,
                    " samples begin with ", label,
                    " twice: was a mark of the begin added twice, or is it "
                    "padding, which the loss counts?");
    return concat("input '", oneLine(port.name), "': the labels at positions ",
                  first, " to ", first + count - 1, " are ", label, " in all ",
                  added, " samples; if they are padding, the loss counts them",
                  weights        ? " with the weights of input '" +
                                       oneLine(ports[*weights].name) + "'"
                  : port.ignored ? concat("; it ignores ", *port.ignored)
                                 : "");
  }
  return "";
}

/// Says which elements of a sample give the label away.
std::string SampleFacts::leakText(size_t input) const {
  if (!target || !orders.at(*target).varies())
    return "";
  const std::string label =
      concat(isLabel(ports[*target]) ? "the label of '" : "the value of '",
             oneLine(ports[*target].name), "'");
  const Leaks &one = leaks[input];
  std::string found;
  for (const std::string &text :
       {one.line.text(label), one.rank.text(label), one.classes.text(label)})
    if (found.empty())
      found = text;
  return found.empty() ? ""
                       : concat("input '", oneLine(ports[input].name),
                                "': ", found, " in all ", added, " samples");
}

/// Returns the number of hashes that repeat others.
static int64_t repeatedIn(const std::vector<uint64_t> &sorted) {
  int64_t repeated = 0;
  for (size_t i = 1; i < sorted.size(); ++i)
    repeated += sorted[i] == sorted[i - 1] ? 1 : 0;
  return repeated;
}

std::vector<std::string> SampleFacts::texts() const {
  std::vector<std::string> texts;
  for (size_t i = 0; added >= kLeastSamples && i < ports.size(); ++i)
    for (const std::string &text :
         {constantText(i), counterText(i), paddingText(i), leakText(i)})
      if (!text.empty())
        texts.push_back(text);
  const int64_t repeated = repeatedIn(whole);
  int64_t contrary = 0; // samples
  for (size_t i = 0, end = 0; i < hashes.size(); i = end) {
    while (end < hashes.size() && hashes[end].first == hashes[i].first)
      ++end;
    if (hashes[i].second != hashes[end - 1].second)
      contrary += static_cast<int64_t>(end - i);
  }
  if (repeated > 0)
    texts.push_back(concat(repeated, " of ", hashCount(), " samples ",
                           repeated == 1 ? "repeats" : "repeat",
                           " another sample"));
  if (contrary > 0)
    texts.push_back(concat(contrary, " of ", hashCount(),
                           " samples equal another sample with other labels"));
  return texts;
}

std::vector<std::string> SampleFacts::orderTexts() const {
  std::vector<std::string> texts;
  texts.reserve(orders.size());
  for (const auto &[input, order] : orders)
    texts.push_back(order.text(oneLine(ports[input].name)));
  return texts;
}

bool SampleFacts::hasInputsOf(const SampleFacts &training) const {
  if (ports.size() != training.ports.size())
    return false;
  for (size_t i = 0; i < ports.size(); ++i)
    if (ports[i].name != training.ports[i].name ||
        ports[i].dtype != training.ports[i].dtype ||
        perSample[i] != training.perSample[i])
      return false;
  return true;
}

static int64_t countIn(const std::vector<uint64_t> &some,
                       const std::vector<uint64_t> &all) {
  return std::ranges::count_if(some, [&](uint64_t hash) {
    return std::ranges::binary_search(all, hash);
  });
}

int64_t SampleFacts::countIn(const SampleFacts &training) const {
  return hasInputsOf(training) ? rt::countIn(whole, training.whole) : 0;
}

int64_t SampleFacts::countRoundedIn(const SampleFacts &training,
                                    DType type) const {
  auto own = rounded.find(type), other = training.rounded.find(type);
  if (own == rounded.end() || other == training.rounded.end() ||
      !hasInputsOf(training) ||
      repeatedIn(other->second) > repeatedIn(training.whole) ||
      repeatedIn(own->second) > repeatedIn(whole))
    return 0;
  return rt::countIn(own->second, other->second);
}

} // namespace dpc::rt
