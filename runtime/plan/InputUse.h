//===- InputUse.h - what a program does with its inputs ---------*- C++ -*-===//
#pragma once

#include "runtime/base/DType.h"
#include "runtime/base/EnumNames.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dpc::rt {

/// What the program uses an input for.
enum class InputUse {
  Data,          ///< everything else
  Unread,        ///< nothing: no op reads it
  Ids,           ///< rows of tables (embeddings)
  Labels,        ///< classes of a loss
  ShiftedLabels, ///< the label at position i belongs to the scores at i - 1
  IdsAndLabels,  ///< rows of tables, and classes of a loss
  Probabilities, ///< targets of a binary cross entropy, from 0 to 1
  Positive       ///< numbers of which the program takes the logarithm
};

/// A score plus this number does not count in a softmax.
inline constexpr int64_t kAddedMask = -1'000'000'000;
/// Numbers below this one, added to a score, hide it.
inline constexpr double kHidesScore = -1e3;

/// How the scores and the loss of a model depend on an input: measured by
/// running a small version of it, or read from its ops.
struct Dependence {
  /// Of labels, for inputs of tokens: the scores for the label at position t
  /// depend on the tokens up to position t + lookahead.
  std::map<std::string, int64_t> lookahead;
  /// Of labels: the loss divides by the number of all labels, although ignored
  /// ones add nothing.
  bool countsIgnored = false;
  /// Of labels: the loss is the mean of the cross entropies of those that are
  /// not ignored.
  bool isMean = false;
  /// Of numbers that the scores do not depend on: the loss is the mean over all
  /// rows of the products of their losses with these numbers, so that rows
  /// where they are 0 lower it.
  bool scalesLoss = false;
  /// Of numbers that the scores do not depend on: the loss multiplies the
  /// losses of rows by them.
  bool weighsLoss = false;
  /// The loss compares scores with the elements of the input.
  bool isTarget = false;
  /// Of targets: the scores are never outside of these numbers.
  std::optional<double> lowest = std::nullopt, highest = std::nullopt;
  /// Of a mask: other positions do not read tokens where it has this value, 0
  /// or 1, or kAddedMask if it is added to scores.
  std::optional<int64_t> hidden;
  /// Of tokens: the only id with which the model compares them, such as that of
  /// padding.
  std::optional<int64_t> padding = std::nullopt;
  /// Of tokens: the loss reads the scores of the last position only.
  bool readsLast = false;
  /// Of integers: the type of the numbers into which the model converts them.
  std::optional<DType> convertedTo = std::nullopt;
  /// Of numbers x: the model first computes (x - shift) * scale. Of numbers
  /// with channels, these are means over the channels.
  std::optional<double> shift = std::nullopt, scale = std::nullopt;
  /// Of labels: the factor of each class in the loss.
  std::vector<double> classWeights = {};
  /// Of targets that the loss multiplies by the logarithms of a softmax: the
  /// dimension of the classes.
  std::optional<int64_t> classDim = std::nullopt;
  /// Of targets: where they are 0, the loss is a number that depends on no
  /// other input, and not 0.
  bool ignoresZero = false;
  /// Of labels: an output that is a mean over all of them, also over those that
  /// the loss ignores; or "".
  std::string countedBy = {};

  bool operator==(const Dependence &) const = default;
};

} // namespace dpc::rt

namespace dpc {
template <>
inline constexpr std::array<std::string_view, 8> kNamesOf<rt::InputUse> = {
    "data",           "unread",         "ids",           "labels",
    "shifted-labels", "ids-and-labels", "probabilities", "positive"};
} // namespace dpc
