//===- Fold.h - Evaluation of deep models from shallow ones -----*- C++ -*-===//
//
// A strategy for a model of N equal layers is evaluated without compiling all
// of them. Without pipeline the programs of few and of few + 1 layers are
// compiled, and what is estimated of them is extrapolated (StageProfile.h).
// With a pipeline the stages of the whole model are chosen as ever, on numbers;
// a small pipeline with a stage of every shape (FoldStages.h) is compiled
// twice, with few and one more layer in a stage; the stages of the large one
// are made of these, and its schedule is simulated as ever.
//
// What was measured is kept: strategies that differ in the number of stages'
// layers, in chunks or in the order of a schedule only share it.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_PRICE_FOLD_H
#define DPC_PASSES_PRICE_FOLD_H

#include "cost-model/search/Evaluation.h"
#include "passes/lower/Lower.h"
#include "passes/lower/ProgramFamily.h"
#include "passes/lower/SharedLowering.h"

namespace dpc {

class Folder {
public:
  /// Both must outlive this.
  Folder(ProgramFamily &family, SharedLowering &lowering);
  ~Folder();

  /// Whether there are layers enough.
  bool canFold() const;

  /// Before several threads ask: what was learned until now counts for all that
  /// they ask, in whatever order.
  void beginRound();

  /// Time and memory of the whole model, or why it cannot be compiled; `flops`
  /// is left to the caller. Nothing where this strategy cannot be folded.
  /// `degrees` are those of the whole model. May be called by several threads.
  std::optional<cost::Evaluation> evaluate(const LoweringSpec &degrees);

  /// Equal for strategies that `compose` makes of the same pieces (Blocks.h);
  /// empty where there are none.
  std::string blockOf(const LoweringSpec &degrees, int64_t globalBatch);
  /// All of one block: measured now, and not kept. As `evaluate`, safe to call
  /// from several threads.
  std::vector<std::optional<cost::Composition>>
  compose(llvm::ArrayRef<LoweringSpec> block, int64_t globalBatch,
          double limit);

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace dpc

#endif // DPC_PASSES_PRICE_FOLD_H
