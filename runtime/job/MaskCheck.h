//===- MaskCheck.h - whether a loss ignores labels ---*- C++ -*-===//
#ifndef DPC_RUNTIME_JOB_MASKCHECK_H
#define DPC_RUNTIME_JOB_MASKCHECK_H

#include "runtime/data/DatasetInputs.h"
#include "runtime/exec/Session.h"

#include <functional>

namespace dpc {

/// Computes the loss of a step's inputs. All calls start from the same values
/// of tensors and have the same step number.
using LossOf =
    std::function<Expected<double>(const std::vector<const void *> &)>;

/// Whether the plan has an output "loss" of one value.
bool hasScalarLoss(const rt::Plan &plan);

/// The output "loss" of the last step. Returns the same value in all processes.
Expected<double> lossEverywhere(rt::Session &session);

/// Checks that the loss of `plan` is the mean over the labels that are not
/// `ignored`, so that it does not depend on the samples that fill a step.
/// Refuses a loss that divides by the number of all samples or ignores another
/// label. `arrays` are the inputs of a step whose first `counted` samples
/// count. The check computes the loss three times: with equally many labels in
/// each sample (loss a), with labels only in the samples that count (loss b),
/// and with labels only in the other samples (loss c). If the loss is the mean
/// over labels, perStep * a = counted * b + (perStep - counted) * c.
Status checkIgnored(const rt::Plan &plan, const rt::IgnoredLabels &ignored,
                    int64_t counted, const std::vector<const void *> &arrays,
                    const LossOf &lossOf);

} // namespace dpc

#endif // DPC_RUNTIME_JOB_MASKCHECK_H
