//===- TcpComm.cpp - ranks are processes that connect to rank 0 -----------===//
//
// Messages go through the queues of the store (TcpStore.h). In a collective,
// each member sends a message to every other member. The order of the terms in
// a reduction is the order of the members.
//
//===----------------------------------------------------------------------===//
#include "runtime/comm/TcpComm.h"

#include "runtime/base/Wait.h"
#include "runtime/comm/Reduce.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <numeric>

namespace dpc::rt {

namespace {

/// Seconds between two checks whether a rank has failed.
constexpr double kAbortPoll = 0.1;

class TcpComm : public Communicator {
public:
  TcpComm(std::unique_ptr<TcpStoreServer> server,
          std::unique_ptr<TcpStoreClient> client, int rank, int size,
          double timeoutSeconds)
      : server(std::move(server)), store(std::move(client)), rankIndex(rank),
        worldSize(size), timeoutSeconds(timeoutSeconds) {
    std::vector<int> all(size);
    std::iota(all.begin(), all.end(), 0);
    cells.push_back({all, rank, 0});
  }

  int rank() const override { return rankIndex; }
  int size() const override { return worldSize; }

  Status makeGroups(const std::vector<Group> &groups) override {
    for (const Group &group : groups)
      for (const std::vector<int> &members : group.members)
        if (auto it = std::find(members.begin(), members.end(), rankIndex);
            it != members.end())
          cells.push_back({members, static_cast<int>(it - members.begin()), 0});
    return barrier(kWorldGroup);
  }

  Status allReduce(int group, const std::vector<Slice> &slices,
                   ReduceKind kind) override {
    for (const Slice &slice : slices)
      DPC_TRY(reduceSlice(group, slice, kind));
    return Status::success();
  }

  Status reduceScatter(int group, const void *in, void *out, int64_t count,
                       DType type, ReduceKind kind) override {
    int64_t bytes = count * sizeOf(type);
    const auto *from = static_cast<const char *>(in);
    DPC_ASSIGN(auto parts, exchange(
                               group, "reduce_scatter",
                               [&](int member) {
                                 return std::pair(from + member * bytes, bytes);
                               },
                               [&](int) { return bytes; }));
    reduceParts(pointers(parts), out, 0, count, type, kind);
    return Status::success();
  }

  Status allGather(int group, const void *in, void *out,
                   int64_t bytes) override {
    return collect(group, "all_gather", out, bytes, [&](int) {
      return std::pair(static_cast<const char *>(in), bytes);
    });
  }

  Status allToAll(int group, const void *in, const std::vector<int64_t> &sent,
                  void *out, const std::vector<int64_t> &received) override {
    DPC_ASSIGN(auto parts,
               exchange(
                   group, "all_to_all",
                   [&](int member) {
                     return std::pair(static_cast<const char *>(in) +
                                          std::accumulate(sent.begin(),
                                                          sent.begin() + member,
                                                          int64_t(0)),
                                      sent[member]);
                   },
                   [&](int member) { return received[member]; }));
    auto *to = static_cast<char *>(out);
    for (const auto &part : parts)
      to = std::copy(part.begin(), part.end(), to);
    return Status::success();
  }

  Status broadcast(int group, void *data, int64_t bytes, int root) override {
    bool sends = cells[group + 1].index == root;
    DPC_ASSIGN(auto parts,
               exchange(
                   group, "broadcast",
                   [&](int) {
                     return std::pair(static_cast<const char *>(data),
                                      sends ? bytes : 0);
                   },
                   [&](int member) { return member == root ? bytes : 0; }));
    std::memcpy(data, parts[root].data(), bytes);
    return Status::success();
  }

  Status send(int group, const void *data, int64_t bytes, int peer,
              int64_t tag) override {
    return store->put(messageKey(group, rankIndex, rankAt(group, peer), tag),
                      static_cast<const char *>(data), bytes);
  }

  Status recv(int group, void *data, int64_t bytes, int peer,
              int64_t tag) override {
    int from = rankAt(group, peer);
    Expected<std::string> value =
        store->take(messageKey(group, from, rankIndex, tag), timeoutSeconds);
    if (!value)
      return explain(value.status(), "recv with tag " + std::to_string(tag),
                     {from});
    if (static_cast<int64_t>(value->size()) != bytes)
      return Status::invalid("recv expects ", bytes, " bytes, rank ", from,
                             " sent ", value->size());
    std::memcpy(data, value->data(), bytes);
    return Status::success();
  }

  /// Does nothing, because the store on rank 0 has the copies.
  Status finishSends() override { return Status::success(); }

  Status barrier(int group) override {
    return exchange(
               group, "barrier",
               [](int) {
                 return std::pair(static_cast<const char *>(nullptr),
                                  int64_t(0));
               },
               [](int) { return 0; })
        .status();
  }

  void abort() override { store->abort(); }

  bool aborted() override {
    if (!wasAborted && nowSeconds() > nextPoll) {
      wasAborted = store->aborted();
      nextPoll = nowSeconds() + kAbortPoll;
    }
    return wasAborted;
  }

  void setTimeout(double seconds) override { timeoutSeconds = seconds; }

private:
  struct Cell {
    std::vector<int> ranks;
    int index = 0; ///< of this rank
    int64_t calls = 0;
  };

  int rankAt(int group, int member) const {
    return cells[group + 1].ranks[member];
  }

  static std::string messageKey(int group, int from, int to, int64_t tag) {
    return concat("m/", group, "/", from, "/", to, "/", tag);
  }

  static std::vector<const void *>
  pointers(const std::vector<std::string> &parts) {
    std::vector<const void *> list;
    list.reserve(parts.size());
    for (const std::string &part : parts)
      list.push_back(part.data());
    return list;
  }

