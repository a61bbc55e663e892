//===- MaskCheck.h - Whether a loss leaves ignored labels out ---*- C++ -*-===//
#ifndef DPC_RUNTIME_JOB_MASKCHECK_H
#define DPC_RUNTIME_JOB_MASKCHECK_H

#include "runtime/data/DatasetInputs.h"
#include "runtime/exec/Session.h"

#include <functional>

namespace dpc {

/// Computes the loss of a step's inputs. All calls start from the same values
/// and have the same step number.
using LossOf =
    std::function<Expected<double>(const std::vector<const void *> &)>;

/// Whether the plan has an output "loss" of one value.
bool hasScalarLoss(const rt::Plan &plan);

/// The output "loss" of the last step, the same in all processes.
Expected<double> lossEverywhere(rt::Session &session);

/// Checks that the loss of `plan` is the mean over the labels that are not
/// `ignored`, which filling up steps requires. The check uses `arrays`, the
/// inputs of a step whose first `counted` samples count. With labels for all
/// samples (a), for the samples that count (b) and for the others (c), with
/// equally many labels per sample, the means satisfy perStep * a = counted * b
/// + (perStep - counted) * c for any losses of the samples. Refuses a loss that
/// divides by all samples, or that ignores another label.
Status checkIgnored(const rt::Plan &plan, const rt::IgnoredLabels &ignored,
                    int64_t counted, const std::vector<const void *> &arrays,
                    const LossOf &lossOf);

} // namespace dpc

#endif // DPC_RUNTIME_JOB_MASKCHECK_H
