//===- Communicator.h - communication between ranks -----------------*- C++
//-*-===//
//
// A Communicator belongs to one rank. One thread at a time uses it. All ranks
// make the same groups once, and all members of a group make the same calls in
// the same order. A call blocks until its data may be reused. After the timeout
// it fails with StatusCode::Timeout and names the missing ranks. If another
// rank has failed, it fails with StatusCode::Cancelled.
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

  /// Makes groups 0, 1, ... Called once by all ranks.
  virtual Status makeGroups(const std::vector<Group> &groups) = 0;

  /// Reduces the slices in place, in the order of the members. The types are
  /// f32, f64, bf16, f16, i64 and i32. 16-bit floats are summed in f32 and
  /// rounded once.
  virtual Status allReduce(int group, const std::vector<Slice> &slices,
                           ReduceKind kind) = 0;
  Status allReduce(int group, void *data, int64_t count, DType type,
                   ReduceKind kind) {
    return allReduce(group, {{data, count, type}}, kind);
  }
  /// out = the reduction of in[my index] over the members. `out` has `count`
  /// elements, and `in` has `count` elements for each member.
  virtual Status reduceScatter(int group, const void *in, void *out,
                               int64_t count, DType type, ReduceKind kind) = 0;
  /// out[i] = `in` of member i. Each `in` has `bytes` bytes.
  virtual Status allGather(int group, const void *in, void *out,
                           int64_t bytes) = 0;
  /// out[i] = in[my index] of member i. Each chunk has `bytes` bytes.
  virtual Status allToAll(int group, const void *in, void *out,
                          int64_t bytes) = 0;
  /// Copies `data` of member `root` to all members.
  virtual Status broadcast(int group, void *data, int64_t bytes, int root) = 0;
  /// Copies a message for the member with index `peer` and returns without
  /// waiting. A recv of the same group and tag receives the message. Messages
  /// with equal tags arrive in order; messages with different tags may be
  /// received in any order. 0 <= tag < 2^52.
  virtual Status send(int group, const void *data, int64_t bytes, int peer,
                      int64_t tag) = 0;
  virtual Status recv(int group, void *data, int64_t bytes, int peer,
                      int64_t tag) = 0;
  /// Waits until this rank's messages are sent and their copies freed. Until
  /// then, the copies may occupy as much memory as was sent since the last
  /// call.
  virtual Status finishSends() = 0;
  virtual Status barrier(int group) = 0;

  /// Makes the calls of all other ranks fail, because this rank has failed.
  virtual void abort() = 0;
  /// Whether a rank has called abort(). Always false for communicators whose
  /// abort() ends the job.
  virtual bool aborted() { return false; }
  /// Sets the timeout of later calls.
  virtual void setTimeout(double seconds) = 0;
};

/// The Timeout status "rank 0 waited 300 s in CALL for rank 2, 3".
Status lateRanks(int rank, double seconds, const std::string &call,
                 const std::vector<int> &late);

/// Settings that all communicators share.
struct CommOptions {
  double timeoutSeconds = 300;
  /// For makeMpiComm: the rank of each process. Empty: process i is rank i.
  std::vector<int> ranks = {};
};

/// The communicators of ranks that are threads of this process.
std::vector<std::unique_ptr<Communicator>>
makeLocalComms(int ranks, const CommOptions &options);

/// The communicator of this process in a job of mpirun. Initializes MPI if
/// necessary, and finalizes it at exit. Fails with Unsupported in a build
/// without MPI.
Expected<std::unique_ptr<Communicator>> makeMpiComm(const CommOptions &options);

/// Whether this build has makeMpiComm.
bool hasMpi();

/// The name and version of the MPI library, "Open MPI v4.1.4"; "" in a build
/// without MPI.
std::string mpiLibrary();

} // namespace dpc::rt

#endif // DPC_RUNTIME_COMM_COMMUNICATOR_H
