#include "runtime/plan/Ledger.h"

#include "runtime/base/WriteFile.h"
#include "runtime/plan/RankCells.h"

#include <set>

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

/// Lists of more ranks are abbreviated.
constexpr size_t kShortList = 8;

bool isRegular(const std::vector<int> &cell) {
  for (size_t i = 2; i < cell.size(); ++i)
    if (cell[i] - cell[i - 1] != cell[1] - cell[0])
      return false;
  return true;
}

bool isListedAbove(const std::vector<int> &cell) {
  return cell.size() > kShortList && !isRegular(cell);
}

std::string ranksText(const std::vector<int> &cell) {
  if (cell.size() <= kShortList)
    return " ranks=" + joined(cell);
  std::string count = " count=" + std::to_string(cell.size());
  if (!isRegular(cell))
    return " ranks=above" + count;
  return concat(" ranks=", cell.front(), "..", cell.back(),
                " stride=", cell[1] - cell[0], count);
}

} // namespace

std::string meetingText(const Plan &plan, const OpVariant &op, int rank) {
  if (!meetsOthers(plan, op, rank))
    return "";
  const Group &group = plan.groups[groupOf(op)];
  std::string text = "group " + joined(group.axes);
  if (auto *send = std::get_if<SendOp>(&op))
    return text + " to=" + std::to_string(peerOf(group, *send, rank));
  if (auto *recv = std::get_if<RecvOp>(&op))
    return text + " from=" + std::to_string(peerOf(group, *recv, rank));
  return text + ranksText(cellOf(group, rank));
}

namespace {

/// Formats the part of a line that depends on the kind of op.
struct Details {
  const Plan &plan;
  const RankCells &cells;
  int rank;

  std::string operator()(const SendOp &op) const {
    return concat(" to=", cells.peerOf(op, rank), " tag=", op.tag);
  }
  std::string operator()(const RecvOp &op) const {
    return concat(" from=", cells.peerOf(op, rank), " tag=", op.tag);
  }
  std::string operator()(const BroadcastOp &op) const {
    const std::vector<int> &cell = cells.cellOf(op.group, rank);
    return ranksText(cell) + " root=" + std::to_string(cell[op.root]);
  }
  template <typename Op> std::string operator()(const Op &op) const {
    std::string text;
    if constexpr (requires { op.group; })
      text = ranksText(cells.cellOf(op.group, rank));
    if constexpr (requires { op.kind; })
      text += " reduction=" + std::string(nameOf(op.kind));
    return text;
  }
};

/// Returns the buffers that an instruction reads, then those that it writes,
/// unless they are the same.
std::vector<int> buffersOf(const Plan &plan, const Instruction &instruction) {
  Accesses accesses = accessesOf(instruction, plan);
  std::vector<int> ids = accesses.reads;
  if (accesses.reads != accesses.writes)
    ids.insert(ids.end(), accesses.writes.begin(), accesses.writes.end());
  return ids;
}

std::string lineOf(const Plan &plan, const RankCells &cells, int rank,
                   const ScheduleEntry &entry, size_t index) {
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
         std::visit(Details{plan, cells, rank}, instruction.op) +
         " bytes=" + joined(bytes) + " buffers=" + joined(ids) +
         (instruction.name.empty() ? "" : " \"" + instruction.name + '"');
}

/// Like meetsOthers(), but faster.
bool isIssued(const RankCells &cells, const OpVariant &op, int rank) {
  if (auto *send = std::get_if<SendOp>(&op))
    return cells.peerOf(*send, rank) >= 0;
  if (auto *recv = std::get_if<RecvOp>(&op))
    return cells.peerOf(*recv, rank) >= 0;
  return isCollective(op);
}

std::string textOf(const Plan &plan, const RankCells &cells, int rank) {
  std::string lines;
  std::set<int> listed;
  int64_t number = 0;
  for (const ScheduleEntry &entry : plan.schedule[rank]) {
    const auto &instructions = plan.phases.at(entry.phase);
    for (size_t i = 0; i < instructions.size(); ++i) {
      const OpVariant &op = instructions[i].op;
      if (!isIssued(cells, op, rank))
        continue;
      lines += concat(number++, " ", lineOf(plan, cells, rank, entry, i), "\n");
      bool isMessage = std::holds_alternative<SendOp>(op) ||
                       std::holds_alternative<RecvOp>(op);
      if (!isMessage && isListedAbove(cells.cellOf(groupOf(op), rank)))
        listed.insert(groupOf(op));
    }
  }
  std::string text =
      concat("# ", plan.model, ": what rank ", rank, " of ", plan.ranks(),
             " communicates in a step, in this order\n");
  for (int group : listed)
    text += concat("# group ", group,
                   ": ranks=", joined(cells.cellOf(group, rank)), "\n");
  return text + lines;
}

} // namespace

std::string ledgerText(const Plan &plan, int rank) {
  return textOf(plan, RankCells(plan), rank);
}

Status writeLedgers(const Plan &plan, const std::string &dir) {
  DPC_TRY(makeFolder(dir));
  RankCells cells(plan);
  for (int rank = 0; rank < plan.ranks(); ++rank)
    DPC_TRY(writeFile(concat(dir, "/rank-", rank, ".txt"),
                      textOf(plan, cells, rank)));
  return Status::success();
}

} // namespace dpc::rt
