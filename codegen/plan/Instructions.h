//===- Instructions.h - The instructions of a stage -------------*- C++ -*-===//
#ifndef DPC_CODEGEN_PLAN_INSTRUCTIONS_H
#define DPC_CODEGEN_PLAN_INSTRUCTIONS_H

#include "codegen/Codegen.h"
#include "codegen/plan/StepSchedule.h"

namespace dpc::codegen {

/// An instruction and the phase that runs it.
struct Item {
  int phase = 0; ///< index in StepSchedule::phases
  rt::Instruction instruction;
  SourceOps source; ///< see PlanDraft::sources
};

Item makeItem(int phase, rt::OpVariant op, std::string name,
              rt::Queue queue = rt::Queue::Compute);

/// The instructions of a stage in the order in which the lowering emits them;
/// order() sorts them by phase.
struct InstructionList {
  std::vector<Item> items;
  std::vector<Item> tails;       ///< instructions at the ends of their phases
  std::vector<int> outputsAtEnd; ///< buffers read after the step
  SourceOps source;              ///< ops that emit() names as sources

  rt::Instruction &emit(int phase, rt::OpVariant op, std::string name,
                        rt::Queue queue = rt::Queue::Compute);
  void order(const StepSchedule &schedule);
};

/// The ids of the buffers that an instruction accesses. For a view, this is the
/// id of the buffer that contains it.
struct Touched {
  llvm::SmallVector<int> reads, writes;
};
Touched touchedBy(const rt::Instruction &instruction, const rt::Plan &plan);

/// The buffer that contains the view `id`; `id` itself if it is not a view.
int rootOfBuffer(const rt::Plan &plan, int id);

/// Adds waits and signals where `items` of different queues conflict
/// (Events.cpp).
void addEvents(std::vector<Item> &items, const rt::Plan &plan, int &numEvents);

/// Adds the events that addEvents cannot determine, between the entries of the
/// schedule of `stage`. The buffers of `stage` must have offsets.
void completeEvents(rt::Plan &plan, int64_t stage, int &numEvents);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_PLAN_INSTRUCTIONS_H
