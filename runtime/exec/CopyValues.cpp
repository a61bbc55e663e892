#include "runtime/exec/CopyValues.h"

#include "runtime/base/Reshard.h"

#include <algorithm>
#include <cstring>

namespace dpc::rt {

static const Tensor *find(const Plan &plan, const Tensor &tensor) {
  auto it = std::find_if(
      plan.tensors.begin(), plan.tensors.end(),
      [&](const Tensor &other) { return other.name == tensor.name; });
  return it == plan.tensors.end() ? nullptr : &*it;
}

Status checkCopy(const Plan &from, const Plan &to) {
  if (from.ranks() != to.ranks())
    return Status::invalid(
        "it is for ", to.ranks(), (to.ranks() == 1 ? " rank" : " ranks"),
        ", but the training plan is for ", from.ranks(),
        "; compile it for as many, with --cluster=local:", from.ranks(),
        " or --strategy=ranks=", from.ranks());
  for (const Tensor &tensor : to.tensors) {
    if (tensor.isConstant())
      continue;
    std::string name = concat(nameOf(tensor.role), " '", tensor.name, "'");
    const Tensor *source = find(from, tensor);
    if (!source || source->role != tensor.role)
      return Status::invalid("its ", name,
                             " is not in the training plan: both must be made "
                             "from the same model");
    if (source->dtype != tensor.dtype ||
        source->globalShape != tensor.globalShape)
      return Status::invalid("its ", name, " is ",
                             describe(tensor.dtype, tensor.globalShape),
                             ", but in the training plan it is ",
                             describe(source->dtype, source->globalShape));
  }
  return Status::success();
}

namespace {

/// Copies one tensor between two sessions of the same processes. `i` is the
/// index of a rank in this process.
class TensorCopy {
public:
  TensorCopy(const Running &from, const Running &to, const Tensor &source,
             const Tensor &target)
      : from(from), to(to), source(source), target(target),
        own(from.session.ranksHere().size()) {}

  /// Sends the parts that other ranks need, if rank `i` owns a shard in `from`.
  Status send(size_t i);
  /// Assembles the shard that rank `i` has in `to`.
  Status receive(size_t i);

private:
  bool owns(int rank) const {
    return ownsShard(source.layout, from.plan.mesh, rank, 0,
                     from.plan.buffers[source.buffer].stage);
  }
  /// Returns the buffer of the tensor on `rank` of `to`; -1 if there is none.
  int homeOf(int rank) const;
  SharedElements shared(int owner, int rank) const {
    return {{source.layout, from.plan.mesh, owner},
            {target.layout, to.plan.mesh, rank}};
  }
  /// Returns the rank of `from` in the process or thread of `rank` of `to`.
  int placeOf(int rank) const;
  int64_t size() const { return sizeOf(target.dtype); }

  const Running &from, &to;
  const Tensor &source, &target;
  std::vector<std::vector<char>> own; ///< by `i`: the parts that the rank keeps
};

} // namespace

int TensorCopy::homeOf(int rank) const {
  int64_t stage = to.plan.mesh.stageOf(rank);
  auto isHere = [&](int id) { return to.plan.buffers[id].stage == stage; };
  if (isHere(target.buffer))
    return target.buffer;
  auto it = std::find_if(target.copies.begin(), target.copies.end(), isHere);
  return it == target.copies.end() ? -1 : *it;
}

int TensorCopy::placeOf(int rank) const {
  if (from.session.ranksHere().size() ==
      static_cast<size_t>(from.plan.ranks())) // threads
    return rank;
  int process = to.plan.processes.empty() ? rank : to.plan.processes[rank];
  std::vector<int> ranks = from.plan.ranksOfProcesses();
  return ranks.empty() ? process : ranks[process];
}

Status TensorCopy::send(size_t i) {
  Executor &executor = *from.session.ranksHere()[i];
  Communicator &comm = from.session.commOf(i);
  if (!owns(executor.rank()))
    return Status::success();
  std::vector<char> scratch;
  DPC_ASSIGN(const char *shard, executor.readBuffer(source.buffer, scratch));
  for (int rank = 0; rank < to.plan.ranks(); ++rank) {
    if (homeOf(rank) < 0)
      continue;
    std::vector<char> message;
    shared(executor.rank(), rank)
        .forEachRun([&](int64_t begin, int64_t, int64_t count) {
          const char *run = shard + begin * size();
          message.insert(message.end(), run, run + count * size());
        });
    if (placeOf(rank) == executor.rank())
      own[i] = std::move(message);
    else if (!message.empty())
      DPC_TRY(comm.send(kWorldGroup, message.data(),
                        static_cast<int64_t>(message.size()), placeOf(rank),
                        0));
  }
  return Status::success();
}

Status TensorCopy::receive(size_t i) {
  Executor &executor = *to.session.ranksHere()[i];
  int home = homeOf(executor.rank());
  Communicator &comm = from.session.commOf(i);
  auto takeFrom = [&](int owner, char *local) -> Status {
    SharedElements elements = shared(owner, executor.rank());
    if (elements.empty())
      return Status::success();
    bool isOwn = owner == comm.rank();
    std::vector<char> message = isOwn ? std::move(own[i]) : std::vector<char>();
    if (!isOwn) {
      message.resize(elements.count() * size());
      DPC_TRY(comm.recv(kWorldGroup, message.data(),
                        static_cast<int64_t>(message.size()), owner, 0));
    }
    const char *next = message.data();
    elements.forEachRun([&](int64_t, int64_t begin, int64_t count) {
      std::memcpy(local + begin * size(), next, count * size());
      next += count * size();
    });
    return Status::success();
  };
  if (home >= 0)
    DPC_TRY(executor.fillBuffer(home, [&](char *local) -> Status {
      for (int owner = 0; owner < from.plan.ranks(); ++owner)
        if (owns(owner))
          DPC_TRY(takeFrom(owner, local));
      return Status::success();
    }));
  return comm.finishSends();
}

Status copyValues(const Running &from, const Running &to) {
  for (const Tensor &target : to.plan.tensors) {
    if (target.isConstant())
      continue;
    const Tensor *source = find(from.plan, target);
    assert(source && "checkCopy() passed");
    TensorCopy copy(from, to, *source, target);
    DPC_TRY(from.session.onAllRanks([&](size_t i) { return copy.send(i); }));
    DPC_TRY(to.session.onAllRanks([&](size_t i) { return copy.receive(i); }));
  }
  return Status::success();
}

} // namespace dpc::rt
