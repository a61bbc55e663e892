#include "runtime/facts/ProfileDifferences.h"

#include "runtime/base/NameList.h"
#include "runtime/base/Percent.h"
#include "runtime/facts/FrequentIds.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace dpc::rt {

namespace {

/// Compares two profiles of one input.
class Comparison {
public:
  Comparison(const InputProfile &here, const InputProfile &training,
             const std::string &where)
      : here(here), training(training), where(where),
        name("input '" + oneLine(here.name) + "'"),
        noise(noiseOf(here.samples, training.samples)),
        frequent(training.shares) {}

  std::string text() const;

private:
  using Parts = std::vector<Quantiles>;

  static double noiseOf(int64_t a, int64_t b);
  const Parts *partsOf(const InputProfile &profile, int dimension) const;
  double meanDistance(const Parts &a, const Parts &b, bool isReversed) const;
  bool fitsBetter(const Parts &a, const Parts &b, double before,
                  bool isReversed) const;
  std::string orderText() const;
  std::string permutationText(int dimension) const;
  std::string partText(int dimension, bool isFew) const;
  std::string wholeText() const;
  std::string rangeText() const;
  std::string sharesText() const;
  std::string shiftText() const;
  std::string newText() const;
  bool areConcentrated() const;
  bool hasOtherIds() const;
  std::string beginText() const;
  std::string paddingText() const;

  const InputProfile &here, &training;
  const std::string &where;
  std::string name;
  double noise;         ///< by how much equal distributions may differ
  FrequentIds frequent; ///< in training
};

} // namespace

/// A half of the samples beyond chance.
static constexpr double kFar = 0.5;
/// The part of the frequent indexes that equal vocabularies share at least.
static constexpr double kMost = 0.75;

/// "118 (101 to 140)"
static std::string spell(const Quantiles &part) {
  const double low = part.values[1], high = part.values[Quantiles::kCount - 2];
  return low == high ? spellNumber(low)
                     : concat(spellNumber(part.middle()), " (mostly ",
                              spellNumber(low), " to ", spellNumber(high), ")");
}

/// Two samples of one distribution have this distance with a probability of
/// about 10 % (Smirnov 1948: 2 exp(-2 c^2) for c = 1.2).
double Comparison::noiseOf(int64_t a, int64_t b) {
  return 1.2 *
         std::sqrt(1 / static_cast<double>(a) + 1 / static_cast<double>(b));
}

const Comparison::Parts *Comparison::partsOf(const InputProfile &profile,
                                             int dimension) const {
  auto found = profile.parts.find(dimension);
  return found == profile.parts.end() ? nullptr : &found->second;
}

double Comparison::meanDistance(const Parts &a, const Parts &b,
                                bool isReversed) const {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += a[i].distance(b[isReversed ? b.size() - 1 - i : i]);
  return sum / static_cast<double>(a.size());
}

/// Whether another order of parts explains why they have the distance `before`.
bool Comparison::fitsBetter(const Parts &a, const Parts &b, double before,
                            bool isReversed) const {
  constexpr double kBetter = 0.5;
  const double after = meanDistance(a, b, isReversed);
  return after < noise && after < kBetter * before;
}

/// Says that the elements lie in the reverse order along a dimension, or that
/// two dimensions are swapped.
std::string Comparison::orderText() const {
  for (const auto &[dimension, parts] : here.parts) {
    const Parts *known = partsOf(training, dimension);
    if (!known || dimension == InputProfile::kWhole)
      continue;
    const double distance = meanDistance(parts, *known, false);
    if (distance < noise)
      continue;
    if (fitsBetter(parts, *known, distance, true))
      return concat(name, " resembles the reverse of that ", where,
                    " along dimension ", dimension + 1);
    for (const auto &[other, parts2] : training.parts)
      if (other > dimension && parts2.size() == parts.size() &&
          fitsBetter(parts, parts2, distance, false))
        return concat(name, ": its dimension ", dimension + 1,
                      " resembles dimension ", other + 1, " ", where,
                      ": are they swapped?");
  }
  return "";
}

/// Says that positions along a dimension are permuted: most of those with other
/// numbers resemble another one of them.
std::string Comparison::permutationText(int dimension) const {
  constexpr size_t kMostParts = 128; // all pairs are compared
  constexpr double kDiffers = 0.1, kBetter = 0.5;
  const Parts &own = here.parts.at(dimension);
  const Parts &known = training.parts.at(dimension);
  std::vector<size_t> differing;
  for (size_t i = 0; i < own.size() && own.size() <= kMostParts; ++i)
    if (own[i].distance(known[i]) > noise + kDiffers)
      differing.push_back(i);
  std::vector<std::string> texts;
  for (size_t i : differing) {
    auto best = std::ranges::min_element(
        differing, {}, [&](size_t k) { return own[i].distance(known[k]); });
    const double distance = own[i].distance(known[*best]);
    if (distance < noise && distance < kBetter * own[i].distance(known[i]))
      texts.push_back(concat(i, " resembles ", *best));
  }
  return texts.size() < 2 || 4 * texts.size() < 3 * differing.size()
             ? ""
             : concat(name, ": positions along dimension ", dimension + 1,
                      " are in another order than ", where, ": ",
                      listed(texts, 4));
}

