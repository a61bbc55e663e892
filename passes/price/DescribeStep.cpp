//===- DescribeStep.cpp - The step of a strategy in the report ------------===//
#include "passes/price/DescribeStep.h"

#include "cost-model/machine/HeterogeneousCluster.h"
#include "cost-model/machine/SoftwareMemory.h"
#include "ir/ExpertTiles.h"
#include "ir/GemmEpilogues.h"
#include "passes/graph/Fp8.h"
#include "passes/price/Evaluator.h"
#include "passes/price/SoftwareBuffers.h"
#include "passes/shard/Passes.h"

using namespace mlir;
using namespace dpc;

static std::string nameOf(const RecordedPhase &phase) {
  std::string name = stringifyPhase(phase.phase).str();
  return phase.chunk && isInLoop(phase.phase)
             ? name + "." + std::to_string(phase.chunk)
             : name;
}

/// Returns a text such as "all_reduce over tp", "send over pp" or "fetch".
static std::string labelOf(Operation *op) {
  std::string text = op->getName().stripDialect().str();
  if (isTransfer(op))
    return text;
  if (isa<SendOp, RecvOp>(op))
    return text + " over " + kPipelineAxis.str();
  return text + " over " + llvm::join(namesOf(communicationAxes(op)), " x ");
}

namespace {

class Describer {
public:
  explicit Describer(const cost::Cluster &cluster) : cluster(cluster) {}
  cost::StepDetail run(const StepRecord &record);

private:
  const cost::Cluster &cluster;
  cost::StepDetail detail;

  int64_t labelOf(Operation *op);
  cost::DetailPhase phaseOf(const RecordedPhase &phase);
  void addTraffic(int64_t number, const StageRecord &stage);
};

} // namespace

int64_t Describer::labelOf(Operation *op) {
  std::string text = ::labelOf(op);
  auto it = llvm::find(detail.labels, text);
  if (it == detail.labels.end())
    it = detail.labels.insert(it, text);
  return it - detail.labels.begin();
}

cost::DetailPhase Describer::phaseOf(const RecordedPhase &phase) {
  cost::DetailPhase result;
  result.name = ::nameOf(phase);
  result.seconds = phase.seconds;
  result.waitBegin = phase.waitBegin;
  result.waitEnd = phase.waitEnd;
  for (const RecordedOp &op : phase.ops)
    if (op.queue == StepQueue::compute)
      result.compute.push_back({op.begin, op.end, -1});
    else
      (op.queue == StepQueue::copy ? result.copy : result.communication)
          .push_back({op.begin, op.end, labelOf(op.op)});
  return result;
}

void Describer::addTraffic(int64_t number, const StageRecord &stage) {
  std::map<int64_t, cost::DetailTraffic> sums;
  for (auto [times, phase] : llvm::zip_equal(stage.runs(), stage.phases))
    for (const RecordedOp &op : phase.ops) {
      if (op.bytesPerLevel.empty())
        continue;
      int64_t label = labelOf(op.op);
      cost::DetailTraffic &sum = sums[label];
      sum.stage = number;
      sum.label = label;
      sum.times += times;
      sum.seconds += (op.end - op.begin) * op.movesShare * times;
      sum.bytesPerLevel.resize(cluster.levels.size(), 0);
      for (auto [total, bytes] : llvm::zip(sum.bytesPerLevel, op.bytesPerLevel))
        total += bytes * times;
    }
  for (auto &[label, sum] : sums)
    detail.traffic.push_back(std::move(sum));
}

/// Returns the fraction of FLOPs in fp8. Local sizes decide if a GEMM uses fp8.
static double fp8ShareOf(const StepRecord &record) {
  double all = 0, inFp8 = 0;
  for (const StageRecord &stage : record.stages) {
    for (auto [times, phase] : llvm::zip_equal(stage.runs(), stage.phases))
      for (const RecordedOp &recorded : phase.ops) {
        if (recorded.queue != StepQueue::compute)
          continue; // the exchange of rows between two computations
        auto costed = dyn_cast<CostOpInterface>(recorded.op);
        MatmulOp matmul = matmulOf(recorded.op);
        double flops = costed ? times * costed.getFlops() : 0;
        all += flops;
        if (matmul && fp8SizesOf(matmul))
          inFp8 += flops;
      }
  }
  return all > 0 ? inFp8 / all : 0;
}

