//===- StepTime.cpp - Two-queue simulation of a step ----------------------===//
#include "cost-model/CollectiveCost.h"
#include "passes/search/StepEstimate.h"
#include "passes/shard/OpTime.h"

using namespace mlir;
using namespace dpc;

StepPhase dpc::phaseOf(Operation *op) {
  auto phase = op->getAttrOfType<StringAttr>(attr::kPhase);
  StringRef name = phase ? phase.getValue() : "forward";
  return llvm::StringSwitch<StepPhase>(name)
      .Case("setup", StepPhase::setup)
      .Case("backward", StepPhase::backward)
      .Case("update", StepPhase::update)
      .Default(StepPhase::forward);
}

SmallVector<Operation *> dpc::opsInOrder(func::FuncOp step) {
  SmallVector<Operation *> ops;
  for (StepPhase phase : {StepPhase::setup, StepPhase::forward,
                          StepPhase::backward, StepPhase::update})
    for (Operation &op : step.getBody().front().without_terminator())
      if (phaseOf(&op) == phase)
        ops.push_back(&op);
  return ops;
}

static MeshAttr meshOf(func::FuncOp step) {
  return step->getAttrOfType<MeshAttr>(attr::kMesh);
}

int64_t dpc::microBatchesOf(func::FuncOp step) {
  MeshAttr mesh = meshOf(step);
  return mesh ? mesh.axisSize(kMicroBatchAxis) : 1;
}

bool dpc::isBufferView(Operation *op) {
  if (isa<ReshapeOp>(op))
    return true;
  return isa<TransposeOp, SliceOp, BroadcastOp>(op) && op->hasAttr(attr::kView);
}

bool dpc::isCommunication(Operation *op) {
  return isa<AllReduceOp, AllGatherOp, ReduceScatterOp, AllToAllOp>(op);
}

Value dpc::bufferRoot(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isBufferView(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

static double bytesOf(ValueRange values) {
  double bytes = 0;
  for (Value value : values)
    bytes += sizeInBytes(cast<RankedTensorType>(value.getType()));
  return bytes;
}

namespace {

class Simulation {
public:
  Simulation(func::FuncOp step, const cost::Cluster &cluster)
      : step(step), cluster(cluster), mesh(meshOf(step)),
        device(cluster.slowestDevice(cost::DType::F32)) {
    result.bytesPerLevel.assign(cluster.levels.size(), 0);
  }
  StepTime run();

private:
  func::FuncOp step;
  const cost::Cluster &cluster;
  MeshAttr mesh;
  const cost::Device &device;
  StepTime result;
  double computeFree = 0, commFree = 0;
  /// When the collective that writes a buffer has ended.
  DenseMap<Value, double> written;

  double computeSeconds(Operation *op) const;
  cost::CollectiveEstimate collective(Operation *op) const;
  cost::GroupPlacement placement(ArrayAttr axes) const;
  void compute(Operation *op, double times);
  void communicate(Operation *op, double times);
};

} // namespace

double Simulation::computeSeconds(Operation *op) const {
  return isBufferView(op) ? 0 : opSeconds(op, device);
}

cost::GroupPlacement Simulation::placement(ArrayAttr axes) const {
  // Ranks are row-major over the mesh: the innermost axis has stride 1.
  int64_t stride = 1, size = 1, groupStride = 1;
  for (int64_t i = mesh.getNames().size() - 1; i >= 0; --i) {
    StringAttr name = mesh.getNames()[i];
    if (name.getValue() == kMicroBatchAxis)
      continue;
    if (llvm::is_contained(axes.getValue(), name)) {
      groupStride = size == 1 ? stride : groupStride;
      size *= mesh.getSizes()[i];
    }
    stride *= mesh.getSizes()[i];
  }
  return cost::placeAxis(cluster, groupStride, size);
}

cost::CollectiveEstimate Simulation::collective(Operation *op) const {
  using cost::Collective;
  double in = bytesOf(op->getOperands()), out = bytesOf(op->getResults());
  cost::GroupPlacement group = placement(op->getAttrOfType<ArrayAttr>("axes"));
  if (isa<AllReduceOp>(op))
    return estimateCollective(cluster, Collective::AllReduce, in, group);
  if (isa<AllGatherOp>(op))
    return estimateCollective(cluster, Collective::AllGather, out, group);
  if (isa<ReduceScatterOp>(op))
    return estimateCollective(cluster, Collective::ReduceScatter, in, group);
  return estimateCollective(cluster, Collective::AllToAll, in, group);
}

void Simulation::communicate(Operation *op, double times) {
  cost::CollectiveEstimate estimate = collective(op);
  for (auto [total, bytes] :
       llvm::zip(result.bytesPerLevel, estimate.bytesPerLevel))
    total += bytes * times;
  commFree = std::max(commFree, computeFree) + estimate.seconds;
  for (Value value : op->getResults())
    written[value] = commFree;
}

void Simulation::compute(Operation *op, double times) {
  double seconds = computeSeconds(op);
  double start = computeFree;
  for (Value value : op->getOperands())
    start = std::max(start, written.lookup(bufferRoot(value)));
  computeFree = start + seconds;
  result.computeSeconds += seconds * times;
}

StepTime Simulation::run() {
  double microBatches = microBatchesOf(step);
  double loopStart = -1, loopEnd = 0;
  for (Operation *op : opsInOrder(step)) {
    StepPhase phase = phaseOf(op);
    bool inLoop = phase == StepPhase::forward || phase == StepPhase::backward;
    double times = inLoop ? microBatches : 1;
    if (inLoop && loopStart < 0)
      loopStart = std::max(computeFree, commFree);
    isCommunication(op) ? communicate(op, times) : compute(op, times);
    if (inLoop)
      loopEnd = computeFree;
  }
  result.seconds = std::max(computeFree, commFree);
  if (loopStart >= 0)
    result.seconds += (microBatches - 1) * std::max(0.0, loopEnd - loopStart);
  result.exposedCommunicationSeconds =
      std::max(0.0, result.seconds - result.computeSeconds);
  return result;
}

StepTime dpc::estimateTime(func::FuncOp step, const cost::Cluster &cluster) {
  return Simulation(step, cluster).run();
}
