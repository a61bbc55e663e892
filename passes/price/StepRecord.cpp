//===- StepRecord.cpp - The ops of a simulated step over time -------------===//
#include "passes/price/StepRecord.h"

using namespace dpc;

std::vector<double> StageRecord::runs() const {
  std::vector<double> counts(phases.size(), 0);
  for (const RecordedEntry &entry : entries)
    ++counts[entry.phase];
  return counts;
}

double StageRecord::end() const {
  double last = 0;
  for (const RecordedEntry &entry : entries)
    last = std::max(last, entry.begin + phases[entry.phase].seconds);
  return last;
}

void StageRecord::makeFaster(RecordedEntry &entry, double times) {
  RecordedPhase phase = phases[entry.phase];
  phase.seconds /= times;
  for (RecordedOp &op : phase.ops) {
    op.begin /= times;
    op.end /= times;
  }
  entry.phase = phases.size();
  phases.push_back(std::move(phase));
}

void StageRecord::updateWith(const StageRecord &other) {
  auto isUpdate = [](const RecordedPhase &phase) {
    return phase.phase == Phase::update;
  };
  auto own = llvm::find_if(phases, isUpdate);
  auto later = llvm::find_if(other.phases, isUpdate);
  if (own == phases.end() || later == other.phases.end())
    return;
  *own = *later;
  auto begin = [](const StageRecord &stage, size_t phase) -> double {
    auto it = llvm::find_if(stage.entries, [&](const RecordedEntry &entry) {
      return entry.phase == phase;
    });
    return it == stage.entries.end() ? 0 : it->begin;
  };
  double begins = begin(other, later - other.phases.begin());
  for (RecordedEntry &entry : entries)
    if (entry.phase == static_cast<size_t>(own - phases.begin()))
      entry.begin = begins;
}

void StepRecord::meet() {
  for (std::vector<StageRecord> &kind : kinds)
    for (auto [own, slowest] : llvm::zip_equal(kind, stages))
      own.updateWith(slowest);
}

std::vector<RecordedOp> &PhaseLog::enter(Phase phase, double now) {
  if (stage.phases.empty() || stage.phases.back().phase != phase) {
    stage.phases.emplace_back().phase = phase;
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
  auto add = [&](bool (*isWanted)(Phase), int64_t microBatch, double late) {
    for (auto [i, phase] : llvm::enumerate(stage.phases))
      if (isWanted(phase.phase))
        stage.entries.push_back({i, microBatch, begins[i] + late});
  };
  add([](Phase phase) { return phase == Phase::setup; }, 0, 0);
  for (int64_t m = 0; m < microBatches; ++m)
    add(isInLoop, m, static_cast<double>(m) * period);
  add([](Phase phase) { return phase == Phase::update; }, 0,
      static_cast<double>(microBatches - 1) * period);
}
