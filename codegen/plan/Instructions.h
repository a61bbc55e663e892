//===- Instructions.h - The instructions of a stage -------------*- C++ -*-===//
#pragma once

#include "codegen/Codegen.h"
#include "codegen/plan/StepSchedule.h"

namespace dpc::codegen {

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
  std::vector<Item> tails;       ///< items that run last in their phases
  std::vector<int> outputsAtEnd; ///< buffers read after the step
  SourceOps source;              ///< copied to each item by emit()

  rt::Instruction &emit(int phase, rt::OpVariant op, std::string name,
                        rt::Queue queue = rt::Queue::Compute);
  void order(const StepSchedule &schedule);
};

/// The ids of the buffers that an instruction accesses. A view is replaced by
/// the buffer that contains it.
struct Touched {
  llvm::SmallVector<int> reads, writes;
};
Touched touchedBy(const rt::Instruction &instruction, const rt::Plan &plan);

/// Returns the buffer that contains the view `id`, or `id` if it is not a view.
int rootOfBuffer(const rt::Plan &plan, int id);

/// Adds waits and signals where items of different queues conflict.
void addEvents(std::vector<Item> &items, const rt::Plan &plan, int &numEvents);

/// Adds the events that depend on the offsets of buffers: those between entries
/// of the schedule of `stage`, and those between transfers and other queues.
/// The buffers of `stage` must have offsets.
void completeEvents(rt::Plan &plan, int64_t stage, int &numEvents);

} // namespace dpc::codegen