/// Says which positions along a dimension have other numbers; with `isFew`,
/// only if these are at most half of all.
std::string Comparison::partText(int dimension, bool isFew) const {
  const Parts &own = here.parts.at(dimension);
  const Parts &known = training.parts.at(dimension);
  std::vector<size_t> differing;
  for (size_t i = 0; i < own.size(); ++i)
    if (own[i].distance(known[i]) > kFar + noise)
      differing.push_back(i);
  if (differing.empty() || (isFew && 2 * differing.size() > own.size()))
    return "";
  const size_t first = differing.front();
  return concat(name, ": ", differing.size(), " of ", own.size(),
                " positions along dimension ", dimension + 1,
                differing.size() == 1 ? " has" : " have",
                " other numbers than ", where, ": at position ", first, ", ",
                spell(own[first]), " instead of ", spell(known[first]));
}

std::string Comparison::wholeText() const {
  const Parts *own = partsOf(here, InputProfile::kWhole);
  const Parts *known = partsOf(training, InputProfile::kWhole);
  if (!own || !known || own->front().distance(known->front()) <= kFar + noise)
    return "";
  const char *what =
      numElements(here.shape) > 1 ? ": a sample has the mean " : " is ";
  return concat(name, what, spell(own->front()), ", but ", where, " ",
                spell(known->front()));
}

/// Says that numbers are far outside the range of training.
std::string Comparison::rangeText() const {
  // The largest of numbers with a long tail differ by more than their range.
  constexpr double kTimes = 8;
  const double range = training.max - training.min;
  if (here.min >= training.min - kTimes * range &&
      here.max <= training.max + kTimes * range)
    return "";
  // A mask that hid nothing may hide something.
  if (range == 0 && here.min >= 0 && here.max <= 1)
    return "";
  return concat(name, " is ", spellNumber(here.min), " to ",
                spellNumber(here.max), ", but ", where, " ",
                spellNumber(training.min), " to ", spellNumber(training.max));
}

/// Says that the indexes are those of training plus a small number.
std::string Comparison::shiftText() const {
  for (int64_t shift : {1, -1, 2, -2, 3, -3, 4, -4})
    if (frequent.partIn(here.shares, shift) > kMost &&
        frequent.partIn(here.shares) < kMost)
      return concat(name, ": the indexes seem to be those ", where,
                    shift > 0 ? " plus " : " minus ", std::abs(shift));
  return "";
}

/// Says which classes no sample of training has.
std::string Comparison::newText() const {
  constexpr double kLeast = 5; // by chance, with a probability of exp(-5)
  // Several larger labels have one counter.
  if (std::max(here.max, training.max) >= InputProfile::kCounters ||
      std::min(here.min, training.min) < 0)
    return "";
  std::vector<std::string> texts;
  double sum = 0;
  for (const auto &[index, part] : here.shares)
    if (!training.shares.contains(index) &&
        part * static_cast<double>(training.indexes) > kLeast) {
      sum += part;
      texts.push_back(std::to_string(index));
    }
  return texts.empty() ? ""
                       : concat(percent(sum), " of the labels in ", name,
                                " are ", listed(texts),
                                ", a class that no sample ", where, " has");
}

/// Whether few of the ids are half of all, here and in training, and the data
/// have about as many different ids as they would with those of training. Ids
/// of some users, or of a short time, are fewer.
bool Comparison::areConcentrated() const {
  constexpr double kFew = 0.3, kLeast = 0.5;
  double expected = 0;
  for (const auto &[index, part] : training.shares)
    expected += 1 - std::pow(1 - part, static_cast<double>(here.indexes));
  auto isConcentrated = [&](const FrequentIds &ids,
                            const InputProfile &profile) {
    return static_cast<double>(ids.count()) <
           kFew * static_cast<double>(profile.shares.size());
  };
  return isConcentrated(frequent, training) &&
         isConcentrated(FrequentIds(here.shares), here) &&
         static_cast<double>(here.shares.size()) > kLeast * expected;
}

/// Whether other ids are frequent than in training. Single ids may drift: some
/// of those that are half of all lose their place.
bool Comparison::hasOtherIds() const {
  constexpr double kFew = 0.4, kFewOfSingle = 0.3;
  constexpr size_t kLeast = 4; // frequent ids
  if (numElements(here.shape) > 1)
    return frequent.partIn(here.shares) < kFew;
  const FrequentIds own(here.shares);
  const size_t count = std::min(frequent.count(), own.count());
  return count >= kLeast && static_cast<double>(frequent.countIn(own)) <
                                kFewOfSingle * static_cast<double>(count);
}

std::string Comparison::sharesText() const {
  constexpr int64_t kLeast = 100; // indexes
  if (std::min(here.indexes, training.indexes) < kLeast)
    return "";
  const bool isSingle = numElements(here.shape) == 1;
  // Classes may be balanced, or chosen, on purpose.
  if (isSingle && !here.areIds)
    return newText();
  if (isSingle && !areConcentrated())
    return "";
  if (std::string text = shiftText(); !text.empty())
    return text;
  return hasOtherIds()
             ? concat(name, ": the ids that are half of all ", where,
                      " are only ",
                      percent(frequent.partIn(here.shares) * frequent.share()),
                      " here: is it the same vocabulary?")
             : "";
}

