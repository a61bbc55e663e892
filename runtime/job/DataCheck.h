//===- DataCheck.h - the data of a run, before its first step ---*- C++ -*-===//
#pragma once

#include "runtime/io/InputSource.h"
#include "runtime/job/RunOptions.h"

#include <optional>

namespace dpc {

/// What a run says about its data before its first step.
struct DataReport {
  rt::DataFacts facts;                  ///< of the inputs of the run
  rt::DataProfile profile;              ///< of the same
  std::optional<rt::DataFacts> heldOut; ///< of --eval-data
  std::vector<std::string> lines;
};

/// Reads the data of a run, and with --eval-plan that of the evaluation, once.
/// Refuses what would end the run or spoil it in a later step: an index out of
/// range, NaN or +Inf (unless --on-nan=go-on, or the plan skips such steps),
/// and labels that are all ignored. `evalInputs` may be null. Only the process
/// of rank 0 needs to call it.
Expected<DataReport> checkData(const RunOptions &options, const rt::Plan &plan,
                               rt::InputSource &inputs,
                               rt::InputSource *evalInputs);

/// Compares the data of a run, and the graph of its plan, with those that
/// trained its weights. `trained` is the text of their profile,
/// which the file `path` holds.
std::vector<std::string> trainedTexts(const RunOptions &options,
                                      const rt::Plan &plan,
                                      const DataReport &data,
                                      const std::string &trained,
                                      const std::string &path);

/// Compares the data with the steps of a run, of which `done` are completed:
/// the number of epochs, batches that repeat, steps without labels.
std::vector<std::string> amountTexts(const RunOptions &options,
                                     const rt::Plan &plan,
                                     rt::InputSource &inputs,
                                     const rt::DataFacts &facts, int64_t done);

/// Says that the learning rate is 0, or that its schedule and a run of `steps`
/// steps end at different steps.
std::vector<std::string> rateTexts(const rt::Plan &plan, int64_t steps);

} // namespace dpc
