//===- FoldCompose.h - A large pipeline from two small ones -----*- C++ -*-===//
//
// Private to passes/price.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/price/FoldStages.h"
#include "passes/price/SmallProgram.h"

namespace dpc {

/// Returns the evaluation of the pipeline that `folded` describes, from the
/// measured programs `folded.fewer` and, unless `folded.isExact`,
/// `folded.more`. Returns nothing if the messages cannot be extrapolated.
std::optional<cost::Evaluation>
composePipeline(const FoldedPipeline &folded, const SmallProgram &fewer,
                const SmallProgram &more, const LoweringSpec &spec,
                const cost::Cluster &cluster, bool trains);

} // namespace dpc
