//===- TrainStep.h - A training step as it stands --------------*- C++ -*-===//
#ifndef DPC_FRONTENDS_STABLEHLO_TRAINSTEP_H
#define DPC_FRONTENDS_STABLEHLO_TRAINSTEP_H

#include "frontends/stablehlo/Arguments.h"

namespace dpc::frontend::hlo {

/// Makes `@train_step` of a module whose `@forward` takes the arguments of
/// `signature` and returns its results, the tied ones last: roles of states,
/// ties, and the phase of every op. `forward` are all ops but those that only
/// serve the next values of parameters and states, element by element, which
/// are `update`.
///
/// Results that are neither tied nor scalars are dropped, with a remark.
void makeTrainStep(mlir::ModuleOp module, const Signature &signature);

} // namespace dpc::frontend::hlo

#endif // DPC_FRONTENDS_STABLEHLO_TRAINSTEP_H
