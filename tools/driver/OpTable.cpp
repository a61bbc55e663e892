//===- OpTable.cpp - Interfaces of each op of the dialect -----------------===//
#include "tools/driver/OpTable.h"

#include "codegen/Codegen.h"
#include "ir/Dialect.h"
#include "passes/graph/Passes.h"

using namespace mlir;

namespace dpc {

namespace {

struct Exception {
  OpColumn column;
  llvm::StringLiteral reason;
  llvm::StringLiteral ops; ///< separated by spaces
};

} // namespace

static const std::vector<Exception> &exceptions() {
  static constexpr llvm::StringLiteral local =
      "accumulate all_gather all_reduce all_to_all expert_tiles fetch kernel "
      "mask rank_slice recv reshard reduce_scatter ring_shift "
      "send stage_value store sum_squares yield attention_probs "
      "attention_scores_grad";
  static const std::vector<Exception> list = {
      {OpColumn::rule, "made after shardings are chosen", local},
      {OpColumn::gradient, "made after differentiation", local},
      {OpColumn::cost, "becomes collectives, which have a cost", "reshard"},
      {OpColumn::cost, "ends a body", "yield"},
      {OpColumn::gradient, "has no operands", "constant iota"},
      {OpColumn::gradient,
       "is a gradient; there are no second derivatives of it",
       "attention_grad batch_norm_grad cross_entropy_grad expert_matmul_grad "
       "max_pool_grad norm_grad softmax_grad"},
      {OpColumn::gradient, "part of the update", "adamw global_norm sgd"},
      {OpColumn::gradient,
       "made by dpc-expand-cross-entropy, after differentiation",
       "cross_entropy_sums"},
      {OpColumn::lowering, "expanded by dpc-expand-batch-norm",
       "batch_norm batch_norm_grad"},
      {OpColumn::lowering, "expanded by dpc-expand-cross-entropy",
       "cross_entropy"},
      {OpColumn::lowering, "expanded by dpc-partition", "global_norm"},
      {OpColumn::lowering, "planned by dpc-partition", "reshard"},
      {OpColumn::lowering, "resolved by dpc-split-stages", "stage_value"},
      {OpColumn::lowering, "the end of a body", "yield"},
  };
  return list;
}

std::vector<OpRow> opRows() {
  DialectRegistry registry;
  registry.insert<DpcDialect>();
  registerVjpModels(registry);
  codegen::registerLoweringModels(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  std::vector<OpRow> rows;
  for (RegisteredOperationName name : context.getRegisteredOperations())
    if (name.getDialectNamespace() == DpcDialect::getDialectNamespace())
      rows.push_back({name.getStringRef().str(),
                      {name.hasInterface<ShardingRuleOpInterface>(),
                       name.hasInterface<CostOpInterface>(),
                       name.hasInterface<VjpOpInterface>(),
                       name.hasInterface<FusionOpInterface>(),
                       name.hasInterface<CommunicationOpInterface>(),
                       name.hasInterface<LoweringOpInterface>()}});
  llvm::sort(rows,
             [](const OpRow &a, const OpRow &b) { return a.name < b.name; });
  return rows;
}

std::string whyNot(const std::string &op, OpColumn column) {
  for (const Exception &exception : exceptions())
    if (exception.column == column &&
        llvm::any_of(llvm::split(exception.ops, ' '),
                     [&](StringRef name) { return "dpc." + name.str() == op; }))
      return exception.reason.str();
  return "";
}

std::string opTable() {
  std::string text =
      "# What ops have\n\n"
      "An op has a sharding rule (`ShardingRuleOpInterface`), a cost\n"
      "(`CostOpInterface`), a gradient (`VjpOpInterface`), a part in "
      "generated\n"
      "kernels (`FusionOpInterface`), a place in the communication queue\n"
      "(`CommunicationOpInterface`) and a lowering to instructions\n"
      "(`LoweringOpInterface`).\n\n"
      "| op | rule | cost | gradient | kernel | communication | lowering |\n"
      "| --- | --- | --- | --- | --- | --- | --- |\n";
  std::string reasons;
  for (const OpRow &row : opRows()) {
    text += "| `" + row.name + "` |";
    for (bool has : row.has)
      text += has ? " yes |" : " - |";
    text += "\n";
    std::string why;
    for (auto [column, name] : {std::pair(OpColumn::rule, "rule"),
                                {OpColumn::cost, "cost"},
                                {OpColumn::gradient, "gradient"},
                                {OpColumn::lowering, "lowering"}})
      if (!row.has[static_cast<int>(column)])
        why += (why.empty() ? " no " : "; no ") + std::string(name) + ": " +
               whyNot(row.name, column);
    if (!why.empty())
      reasons += "- `" + row.name + "`:" + why + "\n";
  }
  return text + "\n## Why some have less\n\n" + reasons;
}

} // namespace dpc
