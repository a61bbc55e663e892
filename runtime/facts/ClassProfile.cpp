#include "runtime/facts/ClassProfile.h"

#include "runtime/base/HostTensor.h"
#include "runtime/base/NameList.h"
#include "runtime/facts/IndexCheck.h"

#include <algorithm>
#include <cmath>

namespace dpc::rt {

using Json = nlohmann::json;

static constexpr int64_t kMostClasses = 64, kMostParts = 64;
/// Fewer samples of a class tell little.
static constexpr int64_t kLeastSamples = 8;

std::optional<ClassProfileBuilder>
ClassProfileBuilder::of(const std::vector<Port> &ports,
                        const std::vector<int64_t> &perSample) {
  ClassProfileBuilder made;
  int64_t found = 0;
  for (size_t i = 0; i < ports.size(); ++i) {
    const Port &port = ports[i];
    if (port.use == InputUse::Labels && isIndex(port) && perSample[i] == 1 &&
        port.limit - port.first <= kMostClasses) {
      made.labels = i;
      ++found;
    }
    if (port.use == InputUse::Data && isFloat(port.dtype) &&
        !port.dependence.weighsLoss && perSample[i] > made.elements) {
      made.numbers = i;
      made.elements = perSample[i];
    }
  }
  if (found != 1 || made.elements == 0)
    return std::nullopt;
  made.ports = ports;
  const std::vector<int64_t> &shape = ports[made.numbers].globalShape;
  made.parts = 1;
  made.inner = made.elements;
  for (size_t i = 1; i < shape.size(); ++i)
    if (shape[i] > made.parts && shape[i] <= kMostParts) {
      made.parts = shape[i];
      made.inner = 1;
      for (size_t k = i + 1; k < shape.size(); ++k)
        made.inner *= shape[k];
    }
  return made;
}

std::vector<double>
ClassProfileBuilder::numbersOf(const std::byte *sample) const {
  std::vector<double> sums(parts);
  const DType type = ports[numbers].dtype;
  for (int64_t i = 0; i < elements; ++i)
    sums[i / inner % parts] += loadAsDouble(sample, type, i);
  const int64_t ofPart = elements / parts;
  for (double &sum : sums)
    sum /= static_cast<double>(ofPart);
  return sums;
}

void ClassProfileBuilder::add(const std::vector<const std::byte *> &arrays) {
  const Port &port = ports[labels];
  auto label =
      static_cast<int64_t>(loadAsDouble(arrays[labels], port.dtype, 0));
  if (port.ignored && label == *port.ignored)
    return;
  const std::vector<double> values = numbersOf(arrays[numbers]);
  if (!std::ranges::all_of(values,
                           [](double value) { return std::isfinite(value); }))
    return;
  Sums &one = classes[label];
  ++one.samples;
  one.sums.resize(parts);
  one.squares.resize(parts);
  for (int64_t i = 0; i < parts; ++i) {
    one.sums[i] += values[i];
    one.squares[i] += values[i] * values[i];
  }
}

std::optional<ClassProfile> ClassProfileBuilder::finish() const {
  ClassProfile profile;
  profile.labels = ports[labels].name;
  profile.numbers = ports[numbers].name;
  std::vector<double> squares(parts);
  double samples = 0;
  for (const auto &[label, one] : classes) {
    if (one.samples < kLeastSamples)
      continue;
    const auto count = static_cast<double>(one.samples);
    ClassProfile::Class &made = profile.classes[label];
    made.samples = one.samples;
    for (int64_t i = 0; i < parts; ++i) {
      made.means.push_back(one.sums[i] / count);
      squares[i] += one.squares[i] - one.sums[i] * made.means[i];
    }
    samples += count;
  }
  for (double square : squares)
    profile.deviations.push_back(std::sqrt(std::max(square, 0.0) / samples));
  return profile.classes.size() < 2 ? std::nullopt
                                    : std::optional(std::move(profile));
}

/// Returns the mean square of the differences, each as a part of how much it
/// differs by chance.
double ClassProfile::distance(const Class &own, const Class &other) const {
  const double chance = 1 / static_cast<double>(own.samples) +
                        1 / static_cast<double>(other.samples);
  double sum = 0;
  for (size_t i = 0; i < own.means.size(); ++i)
    if (deviations[i] > 0)
      sum += std::pow((own.means[i] - other.means[i]) / deviations[i], 2);
  return sum / chance / static_cast<double>(own.means.size());
}

std::string ClassProfile::difference(const ClassProfile &training,
                                     const std::string &where) const {
  // The expected distance of equal classes is 1.
  constexpr double kEqual = 4, kDiffers = 16;
  if (labels != training.labels || numbers != training.numbers ||
      deviations.size() != training.deviations.size())
    return "";
  size_t differing = 0;
  std::vector<std::string> texts;
  for (const auto &[label, own] : classes) {
    auto known = training.classes.find(label);
    if (known == training.classes.end() ||
        distance(own, known->second) < kDiffers)
      continue;
    ++differing;
    auto best =
        std::ranges::min_element(training.classes, {}, [&](const auto &other) {
          return distance(own, other.second);
        });
    if (best->first != label && distance(own, best->second) < kEqual)
      texts.push_back(concat(label, " is like ", best->first));
  }
  return texts.size() < 2 || 4 * texts.size() < 3 * differing
             ? ""
             : concat("the classes of input '", oneLine(labels),
                      "' seem to be in another order than ", where, ": ",
                      listed(texts));
}

Json ClassProfile::json() const {
  Json all = Json::array();
  for (const auto &[label, one] : classes)
    all.push_back({label, one.samples, one.means});
  return {{"labels", labels},
          {"numbers", numbers},
          {"deviations", deviations},
          {"classes", all}};
}

static bool readNumbers(const Json &json, std::vector<double> &numbers) {
  if (!json.is_array())
    return false;
  for (const Json &number : json) {
    if (!number.is_number())
      return false;
    numbers.push_back(number);
  }
  return true;
}

std::optional<ClassProfile> ClassProfile::parse(const Json &json) {
  ClassProfile profile;
  if (!json.is_object() || !json.contains("labels") ||
      !json["labels"].is_string() || !json.contains("numbers") ||
      !json["numbers"].is_string() || !json.contains("deviations") ||
      !readNumbers(json["deviations"], profile.deviations) ||
      !json.contains("classes") || !json["classes"].is_array())
    return std::nullopt;
  profile.labels = json["labels"];
  profile.numbers = json["numbers"];
  for (const Json &entry : json["classes"]) {
    if (!entry.is_array() || entry.size() != 3 ||
        !entry[0].is_number_integer() || !entry[1].is_number_integer() ||
        entry[1].get<int64_t>() < 1)
      return std::nullopt;
    Class &one = profile.classes[entry[0].get<int64_t>()];
    one.samples = entry[1];
    if (!readNumbers(entry[2], one.means) ||
        one.means.size() != profile.deviations.size())
      return std::nullopt;
  }
  return profile;
}

} // namespace dpc::rt