std::string Comparison::beginText() const {
  constexpr int64_t kLeast = 4;
  if (!training.begin || here.begin == training.begin ||
      std::min(here.samples, training.samples) < kLeast)
    return "";
  return concat(name, ": samples begin with ",
                here.begin ? concat(*here.begin) : "different ids", ", but ",
                where, " with ", *training.begin);
}

std::string Comparison::paddingText() const {
  if (!training.padding || !here.padding || here.padding == training.padding)
    return "";
  auto spelled = [](const std::pair<int64_t, bool> &padding) {
    return concat(padding.first, padding.second ? " at the end" : " first");
  };
  return concat(name, ": the padding is probably ", spelled(*here.padding),
                ", but ", where, " ", spelled(*training.padding));
}

std::string Comparison::text() const {
  std::vector<std::string> texts;
  texts.push_back(sharesText());
  texts.push_back(beginText());
  texts.push_back(paddingText());
  std::vector<int> dimensions; // that both have
  if (here.shape == training.shape)
    for (const auto &[dimension, parts] : here.parts)
      if (dimension != InputProfile::kWhole && partsOf(training, dimension))
        dimensions.push_back(dimension);
  if (!dimensions.empty())
    texts.push_back(orderText());
  for (int dimension : dimensions)
    texts.push_back(permutationText(dimension));
  for (int dimension : dimensions)
    texts.push_back(partText(dimension, /*isFew=*/true));
  texts.push_back(wholeText());
  for (int dimension : dimensions)
    texts.push_back(partText(dimension, /*isFew=*/false));
  if (!here.parts.empty())
    texts.push_back(rangeText());
  // One difference makes others.
  auto first = std::ranges::find_if_not(texts, &std::string::empty);
  return first == texts.end() ? "" : *first;
}

/// How far the shares of ids are apart, from 0 to 1 (the total variation),
/// minus what is expected of two samples of one distribution.
static double distanceOf(const InputProfile &a, const InputProfile &b) {
  std::map<int64_t, std::pair<double, double>> both;
  for (const auto &[index, part] : a.shares)
    both[index].first = part;
  for (const auto &[index, part] : b.shares)
    both[index].second = part;
  const auto of = static_cast<double>(a.indexes),
             others = static_cast<double>(b.indexes);
  double sum = 0, chance = 0;
  for (const auto &[index, parts] : both) {
    const auto [own, other] = parts;
    const double mean = (of * own + others * other) / (of + others);
    sum += std::fabs(own - other) / 2;
    // The mean size of a normal number is sqrt(2 / pi) of its deviation.
    chance += 0.4 * std::sqrt(mean * (1 - mean) * (1 / of + 1 / others));
  }
  return sum - chance;
}

/// Whether the ids of two inputs are distributed as those of the other one in
/// training.
static bool areSwapped(const InputProfile &a, const InputProfile &b,
                       const InputProfile &trainedA,
                       const InputProfile &trainedB) {
  constexpr double kNear = 0.1, kFar = 0.2;
  constexpr int64_t kLeast = 100; // ids
  return std::min({a.indexes, b.indexes, trainedA.indexes, trainedB.indexes}) >=
             kLeast &&
         distanceOf(a, trainedB) < kNear && distanceOf(b, trainedA) < kNear &&
         distanceOf(a, trainedA) > kFar && distanceOf(b, trainedB) > kFar;
}

/// Finds two inputs of ids that are swapped, removes them from `names`, and
/// says so.
static std::string swapText(const DataProfile &here,
                            const DataProfile &training,
                            const std::string &where,
                            std::set<std::string> &names) {
  for (const InputProfile &a : here.inputs)
    for (const InputProfile &b : here.inputs) {
      const InputProfile *trainedA = training.find(a.name);
      const InputProfile *trainedB = training.find(b.name);
      if (&a >= &b || !a.areIds || !b.areIds || !trainedA || !trainedB ||
          !areSwapped(a, b, *trainedA, *trainedB))
        continue;
      names.erase(a.name);
      names.erase(b.name);
      return concat("inputs '", oneLine(a.name), "' and '", oneLine(b.name),
                    "' resemble each other ", where, ": are they swapped?");
    }
  return "";
}

std::vector<std::string> differences(const DataProfile &here,
                                     const DataProfile &training,
                                     const std::string &where) {
  std::set<std::string> names;
  for (const InputProfile &input : here.inputs)
    names.insert(input.name);
  std::vector<std::string> texts{swapText(here, training, where, names)};
  for (const InputProfile &input : here.inputs)
    if (const InputProfile *known = training.find(input.name);
        known && names.contains(input.name))
      texts.push_back(Comparison(input, *known, where).text());
  if (here.classes && training.classes)
    texts.push_back(here.classes->difference(*training.classes, where));
  std::erase(texts, "");
  return texts;
}

} // namespace dpc::rt
