//===- MaskCheck.h - Whether a loss leaves ignored labels out ---*- C++ -*-===//
#ifndef DPC_RUNTIME_JOB_MASKCHECK_H
#define DPC_RUNTIME_JOB_MASKCHECK_H

#include "runtime/data/DatasetInputs.h"
#include "runtime/exec/Session.h"

#include <functional>

namespace dpc {

/// The loss of a step's inputs. All calls start from the same values, for the
/// same step number.
using LossOf =
    std::function<Expected<double>(const std::vector<const void *> &)>;

/// Whether the plan has an output "loss" of one value.
bool hasScalarLoss(const rt::Plan &plan);

/// The output "loss" of the last step, the same in all processes.
Expected<double> lossEverywhere(rt::Session &session);

/// Whether the loss of `plan` is the mean over the labels that are not
/// `ignored`, as filling up steps takes for granted. Tried on `arrays`, the
/// inputs of a step of which the first `counted` samples count: with labels for
/// all samples (a), for those that count (b) and for the others (c), each as
/// many, the means are perStep * a = counted * b + (perStep - counted) * c,
/// whatever a sample's own loss is. A loss that divides by all samples, or
/// ignores another label, is refused.
Status checkIgnored(const rt::Plan &plan, const rt::IgnoredLabels &ignored,
                        int64_t counted,
                        const std::vector<const void *> &arrays,
                        const LossOf &lossOf);

} // namespace dpc

#endif // DPC_RUNTIME_JOB_MASKCHECK_H
