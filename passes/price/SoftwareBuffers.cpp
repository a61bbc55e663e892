//===- SoftwareBuffers.cpp - The buffers of a step in other software ------===//
#include "passes/price/SoftwareBuffers.h"

#include "cost-model/machine/SoftwareMemory.h"
#include "ir/GemmEpilogues.h"
#include "ir/MeshAxes.h"
#include "passes/cost/OpTime.h"
#include "passes/local/Passes.h"

#include <cmath>

using namespace mlir;
using namespace dpc;
using cost::MemoryCategory;

namespace {

class SoftwareView {
public:
  SoftwareView(Liveness &live, const MemoryOwner &owner)
      : live(live), owner(owner), software(*owner.software),
        narrow(software.narrowActivations &&
               productType(live.step) != cost::DType::F32) {}
  void run();

private:
  Liveness &live;
  const MemoryOwner &owner;
  const cost::Software &software;
  bool narrow;
  DenseMap<Value, bool> gradients;

  double keptBytes(Value value, const cost::Buffer &buffer);
  bool isOfGradients(Value value);
  void addScores(Operation *op, int64_t at);
  bool isRegathered(Value value) const;
  void regather(int64_t id);
};

} // namespace

MemoryOwner dpc::memoryOwner(const cost::Cluster &cluster,
                             const LoweringSpec &spec) {
  MemoryOwner owner;
  if (!cluster.software.keepsMemory)
    return owner;
  owner.software = &cluster.software;
  owner.zero = spec.zero;
  int64_t data = spec.hybridShard > 1 ? spec.hybridShard : spec.dp;
  owner.ranks = static_cast<double>(data * spec.cp);
  return owner;
}

namespace {

/// The elements of a parameter that a rank would store without ZeRO, and the
/// number of ranks over which ZeRO shards the parameter.
struct Held {
  double elements = 0, ranks = 1;
  bool isTrained = false, isSplit = false;
};

} // namespace

/// The axis `ep` shards the first dimension of experts.
static Held heldOf(func::FuncOp step, BlockArgument arg, double ranks) {
  unsigned number = arg.getArgNumber();
  Held held{1, ranks, step.getArgAttr(number, attr::kCopy) != nullptr, false};
  for (unsigned i = 0; i < step.getNumResults(); ++i)
    if (auto tied = step.getResultAttrOfType<IntegerAttr>(i, attr::kTies))
      held.isTrained |= tied.getInt() == number;
  auto global = step.getArgAttrOfType<TypeAttr>(number, attr::kGlobal);
  auto spec = global
                  ? ShardingSpec::get(cast<RankedTensorType>(global.getValue()))
                  : std::nullopt;
  if (!spec) {
    held.elements = static_cast<double>(
        cast<RankedTensorType>(arg.getType()).getNumElements());
    return held;
  }
  constexpr size_t kRankOfExperts = 3;
  for (auto [dim, factors] : llvm::enumerate(spec->dims))
    for (Factor &factor : factors)
      llvm::erase_if(factor.axes, [&](int64_t axis) {
        StringRef name = spec->mesh.getNames()[axis].getValue();
        bool isExpert =
            name == "ep" && dim == 0 && spec->dims.size() >= kRankOfExperts;
        if (isExpert)
          held.ranks /= static_cast<double>(spec->mesh.axisSize("ep"));
        bool isData = sumsGradients(name) && !isExpert;
        held.isSplit |= isData;
        return isData;
      });
  held.ranks = std::max(1.0, held.ranks);
  for (int64_t size : spec->localShape())
    held.elements *= static_cast<double>(size);
  return held;
}

static void addStates(cost::MemoryBreakdown &sum, func::FuncOp step,
                      BlockArgument arg, const MemoryOwner &owner,
                      bool splitOnly) {
  Held held = heldOf(step, arg, owner.ranks);
  cost::StateBytes bytes = cost::stateBytes(*owner.software, productType(step),
                                            owner.zero, held.ranks);
  auto add = [&](MemoryCategory category, double perElement, int64_t stage) {
    if (!splitOnly || owner.zero >= stage)
      sum[category] += held.elements * perElement;
  };
  add(MemoryCategory::Parameters, bytes.parameter, 3);
  if (!held.isTrained)
    return;
  add(MemoryCategory::Gradients, bytes.gradient, 2);
  add(MemoryCategory::Optimizer, bytes.update, 1);
}

static cost::MemoryBreakdown
statesOf(func::FuncOp step, const MemoryOwner &owner, bool splitOnly) {
  cost::MemoryBreakdown sum;
  bool keepsOptimizer = true;
  for (BlockArgument arg : step.getArguments()) {
    bool isAway = step.getArgAttr(arg.getArgNumber(), attr::kSpace) != nullptr;
    if (!isAway && roleOf(step, arg) == role::kParameter)
      addStates(sum, step, arg, owner, splitOnly);
    keepsOptimizer &= !isAway || roleOf(step, arg) != role::kState;
  }
  if (!keepsOptimizer)
    sum[MemoryCategory::Optimizer] = 0;
  return sum;
}

cost::MemoryBreakdown dpc::splitStates(func::FuncOp step,
                                       const MemoryOwner &owner) {
  return statesOf(step, owner, /*splitOnly=*/true);
}

/// Returns true if backward uses the value only to compute gradients of
/// parameters. Frameworks accumulate these gradients in place.
bool SoftwareView::isOfGradients(Value value) {
  auto [entry, isNew] = gradients.try_emplace(value, false);
  if (!isNew)
    return entry->second;
  bool result = llvm::all_of(value.getUsers(), [&](Operation *user) {
    if (isa<AccumulateOp>(user) || phaseOf(user) == Phase::update)
      return true;
    if (!isa<KernelOp, CommunicationOpInterface>(user) && !isBufferView(user))
      return false;
    return !user->getResults().empty() &&
           llvm::all_of(user->getResults(),
                        [&](Value made) { return isOfGradients(made); });
  });
  return gradients[value] = result;
}

