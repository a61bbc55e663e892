#include "runtime/exec/ExpertExchange.h"

#include <algorithm>

namespace dpc::rt {

ExchangeRounds::ExchangeRounds(std::vector<int64_t> counts, int members,
                               int64_t most)
    : counts(std::move(counts)), members(members) {
  while (!fits(most))
    rounds += 1 + rounds / 8; // A few tries are enough for any number of rows.
}

bool ExchangeRounds::fits(int64_t most) const {
  // A bound for each round: a pair has at most one row more than its share.
  for (int one = 0; one < members; ++one) {
    int64_t sent = 0, received = 0;
    for (int other = 0; other < members; ++other) {
      sent += (count(one, other) + rounds - 1) / rounds;
      received += (count(other, one) + rounds - 1) / rounds;
    }
    if (std::max(sent, received) > most)
      return false;
  }
  return true;
}

namespace {

class Exchange {
public:
  Exchange(const Plan &plan, const ExpertTilesOp &op,
           const std::vector<ExpertIds> &owners, int self, Communicator &comm,
           const std::function<char *(int)> &data)
      : op(op), ids(allOf(owners)), owners(owners), self(self),
        members(static_cast<int>(owners.size())), comm(comm),
        memory(plan, op, data), staged(data(op.staged)),
        order(ids, op.rows, ids.valid) {}

  Status run(const std::function<Status()> &runBody, ExpertCounts &counts) {
    DPC_ASSIGN(ExchangeRounds all, agree());
    rounds = &all;
    for (round = 0; round < all.size(); ++round) {
      int64_t received = 0;
      for (int member = 0; member < members; ++member)
        received += all.rows(member, self, round);
      DPC_TRY(takeRows(received));
      counts.rows += received;
      ++counts.tiles;
      if (received > 0) {
        DPC_TRY(runBody());
        memory.addWhole();
      }
      for (const TileRows &sum : memory.adds)
        if (sum.shares > 0)
          DPC_TRY(addRows(sum));
    }
    return Status::success();
  }

private:
  /// Returns the ids with the experts of all members.
  static ExpertIds allOf(const std::vector<ExpertIds> &owners) {
    ExpertIds all = owners.front();
    all.first = all.valid = 0;
    for (const ExpertIds &owner : owners)
      all.valid = std::max(all.valid, owner.first + owner.valid);
    return all;
  }

  /// Gathers the numbers of rows that each pair exchanges.
  Expected<ExchangeRounds> agree() {
    std::vector<int64_t> own, counts(static_cast<size_t>(members) * members);
    own.reserve(owners.size());
    for (const ExpertIds &owner : owners)
      own.push_back(order.begin(owner.first + owner.valid) -
                    order.begin(owner.first));
    DPC_TRY(comm.allGather(op.group, own.data(), counts.data(),
                           members * static_cast<int64_t>(sizeof(int64_t))));
    return ExchangeRounds(std::move(counts), members, op.tileRows);
  }

  Status takeRows(int64_t received) {
    int64_t next = 0;
    bool isWide = memory.idType == DType::I64;
    forEachOwn([&](int64_t row) {
      if (isWide)
        reinterpret_cast<int64_t *>(staged)[next++] = ids[row];
      else
        reinterpret_cast<int32_t *>(staged)[next++] =
            static_cast<int32_t>(ids[row]);
    });
    DPC_TRY(send(memory.ids, sizeOf(memory.idType)));
    for (const TileRows &take : memory.takes) {
      const int64_t bytes = take.width * sizeOf(take.type);
      char *to = staged;
      forEachOwn([&](int64_t row) {
        std::memcpy(to, take.rowAt(row), bytes);
        to += bytes;
      });
      DPC_TRY(send(take.tile, bytes));
    }
    memory.clearFrom(received, op.tileRows);
    return Status::success();
  }

  Status addRows(const TileRows &sum) {
    const int64_t bytes = sum.width * sizeOf(sum.tileType);
    DPC_TRY(comm.allToAll(op.group, sum.tile, chunks(bytes, false), staged,
                          chunks(bytes, true)));
    const char *from = staged;
    forEachOwn([&](int64_t row) {
      sum.add(sum.rowAt(row), from);
      from += bytes;
    });
    return Status::success();
  }

  Status send(char *tile, int64_t bytes) {
    return comm.allToAll(op.group, staged, chunks(bytes, true), tile,
                         chunks(bytes, false));
  }

  /// Calls `visit` with each row that this rank sends in the round, in the
  /// order of the members.
  template <typename F> void forEachOwn(F &&visit) const {
    for (int member = 0; member < members; ++member)
      for (int64_t i = rounds->begin(self, member, round),
                   end = rounds->begin(self, member, round + 1);
           i < end; ++i)
        visit(order[order.begin(owners[member].first) + i]);
  }

  /// Returns the bytes of the rows of this rank with the experts of each member
  /// (`isOwn`), or those of the rows of each member with experts of this rank.
  std::vector<int64_t> chunks(int64_t bytes, bool isOwn) const {
    std::vector<int64_t> sizes;
    sizes.reserve(members);
    for (int member = 0; member < members; ++member)
      sizes.push_back(bytes * (isOwn ? rounds->rows(self, member, round)
                                     : rounds->rows(member, self, round)));
    return sizes;
  }

  const ExpertTilesOp &op;
  ExpertIds ids;
  const std::vector<ExpertIds> &owners;
  int self, members;
  Communicator &comm;
  TileMemory memory;
  char *staged;
  RowsOfExperts order; ///< rows of this rank
  const ExchangeRounds *rounds = nullptr;
  int64_t round = 0;
};

} // namespace

Status runExpertExchange(const Plan &plan, const ExpertTilesOp &op,
                         const std::vector<ExpertIds> &owners, int self,
                         Communicator &comm,
                         const std::function<char *(int)> &data,
                         const std::function<Status()> &runBody,
                         ExpertCounts &counts) {
  return Exchange(plan, op, owners, self, comm, data).run(runBody, counts);
}

} // namespace dpc::rt
