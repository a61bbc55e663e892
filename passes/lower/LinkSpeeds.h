//===- LinkSpeeds.h - Layouts for several link speeds -----------*- C++ -*-===//
//
// A strategy leaves decisions open: the shardings of ops over tensor and
// sequence axes, the cuts between stages, the gathers to recompute. The solver
// decides by *added* seconds of computation and communication. The time of the
// resulting program is *simulated*: communication hides behind computation, and
// copies after a gather take time. So the sum may prefer the slower of two
// programs, and faster links can cause that:
//
//   argmin over x of added(x, links)  need not minimize  T(x, links)
//
// Therefore the solver decides for links of several speeds, and the program
// with the least simulated time on the actual links wins:
//
//   T(strategy, links) = min over x in X of T(x, links),
//   X = { argmin over x of added(x, links at speed s) : s in S }
//
// S does not depend on the speed of the links. It holds three fractions and
// multiples of the device's memory bandwidth, as speeds of the innermost level;
// the other levels keep their ratio to it. So X is the same if all links become
// faster by one factor. T of each program does not grow then, nor does the
// minimum: the answer never gets worse. Without S it got worse in 4 of 274
// random cases, by 0.4 to 7.5 %.
//
// Limits of this argument:
//   * For larger programs and more devices the solver uses the actual links
//     alone, because that search is not exhaustive either. The plans chosen for
//     GPT-3 on 1,024 A100, Llama 405B on 16,384 H100, an expert model on 8,192
//     GB200 and a DiT on 64 A100 would gain at most 0.1 %; slower plans up to
//     11 % (the expert model with tp=4, the DiT with tp=2x2).
//   * If only one level becomes faster, the ratios and X change.
//   * All_reduces are hierarchical if that is faster on the actual links, and
//     their parts wait for computations (Levels.h).
//   * T is a maximum over sums of seconds that fall with speed, with two
//     exceptions: a loop after setups that communicate is extrapolated from a
//     difference of times, and the phases of a pipeline are rigid blocks. The
//     random cases (ExactnessTest) show no effect of either.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_LOWER_LINKSPEEDS_H
#define DPC_PASSES_LOWER_LINKSPEEDS_H

#include "cost-model/machine/Cluster.h"
#include "passes/shard/LoweringSpec.h"

#include "mlir/IR/BuiltinOps.h"

namespace dpc {

/// `cluster` with `bytesPerSecond` on the innermost level and the other levels
/// scaled in proportion; unchanged if that is 0.
cost::Cluster withLinkSpeed(const cost::Cluster &cluster,
                            double bytesPerSecond);

/// A subset of S that yields all programs of X, each once.
std::vector<double> linkSpeedsToTry(mlir::ModuleOp program,
                                    const cost::Cluster &cluster,
                                    const LoweringSpec &spec);

} // namespace dpc

#endif // DPC_PASSES_LOWER_LINKSPEEDS_H
