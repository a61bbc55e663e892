//===- BatchDims.cpp - Which dimensions of results count samples ----------===//
#include "ir/TensorUtils.h"
#include "passes/shard/BatchSums.h"
#include "passes/shard/Factors.h"
#include "passes/shard/Passes.h"

#include "mlir/IR/OwningOpRef.h"

using namespace mlir;

namespace dpc {

namespace {

/// The dimension that counts samples, which ops carry from inputs to results as
/// a class of factors.
struct Batch {
  int64_t size = 0;
  llvm::DenseSet<int64_t> classes;

  /// A batch of one sample has no factors; only its first dimension counts.
  bool isIn(const FactorAnalysis &factors, Value value, int64_t dim) const {
    if (tensorType(value).getDimSize(dim) != size)
      return false;
    return size == 1 ? dim == 0
                     : classes.contains(factors.classOf(
                           value, factors.numFactors(value, dim)));
  }

  /// Whether a dimension has the samples of the batch among its factors.
  bool isPartOf(const FactorAnalysis &factors, Value value, int64_t dim) const {
    const int64_t first = factors.numFactors(value, dim),
                  end = factors.numFactors(value, dim + 1);
    return llvm::any_of(llvm::seq(first, end), [&](int64_t index) {
      return classes.contains(factors.classOf(value, index));
    });
  }
};

} // namespace

/// Returns the dimension of an input that counts samples. If no input names it,
/// as in a program without batch size, the first dimension of all inputs does.
static std::optional<int64_t> batchDimOf(func::FuncOp func, unsigned argument,
                                         bool areNamed) {
  auto type = dyn_cast<RankedTensorType>(func.getArgumentTypes()[argument]);
  if (!type || roleOfArgument(func, argument) != role::kInput)
    return std::nullopt;
  if (auto dim = func.getArgAttrOfType<IntegerAttr>(argument, attr::kBatchDim))
    return dim.getInt();
  if (areNamed || type.getRank() == 0)
    return std::nullopt;
  return 0;
}

static Batch findBatch(func::FuncOp func, const FactorAnalysis &factors) {
  Batch batch;
  unsigned count = func.getNumArguments();
  bool areNamed = llvm::any_of(llvm::seq(count), [&](unsigned i) {
    return func.getArgAttr(i, attr::kBatchDim) != nullptr;
  });
  for (unsigned i = 0; i < count; ++i) {
    std::optional<int64_t> found = batchDimOf(func, i, areNamed);
    if (!found)
      continue;
    int64_t dim = *found;
    Value input = func.getArgument(i);
    int64_t size = tensorType(input).getDimSize(dim);
    if (batch.size > 0 && size != batch.size)
      return {};
    batch.size = size;
    if (size > 1)
      batch.classes.insert(
          factors.classOf(input, factors.numFactors(input, dim)));
  }
  return batch;
}

void markBatchDims(func::FuncOp func) {
  OwningOpRef<func::FuncOp> copy(func.clone());
  separateConstants(*copy);
  FactorAnalysis factors(*copy);
  Batch batch = findBatch(*copy, factors);
  Builder builder(func.getContext());
  for (OpOperand &result :
       copy->getBody().front().getTerminator()->getOpOperands())
    for (int64_t dim : llvm::seq(tensorType(result.get()).getRank()))
      if (batch.isIn(factors, result.get(), dim)) {
        func.setResultAttr(result.getOperandNumber(), attr::kBatchDim,
                           builder.getI64IntegerAttr(dim));
        break;
      }
}

BatchSums sumsOverBatch(func::FuncOp func) {
  OwningOpRef<func::FuncOp> copy(func.clone());
  separateConstants(*copy);
  FactorAnalysis factors(*copy);
  Batch batch = findBatch(*copy, factors);
  BatchSums sums{batch.size, {}, {}};
  if (batch.size < 2)
    return sums;
  // The copy has more constants, but the same reductions.
  auto own = func.front().getOps<ReduceOp>();
  for (auto [op, copied] :
       llvm::zip_equal(own, copy->front().getOps<ReduceOp>()))
    if (op.getKind() == ReduceKind::sum &&
        llvm::any_of(copied.getDims(), [&](int64_t dim) {
          return batch.isPartOf(factors, copied.getX(), dim);
        }))
      sums.ops.insert(op);
  for (auto [op, copied] :
       llvm::zip_equal(func.front().getOps<CrossEntropyOp>(),
                       copy->front().getOps<CrossEntropyOp>()))
    if (batch.isPartOf(factors, copied.getLogits(), 1))
      sums.comparisons.insert(op);
  return sums;
}

} // namespace dpc
