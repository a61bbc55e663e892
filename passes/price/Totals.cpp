//===- Totals.cpp - Sums over the whole program ---------------------------===//
#include "passes/price/Totals.h"

#include "ir/TensorUtils.h"
#include "passes/cost/OpTime.h"
#include "passes/graph/Fp8.h"
#include "passes/price/StepEstimate.h"
#include "passes/shard/ExpertRows.h"
#include "passes/shard/Experts.h"

#include "mlir/IR/OwningOpRef.h"

#include <map>
#include <numeric>
#include <tuple>

using namespace mlir;
using namespace dpc;

static double bytesOf(Value value) { return sizeInBytes(tensorType(value)); }

/// Returns whether an embedding and a product read `parameter`, which may be
/// converted and moved before.
static bool isTied(Value parameter) {
  bool isEmbedded = false, isMultiplied = false;
  SmallVector<Value> values{parameter};
  while (!values.empty())
    for (Operation *user : values.pop_back_val().getUsers()) {
      isEmbedded |= isa<EmbeddingOp>(user);
      isMultiplied |= isa<MatmulOp>(user);
      if (isa<ConvertOp, TransposeOp, ReshapeOp>(user))
        values.push_back(user->getResult(0));
    }
  return isEmbedded && isMultiplied;
}

static void sumUpArguments(func::FuncOp func, ProgramTotals &result) {
  cost::ModelTotals &sums = result.sums;
  for (BlockArgument arg : func.getArguments()) {
    unsigned i = arg.getArgNumber();
    auto role = func.getArgAttrOfType<StringAttr>(i, attr::kRole);
    RankedTensorType type = tensorType(arg);
    if (!role)
      continue;
    if (role.getValue() == role::kParameter) {
      sums.parameters += type.getNumElements();
      sums.parameterBytes += bytesOf(arg);
      sums.gradientBytes += bytesOf(arg);
      sums.tiedBytes += isTied(arg) ? bytesOf(arg) : 0;
      // Only master weights are converted. ZeRO shards them like states.
      auto copy = llvm::find_if(arg.getUsers(), llvm::IsaPred<ConvertOp>);
      if (copy != arg.getUsers().end())
        sums.copyBytes += bytesOf((*copy)->getResult(0));
    } else if (role.getValue() == role::kState) {
      sums.optimizerBytes += bytesOf(arg);
    } else if (role.getValue() == role::kInput) {
      auto batch = func.getArgAttrOfType<IntegerAttr>(i, attr::kBatchDim);
      if (!batch)
        continue;
      sums.globalBatch = type.getDimSize(batch.getInt());
      // The largest integer input contains the token ids. Labels may have fewer
      // elements.
      if (type.getElementType().isInteger())
        sums.tokensPerSample = std::max(
            sums.tokensPerSample,
            static_cast<double>(type.getNumElements()) / sums.globalBatch);
    }
  }
}

/// Returns the number of blocks that can each be a stage. The forward program
/// is cut at local minima of the number of values that cross and depend on a
/// sample. A block is a part between cuts that contains a GEMM: a layer of a
/// chain, or a block of a residual network. In a program with attention, only
/// blocks before the first attention count.
static int64_t countBlocks(func::FuncOp func) {
  DenseSet<Value> samples;
  for (BlockArgument arg : func.getArguments())
    if (func.getArgAttr(arg.getArgNumber(), attr::kBatchDim))
      samples.insert(arg);
  DenseMap<Operation *, int64_t> position;
  std::vector<Operation *> ops;
  for (Operation &op : func.getBody().front()) {
    auto isSample = [&](Value value) { return samples.contains(value); };
    if (phaseOf(&op) != Phase::forward ||
        llvm::none_of(op.getOperands(), isSample))
      continue;
    samples.insert(op.result_begin(), op.result_end());
    position[&op] = ops.size();
    ops.push_back(&op);
  }
  // The number of values that cross the cut after each op.
  std::vector<int64_t> crossing(ops.size(), 0);
  for (auto [i, op] : llvm::enumerate(ops))
    for (Value value : op->getResults()) {
      int64_t last = i;
      for (Operation *user : value.getUsers())
        if (auto it = position.find(user); it != position.end())
          last = std::max(last, it->second);
      ++crossing[i];
      --crossing[last];
    }
  std::partial_sum(crossing.begin(), crossing.end(), crossing.begin());
  if (!crossing.empty()) // The program is not cut after the last op.
    crossing.back() = ops.size() + 1;
  int64_t blocks = 0, size = ops.size();
  bool hasGemm = false;
  for (int64_t begin = 0, end; begin < size; begin = end) {
    end = begin + 1;
    while (end < size && crossing[end] == crossing[begin])
      ++end;
    bool isCut = (begin == 0 || crossing[begin - 1] > crossing[begin]) &&
                 (end == size || crossing[end] > crossing[begin]);
    for (int64_t i = begin; i < end; ++i) {
      if (isa<AttentionOp>(ops[i]))
        return blocks;
      hasGemm |= isa<MatmulOp, ExpertMatmulOp, ConvOp>(ops[i]);
      if (!isCut || !hasGemm)
        continue;
      ++blocks;
      hasGemm = false;
    }
  }
  return blocks + hasGemm;
}