  /// Sends give(i) = (data, bytes) to member i; returns takes(i) bytes from i.
  template <typename Give, typename Takes>
  Expected<std::vector<std::string>> exchange(int group, const char *name,
                                              Give &&give, Takes &&takes) {
    Cell &cell = cells[group + 1];
    std::string call = std::to_string(cell.calls++);
    auto key = [&](int from, int to) {
      return concat("c/", group, "/", from, "/", to, "/", call);
    };
    int size = static_cast<int>(cell.ranks.size());
    std::vector<std::string> parts(size);
    for (int i = 0; i < size; ++i) {
      auto [data, bytes] = give(i);
      std::string message = std::string(name) + '\n';
      message.append(data ? data : "", data ? bytes : 0);
      if (i == cell.index)
        parts[i] = std::move(message);
      else
        DPC_TRY(store->put(key(rankIndex, cell.ranks[i]), message.data(),
                           static_cast<int64_t>(message.size())));
    }
    DPC_TRY(takeAll(cell, name, key, parts));
    for (int i = 0; i < size; ++i) {
      std::string called = parts[i].substr(0, parts[i].find('\n'));
      parts[i].erase(0, called.size() + 1);
      if (called != name || static_cast<int64_t>(parts[i].size()) != takes(i))
        return Status::invalid("rank ", cell.ranks[i], " called ", called,
                               " of ", parts[i].size(), " bytes where rank ",
                               rankIndex, " called ", name, " of ", takes(i));
    }
    return parts;
  }

  /// If members are late, the error lists all of them.
  template <typename Key>
  Status takeAll(const Cell &cell, const char *name, Key &&key,
                 std::vector<std::string> &parts) {
    double deadline = nowSeconds() + timeoutSeconds;
    std::vector<int> missing;
    for (size_t i = 0; i < cell.ranks.size(); ++i) {
      if (static_cast<int>(i) == cell.index)
        continue;
      Expected<std::string> value =
          store->take(key(cell.ranks[i], rankIndex),
                      std::max(0.0, deadline - nowSeconds()));
      if (value)
        parts[i] = std::move(*value);
      else if (value.status().code() == StatusCode::Timeout)
        missing.push_back(cell.ranks[i]);
      else
        return value.status();
    }
    return missing.empty() ? Status::success()
                           : explain(Status::timeout(), name, missing);
  }

  Status explain(const Status &status, const std::string &name,
                 const std::vector<int> &ranks) const {
    if (status.code() != StatusCode::Timeout)
      return status;
    return lateRanks(rankIndex, timeoutSeconds, name, ranks);
  }

  template <typename Give>
  Status collect(int group, const char *name, void *out, int64_t bytes,
                 Give &&give) {
    DPC_ASSIGN(auto parts,
               exchange(group, name, give, [&](int) { return bytes; }));
    for (size_t i = 0; i < parts.size(); ++i)
      std::memcpy(static_cast<char *>(out) + static_cast<int64_t>(i) * bytes,
                  parts[i].data(), bytes);
    return Status::success();
  }

  /// Member i reduces part i and sends it to the other members.
  Status reduceSlice(int group, const Slice &slice, ReduceKind kind) {
    const Cell &cell = cells[group + 1];
    auto size = static_cast<int64_t>(cell.ranks.size());
    int64_t width = sizeOf(slice.type);
    auto first = [&](int64_t i) { return slice.count * i / size; };
    auto bytesOf = [&](int64_t i) { return (first(i + 1) - first(i)) * width; };
    auto *data = static_cast<char *>(slice.data);
    DPC_ASSIGN(auto parts,
               exchange(
                   group, "all_reduce",
                   [&](int i) {
                     return std::pair(static_cast<const char *>(data) +
                                          first(i) * width,
                                      bytesOf(i));
                   },
                   [&](int) { return bytesOf(cell.index); }));
    std::vector<char> own(bytesOf(cell.index));
    reduceParts(pointers(parts), own.data(), 0, bytesOf(cell.index) / width,
                slice.type, kind);
    DPC_ASSIGN(auto reduced,
               exchange(
                   group, "all_reduce",
                   [&](int) {
                     return std::pair(static_cast<const char *>(own.data()),
                                      bytesOf(cell.index));
                   },
                   bytesOf));
    for (int64_t i = 0; i < size; ++i)
      if (bytesOf(i) > 0) // an empty array may have a null address
        std::memcpy(data + first(i) * width, reduced[i].data(), bytesOf(i));
    return Status::success();
  }

  std::unique_ptr<TcpStoreServer> server; ///< only on rank 0; destroyed last
  std::unique_ptr<TcpStoreClient> store;
  int rankIndex, worldSize;
  double timeoutSeconds, nextPoll = 0;
  bool wasAborted = false;
  std::vector<Cell> cells; ///< group g has index g + 1
};

} // namespace

Expected<std::unique_ptr<Communicator>>
makeTcpComm(const StoreAddress &address, int rank, int size,
            const CommOptions &options) {
  std::unique_ptr<TcpStoreServer> server;
  StoreAddress place = address;
  if (rank == 0) {
    DPC_ASSIGN(
        server,
        TcpStoreServer::start(
            address, size, StrangerLimits(), [](const std::string &line) {
              std::fprintf(stderr, "dpc-run: warning: %s\n", line.c_str());
            }));
    server->leaveSeconds = std::min(options.timeoutSeconds, 10.0);
    place.port = server->port();
  }
  DPC_ASSIGN(auto client, TcpStoreClient::connect(place, rank, size,
                                                  options.timeoutSeconds));
  return std::unique_ptr<Communicator>(
      std::make_unique<TcpComm>(std::move(server), std::move(client), rank,
                                size, options.timeoutSeconds));
}

} // namespace dpc::rt
