//===- Communicator.h - communication between ranks -------------*- C++ -*-===//
//
// A Communicator belongs to one rank. One thread at a time uses it. All ranks
// make the same groups once, and all members of a group make the same calls in
// the same order. A call blocks until its data may be reused. After the
// timeout, a call fails with StatusCode::Timeout and names the missing ranks.
// If another rank has failed, calls fail with StatusCode::Cancelled.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/base/DType.h"
#include "runtime/base/Group.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dpc::rt {

/// The index of the world, the group of all ranks. The world always exists.
inline constexpr int kWorldGroup = -1;

struct Slice {
  void *data = nullptr;
  int64_t count = 0;
  DType type = DType::F32;
};

class Communicator {
public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Creates the groups 0, 1, ... All ranks call this once.
  virtual Status makeGroups(const std::vector<Group> &groups) = 0;

  /// Reduces each slice in place over all members of the group, in the order of
  /// the members. Supports f32, f64, bf16, f16, i64 and i32. 16-bit floats are
  /// summed in f32 and rounded once.
  virtual Status allReduce(int group, const std::vector<Slice> &slices,
                           ReduceKind kind) = 0;
  Status allReduce(int group, void *data, int64_t count, DType type,
                   ReduceKind kind) {
    return allReduce(group, {{data, count, type}}, kind);
  }
  /// Reduces chunk i of all members into `out` of member i. A chunk has `count`
  /// elements, and `in` has one chunk for each member.
  virtual Status reduceScatter(int group, const void *in, void *out,
                               int64_t count, DType type, ReduceKind kind) = 0;
  /// Copies the `bytes` bytes `in` of member i to chunk i of every `out`.
  virtual Status allGather(int group, const void *in, void *out,
                           int64_t bytes) = 0;
  /// Copies chunk j of `in` of member i to chunk i of `out` of member j. Chunk
  /// j of `in` has sent[j] bytes, and chunk i of `out` has received[i] bytes.
  /// Chunks are in the order of the members, without gaps.
  virtual Status allToAll(int group, const void *in,
                          const std::vector<int64_t> &sent, void *out,
                          const std::vector<int64_t> &received) = 0;
  virtual Status broadcast(int group, void *data, int64_t bytes, int root) = 0;
  /// Copies a message for the member with index `peer` and returns without
  /// waiting. The recv of the peer must have the same group and tag. Messages
  /// with equal tags arrive in order. 0 <= tag < 2^52.
  virtual Status send(int group, const void *data, int64_t bytes, int peer,
                      int64_t tag) = 0;
  virtual Status recv(int group, void *data, int64_t bytes, int peer,
                      int64_t tag) = 0;
  /// Waits until all messages of this rank are sent, and frees the copies that
  /// send() has made since the last call.
  virtual Status finishSends() = 0;
  virtual Status barrier(int group) = 0;

  /// Reports a failure of this rank: calls on all other ranks fail.
  virtual void abort() = 0;
  /// Whether a rank has called abort(). Always false if abort() ends the job.
  virtual bool aborted() { return false; }
  virtual void setTimeout(double seconds) = 0;
};

/// Returns the Timeout status "rank 0 waited 300 s in CALL for rank 2, 3".
Status lateRanks(int rank, double seconds, const std::string &call,
                 const std::vector<int> &late);

struct CommOptions {
  double timeoutSeconds = 300;
  /// The rank of each MPI process; if empty, process i is rank i.
  std::vector<int> ranks = {};
};

/// Returns the communicators of `ranks` ranks that are threads of this process.
std::vector<std::unique_ptr<Communicator>>
makeLocalComms(int ranks, const CommOptions &options);

/// Returns the communicator of this process, which mpirun has started.
/// Initializes MPI if necessary, and finalizes it at exit. Fails with
/// Unsupported in a build without MPI.
Expected<std::unique_ptr<Communicator>> makeMpiComm(const CommOptions &options);

bool hasMpi();

/// Returns the MPI library and its version, such as "Open MPI v4.1.4", or "" in
/// a build without MPI.
std::string mpiLibrary();

} // namespace dpc::rt
