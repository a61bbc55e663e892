//===- LinkSpeeds.h - Programs for links of any speed -----------*- C++ -*-===//
//
// What a strategy leaves open (what ops do over tensor and sequence axes, where
// stages are cut, what is gathered again) is decided by *added* seconds of
// computation and communication, and the program that comes out is *simulated*:
// communication hides behind computation, a loss that nobody waits for costs
// nothing, moving what was gathered into place costs something. So the sum may
// prefer the slower of two programs, and faster links may make it do so:
//
//   min over x of added(x, links)  does not say  min over x of T(x, links)
//
// Instead, the decisions are taken for links of several speeds, and the program
// that takes the least simulated time on the links that there are is taken:
//
//   T(strategy, links) = min over x in X of T(x, links),
//   X = { argmin over x of added(x, links at speed s) : s in S }
//
// S depends on everything but the speed of the links: three fractions and
// multiples of the bandwidth of the device's memory. Speed is that of the
// innermost level; the others keep their ratio to it. So X is the same on links
// that are all faster by a factor. A program's T does not grow then, and
// neither does the minimum: the answer never gets worse. Before, it did in 4 of
// 274 random cases, by 0.4 to 7.5 %: the sum would gather a value rather than
// reduce the loss made of it, or cut a pipeline elsewhere.
//
// Where the argument has gaps:
//   * Larger programs, and more devices, are decided for the links that there
//     are: their search is not exhaustive either. The plans chosen for GPT-3 on
//     1,024 A100, Llama 405B on 16,384 H100, an expert model on 8,192 GB200 and
//     a DiT on 64 A100 gain at most 0.1 %; slower ones up to 11 % (the expert
//     model with tp=4, the DiT with tp=2x2).
//   * One level alone that is faster changes the ratios, and X with them.
//   * All-reduces go by machines where that is faster on the links that there
//     are; what they turn into waits for computations (Levels.h).
//   * T of a program is a maximum over sums of seconds that fall with speed,
//     but for what runs several times: a loop behind setups that communicate is
//     extrapolated from a difference of times, and phases of pipelines are
//     rigid blocks, which may get shorter before a message and not behind it.
//     Not seen in the programs of the random cases (ExactnessTest).
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_LOWER_LINKSPEEDS_H
#define DPC_PASSES_LOWER_LINKSPEEDS_H

#include "cost-model/machine/Cluster.h"
#include "passes/shard/Degrees.h"

#include "mlir/IR/BuiltinOps.h"

namespace dpc {

/// `cluster` with links of `bytesPerSecond` on the innermost level, those of
/// the others in proportion; as it is where that is 0.
cost::Cluster withLinkSpeed(const cost::Cluster &cluster,
                            double bytesPerSecond);

/// Speeds of S at which all programs of X are made, each by one of them.
std::vector<double> linkSpeedsToTry(mlir::ModuleOp program,
                                    const cost::Cluster &cluster,
                                    const LoweringSpec &degrees);

} // namespace dpc

#endif // DPC_PASSES_LOWER_LINKSPEEDS_H
