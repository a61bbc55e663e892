//===- Communicator.h - how ranks exchange data -----------------*- C++ -*-===//
//
// One Communicator belongs to one rank and is used by one thread at a time.
// Groups are made once, in the same order on all ranks; calls on a group are
// met by all of its members in the same order. Every call blocks until its
// data may be reused, or fails: after the timeout with StatusCode::Timeout and a
// message that names the ranks that are missing, or with StatusCode::Cancelled when
// another rank of the run failed first.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_COMM_COMMUNICATOR_H
#define DPC_RUNTIME_COMM_COMMUNICATOR_H

#include "runtime/base/DType.h"
#include "runtime/base/Status.h"
#include "runtime/plan/Plan.h"

#include <cstddef>
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

  /// Makes groups 0, 1, ...: each a partition of all ranks as in Group. Called
  /// once, by all ranks.
  virtual Status makeGroups(const std::vector<Group> &groups) = 0;

  /// Reduces slices over the group, in place and in the order of the members.
  /// f32, f64, bf16, f16, i64, i32; 16-bit floats are summed in f32 and rounded
  /// once.
  virtual Status allReduce(int group, const std::vector<Slice> &slices,
                           ReduceKind kind) = 0;
  Status allReduce(int group, void *data, int64_t count, DType type,
                   ReduceKind kind) {
    return allReduce(group, {{data, count, type}}, kind);
  }
  /// out = reduction of the members' in[my index]; `count` elements of out, in
  /// holds as many for each member.
  virtual Status reduceScatter(int group, const void *in, void *out,
                               int64_t count, DType type, ReduceKind kind) = 0;
  /// out[i] = in of member i, `bytes` each.
  virtual Status allGather(int group, const void *in, void *out,
                           int64_t bytes) = 0;
  /// out[i] = in[my index] of member i; chunks of `bytes`.
  virtual Status allToAll(int group, const void *in, void *out,
                          int64_t bytes) = 0;
  /// data of member `root` to all members.
  virtual Status broadcast(int group, void *data, int64_t bytes, int root) = 0;
  /// To the member with index `peer`. Copies the message and returns at once: a
  /// send waits for nobody. It is met by a recv of the same group and tag; so
  /// messages with different tags may be received in any order, those with
  /// equal tags are in the order in which they are sent. 0 <= tag < 2^52.
  virtual Status send(int group, const void *data, int64_t bytes, int peer,
                      int64_t tag) = 0;
  virtual Status recv(int group, void *data, int64_t bytes, int peer,
                      int64_t tag) = 0;
  /// Returns once no copy of a message that this rank sent is kept: before
  /// that, as many bytes as were sent since the last call may be.
  virtual Status finishSends() = 0;
  virtual Status barrier(int group) = 0;

  /// Makes the calls of the other ranks fail: this rank will not come.
  virtual void abort() = 0;
  /// Whether calls fail because a rank has called abort(), for one that waits
  /// for something else. Always false where abort() ends the job.
  virtual bool aborted() { return false; }
  /// Later calls of this rank wait so long for the others.
  virtual void setTimeout(double seconds) = 0;
};

/// "rank 0 waited 300 s in CALL for rank 2, 3", a Timeout.
Status lateRanks(int rank, double seconds, const std::string &call,
                 const std::vector<int> &late);

/// Settings that all communicators share.
struct CommOptions {
  double timeoutSeconds = 300;
  /// makeMpiComm: the rank of every process; empty: its number in the job.
  std::vector<int> ranks = {};
};

/// One communicator per rank of this process, whose ranks are threads. Sums
/// are taken in the order of the members, so results do not vary.
std::vector<std::unique_ptr<Communicator>>
makeLocalComms(int ranks, const CommOptions &options);

/// The communicator of this process among those that mpirun started. Fails
/// with Unsupported in a build without MPI. Initializes MPI when needed; it is
/// finalized at exit.
Expected<std::unique_ptr<Communicator>> makeMpiComm(const CommOptions &options);

/// Whether this build has makeMpiComm.
bool hasMpi();

/// What the MPI library calls itself, "Open MPI v4.1.4"; "" in a build without.
std::string mpiLibrary();

} // namespace dpc::rt

#endif // DPC_RUNTIME_COMM_COMMUNICATOR_H
