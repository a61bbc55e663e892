//===- LinkSpeeds.h - Layouts for several link speeds -----------*- C++ -*-===//
//
// A strategy leaves decisions open: the shardings of ops over tensor and
// sequence axes, the cuts between stages, the gathers to recompute. The solver
// decides by *added* seconds of computation and communication. The time of the
// resulting program is *simulated*: computation hides communication, and copies
// after a gather take time. So the program with the smaller added time may be
// the slower one, and faster links can cause such a choice:
//
//   argmin over x of added(x, links)  need not minimize  T(x, links)
//
// Therefore the solver decides once for each of several link speeds, and the
// program with the smallest simulated time on the actual links wins:
//
//   T(strategy, links) = min over x in X of T(x, links),
//   X = { argmin over x of added(x, links at speed s) : s in S }
//
// S does not depend on the speed of the links. It holds three fractions and
// multiples of the device's memory bandwidth, as speeds of the innermost level;
// the other levels keep their ratio to the innermost level. So if all links
// become faster by one factor, X stays the same. The time T of each program in
// X does not grow, and neither does the minimum: faster links never make the
// result slower. Without S, faster links made it slower in 4 of 274 random
// cases, by 0.4 to 7.5 %.
//
// Limits of this argument:
//   * For larger programs and more devices, the solver uses only the actual
//     links, because that search is not exhaustive either. With S, the plans
//     chosen for GPT-3 on 1,024 A100, Llama 405B on 16,384 H100, an expert
//     model on 8,192 GB200 and a DiT on 64 A100 would gain at most 0.1 %, and
//     slower plans up to 11 % (the expert model with tp=4, the DiT with
//     tp=2x2).
//   * If only one level becomes faster, the ratios and X change.
//   * All_reduces are hierarchical if that is faster on the actual links, and
//     the parts of a hierarchical all_reduce wait for computations (Levels.h).
//   * T is a maximum over sums of seconds that decrease with speed, with two
//     exceptions: if the setup communicates, the time of the loop is
//     extrapolated from a difference of times; and the phases of a pipeline are
//     simulated as rigid blocks. Neither affects the random cases
//     (ExactnessTest).
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_LOWER_LINKSPEEDS_H
#define DPC_PASSES_LOWER_LINKSPEEDS_H

#include "cost-model/machine/Cluster.h"
#include "passes/shard/LoweringSpec.h"

#include "mlir/IR/BuiltinOps.h"

namespace dpc {

/// `cluster` with `bytesPerSecond` as the speed of the innermost level, and the
/// other levels scaled in proportion; unchanged if `bytesPerSecond` is 0.
cost::Cluster withLinkSpeed(const cost::Cluster &cluster,
                            double bytesPerSecond);

/// A subset of S whose speeds yield all programs of X, each once.
std::vector<double> linkSpeedsToTry(mlir::ModuleOp program,
                                    const cost::Cluster &cluster,
                                    const LoweringSpec &spec);

} // namespace dpc

#endif // DPC_PASSES_LOWER_LINKSPEEDS_H
