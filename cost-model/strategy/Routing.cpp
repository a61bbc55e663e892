//===- Routing.cpp - How tokens spread over experts -----------------------===//
#include "cost-model/strategy/Routing.h"

#include "runtime/base/Json.h"
#include "runtime/base/Random.h"
#include "runtime/base/ReadFile.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

namespace dpc::cost {

namespace {

constexpr double kMostExponent = 10;

/// The probabilities that 0, 1, .. of several independent events happened; more
/// than the size are not counted.
using Counts = std::vector<double>;

void addEvent(Counts &counts, double probability) {
  for (size_t n = counts.size(); n-- > 1;)
    counts[n] = counts[n] * (1 - probability) + counts[n - 1] * probability;
  counts[0] *= 1 - probability;
}

/// Returns, for each of the events, the probability that fewer than `most` of
/// the others happened.
std::vector<double> fewOthers(const std::vector<double> &happened,
                              size_t most) {
  Counts none(most);
  none[0] = 1;
  std::vector<Counts> before = {none};
  for (double probability : happened)
    addEvent(before.emplace_back(before.back()), probability);
  std::vector<double> result(happened.size());
  Counts after = none;
  for (size_t i = happened.size(); i-- > 0;) {
    double sum = 0; // of the counts of `after` so far
    for (size_t n = 0; n < most; ++n) {
      sum += after[n];
      result[i] += before[i][most - 1 - n] * sum;
    }
    addEvent(after, happened[i]);
  }
  return result;
}

/// Returns the probabilities that one of `perToken` successive draws without
/// replacement gives each element, if the first draw gives it with the
/// probability `draw`.
std::vector<double> chosen(const std::vector<double> &draw, int64_t perToken) {
  if (perToken >= static_cast<int64_t>(draw.size()))
    return std::vector<double>(draw.size(), 1.0);
  // Times from 1e-4 to 1e9, in which the first draws take about 1.
  constexpr double kFirst = 1e-4, kFactor = 1.05;
  constexpr int kTimes = 613;
  double time = kFirst;
  std::vector<double> result(draw.size()), left(draw.size(), 1.0),
      few(draw.size(), 1.0);
  for (int step = 0; step < kTimes; ++step, time *= kFactor) {
    std::vector<double> later(draw.size()), happened(draw.size());
    for (size_t i = 0; i < draw.size(); ++i) {
      later[i] = std::exp(-draw[i] * time);
      happened[i] = 1 - later[i];
    }
    std::vector<double> fewLater = fewOthers(happened, perToken);
    for (size_t i = 0; i < draw.size(); ++i)
      result[i] += (left[i] - later[i]) * (few[i] + fewLater[i]) / 2;
    left = std::move(later);
    few = std::move(fewLater);
  }
  return result;
}

/// Divides by the mean.
void normalize(std::vector<double> &values) {
  double mean = std::accumulate(values.begin(), values.end(), 0.0) /
                static_cast<double>(values.size());
  for (double &value : values)
    value /= mean;
}

/// Returns `values` in the random order number `draw`.
std::vector<double> shuffled(const std::vector<double> &values, size_t draw) {
  const rt::RandomStream stream(draw, "experts");
  std::vector<std::pair<uint64_t, double>> keyed(values.size());
  for (size_t i = 0; i < values.size(); ++i)
    keyed[i] = {stream.bits(i), values[i]};
  std::sort(keyed.begin(), keyed.end());
  std::vector<double> result(values.size());
  std::ranges::transform(keyed, result.begin(),
                         [](const auto &pair) { return pair.second; });
  return result;
}

constexpr const char *kForms =
    "balanced, zipf:S with S from 0 to 10, such as zipf:1.2, or a JSON file "
    "with a list of layers, each a list of the tokens that each expert got";

Error unknown(const std::string &text) {
  return {"--routing=" + text + ": is not a routing; accepted: " + kForms};
}

/// Returns the counts of `json`, or an empty list if it has another form.
std::vector<std::vector<double>> countsOf(const nlohmann::json &json) {
  std::vector<std::vector<double>> counts;
  for (const nlohmann::json &layer : json.is_array() ? json : nlohmann::json())
    if (std::vector<double> &row = counts.emplace_back(); layer.is_array())
      for (const nlohmann::json &count : layer)
        row.push_back(count.is_number() ? count.get<double>() : -1);
  bool isValid = std::ranges::all_of(counts, [](const auto &row) {
    return !row.empty() && std::ranges::min(row) >= 0 &&
           std::ranges::max(row) > 0 && std::isfinite(std::ranges::max(row));
  });
  return isValid ? counts : std::vector<std::vector<double>>();
}

} // namespace

Routing Routing::zipf(double exponent) {
  Routing routing;
  char digits[32];
  auto end = std::to_chars(std::begin(digits), std::end(digits), exponent).ptr;
  routing.text = "zipf:" + std::string(std::begin(digits), end);
  routing.exponent = exponent;
  return routing;
}

Routing Routing::measured(std::string name,
                          std::vector<std::vector<double>> counts) {
  Routing routing;
  routing.text = std::move(name);
  routing.counts = std::move(counts);
  return routing;
}

Expected<Routing> Routing::parse(const std::string &text) {
  if (text == "balanced")
    return Routing();
  if (constexpr std::string_view kZipf = "zipf:"; text.starts_with(kZipf)) {
    double exponent = 0;
    const char *end = text.data() + text.size();
    auto [at, error] =
        std::from_chars(text.data() + kZipf.size(), end, exponent);
    if (error != std::errc() || at != end || !(exponent >= 0) ||
        exponent > kMostExponent)
      return unknown(text);
    return zipf(exponent);
  }
  auto file = readTextFile(text, kForms);
  if (!file)
    return Error{"--routing=" + file.message()};
  auto json = parseJson(*file, text);
  if (!json)
    return Error{"--routing=" + json.message()};
  auto counts = countsOf(*json);
  if (counts.empty())
    return unknown(text);
  return measured(text, std::move(counts));
}

std::string Routing::whyNotFor(int64_t experts) const {
  for (size_t layer = 0; layer < counts.size(); ++layer)
    if (counts[layer].size() != static_cast<size_t>(experts))
      return "--routing=" + text + ": layer " + std::to_string(layer) +
             " has counts of " + std::to_string(counts[layer].size()) +
             " experts; accepted: " + std::to_string(experts) +
             ", like the model";
  return "";
}

std::vector<std::vector<double>> Routing::popularity(int64_t experts,
                                                     int64_t perToken) const {
  if (isBalanced())
    return {std::vector<double>(experts, 1.0)};
  std::vector<std::vector<double>> result = counts;
  if (counts.empty()) {
    std::vector<double> draw;
    for (int64_t i = 1; i <= experts; ++i)
      draw.push_back(std::pow(static_cast<double>(i), -exponent));
    double sum = std::accumulate(draw.begin(), draw.end(), 0.0);
    for (double &one : draw)
      one /= sum;
    std::vector<double> ordered = chosen(draw, perToken);
    constexpr size_t kDraws = 64;
    for (size_t i = 0; i < kDraws; ++i)
      result.push_back(shuffled(ordered, i));
  }
  for (std::vector<double> &layer : result)
    normalize(layer);
  return result;
}

std::vector<double> Routing::loads(int64_t experts, int64_t perToken) const {
  auto layers = popularity(experts, perToken);
  std::vector<double> result;
  for (int64_t perRank = 1; perRank <= experts; ++perRank) {
    double sum = 0;
    for (const std::vector<double> &layer : layers) {
      double most = 0;
      for (int64_t first = 0; first < experts; first += perRank) {
        auto begin = layer.begin() + first;
        auto end = begin + std::min(perRank, experts - first);
        most = std::max(most, std::accumulate(begin, end, 0.0));
      }
      sum += most;
    }
    result.push_back(sum / static_cast<double>(layers.size() * perRank));
  }
  return result;
}

double Routing::dropped(int64_t experts, int64_t perToken, double slots) const {
  double sum = 0, all = 0;
  for (const std::vector<double> &layer : popularity(experts, perToken))
    for (double load : layer) {
      sum += std::max(0.0, load - slots);
      all += load;
    }
  return sum / all;
}

} // namespace dpc::cost
