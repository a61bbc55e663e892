#include "runtime/facts/DataProfile.h"

#include "runtime/base/HostTensor.h"
#include "runtime/base/Json.h"
#include "runtime/facts/IndexCheck.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

namespace dpc::rt {

using Json = nlohmann::json;

/// A dimension with more positions has no parts.
static constexpr int64_t kMostParts = 256;

Quantiles Quantiles::of(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  Quantiles result;
  for (size_t i = 0; i < kCount; ++i)
    result.values.push_back(numbers[(numbers.size() - 1) * i / (kCount - 1)]);
  return result;
}

double Quantiles::shareBelow(double value) const {
  constexpr auto kSteps = static_cast<double>(kCount - 1);
  auto [low, high] = std::ranges::equal_range(values, value);
  if (low != high)
    return (static_cast<double>(low - values.begin()) +
            static_cast<double>(high - 1 - values.begin())) /
           (2 * kSteps);
  if (low == values.begin() || low == values.end())
    return low == values.begin() ? 0 : 1;
  const double within = (value - low[-1]) / (*low - low[-1]);
  return (static_cast<double>(low - 1 - values.begin()) + within) / kSteps;
}

double Quantiles::distance(const Quantiles &other) const {
  double most = 0;
  for (const std::vector<double> &places : {values, other.values})
    for (double place : places)
      most = std::max(most,
                      std::fabs(shareBelow(place) - other.shareBelow(place)));
  return most;
}

const InputProfile *DataProfile::find(const std::string &name) const {
  auto found = std::ranges::find(inputs, name, &InputProfile::name);
  return found == inputs.end() ? nullptr : &*found;
}

ProfileBuilder::ProfileBuilder(const Port &port, int64_t elements)
    : port(port), elements(elements) {
  profile.name = port.name;
  profile.areIds = port.use == InputUse::Ids;
  if (!port.globalShape.empty())
    profile.shape.assign(port.globalShape.begin() + 1, port.globalShape.end());
  if (isIndex(port))
    return;
  means[InputProfile::kWhole].resize(1);
  for (size_t i = 0; i < profile.shape.size(); ++i)
    if (profile.shape[i] > 1 && profile.shape[i] <= kMostParts)
      means[static_cast<int>(i)].resize(profile.shape[i]);
}

int64_t ProfileBuilder::mostSamples() const {
  constexpr int64_t kFew = 32, kMany = 4096, kMostElements = int64_t(1) << 25;
  return std::clamp(kMostElements / std::max<int64_t>(elements, 1), kFew,
                    kMany);
}

void ProfileBuilder::add(const std::byte *sample) {
  ++profile.samples;
  if (isIndex(port))
    addIndexes(sample);
  else
    addNumbers(sample);
}

void ProfileBuilder::addIndexes(const std::byte *sample) {
  for (int64_t i = 0; i < elements; ++i) {
    auto index = static_cast<int64_t>(loadAsDouble(sample, port.dtype, i));
    if (i == 0 && elements > 1)
      ++begins[index];
    if (port.ignored && index == *port.ignored)
      continue;
    ++counts[InputProfile::counterOf(index)];
    ++profile.indexes;
  }
  runs.add(sample, port.dtype, elements);
}

void ProfileBuilder::addNumbers(const std::byte *sample) {
  for (auto &[dimension, parts] : means) {
    int64_t inner = 1; // elements that follow each other in a part
    for (size_t i = dimension + 1; i < profile.shape.size(); ++i)
      inner *= profile.shape[i];
    if (dimension == InputProfile::kWhole)
      inner = elements;
    std::vector<double> sums(parts.size());
    std::vector<int64_t> finite(parts.size());
    for (int64_t i = 0, part = 0; i < elements; i += inner) {
      for (int64_t k = i; k < i + inner; ++k)
        if (double value = loadAsDouble(sample, port.dtype, k);
            std::isfinite(value)) {
          sums[part] += value;
          ++finite[part];
        }
      part = part + 1 == static_cast<int64_t>(parts.size()) ? 0 : part + 1;
    }
    for (size_t part = 0; part < parts.size(); ++part)
      if (finite[part] > 0)
        parts[part].push_back(sums[part] / static_cast<double>(finite[part]));
  }
}

InputProfile ProfileBuilder::finish() const {
  InputProfile result = profile;
  for (const auto &[dimension, parts] : means) {
    if (std::ranges::any_of(parts, &std::vector<double>::empty))
      continue;
    for (const std::vector<double> &numbers : parts)
      result.parts[dimension].push_back(Quantiles::of(numbers));
  }
  for (const auto &[index, count] : counts)
    result.shares[index] =
        static_cast<double>(count) / static_cast<double>(profile.indexes);
  if (std::vector<PaddingRuns::Key> padding = runs.padding(); !padding.empty())
    result.padding = padding.back();
  constexpr double kNearlyAll = 0.98;
  for (const auto &[index, count] : begins)
    if (static_cast<double>(count) >=
        kNearlyAll * static_cast<double>(profile.samples))
      result.begin = index;
  return result;
}

/// Six digits are enough.
static double rounded(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", number);
  return std::strtod(text, nullptr);
}

static Json toJson(const InputProfile &input) {
  Json json = {{"name", input.name},
               {"shape", input.shape},
               {"samples", input.samples},
               {"min", rounded(input.min)},
               {"max", rounded(input.max)}};
  for (const auto &[dimension, parts] : input.parts)
    for (const Quantiles &part : parts) {
      Json values = Json::array();
      for (double value : part.values)
        values.push_back(rounded(value));
      json["parts"][std::to_string(dimension)].push_back(std::move(values));
    }
  if (input.indexes > 0)
    json["indexes"] = input.indexes;
  for (const auto &[index, share] : input.shares)
    json["shares"].push_back({index, rounded(share)});
  if (input.begin)
    json["begin"] = *input.begin;
  if (input.padding)
    json["padding"] = {input.padding->first,
                       input.padding->second ? "end" : "begin"};
  return json;
}

std::string DataProfile::text() const {
  if (isEmpty())
    return "";
  Json json = {{"source", source}, {"inputs", Json::array()}};
  if (!graph.empty())
    json["graph"] = graph;
  for (const InputProfile &input : inputs)
    json["inputs"].push_back(toJson(input));
  if (classes)
    json["classes"] = classes->json();
  if (samples)
    json["samples"] = samples->json();
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

static constexpr const char *kExpected = "the profile that dpc-run has written";

static constexpr NumberRange kAnyNumber{
    -std::numeric_limits<double>::infinity(), false,
    std::numeric_limits<double>::infinity(), "a number"};

/// Reads the quantiles of each part along each dimension.
static bool readParts(const Json &json, InputProfile &input) {
  if (!json.is_object())
    return false;
  const auto rank = static_cast<int>(input.shape.size());
  for (const auto &[key, list] : json.items()) {
    int dimension = rank;
    for (int i = InputProfile::kWhole; i < rank; ++i)
      if (std::to_string(i) == key)
        dimension = i;
    if (dimension == rank || !list.is_array())
      return false;
    const int64_t count =
        dimension == InputProfile::kWhole ? 1 : input.shape[dimension];
    if (static_cast<int64_t>(list.size()) != count || count > kMostParts)
      return false;
    for (const Json &numbers : list) {
      Quantiles part;
      for (const Json &number : numbers)
        if (number.is_number())
          part.values.push_back(number);
      if (part.values.size() != Quantiles::kCount ||
          numbers.size() != Quantiles::kCount ||
          !std::ranges::is_sorted(part.values))
        return false;
      input.parts[dimension].push_back(std::move(part));
    }
  }
  return true;
}

static bool readShares(const Json &json, InputProfile &input) {
  if (!json.is_array())
    return false;
  for (const Json &entry : json) {
    if (!entry.is_array() || entry.size() != 2 ||
        !entry[0].is_number_integer() || !entry[1].is_number())
      return false;
    input.shares[entry[0].get<int64_t>()] = entry[1];
  }
  return true;
}

static bool readPadding(const Json &json, InputProfile &input) {
  if (!json.is_array() || json.size() != 2 || !json[0].is_number_integer() ||
      (json[1] != "end" && json[1] != "begin"))
    return false;
  input.padding = {json[0].get<int64_t>(), json[1] == "end"};
  return true;
}

static InputProfile readInput(const Json &json, const std::string &where,
                              JsonErrors &errors) {
  constexpr int64_t kMost = int64_t(1) << 48;
  InputProfile input;
  JsonFields fields(json, where, errors);
  fields.string("name", input.name);
  fields.integer("samples", input.samples, 1, kMost);
  fields.number("min", input.min, kAnyNumber);
  fields.number("max", input.max, kAnyNumber);
  auto expect = [&](const char *key, bool isRight) {
    if (!isRight)
      errors.report(fields.path(key), "other values", kExpected);
  };
  if (const Json *shape = fields.required("shape", kExpected))
    for (const Json &extent : *shape) {
      expect("shape", extent.is_number_integer());
      if (extent.is_number_integer())
        input.shape.push_back(extent);
    }
  if (const Json *parts = fields.optional("parts"))
    expect("parts", readParts(*parts, input));
  if (fields.has("indexes"))
    fields.integer("indexes", input.indexes, 1, kMost);
  if (const Json *shares = fields.optional("shares"))
    expect("shares", readShares(*shares, input));
  if (fields.has("begin"))
    fields.integer("begin", input.begin.emplace(), -kMost, kMost);
  if (const Json *padding = fields.optional("padding"))
    expect("padding", readPadding(*padding, input));
  fields.finish();
  return input;
}

Expected<DataProfile> DataProfile::parse(const std::string &text,
                                         const std::string &path) {
  DataProfile profile;
  if (text.empty())
    return profile;
  if (nestsTooDeep(text))
    return Status::invalid(path, ": its lists nest too deep, expected ",
                           kExpected);
  DPC_ASSIGN(Json json, parseJson(text, path));
  JsonErrors errors;
  JsonFields fields(json, path, errors);
  fields.string("source", profile.source);
  if (fields.has("graph")) // files of older versions have none
    fields.string("graph", profile.graph);
  if (const Json *inputs = fields.array("inputs", kExpected))
    for (const Json &input : *inputs)
      profile.inputs.push_back(readInput(input, path, errors));
  if (const Json *classes = fields.optional("classes")) {
    profile.classes = ClassProfile::parse(*classes);
    if (!profile.classes)
      errors.report(fields.path("classes"), "other values", kExpected);
  }
  if (const Json *samples = fields.optional("samples")) {
    profile.samples = SampleSketch::parse(*samples);
    if (!profile.samples)
      errors.report(fields.path("samples"), "other values", kExpected);
  }
  fields.finish();
  DPC_TRY(errors.status());
  return profile;
}

} // namespace dpc::rt
