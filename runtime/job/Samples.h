//===- Samples.h - --data and --eval-data -----------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_JOB_SAMPLES_H
#define DPC_RUNTIME_JOB_SAMPLES_H

#include "runtime/data/DatasetInputs.h"
#include "runtime/job/RunOptions.h"

#include <memory>
#include <optional>

namespace dpc {

/// The labels of --ignored-label, or usualLabels().
std::optional<rt::IgnoredLabels> labelsToIgnore(const RunOptions &options,
                                                const rt::Plan &plan);

/// The samples of --data, for training or inference.
Expected<std::unique_ptr<rt::InputSource>>
openSamples(const RunOptions &options, const rt::Plan &plan);

/// The samples of --eval-data, each once, in the order of the file. If samples
/// are repeated to fill the last step, their labels are ignored.
Expected<std::unique_ptr<rt::InputSource>>
openHeldOut(const RunOptions &options, const rt::Plan &plan);

} // namespace dpc

#endif // DPC_RUNTIME_JOB_SAMPLES_H
