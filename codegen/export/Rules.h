//===- Rules.h - Rules that several targets share ---------------*- C++ -*-===//
//
// Each takes the words that say whose rule it is. `when`, where it is given,
// says for which jobs a rule counts: of a target with several engines.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_CODEGEN_EXPORT_RULES_H
#define DPC_CODEGEN_EXPORT_RULES_H

#include "codegen/export/Legality.h"

#include <set>

namespace dpc::exports {

using Words = std::set<std::string>;

/// It trains: there is no configuration for inference.
Rule trainingOnly(const std::string &whose);
/// Tensor parallelism along one axis.
Rule noGrid(const std::string &whose);
/// All data-parallel ranks take the same of the batch, and it is cut into whole
/// micro-batches.
Rule evenShares(const std::string &whose);
Rule evenBatch(const std::string &whose);
/// Ranks are laid out as they usually are, or in one of `orders` more.
Rule usualPlacement(const std::string &whose, const Words &orders = {});
Rule schedules(const std::string &whose, const Words &known);
Rule recomputes(const std::string &whose, const Words &known);
Rule offloads(const std::string &whose, const Words &known);
Rule hostOnly(const std::string &whose);
Rule zeros(const std::string &whose, const std::set<int64_t> &known);
/// ZeRO splits over all data-parallel ranks.
Rule noHybrid(const std::string &whose);
Rule noSequenceParallel(const std::string &whose);
/// A sequence is not split, or in the one way.
Rule noContext(const std::string &whose);
Rule contextKind(const std::string &whose, cost::CpKind kind);
Rule noExperts(const std::string &whose);
Rule noPipeline(const std::string &whose);
Rule noTensor(const std::string &whose);
Rule noChunks(const std::string &whose);
/// Stages, and chunks of interleaved ones, have equally many layers.
Rule evenLayers(const std::string &whose);
/// Interleaved stages take micro-batches in rounds of one for every stage.
Rule wholeRounds(const std::string &whose);
/// The precision is one of these; another one is asked for with --precision.
Rule precisions(const std::string &whose, const Words &known);

/// `rule` where `when` is true.
Rule onlyIf(Rule rule, std::function<bool(const Job &)> when);

/// The same with another text.
Rule saying(Rule rule, const std::string &text);

/// Ranks of an axis go to data parallelism where the batch allows, else to
/// tensor parallelism.
using StrategyNumbers = cost::StrategyKeys<cost::Always>;
void giveToOthers(Job &job, int64_t StrategyNumbers::*axis, int64_t rest);

/// The largest divisor of `number` that is at most `most`.
int64_t largestDivisor(int64_t number, int64_t most);

/// Whether ranks lie in the usual order, or as `order` says (innermost first);
/// axes of one rank do not count.
bool isPlacedAs(const Job &job, const std::string &order);

} // namespace dpc::exports

#endif // DPC_CODEGEN_EXPORT_RULES_H
