#include "runtime/plan/Plan.h"

#include "runtime/plan/RankCells.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

namespace dpc::rt {

std::string PhaseName::text(const Mesh &mesh) const {
  std::string text(nameOf(kind));
  if (mesh.has(kPipelineAxis))
    text = "s" + std::to_string(stage) + "." + text;
  return chunk == 0 ? text : text + "." + std::to_string(chunk);
}

/// Returns -1 if `text` is not a number.
static int64_t numberIn(std::string_view text) {
  int64_t value = -1;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : -1;
}

std::optional<PhaseName> PhaseName::parse(const std::string &text,
                                          const Mesh &mesh) {
  PhaseName name;
  std::string_view rest = text;
  if (mesh.has(kPipelineAxis)) {
    size_t dot = rest.find('.');
    if (dot == rest.npos || rest[0] != 's')
      return std::nullopt;
    name.stage = numberIn(rest.substr(1, dot - 1));
    rest.remove_prefix(dot + 1);
  }
  if (size_t dot = rest.find('.'); dot != rest.npos) {
    name.chunk = numberIn(rest.substr(dot + 1));
    rest = rest.substr(0, dot);
  }
  auto kind = symbolize<PhaseKind>(rest);
  if (!kind)
    return std::nullopt;
  name.kind = *kind;
  bool isLoop = *kind != PhaseKind::Setup && *kind != PhaseKind::Update;
  bool fits = name.stage >= 0 && name.stage < mesh.stages() &&
              name.chunk >= 0 && (isLoop || name.chunk == 0) &&
              name.text(mesh) == text;
  return fits ? std::optional(name) : std::nullopt;
}

int64_t messageTag(int64_t tag, const Mesh &mesh, int64_t microBatch) {
  return tag * mesh.mostMicroBatches() + microBatch;
}

std::vector<const Instruction *> instructionsOf(const Plan &plan) {
  std::vector<const Instruction *> all;
  for (const auto &[phase, instructions] : plan.phases)
    for (const Instruction &instruction : instructions) {
      all.push_back(&instruction);
      if (auto *tiles = std::get_if<ExpertTilesOp>(&instruction.op))
        for (const Instruction &inner : tiles->body)
          all.push_back(&inner);
    }
  return all;
}

bool hasFp8(const Plan &plan) {
  return std::ranges::any_of(opsOf<MatmulOp>(plan), [](const MatmulOp *op) {
    return op->fp8.has_value();
  });
}

int64_t addressOf(const Plan &plan, int buffer,
                  const std::vector<FrameSlot> &slots) {
  const Buffer &b = plan.buffers[buffer];
  if (b.frame < 0)
    return b.offset;
  const Frame &frame = plan.frames[b.frame];
  auto slot = std::find_if(slots.begin(), slots.end(), [&](const FrameSlot &s) {
    return s.frame == b.frame;
  });
  assert(slot != slots.end() && "the entry has no slot of the buffer's frame");
  return frame.offset + slot->slot * frame.bytes + b.offset;
}

std::vector<int> Tensor::allBuffers() const {
  std::vector<int> all = copies;
  all.push_back(buffer);
  return all;
}

std::vector<int> Plan::ranksOfProcesses() const {
  std::vector<int> ranks(processes.size());
  for (size_t rank = 0; rank < processes.size(); ++rank)
    ranks[processes[rank]] = static_cast<int>(rank);
  return ranks;
}

int64_t Plan::bytesOf(Space space, int64_t stage) const {
  const auto &bytes = space == Space::Device ? arenaBytes
                      : space == Space::Host ? hostBytes
                                             : diskBytes;
  return bytes[stage];
}

bool isPersistent(BufferKind kind) {
  return kind == BufferKind::Parameter || kind == BufferKind::Optimizer ||
         kind == BufferKind::Scalar;
}

std::vector<std::vector<int>>
groupMembers(const Mesh &mesh, const std::vector<std::string> &axes) {
  // Ranks with equal coordinates on all other axes form a cell.
  auto isGroupAxis = [&](const MeshAxis &axis) {
    return std::find(axes.begin(), axes.end(), axis.name) != axes.end();
  };
  std::map<std::vector<int64_t>, size_t> cellOf;
  std::vector<std::vector<int>> members;
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    std::vector<int64_t> rest;
    for (const MeshAxis &axis : mesh.axes)
      if (!isGroupAxis(axis))
        rest.push_back(mesh.coordinate(axis.name, rank, 0));
    auto [it, isNew] = cellOf.try_emplace(rest, members.size());
    if (isNew)
      members.emplace_back();
    members[it->second].push_back(static_cast<int>(rank));
  }
  return members;
}

