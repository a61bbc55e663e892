//===- ProgramFamily.cpp - A program by its number of layers --------------===//
#include "passes/lower/ProgramFamily.h"

#include "passes/shard/Passes.h"
#include "passes/shrink/Shrink.h"

using namespace mlir;
using namespace dpc;

/// Enough layers for most folded evaluations.
static constexpr int64_t kFewLayers = 24;

ProgramFamily::ProgramFamily(ModuleOp forward, PassList passes)
    : forward(forward), passes(std::move(passes)) {
  OwningOpRef<ModuleOp> clone(cast<ModuleOp>(forward->clone()));
  func::FuncOp func = findProgram(*clone);
  if (auto cut = func ? cutLayers(func, kFewLayers) : std::nullopt) {
    count = cut->before;
    few = std::move(clone);
  } else if (auto fewer = func ? cutLayers(func, 1) : std::nullopt) {
    count = fewer->before;
  }
}

FailureOr<ModuleOp> ProgramFamily::program(int64_t layers) {
  Entry *entry;
  {
    std::lock_guard<std::mutex> lock(mutex);
    entry = &programs[layers];
  }
  std::lock_guard<std::mutex> lock(entry->mutex);
  if (!entry->program) {
    FailureOr<OwningOpRef<ModuleOp>> made = make(layers);
    if (failed(made))
      return failure();
    entry->program = std::move(*made);
  }
  return *entry->program;
}

FailureOr<OwningOpRef<ModuleOp>> ProgramFamily::make(int64_t layers) {
  ModuleOp base = few && layers <= kFewLayers ? *few : forward;
  OwningOpRef<ModuleOp> module(cast<ModuleOp>(base->clone()));
  int64_t present = base == forward ? count : kFewLayers;
  if (layers < present && !cutLayers(findProgram(*module), layers))
    return findProgram(*module).emitError(
        "the repeated layers of the model cannot be cut");
  // Shortened programs are used only for evaluations and skip the verifier.
  if (failed(runPasses(*module, passes, /*verifies=*/layers == count)))
    return failure();
  return std::move(module);
}

FailureOr<ModuleOp> ProgramFamily::whole() { return program(count); }
