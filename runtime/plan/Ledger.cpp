#include "runtime/plan/Ledger.h"

#include <filesystem>
#include <fstream>

namespace dpc::rt {

bool meetsOthers(const Plan &plan, const OpVariant &op, int rank) {
  if (auto *send = std::get_if<SendOp>(&op))
    return peerOf(plan.groups[send->group], *send, rank) >= 0;
  if (auto *recv = std::get_if<RecvOp>(&op))
    return peerOf(plan.groups[recv->group], *recv, rank) >= 0;
  return isCollective(op);
}

namespace {

template <typename List> std::string joined(const List &list) {
  std::string text;
  for (const auto &element : list) {
    if (!text.empty())
      text += ',';
    if constexpr (requires { std::to_string(element); })
      text += std::to_string(element);
    else
      text += element;
  }
  return text;
}

/// What a line says of an op beyond its name, place and buffers.
struct Details {
  const Plan &plan;
  int rank;

  std::string operator()(const SendOp &op) const {
    return " to=" + std::to_string(peerOf(plan.groups[op.group], op, rank)) +
           " tag=" + std::to_string(op.tag);
  }
  std::string operator()(const RecvOp &op) const {
    return " from=" + std::to_string(peerOf(plan.groups[op.group], op, rank)) +
           " tag=" + std::to_string(op.tag);
  }
  std::string operator()(const BroadcastOp &op) const {
    const std::vector<int> &cell = cellOf(plan.groups[op.group], rank);
    return " ranks=" + joined(cell) + " root=" + std::to_string(cell[op.root]);
  }
  template <typename Op> std::string operator()(const Op &op) const {
    std::string text;
    if constexpr (requires { op.group; })
      text = " ranks=" + joined(cellOf(plan.groups[op.group], rank));
    if constexpr (requires { op.kind; })
      text += " reduction=" + std::string(nameOf(op.kind));
    return text;
  }
};

/// The buffers of an op, those it sends first; each once.
std::vector<int> buffersOf(const Plan &plan, const Instruction &instruction) {
  Accesses accesses = accessesOf(instruction, plan);
  std::vector<int> ids = accesses.reads;
  if (accesses.reads != accesses.writes)
    ids.insert(ids.end(), accesses.writes.begin(), accesses.writes.end());
  return ids;
}

std::string lineOf(const Plan &plan, int rank, const ScheduleEntry &entry,
                   size_t index) {
  const Instruction &instruction = plan.phases.at(entry.phase)[index];
  const Group &group = plan.groups[groupOf(instruction.op)];
  std::vector<int> ids = buffersOf(plan, instruction);
  std::vector<int64_t> bytes;
  for (int id : ids)
    bytes.push_back(plan.buffers[id].bytes);
  return entry.phase + "[" + std::to_string(index) +
         "] micro_batch=" + std::to_string(entry.microBatch) + " " +
         std::string(opName(instruction.op)) +
         " group=" + std::to_string(group.id) + "(" + joined(group.axes) + ")" +
         std::visit(Details{plan, rank}, instruction.op) +
         " bytes=" + joined(bytes) + " buffers=" + joined(ids) +
         (instruction.name.empty() ? "" : " \"" + instruction.name + '"');
}

} // namespace

std::string ledgerText(const Plan &plan, int rank) {
  std::string text = "# " + plan.model + ": what rank " + std::to_string(rank) +
                     " of " + std::to_string(plan.ranks()) +
                     " communicates in a step, in this order\n";
  int64_t number = 0;
  for (const ScheduleEntry &entry : plan.schedule[rank]) {
    const auto &instructions = plan.phases.at(entry.phase);
    for (size_t i = 0; i < instructions.size(); ++i)
      if (meetsOthers(plan, instructions[i].op, rank))
        text += std::to_string(number++) + " " + lineOf(plan, rank, entry, i) +
                "\n";
  }
  return text;
}

Status writeLedgers(const Plan &plan, const std::string &dir) {
  std::error_code code;
  std::filesystem::create_directories(dir, code);
  if (code)
    return Status::io(dir + ": " + code.message());
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    std::string path = dir + "/rank-" + std::to_string(rank) + ".txt";
    std::ofstream out(path, std::ios::binary);
    out << ledgerText(plan, rank);
    out.close();
    if (!out)
      return Status::io(path + ": cannot be written");
  }
  return Status::success();
}

} // namespace dpc::rt