double learningRate(const LrSchedule &schedule, int64_t step) {
  int64_t s = step - 1;
  if (s < schedule.warmup)
    return schedule.lr * static_cast<double>(s) /
           static_cast<double>(schedule.warmup);
  if (schedule.kind == LrKind::Constant)
    return schedule.lr;
  double p =
      std::min(1.0, static_cast<double>(s - schedule.warmup) /
                        static_cast<double>(schedule.total - schedule.warmup));
  bool isLinear = schedule.kind == LrKind::Linear;
  double left = isLinear ? 1 - p : (1 + std::cos(M_PI * p)) / 2;
  return schedule.min + (schedule.lr - schedule.min) * left;
}

int64_t evaluate(const ScalarExpr &expr, const Mesh &mesh, int64_t rank,
                 int64_t mb) {
  switch (expr.kind) {
  case ScalarKind::Const:
    return expr.value;
  case ScalarKind::Offset:
    return shardOf(expr.size, expr.axes, mesh, rank, mb).offset;
  case ScalarKind::Valid:
    return shardOf(expr.size, expr.axes, mesh, rank, mb).valid;
  case ScalarKind::Coord:
    break;
  }
  int64_t linear = 0;
  for (const std::string &axis : expr.axes)
    linear = linear * mesh.sizeOf(axis) +
             coordinateAmong(expr.axes, axis, mesh, rank, mb);
  return linear;
}

static constexpr std::string_view kOpNames[] = {
#define DPC_PLAN_OP(STRUCT, NAME) NAME,
#include "runtime/plan/OpTable.def"
};

std::string_view opName(const OpVariant &op) { return kOpNames[op.index()]; }

bool isCollective(const OpVariant &op) {
  if (auto *tiles = std::get_if<ExpertTilesOp>(&op))
    return tiles->group != -1;
  return std::visit(
      [](const auto &o) {
        using T = std::decay_t<decltype(o)>;
        return requires(const T &t) { t.group; };
      },
      op);
}

int groupOf(const OpVariant &op) {
  return std::visit(
      [](const auto &o) {
        if constexpr (requires { o.group; })
          return o.group;
        else
          return -1;
      },
      op);
}

const std::vector<int> &cellOf(const Group &group, int rank) {
  for (const auto &cell : group.members)
    if (std::binary_search(cell.begin(), cell.end(), rank))
      return cell;
  return group.members.front();
}

static int peerAt(const Group &group, int shift, bool wrap, int rank) {
  const std::vector<int> &cell = cellOf(group, rank);
  auto at = std::lower_bound(cell.begin(), cell.end(), rank);
  return peerIn(cell, static_cast<int>(at - cell.begin()), shift, wrap);
}
int peerOf(const Group &group, const SendOp &op, int rank) {
  return peerAt(group, op.shift, op.wrap, rank);
}
int peerOf(const Group &group, const RecvOp &op, int rank) {
  return peerAt(group, op.shift, op.wrap, rank);
}

namespace {

struct AccessVisitor {
  const Plan &plan;
  Accesses &out;

