//===- LinkSpeeds.h - Layouts for several link speeds -----------*- C++ -*-===//
//
// Chooses layouts so that faster links never make a strategy slower. A strategy
// leaves decisions open: the shardings of ops over tensor and sequence axes,
// the cuts between stages, the gathers to recompute. The solver chooses a
// program x by added(x, links), the sum of its computation and communication
// times. But T(x, links), the simulated time, also depends on overlap and on
// copies after gathers. So the program with the smallest sum may have a larger
// simulated time, and faster links may cause this choice.
//
// Therefore, the solver decides once for each speed s in a set S, and the
// program with the smallest simulated time on the actual links wins:
//
//   T(strategy, links) = min over x in X of T(x, links),
//   X = { argmin over x of added(x, links at speed s) : s in S }
//
// S does not depend on the speed of the links: its three speeds are fixed
// multiples of the device's memory bandwidth. A speed applies to the innermost
// level, and the other levels keep their ratio to this level. So if all links
// become faster by one factor, X stays the same, T of each program in X does
// not grow, and the minimum does not grow either. Without S, faster links made
// the result slower in 4 of 274 random cases, by 0.4 to 7.5 %.
//
// Limits of this argument:
//   * For larger programs and more devices, the solver uses only the actual
//     links, because its search is not exhaustive either. With S, the plans
//     chosen for GPT-3 on 1,024 A100, Llama 405B on 16,384 H100, an expert
//     model on 8,192 GB200 and a DiT on 64 A100 would become faster by at most
//     0.1 %. Plans that were not chosen would become faster by up to 11 %.
//   * If only one level becomes faster, the ratios and X change.
//   * Whether an all_reduce is hierarchical depends on the actual links
//     (Levels.h), and the parts of a hierarchical all_reduce wait for
//     computation.
//   * Two parts of T may grow with link speed: if the setup communicates, the
//     time of the loop is extrapolated from a difference of times; and the
//     phases of a pipeline are simulated as rigid blocks. Neither affects the
//     random cases (ExactnessTest).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/machine/Cluster.h"
#include "passes/shard/LoweringSpec.h"

#include "mlir/IR/BuiltinOps.h"

namespace dpc {

/// Returns `cluster` with `bytesPerSecond` as the speed of the innermost level
/// and the other levels scaled in proportion; 0 changes nothing.
cost::Cluster withLinkSpeed(const cost::Cluster &cluster,
                            double bytesPerSecond);

/// Returns a subset of S whose speeds yield each program of X once.
std::vector<double> linkSpeedsToTry(mlir::ModuleOp program,
                                    const cost::Cluster &cluster,
                                    const LoweringSpec &spec);

} // namespace dpc
