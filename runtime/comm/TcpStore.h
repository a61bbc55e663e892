//===- TcpStore.h - messages between processes, held by rank 0 --*- C++ -*-===//
//
// Every rank is connected to rank 0, which has a queue of messages for each
// key. The store is for rare messages in jobs without MPI, such as the id of an
// NCCL communicator, losses and saved parameters.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/base/Status.h"

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace dpc::rt {

struct StoreAddress {
  std::string host;
  int port = 0; ///< 0: a free port, which port() returns
  /// A secret of the job. Rank 0 refuses processes with a different token. The
  /// token is sent unencrypted.
  std::string token = "";
};

/// Reads the address from MASTER_ADDR and MASTER_PORT, and the token from
/// DPC_JOB_TOKEN. If torchrun's agent listens on the port, uses the next port.
/// Fails if a variable is missing or the port is invalid.
Expected<StoreAddress> storeAddressFromEnvironment();

/// A stranger is a connection that has not sent its rank and token. A rank
/// sends them as soon as it is connected.
struct StrangerLimits {
  double helloSeconds = 10;
  /// The most strangers that may be connected, in addition to one for each
  /// missing rank. Beyond this number, the oldest stranger is disconnected, so
  /// that strangers can neither use up the file descriptors nor keep ranks out.
  size_t connections = 64;
};

/// Gets one line about a process that was refused. Called in the thread of the
/// server.
using OnRefusal = std::function<void(const std::string &)>;

/// Serves all connections in a thread of rank 0.
class TcpStoreServer {
public:
  static Expected<std::unique_ptr<TcpStoreServer>>
  start(const StoreAddress &address, int ranks,
        const StrangerLimits &limits = StrangerLimits(),
        OnRefusal onRefusal = nullptr);
  /// Waits at most `leaveSeconds` for the clients to disconnect.
  ~TcpStoreServer();

  int port() const { return boundPort; }
  double leaveSeconds = 10;

private:
  struct Connection;
  TcpStoreServer(int listener, int port, int ranks, std::string token,
                 const StrangerLimits &limits, OnRefusal onRefusal);
  void loop();
  void acceptOne();
  void limitStrangers();
  bool leaveOldestStranger();
  bool readFrom(Connection &connection);
  bool processRequests(Connection &connection);
  std::string whyRefused(const std::string &words, double ranksOfOther);
  void refuse(Connection &connection, const std::string &why);
  void answer(Connection &connection, char status, const std::string &value);
  void serveWaiting();
  void end(char status, const std::string &why);
  void leave(Connection &connection);

  int listener, boundPort, ranks;
  std::string token;
  StrangerLimits limits;
  OnRefusal onRefusal;
  double nextRefusal = 0; ///< earliest time of the next call of onRefusal
  std::atomic<bool> stopping{false};
  char ended = 0; ///< status of replies to take() after the run has ended
  std::string endReason;
  std::map<std::string, std::deque<std::string>> queues;
  std::vector<std::unique_ptr<Connection>> connections;
  std::thread thread; ///< last: the thread uses the other members
};

class TcpStoreClient {
public:
  /// Tries for `seconds`, because rank 0 may start later or may be busy with
  /// strangers. Fails at once if rank 0 refuses this rank.
  static Expected<std::unique_ptr<TcpStoreClient>>
  connect(const StoreAddress &address, int rank, int ranks, double seconds);
  ~TcpStoreClient();

  Status put(const std::string &key, const char *data, int64_t bytes);
  /// Removes and returns the first message of the queue `key`. Fails with
  /// Timeout and an empty message if no message arrives within `seconds`.
  Expected<std::string> take(const std::string &key, double seconds);
  /// All calls of take() on all ranks fail with Cancelled from now on.
  void abort();
  bool aborted();

private:
  explicit TcpStoreClient(int socket) : socket(socket) {}
  Status request(char kind, const std::string &key, const char *data,
                 int64_t bytes, double seconds);
  Expected<std::string> reply(double seconds);

  int socket;
  std::mutex writing; ///< abort() may run during take()
};

} // namespace dpc::rt