  void operator()(const KernelOp &op) {
    for (size_t i = 0; i < op.buffers.size(); ++i) {
      bool written = std::find(op.writes.begin(), op.writes.end(),
                               static_cast<int>(i)) != op.writes.end();
      (written ? out.writes : out.reads).push_back(op.buffers[i]);
    }
  }
  void operator()(const MatmulOp &op) {
    out.reads = {op.a, op.b};
    if (op.beta != 0)
      out.reads.push_back(op.c);
    out.writes = {op.c};
    for (auto [id, isRead, isWritten] :
         {std::tuple(op.bias, readsBias(op.epilogue), writesBias(op.epilogue)),
          {op.aux, readsAux(op.epilogue), writesAux(op.epilogue)}}) {
      if (isRead)
        out.reads.push_back(id);
      if (isWritten)
        out.writes.push_back(id);
    }
    if (op.fp8)
      out.writes.push_back(op.fp8->workspace);
  }
  void operator()(const ExpertMatmulOp &op) {
    if (op.kind == ExpertMatmulKind::Forward)
      out = {{op.x, op.ids, op.w}, {op.y}};
    else
      out = {{op.x, op.ids, op.y}, {op.w}};
    if (op.accumulates)
      out.reads.push_back(op.w);
    if (op.workspace >= 0)
      out.writes.push_back(op.workspace);
  }
  void operator()(const ExpertTilesOp &op) {
    out = {{op.ids}, {op.tileIds}};
    for (int scratch : {op.workspace, op.staged})
      if (scratch >= 0)
        out.writes.push_back(scratch);
    for (const TileBuffer &take : op.takes) {
      out.reads.push_back(take.buffer);
      out.writes.push_back(take.tile);
    }
    for (const TileBuffer &add : op.adds)
      out.writes.push_back(add.buffer);
    out.writes.insert(out.writes.end(), op.sums.begin(), op.sums.end());
    for (const Instruction &inner : op.body) {
      Accesses more = accessesOf(inner, plan);
      out.reads.insert(out.reads.end(), more.reads.begin(), more.reads.end());
      out.writes.insert(out.writes.end(), more.writes.begin(),
                        more.writes.end());
    }
    // The op writes these before the body reads them (PlanCheckTiles.cpp).
    auto root = [&](int id) {
      int viewed = plan.buffers[id].viewOf;
      return viewed < 0 ? id : viewed;
    };
    std::set<int> written;
    for (int id : out.writes)
      written.insert(root(id));
    std::erase_if(out.reads, [&](int id) { return written.count(root(id)); });
  }
  void operator()(const ConvOp &op) {
    switch (op.kind) {
    case ConvKind::Forward:
      out = {{op.x, op.w}, {op.y}};
      break;
    case ConvKind::GradInput:
      out = {{op.y, op.w}, {op.x}};
      break;
    case ConvKind::GradFilter:
      out = {{op.y, op.x}, {op.w}};
      break;
    }
  }
  void operator()(const AttentionOp &op) {
    out = {{op.q.buffer, op.k.buffer, op.v.buffer}, {op.out.buffer, op.lse}};
  }
  void operator()(const AttentionGradOp &op) {
    out = {{op.q.buffer, op.k.buffer, op.v.buffer, op.out.buffer,
            op.dout.buffer, op.lse},
           {op.dq.buffer, op.dk.buffer, op.dv.buffer}};
    if (op.workspace >= 0)
      out.writes.push_back(op.workspace);
  }
  void operator()(const AllReduceOp &op) {
    out.reads = out.writes = op.buffers;
  }
  void operator()(const AllGatherOp &op) { out = {op.ins, op.outs}; }
  void operator()(const ReduceScatterOp &op) { out = {op.ins, op.outs}; }
  void operator()(const AllToAllOp &op) { inOut(op); }
  void operator()(const CopyOp &op) { inOut(op); }
  void operator()(const TransferOp &op) { inOut(op); }
  void operator()(const BroadcastOp &op) {
    out.reads = out.writes = {op.buffer};
  }
  void operator()(const SendOp &op) { out.reads = {op.buffer}; }
  void operator()(const RecvOp &op) { out.writes = {op.buffer}; }
  void operator()(const FillOp &op) { out.writes = {op.buffer}; }
  void operator()(const LoadInputOp &op) { out.writes = {op.buffer}; }
  void operator()(const StoreOutputOp &op) {
    out.reads = {plan.outputs[op.output].buffer};
  }

  template <typename Op> void inOut(const Op &op) {
    out.reads = {op.in};
    out.writes = {op.out};
  }
};

} // namespace

Accesses accessesOf(const Instruction &instruction, const Plan &plan) {
  Accesses accesses;
  std::visit(AccessVisitor{plan, accesses}, instruction.op);
  return accesses;
}

std::vector<int> resultsOf(const Instruction &instruction, const Plan &plan) {
  auto *tiles = std::get_if<ExpertTilesOp>(&instruction.op);
  if (!tiles)
    return accessesOf(instruction, plan).writes;
  std::vector<int> results = tiles->sums;
  for (const TileBuffer &add : tiles->adds)
    results.push_back(add.buffer);
  return results;
}

} // namespace dpc::rt
