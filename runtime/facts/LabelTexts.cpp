#include "runtime/facts/LabelTexts.h"

#include "runtime/base/NameList.h"
#include "runtime/base/OneLine.h"
#include "runtime/base/Percent.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace dpc::rt {

static std::string inputOf(const ArrayFacts &facts) {
  return concat("input '", oneLine(facts.port.name), "': ");
}

/// Whether each sample has one label of several classes, and enough labels
/// occur to miss a class. Positions of a sequence may have special labels.
static bool hasClasses(const ArrayFacts &facts) {
  constexpr int64_t kLeastClasses = 3, kLeastOfClass = 10;
  const auto count = static_cast<int64_t>(facts.occurrences.size());
  return facts.port.globalShape.size() == 1 && count >= kLeastClasses &&
         facts.counted + facts.ignored >= kLeastOfClass * count;
}

/// Says that all classes except 0 occur.
static std::string countedFromOneText(const ArrayFacts &facts) {
  const std::vector<int64_t> &counts = facts.occurrences;
  if (!hasClasses(facts) || facts.port.first != 0 ||
      facts.port.ignored.value_or(-1) == 0 || counts.front() > 0 ||
      std::ranges::count(counts, 0) > 1)
    return "";
  return concat(inputOf(facts), "no label is 0, but each of 1 to ",
                counts.size() - 1, " occurs; the loss counts its ",
                counts.size(), " classes from 0");
}

/// Says that the first class is far less frequent than each other one.
static std::string strayText(const ArrayFacts &facts) {
  constexpr int64_t kLeastRatio = 20;
  const std::vector<int64_t> &counts = facts.occurrences;
  if (!hasClasses(facts) || counts.front() == 0)
    return "";
  int64_t least = *std::min_element(counts.begin() + 1, counts.end());
  if (least < kLeastRatio * counts.front())
    return "";
  return concat(inputOf(facts), counts.front(), " of ", facts.counted,
                counts.front() == 1 ? " labels is " : " labels are ",
                facts.port.first, ", but each of ", facts.port.first + 1,
                " to ", facts.port.limit - 1, " occurs at least ", least,
                " times: are the classes numbered from ", facts.port.first + 1,
                "?");
}

/// Says that the last class is missing, and that the ignored label before the
/// first class is as frequent as the other classes.
static std::string ignoredClassText(const ArrayFacts &facts) {
  const std::vector<int64_t> &counts = facts.occurrences;
  if (!hasClasses(facts) || facts.port.ignored != facts.port.first - 1 ||
      counts.back() > 0)
    return "";
  auto [least, most] = std::minmax_element(counts.begin(), counts.end() - 1);
  if (*least == 0 || 2 * facts.ignored < *least || facts.ignored > 2 * *most)
    return "";
  return concat(inputOf(facts), "no label is ", facts.port.limit - 1, ", but ",
                percent(facts.ignored, facts.elements), " are ",
                *facts.port.ignored,
                ", which the loss ignores: are they the first class? The loss "
                "counts its ",
                counts.size(), " classes from ", facts.port.first);
}

/// Says that the largest label is the largest number of a small integer type,
/// although there are more classes. Fewer labels end there by chance.
static std::string narrowText(const ArrayFacts &facts) {
  constexpr double kLeastLogChance = -14; // about one in a million
  // A model of bytes has a few more ids, which are no labels.
  constexpr double kMoreClasses = 1.5;
  const auto classes = static_cast<double>(facts.occurrences.size());
  if (facts.counted == 0 || facts.port.first != 0)
    return "";
  for (auto [largest, type] :
       {std::pair(127, "i8"), {255, "u8"}, {32767, "i16"}, {65535, "u16"}}) {
    const auto possible = static_cast<double>(largest + 1);
    if (facts.max != static_cast<double>(largest) ||
        classes < kMoreClasses * possible ||
        static_cast<double>(facts.counted) * std::log(possible / classes) >
            kLeastLogChance)
      continue;
    return concat(inputOf(facts), "the largest label is ", largest,
                  ", the largest number of ", type, ", but the loss has ",
                  facts.occurrences.size(),
                  " classes: were larger labels stored in too small a type?");
  }
  return "";
}

