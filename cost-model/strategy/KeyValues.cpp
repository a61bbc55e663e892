//===- KeyValues.cpp - Text of the values of keys -------------------------===//
#include "cost-model/strategy/KeyValues.h"

#include "cost-model/machine/Placement.h"

#include <algorithm>
#include <charconv>

namespace dpc::cost {

bool BatchShares::isUneven() const {
  return std::any_of(ratios.begin(), ratios.end(),
                     [&](int64_t ratio) { return ratio != ratios.front(); });
}

template <typename Values>
static std::string join(const Values &values, const char *separator) {
  std::string text;
  for (const auto &value : values) {
    text += text.empty() ? "" : separator;
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>)
      text += value;
    else
      text += std::to_string(value);
  }
  return text;
}

std::string printValue(int64_t value) { return std::to_string(value); }
std::string printValue(bool value) { return value ? "true" : "false"; }

std::string printValue(const TensorDegree &value) {
  return value.grid.empty() ? std::to_string(value.ranks)
                            : join(value.grid, "x");
}

std::string printValue(const PlacementSpec &value) {
  if (value.isAuto())
    return "auto";
  return join(value.axes, ".") +
         (value.groups.empty() ? "" : "@" + join(value.groups, "."));
}

std::string printValue(const BatchShares &value) {
  if (value.ratios.empty())
    return value.isAuto ? "auto" : "even";
  return join(value.ratios, ":");
}

Error badValue(std::string_view key, std::string_view value,
               const std::string &expected) {
  return Error{"--strategy: " + std::string(key) + "=" + std::string(value) +
               ": bad value; expected " + expected};
}

std::string listNames(const std::string_view *names, size_t count) {
  std::string text = "one of";
  for (size_t i = 0; i < count; ++i)
    text += " " + std::string(names[i]);
  return text;
}

static std::optional<int64_t> parseInteger(std::string_view text) {
  int64_t value = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

Status parseValue(const KeyInfo &key, std::string_view text, int64_t &out) {
  std::optional<int64_t> number = parseInteger(text);
  if (!number || *number < key.least || *number > key.most)
    return badValue(key.name, text,
                    key.most == INT64_MAX
                        ? "a whole number >= " + std::to_string(key.least)
                        : "a whole number from " + std::to_string(key.least) +
                              " to " + std::to_string(key.most));
  out = *number;
  return Status();
}

Status parseValue(const KeyInfo &key, std::string_view text, bool &out) {
  if (text != "true" && text != "false")
    return badValue(key.name, text, "true or false");
  out = text == "true";
  return Status();
}

/// Parses tp=8, or a grid such as tp=2x4. Factors of 1 are dropped.
Status parseValue(const KeyInfo &key, std::string_view text,
                  TensorDegree &out) {
  TensorDegree degree;
  for (std::string_view rest = text;;) {
    size_t end = rest.find('x');
    std::optional<int64_t> factor = parseInteger(rest.substr(0, end));
    if (!factor || *factor < 1 || *factor > INT64_MAX / degree.ranks)
      return badValue(key.name, text,
                      "a whole number >= 1, or a grid such as 2x2");
    degree.ranks *= *factor;
    if (*factor > 1)
      degree.grid.push_back(*factor);
    if (end == std::string_view::npos)
      break;
    rest.remove_prefix(end + 1);
  }
  if (degree.grid.size() > 3)
    return badValue(key.name, text, "at most three factors larger than 1");
  if (degree.grid.size() < 2)
    degree.grid.clear();
  out = std::move(degree);
  return Status();
}

static Error badPlacement(std::string_view text, const std::string &why) {
  std::string axes;
  for (std::string_view axis : placementAxes())
    axes += (axes.empty() ? "" : ", ") + std::string(axis);
  return Error{"--strategy: placement=" + std::string(text) + ": " + why +
               "; expected auto, or axes (of " + axes +
               "), innermost first, and optionally node groups: tp.dp.pp@1.0"};
}

/// Splits a text at dots. An empty text has no parts.
static std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size() && !text.empty();) {
    size_t end = std::min(text.find('.', begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

static Status parseAxes(std::string_view text, std::string_view axes,
                        std::vector<std::string> &out) {
  for (std::string &axis : split(axes)) {
    const auto &known = placementAxes();
    if (std::find(known.begin(), known.end(), axis) == known.end())
      return badPlacement(text, "unknown axis '" + axis + "'");
    if (std::find(out.begin(), out.end(), axis) != out.end())
      return badPlacement(text, "axis '" + axis + "' is given twice");
    out.push_back(std::move(axis));
  }
  return Status();
}

static Status parseGroups(std::string_view text, std::string_view groups,
                          std::vector<int64_t> &out) {
  for (const std::string &part : split(groups)) {
    std::optional<int64_t> group = parseInteger(part);
    if (!group || *group < 0)
      return badPlacement(text, "'" + part + "' is not the number of a group");
    if (std::find(out.begin(), out.end(), *group) != out.end())
      return badPlacement(text, "group " + part + " is given twice");
    out.push_back(*group);
  }
  return out.empty() ? Status(badPlacement(text, "no group after '@'"))
                     : Status();
}

Status parseValue(const KeyInfo &, std::string_view text, PlacementSpec &out) {
  out = {};
  if (text == "auto")
    return Status();
  if (text.empty())
    return badPlacement(text, "it names nothing");
  size_t at = std::min(text.find('@'), text.size());
  DPC_TRY(parseAxes(text, text.substr(0, at), out.axes));
  return at == text.size() ? Status()
                           : parseGroups(text, text.substr(at + 1), out.groups);
}

Status parseValue(const KeyInfo &key, std::string_view text, BatchShares &out) {
  constexpr int64_t kMost = 1 << 20; // Sums of ratios must not overflow.
  out = {text == "auto", {}};
  if (text == "auto" || text == "even")
    return Status();
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find(':', begin), text.size());
    std::optional<int64_t> ratio =
        parseInteger(text.substr(begin, end - begin));
    if (!ratio || *ratio < 1 || *ratio > kMost)
      return badValue(key.name, text,
                      "auto, even, or what data-parallel ranks take of the "
                      "batch as whole numbers from 1 to " +
                          std::to_string(kMost) + ", such as 3:1");
    out.ratios.push_back(*ratio);
    begin = end + 1;
  }
  return Status();
}

} // namespace dpc::cost
