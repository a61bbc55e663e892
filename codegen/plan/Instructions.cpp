//===- Instructions.cpp - The instructions of a stage ---------------------===//
#include "codegen/plan/Instructions.h"

using namespace mlir;

namespace dpc::codegen {

Item makeItem(int phase, rt::OpVariant op, std::string name, rt::Queue queue) {
  Item item;
  item.phase = phase;
  item.instruction.queue = queue;
  item.instruction.op = std::move(op);
  item.instruction.name = std::move(name);
  return item;
}

rt::Instruction &InstructionList::emit(int phase, rt::OpVariant op,
                                       std::string name, rt::Queue queue) {
  items.push_back(makeItem(phase, std::move(op), std::move(name), queue));
  items.back().source = source;
  return items.back().instruction;
}

void InstructionList::order(const StepSchedule &schedule) {
  // `tails` run last in their phases, because they read what other items write.
  for (Item &item : tails)
    items.push_back(std::move(item));
  tails.clear();
  std::vector<Item> ordered;
  for (int phase = 0; phase <= schedule.update(); ++phase)
    for (Item &item : items)
      if (item.phase == phase)
        ordered.push_back(std::move(item));
  items = std::move(ordered);
}

int rootOfBuffer(const rt::Plan &plan, int id) {
  int parent = plan.buffers[id].viewOf;
  return parent >= 0 ? parent : id;
}

Touched touchedBy(const rt::Instruction &instruction, const rt::Plan &plan) {
  rt::Accesses accesses = rt::accessesOf(instruction, plan);
  auto roots = [&](const std::vector<int> &ids) {
    SmallVector<int> result;
    for (int id : ids)
      result.push_back(rootOfBuffer(plan, id));
    return result;
  };
  return {roots(accesses.reads), roots(accesses.writes)};
}

} // namespace dpc::codegen