/// Returns whether `value` is a weight, perhaps converted or in another order.
static bool isWeight(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<ConvertOp, TransposeOp, ReshapeOp>(op))
      return false;
    value = op->getOperand(0);
  }
  auto argument = cast<BlockArgument>(value);
  auto func = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  auto role =
      func.getArgAttrOfType<StringAttr>(argument.getArgNumber(), attr::kRole);
  return role && role.getValue() == role::kParameter;
}

namespace {

/// Collects ModelTotals::gemms.
class Gemms {
public:
  void add(MatmulOp op, int64_t globalBatch) {
    if (!isWeight(op.getB()))
      return;
    RankedTensorType result = tensorType(op.getResult());
    RankedTensorType a = tensorType(op.getA()), b = tensorType(op.getB());
    int64_t n = result.getShape().back();
    int64_t k = a.getShape()[a.getRank() - (op.getTa() ? 2 : 1)];
    // One matrix `b` for all batches makes one product of all rows. Stacked
    // weights, such as those of experts, make one product each.
    double rows = static_cast<double>(result.getNumElements()) / n;
    int64_t batch = 1;
    if (b.getRank() > 2) {
      batch = b.getNumElements() / (n * k);
      rows = static_cast<double>(result.getDimSize(result.getRank() - 2));
    }
    ++counts[{rows / globalBatch, batch, n, k}];
  }

  void writeTo(cost::ModelTotals &sums) const {
    for (const auto &[sizes, count] : counts) {
      auto [rows, batch, n, k] = sizes;
      sums.gemms.push_back({batch, rows, n, k, count});
    }
    llvm::sort(sums.gemms,
               [](const cost::GemmTotals &a, const cost::GemmTotals &b) {
                 return std::pair(a.count > 1, a.flopsPerSample()) >
                        std::pair(b.count > 1, b.flopsPerSample());
               });
  }

private:
  std::map<std::tuple<double, int64_t, int64_t, int64_t>, double> counts;
};

} // namespace

/// Returns whether `op` is usually a kernel of its own, or the one that other
/// ops are fused with. GEMMs do not count.
static bool isOtherKernel(Operation *op) {
  switch (kernelRole(op)) {
  case KernelRole::row:
  case KernelRole::reduction:
  case KernelRole::alone:
    return true;
  case KernelRole::none:
    return isa<CostOpInterface>(op) && !isa<MatmulOp>(op);
  case KernelRole::mover:
  case KernelRole::source:
  case KernelRole::elementwise:
    return false;
  }
  llvm_unreachable("all roles are handled");
}

static void sumUpOps(func::FuncOp func, ProgramTotals &result) {
  cost::ModelTotals &sums = result.sums;
  sums.training = func.getName() == "train_step";
  double activations = 0, ofExperts = 0;
  int64_t attentions = 0;
  Gemms gemms;
  SmallVector<Operation *> forward;
  for (Operation &op : func.getBody().front())
    if (phaseOf(&op) == Phase::forward)
      forward.push_back(&op);
  DenseSet<Value> rows = rowsOfExperts(forward);
  for (Operation &op : func.getBody().front()) {
    if (auto costed = dyn_cast<CostOpInterface>(op)) {
      sums.flopsPerStep += costed.getFlops();
      if (isa<AttentionOp, AttentionGradOp>(op))
        result.attentionFlops += costed.getFlops();
    }
    if (auto matmul = dyn_cast<MatmulOp>(op)) {
      if (phaseOf(&op) == Phase::forward)
        gemms.add(matmul, sums.globalBatch);
      Type type = matmul.getA().getType().getElementType();
      sums.computeType = costType(type);
      if (fp8SizesOf(matmul))
        sums.fp8Flops += cast<CostOpInterface>(op).getFlops();
    }
    if (llvm::is_contained({Phase::forward, Phase::backward}, phaseOf(&op)))
      sums.otherKernels += isOtherKernel(&op);
    attentions += isa<AttentionOp>(op);
    if (auto norm = dyn_cast<NormOp>(op); norm && !sums.hiddenBytesPerSample)
      sums.hiddenBytesPerSample = bytesOf(norm.getX()) / sums.globalBatch;
    if (phaseOf(&op) != Phase::forward || isBufferView(&op))
      continue;
    for (Value result : op.getResults())
      if (llvm::is_contained(llvm::map_range(result.getUsers(), phaseOf),
                             Phase::backward)) {
        activations += bytesOf(result);
        ofExperts += rows.contains(result) ? bytesOf(result) : 0;
      }
  }
  gemms.writeTo(sums);
  sums.activationBytesPerSample = activations / sums.globalBatch;
  sums.expertRowBytesPerSample = ofExperts / sums.globalBatch;
  sums.layers = std::max<int64_t>({1, attentions, countBlocks(func)});
}

