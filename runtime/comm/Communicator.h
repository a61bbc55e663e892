//===- Communicator.h - how ranks exchange data -----------------*- C++ -*-===//
//
// A Communicator belongs to one rank and is used by one thread at a time. All
// ranks make the same groups once, in the same order, and all members of a
// group make the same calls on it in the same order. Every call blocks until
// its data may be reused, or fails: with StatusCode::Timeout and a message that
// names the missing ranks after the timeout, or with StatusCode::Cancelled when
// another rank of the run has failed first.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_COMM_COMMUNICATOR_H
#define DPC_RUNTIME_COMM_COMMUNICATOR_H

#include "runtime/base/DType.h"
#include "runtime/base/Group.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dpc::rt {

/// Index of the group of all ranks, which always exists.
inline constexpr int kWorldGroup = -1;

/// `count` elements at `data`.
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

  /// Makes groups 0, 1, ...: each a partition of all ranks as in Group. All
  /// ranks call this once.
  virtual Status makeGroups(const std::vector<Group> &groups) = 0;

  /// Reduces slices over the group, in place and in the order of the members.
  /// Types: f32, f64, bf16, f16, i64, i32; 16-bit floats are summed in f32 and
  /// rounded once.
  virtual Status allReduce(int group, const std::vector<Slice> &slices,
                           ReduceKind kind) = 0;
  Status allReduce(int group, void *data, int64_t count, DType type,
                   ReduceKind kind) {
    return allReduce(group, {{data, count, type}}, kind);
  }
  /// out = reduction of the members' in[my index]. `out` holds `count`
  /// elements, `in` holds `count` elements for each member.
  virtual Status reduceScatter(int group, const void *in, void *out,
                               int64_t count, DType type, ReduceKind kind) = 0;
  /// out[i] = in of member i, of `bytes` bytes each.
  virtual Status allGather(int group, const void *in, void *out,
                           int64_t bytes) = 0;
  /// out[i] = in[my index] of member i; chunks of `bytes`.
  virtual Status allToAll(int group, const void *in, void *out,
                          int64_t bytes) = 0;
  /// Copies `data` of member `root` to all members.
  virtual Status broadcast(int group, void *data, int64_t bytes, int root) = 0;
  /// Sends to the member with index `peer`. Copies the message and returns at
  /// once: a send waits for nobody. A recv of the same group and tag receives
  /// it. Messages with different tags may be received in any order; messages
  /// with equal tags arrive in the order in which they are sent. 0 <= tag <
  /// 2^52.
  virtual Status send(int group, const void *data, int64_t bytes, int peer,
                      int64_t tag) = 0;
  virtual Status recv(int group, void *data, int64_t bytes, int peer,
                      int64_t tag) = 0;
  /// Returns when no copy of a message that this rank sent is left. Until then,
  /// the copies may take as many bytes as were sent since the last call.
  virtual Status finishSends() = 0;
  virtual Status barrier(int group) = 0;

  /// Makes the calls of the other ranks fail, because this rank will not take
  /// part.
  virtual void abort() = 0;
  /// Whether calls fail because a rank has called abort(), for code that waits
  /// for something else. Always false where abort() ends the job.
  virtual bool aborted() { return false; }
  /// Sets how long later calls of this rank wait for other ranks.
  virtual void setTimeout(double seconds) = 0;
};

/// The Timeout status "rank 0 waited 300 s in CALL for rank 2, 3".
Status lateRanks(int rank, double seconds, const std::string &call,
                 const std::vector<int> &late);

/// Settings that all communicators share.
struct CommOptions {
  double timeoutSeconds = 300;
  /// For makeMpiComm: the rank of every process; empty: its number in the job.
  std::vector<int> ranks = {};
};

/// One communicator per rank, for ranks that are threads of this process. Sums
/// are taken in the order of the members, so results are deterministic.
std::vector<std::unique_ptr<Communicator>>
makeLocalComms(int ranks, const CommOptions &options);

/// The communicator of this process in a job that mpirun started. Fails with
/// Unsupported in a build without MPI. Initializes MPI if necessary; MPI is
/// finalized at exit.
Expected<std::unique_ptr<Communicator>> makeMpiComm(const CommOptions &options);

/// Whether this build has makeMpiComm.
bool hasMpi();

/// The name and version of the MPI library, "Open MPI v4.1.4"; "" in a build
/// without MPI.
std::string mpiLibrary();

} // namespace dpc::rt

#endif // DPC_RUNTIME_COMM_COMMUNICATOR_H
