//===- Samples.h - --data and --eval-data -----------------------*- C++ -*-===//
#pragma once

#include "runtime/data/DatasetInputs.h"
#include "runtime/exec/Session.h"
#include "runtime/job/RunOptions.h"

#include <memory>
#include <optional>

namespace dpc {

/// Returns the labels of --ignored-label, or else usualLabels().
std::optional<rt::IgnoredLabels> labelsToIgnore(const RunOptions &options,
                                                const rt::Plan &plan);

/// Refuses --ignored-label in a run that reads no such label.
Status checkIgnoredLabel(const RunOptions &options, const rt::Plan &plan);

/// Opens --data for training or inference.
Expected<std::unique_ptr<rt::InputSource>>
openSamples(const RunOptions &options, const rt::Plan &plan);

/// Opens --eval-data. Each sample counts once, in the order of the file.
/// Repeated samples that fill the last step have ignored labels.
Expected<std::unique_ptr<rt::InputSource>>
openHeldOut(const RunOptions &options, const rt::Plan &plan);

/// Reads the inputs of a step in every process. Fails in all of them if it
/// fails in one, so that no process waits in the step for that one.
Expected<std::vector<const void *>>
loadEverywhere(rt::Session &session, rt::InputSource &inputs, int64_t step);

} // namespace dpc
