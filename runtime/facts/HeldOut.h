//===- HeldOut.h - held-out data against that of training -------*- C++ -*-===//
#pragma once

#include "runtime/facts/DataFacts.h"

#include <optional>

namespace dpc::rt {

/// Says how many samples of `heldOut` are also in `training`, the data of the
/// option `source`; "" if none is, or if the two do not have the same inputs.
std::string commonText(const DataFacts &training, const std::string &source,
                       const DataFacts &heldOut);

/// Says how many samples of `heldOut` equal one of `training` in a narrower
/// type, if many more do than without rounding; "" otherwise.
std::string roundedText(const DataFacts &training, const std::string &source,
                        const DataFacts &heldOut);

/// Says that many samples of `heldOut` nearly equal one of `training`
/// (NearSamples.h); "" otherwise.
std::string nearText(const DataFacts &training, const std::string &source,
                     const DataFacts &heldOut);

/// Says that many passages of ids in `heldOut` are also in
/// `training`, although few samples are; "" otherwise. Slices of one text begin
/// at other ids.
std::string passageText(const DataFacts &training, const std::string &source,
                        const DataFacts &heldOut);

/// Says that the series of numbers in `heldOut` have many passages of those in
/// `training` at other offsets, as overlapping windows of one series do; ""
/// otherwise.
std::string seriesText(const DataFacts &training, const std::string &source,
                       const DataFacts &heldOut);

/// Says about which share of the samples of `data` is also in the data that
/// trained weights, whose profile is `trained`. `here` names the samples, and
/// `where` the other data. "" if the share is not clear.
std::string trainedText(const DataFacts &data, const std::string &here,
                        const DataProfile &trained, const std::string &where);

} // namespace dpc::rt
