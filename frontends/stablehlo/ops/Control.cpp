//===- Control.cpp - Calls, loops and branches ----------------------------===//
#include "frontends/stablehlo/Call.h"

using namespace mlir;

namespace dpc::frontend::hlo {

namespace {

/// The maximum number of iterations, which are all unrolled.
constexpr int64_t kMaxRounds = 100000;

std::optional<llvm::SmallVector<Val>> operandsOf(Call &c, unsigned first = 0) {
  llvm::SmallVector<Val> values;
  for (unsigned i = first; i < c.operands(); ++i)
    values.push_back(c.in(i));
  if (c.emit.failed())
    return std::nullopt;
  return values;
}

Val outAll(Call &c, ArrayRef<Val> values) {
  if (values.size() != c.op->getNumResults())
    return c.fail("the region returns {0} values, expected {1}", values.size(),
                  c.op->getNumResults());
  for (auto [i, value] : llvm::enumerate(values))
    c.out(static_cast<unsigned>(i), value);
  return {};
}

Val whileLoop(Call &c) {
  auto state = operandsOf(c);
  if (!state)
    return {};
  if (c.op->getNumRegions() != 2)
    return c.fail("needs a condition and a body");
  for (int64_t round = 0;; ++round) {
    auto more = c.runRegion(c.op->getRegion(0), *state);
    if (!more)
      return {};
    if (more->size() != 1 || !more->front().constant)
      return c.fail("the number of iterations depends on data, which is not "
                    "supported; accepted: loops and scans of a known length");
    if (more->front().constant->at(0).i == 0)
      break;
    if (round >= kMaxRounds)
      return c.fail("runs more than {0} iterations", kMaxRounds);
    auto next = c.runRegion(c.op->getRegion(1), *state);
    if (!next)
      return {};
    if (next->size() != state->size())
      return c.fail("the body returns {0} values, expected {1}", next->size(),
                    state->size());
    state = std::move(next);
  }
  return outAll(c, *state);
}

/// Selects a region by an index; an index out of range selects the last region.
/// If the index is a runtime value, computes all regions and selects results.
Val branch(Call &c, Val index) {
  int64_t count = c.op->getNumRegions();
  if (c.emit.failed())
    return {};
  bool isIf = c.name() == "if";
  if (index.rank() != 0 || count == 0 || (isIf && count != 2))
    return c.fail(
        "has {0} regions and the index {1}; accepted: a scalar index, and two "
        "regions for an if",
        count, index);
  if (index.constant) {
    int64_t value = index.constant->at(0).i;
    int64_t chosen = isIf                          ? (value ? 0 : 1)
                     : value < 0 || value >= count ? count - 1
                                                   : value;
    if (auto results = c.runRegion(c.op->getRegion(chosen), {}))
      return outAll(c, *results);
    return {};
  }
  std::optional<llvm::SmallVector<Val>> results;
  for (int64_t i = count - 1; i >= 0; --i) {
    auto region = c.runRegion(c.op->getRegion(i), {});
    if (!region)
      return {};
    if (!results) {
      results = std::move(region);
      continue;
    }
    Val isThis = isIf ? index : c.emit.eq(index, i);
    for (auto [result, value] : llvm::zip(*results, *region))
      result = c.emit.select(isThis, value, result);
  }
  return outAll(c, *results);
}

Val call(Call &c) {
  bool isComposite = c.name() == "composite";
  llvm::StringRef callee = c.text(isComposite ? "decomposition" : "callee");
  auto operands = operandsOf(c);
  if (!operands)
    return {};
  auto module = c.op->getParentOfType<ModuleOp>();
  Operation *function = SymbolTable::lookupSymbolIn(module, callee);
  if (!function || function->getNumRegions() != 1 ||
      !function->getRegion(0).hasOneBlock())
    return c.fail("calls '{0}', which is not a function of the module", callee);
  if (auto results = c.runRegion(function->getRegion(0), *operands))
    return outAll(c, *results);
  return {};
}

Val customCall(Call &c) {
  llvm::StringRef target = c.text("call_target_name");
  static constexpr llvm::StringLiteral kSame[] = {
      "Sharding", "annotate_device_placement", "xla.sdy.FuncResultSharding",
      "LayoutConstraint"};
  if (llvm::is_contained(kSame, target) && c.operands() == 1 &&
      c.op->getNumResults() == 1)
    return c.in(0);
  if (target == "mhlo.erf")
    return c.emit.unary(UnaryKind::erf, c.in(0));
  c.fail("calls '{0}', which is not supported; accepted: Sharding, "
         "annotate_device_placement, LayoutConstraint, mhlo.erf",
         target);
  return {};
}

} // namespace

void addControl(OperatorTable &table) {
  table["stablehlo.while"] = whileLoop;
  table["stablehlo.if"] = branch;
  table["stablehlo.case"] = branch;
  table["func.call"] = call;
  table["stablehlo.composite"] = call;
  table["stablehlo.custom_call"] = customCall;
}

} // namespace dpc::frontend::hlo