double SoftwareView::keptBytes(Value value, const cost::Buffer &buffer) {
  auto bytes = static_cast<double>(buffer.bytes);
  if (auto arg = dyn_cast<BlockArgument>(value)) {
    StringRef role = roleOf(live.step, arg);
    bool isState = role == role::kParameter || role == role::kState;
    return isState ? 0 : bytes;
  }
  Operation *op = value.getDefiningOp();
  if (isa<ConstantOp>(op))
    return bytes;
  auto type = cast<RankedTensorType>(value.getType());
  Phase phase = phaseOf(op);
  bool isActivation = type.getRank() >= 3;
  if (!isInLoop(phase) || buffer.category == MemoryCategory::Gradients)
    return 0;
  if (isa<CommunicationOpInterface>(op) && !isActivation &&
      !isa<AllReduceOp, RecvOp>(op))
    return owner.zero == 3 && isa<AllGatherOp>(op) ? bytes : 0;
  if (phase != Phase::forward && isOfGradients(value))
    return 0;
  auto product = dyn_cast<MatmulOp>(op);
  if (narrow && product && isActivation && type.getElementType().isF32())
    return static_cast<double>(type.getNumElements()) * software.logitBytes;
  return activationBytes(value, narrow);
}

/// The plan keeps log-sum-exps instead of scores. Scores have the same live
/// range as the log-sum-exps.
void SoftwareView::addScores(Operation *op, int64_t at) {
  if (software.attention != cost::AttentionKernels::Unfused ||
      !isa<AttentionOp, AttentionGradOp>(op))
    return;
  auto type = cast<RankedTensorType>(op->getOperand(0).getType());
  auto keys = cast<RankedTensorType>(op->getOperand(1).getType());
  ArrayRef<int64_t> shape = type.getShape();
  double scores = static_cast<double>(shape[0] * shape[1] * shape[2]) *
                  static_cast<double>(keys.getShape()[2]);
  // Softmax stores its result. Dropout stores a byte mask and a second result.
  double each = static_cast<double>(elementBytes(op->getOperand(0)));
  double bytes = scores * (software.attentionDropout ? 2 * each + 1 : each);
  auto mode = live.step->getAttrOfType<StringAttr>(attr::kRecompute);
  if (mode && mode.getValue() == "selective") {
    live.add({}, std::llround(bytes), MemoryCategory::Workspace, at, at);
    return live.touches.back().push_back(at);
  }
  if (!isa<AttentionOp>(op))
    return;
  for (auto [id, value] : llvm::enumerate(live.values))
    if (value && value == op->getResult(1))
      live.buffers[id].bytes += std::llround(bytes);
}

/// Whether the op only changes the order of the elements of its only operand.
static bool reorders(Operation *op) {
  if (auto kernel = dyn_cast<KernelOp>(op))
    return kernel->getNumOperands() == 1 &&
           llvm::all_of(kernel.getBody().front().without_terminator(),
                        [](Operation &inner) { return reorders(&inner); });
  return isa<ReshapeOp, TransposeOp>(op);
}

/// Whether the value is an activation that the forward pass gathers over
/// sequence-parallel ranks.
bool SoftwareView::isRegathered(Value value) const {
  Operation *op = value.getDefiningOp();
  if (!op || phaseOf(op) != Phase::forward)
    return false;
  if (reorders(op))
    return isRegathered(op->getOperand(0));
  auto gather = dyn_cast<AllGatherOp>(op);
  return gather && cast<RankedTensorType>(value.getType()).getRank() >= 3 &&
         llvm::none_of(namesOf(gather.getAxes()), sumsGradients);
}

/// Ends the buffer with its last use in its own phase, and adds one for the
/// uses in other phases.
void SoftwareView::regather(int64_t id) {
  const auto phase = live.runOf(live.touches[id].front());
  SmallVector<int64_t> again;
  llvm::erase_if(live.touches[id], [&](int64_t at) {
    bool isLater = live.runOf(at) != phase;
    if (isLater)
      again.push_back(at);
    return isLater;
  });
  if (again.empty())
    return;
  cost::Buffer &kept = live.buffers[id];
  const cost::Buffer whole = kept;
  kept.last = *llvm::max_element(live.touches[id]);
  live.add({}, whole.bytes, whole.category, *llvm::min_element(again),
           whole.last);
  live.touches.back() = again;
}

void SoftwareView::run() {
  for (auto [id, value] : llvm::enumerate(live.values))
    live.buffers[id].bytes =
        value ? std::llround(keptBytes(value, live.buffers[id])) : 0;
  for (auto [at, op] : llvm::enumerate(live.ops))
    addScores(op, at);
  if (software.regathersInputs)
    for (int64_t id : llvm::seq<int64_t>(0, live.values.size()))
      if (live.values[id] && isRegathered(live.values[id]))
        regather(id);
  cost::MemoryBreakdown states = statesOf(live.step, owner, false);
  for (int i = 0; i < cost::numMemoryCategories; ++i)
    if (states.bytes[i] > 0)
      live.add({}, std::llround(states.bytes[i]),
               static_cast<MemoryCategory>(i), 0, live.end());
}

void dpc::countAsSoftware(Liveness &live, const MemoryOwner &owner) {
  SoftwareView(live, owner).run();
}
