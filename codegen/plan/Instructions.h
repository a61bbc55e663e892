//===- Instructions.h - The instructions of a stage -------------*- C++ -*-===//
#ifndef DPC_CODEGEN_PLAN_INSTRUCTIONS_H
#define DPC_CODEGEN_PLAN_INSTRUCTIONS_H

#include "codegen/Codegen.h"
#include "codegen/plan/StepSchedule.h"

namespace dpc::codegen {

/// An instruction and what decides its place.
struct Item {
  int phase = 0; ///< index in StepSchedule::phases
  rt::Instruction instruction;
  SourceOps source; ///< see PlanDraft::sources
};

/// The instructions of a stage, in the order in which they are found; order()
/// sorts them by phase.
struct InstructionList {
  std::vector<Item> items;
  std::vector<Item> tails;       ///< appended to their phases
  std::vector<int> outputsAtEnd; ///< buffers read after the step
  SourceOps source;              ///< of what is emitted

  rt::Instruction &emit(int phase, rt::OpVariant op, std::string name,
                        rt::Queue queue = rt::Queue::Compute);
  void order(const StepSchedule &schedule);
};

/// Ids of the buffers (never views) that an instruction touches.
struct Touched {
  llvm::SmallVector<int> reads, writes;
};
Touched touchedBy(const rt::Instruction &instruction, const rt::Plan &plan);

/// The buffer of which `id` is a view, or `id`.
int rootOfBuffer(const rt::Plan &plan, int id);

/// Adds the waits and signals between queues that accesses of `items` ask for
/// (Events.cpp).
void addEvents(std::vector<Item> &items, const rt::Plan &plan, int &numEvents);

/// Adds the events that are missing between entries of the schedule of `stage`,
/// whose buffers are placed.
void completeEvents(rt::Plan &plan, int64_t stage, int &numEvents);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_PLAN_INSTRUCTIONS_H