cost::StepDetail Describer::run(const StepRecord &record) {
  detail.stepSeconds = record.seconds;
  detail.hostSeconds = record.hostSeconds;
  detail.fp8Share = fp8ShareOf(record);
  for (auto [number, stage] : llvm::enumerate(record.stages)) {
    cost::DetailStage next;
    for (const RecordedPhase &phase : stage.phases)
      next.phases.push_back(phaseOf(phase));
    for (const RecordedEntry &entry : stage.entries)
      next.entries.push_back(
          {static_cast<int64_t>(entry.phase), entry.microBatch, entry.begin});
    detail.stages.push_back(std::move(next));
    addTraffic(number, stage);
  }
  return std::move(detail);
}

cost::StepDetail dpc::detailOf(const StepRecord &record,
                               const cost::Cluster &cluster) {
  return Describer(cluster).run(record);
}

/// Returns the memory of a rank that runs each phase of `step` once.
static std::vector<cost::MemoryMoment> memoryOf(func::FuncOp step,
                                                const cost::Cluster &cluster,
                                                const MemoryOwner &owner,
                                                const StageRecord &record) {
  DenseMap<Operation *, double> begins;
  double phaseBegin = 0;
  for (const RecordedPhase &phase : record.phases) {
    for (const RecordedOp &op : phase.ops)
      begins.try_emplace(op.op, phaseBegin + op.begin);
    phaseBegin += phase.seconds;
  }
  std::vector<cost::MemoryBreakdown> bytes = memoryOverStep(step, owner);
  cost::MemoryBreakdown peak =
      *llvm::max_element(bytes, [](const auto &a, const auto &b) {
        return a.total() < b.total();
      });
  double most = cost::heldMemory(cluster, peak).total();
  std::vector<cost::MemoryMoment> moments;
  double now = 0;
  SmallVector<Operation *> ops = opsInOrder(step);
  for (auto [i, counted] : llvm::enumerate(bytes)) {
    // Memory follows program order, but queues may run ops in another order.
    if (i < ops.size())
      if (auto it = begins.find(ops[i]); it != begins.end())
        now = std::max(now, it->second);
    if (i == ops.size())
      now = std::max(now, phaseBegin);
    cost::MemoryBreakdown held = cost::heldMemory(cluster, counted);
    // An allocator reserves at most as much memory as at the peak.
    double share = held.total() > most ? most / held.total() : 1;
    for (double &part : held.bytes)
      part *= share;
    moments.push_back({now, held});
  }
  return moments;
}

/// Returns the stage whose ranks use the largest part of their memory.
static int64_t fullestOf(ArrayRef<func::FuncOp> steps,
                         const cost::Cluster &cluster,
                         const LoweringSpec &spec) {
  int64_t fullest = 0;
  double most = -1;
  for (auto [i, step] : llvm::enumerate(steps)) {
    double full =
        cost::heldMemory(
            cluster,
            estimateMemory(step, memoryOwner(cluster, spec)).categories)
            .total();
    if (cost::isHeterogeneous(cluster))
      full /=
          cost::devicesOfStage(cluster, rankOrder(spec), i, cost::DType::F32)
              .usableBytes;
    if (full > most) {
      most = full;
      fullest = i;
    }
  }
  return fullest;
}

void StepDescription::observe(StringRef phase, ModuleOp lowered) {
  if (phase == "sharded")
    operators = describeOperators(findProgram(lowered));
}

cost::StepDetail StepDescription::finish(ArrayRef<func::FuncOp> steps,
                                         int64_t fullest,
                                         const cost::Cluster &cluster,
                                         const LoweringSpec &spec) {
  cost::StepDetail detail = detailOf(record, cluster);
  detail.operators = std::move(operators);
  detail.fullestStage = fullest;
  detail.memory = memoryOf(steps[fullest], cluster, memoryOwner(cluster, spec),
                           record.stages[fullest]);
  return detail;
}

FailureOr<cost::StepDetail> dpc::describeStep(ModuleOp program,
                                              const cost::Cluster &cluster,
                                              const LoweringSpec &spec) {
  StepDescription description;
  auto module = lowerForStrategy(
      program, cluster, spec,
      [&](StringRef phase, ModuleOp lowered) {
        description.observe(phase, lowered);
      },
      /*layouts=*/nullptr, /*verifies=*/false);
  if (failed(module))
    return failure();
  SmallVector<func::FuncOp> steps = findSteps(**module);
  Expected<StepTime> time = estimateTime(steps, cluster, &description.record);
  if (!time)
    return program.emitError(time.message());
  return description.finish(steps, fullestOf(steps, cluster, spec), cluster,
                            spec);
}