/// Says which classes of a loss have no sample, although the others have many.
static std::string missingText(const ArrayFacts &facts, bool firstIsPadding) {
  constexpr int64_t kMany = 8; // samples of a class
  std::vector<std::string> missing;
  const std::vector<int64_t> &counts = facts.occurrences;
  for (size_t i = firstIsPadding ? 1 : 0; i < counts.size(); ++i)
    if (counts[i] == 0)
      missing.push_back(std::to_string(facts.port.first + int64_t(i)));
  const int64_t found =
      std::ranges::count_if(counts, [](int64_t count) { return count > 0; });
  if (facts.port.globalShape.size() != 1 || missing.empty() || found < 2 ||
      facts.counted < kMany * found)
    return "";
  return concat(inputOf(facts), missing.size(), " of ", counts.size(),
                " classes of the loss ",
                missing.size() == 1 ? "does not occur: " : "do not occur: ",
                listed(missing));
}

/// Returns a frequent class and a rare one with a smaller weight, if no rare
/// class has a larger weight than a class that is much more frequent.
static std::optional<std::pair<size_t, size_t>>
heavierClass(const std::vector<int64_t> &counts,
             const std::vector<double> &weights) {
  constexpr int64_t kMoreOften = 3; // than a rare class
  std::vector<size_t> order;        // of classes that occur, the rarest first
  for (size_t i = 0; i < counts.size(); ++i)
    if (counts[i] > 0)
      order.push_back(i);
  std::ranges::sort(order, {}, [&](size_t i) { return counts[i]; });
  std::optional<std::pair<size_t, size_t>> found;
  std::optional<size_t> lightest, heaviest; // of the rare classes
  size_t rare = 0;
  for (size_t i : order) {
    for (; kMoreOften * counts[order[rare]] <= counts[i]; ++rare) {
      const size_t k = order[rare];
      if (!lightest || weights[k] < weights[*lightest])
        lightest = k;
      if (!heaviest || weights[k] > weights[*heaviest])
        heaviest = k;
    }
    if (heaviest && weights[*heaviest] > weights[i])
      return std::nullopt;
    if (lightest && weights[*lightest] < weights[i])
      found = {i, *lightest};
  }
  return found;
}

/// Says that the loss gives labels that occur the weight 0, or frequent classes
/// larger weights than rare ones. Both may be meant.
static std::string weightsText(const ArrayFacts &facts) {
  const std::vector<double> &weights = facts.port.dependence.classWeights;
  std::vector<int64_t> counts = facts.occurrences;
  if (facts.port.use == InputUse::Probabilities &&
      facts.minCount + facts.maxCount == facts.counted && facts.min == 0)
    counts = {facts.minCount, facts.maxCount};
  if (weights.size() < 2 || counts.size() != weights.size())
    return "";
  auto classText = [&](size_t i) {
    return concat(spellNumber(weights[i]), " to class ",
                  facts.port.first + static_cast<int64_t>(i), " (",
                  percent(counts[i], facts.counted), ")");
  };
  for (size_t i = 0; i < counts.size(); ++i)
    if (weights[i] == 0 && counts[i] > 0)
      return concat(inputOf(facts), "the loss gives the weight ", classText(i));
  const std::optional<std::pair<size_t, size_t>> found =
      heavierClass(counts, weights);
  return found ? concat(inputOf(facts), "the loss gives the weight ",
                        classText(found->first), ", and only ",
                        classText(found->second))
               : "";
}

std::vector<std::string> labelTexts(const ArrayFacts &facts,
                                    bool firstIsPadding) {
  std::vector<std::string> texts = {
      firstIsPadding ? "" : countedFromOneText(facts), strayText(facts),
      ignoredClassText(facts), narrowText(facts)};
  std::erase(texts, "");
  if (texts.empty())
    texts = {missingText(facts, firstIsPadding)};
  texts.push_back(weightsText(facts));
  std::erase(texts, "");
  return texts;
}

} // namespace dpc::rt
