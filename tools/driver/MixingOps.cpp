//===- MixingOps.cpp - Ops that let positions read later ones -------------===//
#include "tools/driver/MixingOps.h"

#include "ir/Dialect.h"
#include "ir/NodeName.h"
#include "ir/TensorUtils.h"
#include "tools/driver/Experiment.h"

#include "llvm/ADT/SetVector.h"

#include <cmath>

using namespace mlir;

namespace dpc {

namespace {

template <typename... Ops>
Operation *firstOf(const llvm::SetVector<Operation *> &chain) {
  auto found = llvm::find_if(chain, llvm::IsaPred<Ops...>);
  return found == chain.end() ? nullptr : *found;
}

/// Says which op of `chain` lets positions read later ones.
std::string mixingText(const llvm::SetVector<Operation *> &chain) {
  for (Operation *op : chain)
    if (auto attention = dyn_cast<AttentionOp>(op);
        attention && !attention.getCausal())
      return nodeOf(op) + (attention.getMask()
                               ? " has a mask that is not causal"
                               : " has no causal mask");
  if (Operation *attention = firstOf<AttentionOp>(chain))
    return nodeOf(attention) + " is causal, but its heads mix positions: are "
                               "they split by a reshape without a transpose?";
  if (Operation *softmax = firstOf<SoftmaxOp>(chain))
    return nodeOf(softmax) +
           " reads later positions: is a causal mask missing, or is it over "
           "another dimension than the keys?";
  if (Operation *conv = firstOf<ConvOp>(chain))
    return nodeOf(conv) + " reads later positions: a causal convolution is "
                          "padded at the front only";
  if (Operation *norm = firstOf<NormOp, BatchNormOp>(chain))
    return nodeOf(norm) + " normalizes over positions";
  Operation *reduce = firstOf<ReduceOp>(chain);
  return nodeOf(reduce ? reduce : chain.front()) + " mixes positions";
}

/// Returns the ops between `value` and the values of `known`, last one first.
llvm::SetVector<Operation *> opsBetween(Value value,
                                        const llvm::DenseSet<Value> &known) {
  llvm::SetVector<Operation *> chain;
  chain.insert(value.getDefiningOp());
  for (size_t i = 0; i < chain.size(); ++i)
    for (Value operand : chain[i]->getOperands())
      if (Operation *op = operand.getDefiningOp();
          op && !known.contains(operand))
        chain.insert(op);
  return chain;
}

/// A value of which each position should read no later token.
struct Watched {
  std::string text; ///< which op mixes positions, if any does
  int64_t positions;
};

/// Compiles `model` for the values [samples, positions, size] of all ops. The
/// model may leave out the last of `positions`. Returns nothing on failure.
std::vector<Watched> watchPositions(SmallModel &model, int64_t samples,
                                    int64_t positions) {
  std::vector<Watched> watched;
  bool isDone = model.compile([&](func::FuncOp forward) {
    llvm::DenseSet<Value> known;
    std::map<std::string, Value> results;
    for (Operation &op : forward.front())
      for (Value value : op.getResults()) {
        auto type = dyn_cast<RankedTensorType>(value.getType());
        if (!type || !isFloatTensor(type) || type.getRank() != 3 ||
            type.getDimSize(0) != samples || type.getDimSize(1) > positions ||
            type.getDimSize(1) < positions - 1)
          continue;
        results[resultName("value", watched.size())] = value;
        watched.push_back(
            {mixingText(opsBetween(value, known)), type.getDimSize(1)});
        known.insert(value);
      }
    return results;
  });
  return isDone ? watched : std::vector<Watched>();
}

} // namespace

std::string mixingText(SmallModel &model, const rt::Port &tokens,
                       const NamedTensors &inputs) {
  constexpr double kNoise = 1e-5;
  const int64_t positions = tokens.globalShape[1];
  std::vector<Watched> watched =
      watchPositions(model, tokens.globalShape[0], positions);
  // Run 1 changes the last token, and run 2 the one before.
  std::vector<NamedTensors> runs(3, inputs);
  Experiment::change(tokens, runs[1][tokens.name], positions - 1);
  Experiment::change(tokens, runs[2][tokens.name], positions - 2);
  std::vector<NamedTensors> results;
  if (!watched.empty())
    results = model.run(runs);
  for (size_t i = 0; i < watched.size() && !results.empty(); ++i) {
    const int64_t run = 1 + positions - watched[i].positions;
    const rt::HostTensor &a = results[0].at(resultName("value", i)),
                         &b = results[run].at(resultName("value", i));
    const int64_t changed = watched[i].positions - 1, size = a.shape[2];
    const double most = kNoise * largestFinite(a);
    for (int64_t k = 0; k < changed * size; ++k)
      // In a matrix of scores, the column of the token may change.
      if (k % size != changed && std::abs(a.at(k) - b.at(k)) > most)
        return watched[i].text;
  }
  return "";
}

} // namespace dpc
