//===- StepRecord.cpp - What ran when in a simulated step -----------------===//
#include "passes/search/StepRecord.h"

using namespace dpc;

double StageRecord::end() const {
  double last = 0;
  for (const RecordedEntry &entry : entries)
    last = std::max(last, entry.begin + phases[entry.phase].seconds);
  return last;
}

std::vector<RecordedOp> &PhaseLog::enter(StepPhase phase, double now) {
  if (stage.phases.empty() || stage.phases.back().phase != phase) {
    stage.phases.push_back({phase, 0, 0, {}});
    begins.push_back(now);
  }
  return stage.phases.back().ops;
}

void PhaseLog::finish(double end, int64_t microBatches, double period) {
  begins.push_back(end);
  for (auto [i, phase] : llvm::enumerate(stage.phases)) {
    phase.seconds = std::max(0.0, begins[i + 1] - begins[i]);
    for (RecordedOp &op : phase.ops) {
      op.begin -= begins[i];
      op.end -= begins[i];
    }
  }
  auto add = [&](bool (*isWanted)(StepPhase), int64_t microBatch, double late) {
    for (auto [i, phase] : llvm::enumerate(stage.phases))
      if (isWanted(phase.phase))
        stage.entries.push_back({i, microBatch, begins[i] + late});
  };
  add([](StepPhase phase) { return phase == StepPhase::setup; }, 0, 0);
  for (int64_t m = 0; m < microBatches; ++m)
    add(isInLoop, m, static_cast<double>(m) * period);
  add([](StepPhase phase) { return phase == StepPhase::update; }, 0,
      static_cast<double>(microBatches - 1) * period);
}