/// A cheap test before findExperts: returns true if weights are stacked, and an
/// op chooses among as many options as one of their dimensions has.
static bool mayHaveExperts(func::FuncOp func) {
  DenseSet<int64_t> stacks;
  for (BlockArgument arg : func.getArguments()) {
    auto role =
        func.getArgAttrOfType<StringAttr>(arg.getArgNumber(), attr::kRole);
    auto type = dyn_cast<RankedTensorType>(arg.getType());
    if (role && role.getValue() == role::kParameter && type.getRank() >= 3)
      stacks.insert(type.getShape().begin(), type.getShape().end());
  }
  return !stacks.empty() &&
         llvm::any_of(func.getBody().front(), [&](Operation &op) {
           return isa<TopKOp, SoftmaxOp>(op) &&
                  stacks.contains(shapeOf(op.getOperand(0)).back());
         });
}

/// Returns the bytes of forward values between ops on experts and other ops.
static double routedBytes(const ProgramFacts &facts, const Experts &experts) {
  double bytes = 0;
  DenseSet<Value> counted;
  auto count = [&](Value value) {
    if (facts.hasBatch(value) && counted.insert(value).second)
      bytes += bytesOf(value);
  };
  for (const auto &[op, factor] : experts.ops) {
    for (Value operand : op->getOperands())
      if (!experts.ops.contains(operand.getDefiningOp()))
        count(operand);
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(), [&](Operation *user) {
            return facts.isForward(user) && !experts.ops.contains(user);
          }))
        count(result);
  }
  return bytes;
}

static void sumUpExperts(func::FuncOp original, ProgramTotals &result) {
  if (!mayHaveExperts(original))
    return;
  OwningOpRef<func::FuncOp> func(original.clone());
  separateConstants(*func);
  markRoutedRows(*func);
  ProgramFacts facts(*func);
  // The experts found do not depend on this number.
  constexpr int64_t kRanks = 2;
  Experts experts = findExperts(facts, kRanks);
  cost::ModelTotals &sums = result.sums;
  for (const auto &[parameter, factor] : experts.parameters) {
    sums.expertParameters += tensorType(parameter).getNumElements();
    sums.experts =
        std::max(sums.experts, facts.factors.factorSize(parameter, factor));
  }
  sums.routedBytesPerSample = routedBytes(facts, experts) /
                              double(sums.globalBatch) / double(sums.layers);
}

ProgramTotals dpc::sumUp(func::FuncOp func) {
  ProgramTotals result;
  sumUpArguments(func, result);
  sumUpOps(func, result);
  sumUpExperts(func, result);
  return result;
}

/// Returns the GEMMs of a program with `layers` more layers than `fewer`.
static std::vector<cost::GemmTotals>
gemmsAlong(const std::vector<cost::GemmTotals> &fewer,
           const std::vector<cost::GemmTotals> &more, int64_t layers) {
  std::vector<cost::GemmTotals> result = more;
  for (cost::GemmTotals &gemm : result) {
    auto same = llvm::find_if(fewer, [&](const cost::GemmTotals &other) {
      return std::tie(gemm.batch, gemm.rowsPerSample, gemm.n, gemm.k) ==
             std::tie(other.batch, other.rowsPerSample, other.n, other.k);
    });
    double before = same == fewer.end() ? 0 : same->count;
    gemm.count = before + layers * (gemm.count - before);
  }
  return result;
}

ProgramTotals dpc::alongLayers(const ProgramTotals &fewer,
                               const ProgramTotals &more, int64_t layers) {
  ProgramTotals result = fewer;
  auto extend = [&](auto member) {
    double a = fewer.sums.*member, b = more.sums.*member;
    result.sums.*member = a + layers * (b - a);
  };
  for (auto member :
       {&cost::ModelTotals::parameters, &cost::ModelTotals::parameterBytes,
        &cost::ModelTotals::copyBytes, &cost::ModelTotals::gradientBytes,
        &cost::ModelTotals::optimizerBytes, &cost::ModelTotals::flopsPerStep,
        &cost::ModelTotals::fp8Flops, &cost::ModelTotals::expertParameters,
        &cost::ModelTotals::activationBytesPerSample,
        &cost::ModelTotals::expertRowBytesPerSample,
        &cost::ModelTotals::otherKernels})
    extend(member);
  result.sums.gemms = gemmsAlong(fewer.sums.gemms, more.sums.gemms, layers);
  result.sums.layers += layers * (more.sums.layers - fewer.sums.layers);
  result.attentionFlops +=
      layers * (more.attentionFlops - fewer.attentionFlops);
  return result;
}
