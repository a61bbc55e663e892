//===- Samples.h - --data and --eval-data -----------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_JOB_SAMPLES_H
#define DPC_RUNTIME_JOB_SAMPLES_H

#include "runtime/data/DatasetInputs.h"
#include "runtime/job/RunOptions.h"

#include <memory>
#include <optional>

namespace dpc {

/// --ignored-label, or what labels usually are; nullopt: the plan has none.
std::optional<rt::IgnoredLabels> labelsToIgnore(const RunOptions &options,
                                                const rt::Plan &plan);

/// The samples of --data, for training or inference.
Expected<std::unique_ptr<rt::InputSource>>
openSamples(const RunOptions &options, const rt::Plan &plan);

/// Those of --eval-data, each once and as they lie. What fills up the last step
/// has labels that the loss ignores.
Expected<std::unique_ptr<rt::InputSource>>
openHeldOut(const RunOptions &options, const rt::Plan &plan);

} // namespace dpc

#endif // DPC_RUNTIME_JOB_SAMPLES_H
