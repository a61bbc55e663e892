//===- TrainStep.h - Conversion of a complete training step -----*- C++ -*-===//
#ifndef DPC_FRONTENDS_STABLEHLO_TRAINSTEP_H
#define DPC_FRONTENDS_STABLEHLO_TRAINSTEP_H

#include "frontends/stablehlo/Arguments.h"

namespace dpc::frontend::hlo {

/// Converts a module whose `@forward` takes the arguments of `signature` and
/// returns its results, the tied ones last, into one with `@train_step`. Sets
/// the roles of the states, the ties and the phase of every op. The phase is
/// `update` for ops that only compute next values of parameters and states
/// element by element; all other ops are `forward`.
///
/// Drops results that are neither tied nor scalars, with a remark.
void makeTrainStep(mlir::ModuleOp module, const Signature &signature);

} // namespace dpc::frontend::hlo

#endif // DPC_FRONTENDS_STABLEHLO_TRAINSTEP_H
