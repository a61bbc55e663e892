//===- Rules.h - Rules that several targets share ---------------*- C++ -*-===//
//
// The text of each rule begins with `whose`: the name of the target, or of the
// part of the target to which the rule applies.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/export/Targets.h"

#include <set>
#include <sstream>

namespace dpc::exports {

using Words = std::set<std::string>;

Rule trainingOnly(const std::string &whose);
Rule noGrid(const std::string &whose);
Rule evenShares(const std::string &whose);
/// Every data-parallel rank has a whole number of micro-batches.
Rule evenBatch(const std::string &whose);
/// The mesh axes are in the default order, or in one of `orders`.
Rule usualPlacement(const std::string &whose, const Words &orders = {});
Rule schedules(const std::string &whose, const Words &known);
Rule recomputes(const std::string &whose, const Words &known);
Rule offloads(const std::string &whose, const Words &known);
Rule hostOnly(const std::string &whose);
Rule zeros(const std::string &whose, const std::set<int64_t> &known);
Rule noHybrid(const std::string &whose);
Rule noSequenceParallel(const std::string &whose);
Rule noContext(const std::string &whose);
Rule contextKind(const std::string &whose, cost::CpKind kind);
Rule noExperts(const std::string &whose);
Rule noPipeline(const std::string &whose);
Rule noTensor(const std::string &whose);
Rule noChunks(const std::string &whose);
Rule evenLayers(const std::string &whose);
/// If vpp > 1, the number of micro-batches is a multiple of pp.
Rule wholeRounds(const std::string &whose);
Rule precisions(const std::string &whose, const Words &known);

/// A rule that depends only on the strategy. `mend` always succeeds.
Rule strategyRule(std::string text,
                  std::function<bool(const cost::Strategy &)> holds,
                  std::function<void(cost::Strategy &)> mend);

Rule onlyIf(Rule rule, std::function<bool(const Job &)> when);

/// Returns `rule` with a different text.
Rule saying(Rule rule, const std::string &text);

using StrategyNumbers = cost::StrategyKeys<cost::Always>;
/// Reduces a degree to `rest`. The freed ranks move to dp if dp then divides
/// the batch, otherwise to tp.
void giveToOthers(Job &job, int64_t StrategyNumbers::*axis, int64_t rest);

int64_t largestDivisor(int64_t number, int64_t most);

/// `order` lists axes, innermost first; "auto" is the default order. Axes with
/// one rank are ignored.
bool isPlacedAs(const Job &job, const std::string &order);

template <typename Range>
std::string joined(const Range &values, const char *separator = ", ") {
  std::ostringstream text;
  for (const char *before = ""; const auto &value : values)
    text << std::exchange(before, separator) << value;
  return text.str();
}

} // namespace dpc::exports
