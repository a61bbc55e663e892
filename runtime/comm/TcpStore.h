//===- TcpStore.h - messages between processes, held by rank 0 --*- C++ -*-===//
//
// Rank 0 holds a queue of messages for each key, and every rank is connected to
// rank 0. The store is for rare messages in jobs without MPI, such as NCCL's
// id, losses and saved parameters.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_COMM_TCPSTORE_H
#define DPC_RUNTIME_COMM_TCPSTORE_H

#include "runtime/base/Status.h"

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace dpc::rt {

/// Where rank 0 listens.
struct StoreAddress {
  std::string host;
  int port = 0; ///< 0: any free port, see TcpStoreServer::port()
  /// The secret of a job. Processes with another token are refused. The token
  /// is sent in plain text.
  std::string token = "";
};

/// The address in MASTER_ADDR and MASTER_PORT, and the token in DPC_JOB_TOKEN.
/// If torchrun's agent occupies the port, the next port is used. Fails if a
/// variable is missing or the port is invalid.
Expected<StoreAddress> storeAddressFromEnvironment();

/// Limits for strangers: connections that have not identified themselves. Ranks
/// identify themselves as soon as they are connected.
struct StrangerLimits {
  /// A stranger's connection is closed after this time.
  double helloSeconds = 10;
  /// How many strangers may be connected, in addition to one for each rank that
  /// has not arrived. A further connection closes that of the oldest stranger,
  /// so strangers can neither exhaust the file descriptors nor keep ranks out.
  size_t connections = 64;
};

/// Rank 0's side: a thread that answers all connections.
class TcpStoreServer {
public:
  /// Listens on the given address only.
  static Expected<std::unique_ptr<TcpStoreServer>>
  start(const StoreAddress &address, int ranks,
        const StrangerLimits &limits = StrangerLimits());
  /// Waits at most `leaveSeconds` for the clients to disconnect.
  ~TcpStoreServer();

  int port() const { return boundPort; }
  double leaveSeconds = 10;

private:
  struct Connection;
  TcpStoreServer(int listener, int port, int ranks, std::string token,
                 const StrangerLimits &limits);
  void loop();
  void acceptOne();
  void limitStrangers();
  bool leaveOldestStranger();
  bool readFrom(Connection &connection);
  bool processRequests(Connection &connection);
  bool acceptRank(Connection &connection, const std::string &words);
  void answer(Connection &connection, char status, const std::string &value);
  void serveWaiting();
  void end(char status, const std::string &why);
  void leave(Connection &connection);

  int listener, boundPort, ranks;
  std::string token;
  StrangerLimits limits;
  std::atomic<bool> stopping{false};
  char ended = 0; ///< the reply to every take() after the end of the run
  std::string endReason;
  std::map<std::string, std::deque<std::string>> queues;
  std::vector<std::unique_ptr<Connection>> connections;
  std::thread thread; ///< last: it uses the other members
};

/// One rank's connection.
class TcpStoreClient {
public:
  /// Tries to connect for `seconds`, because rank 0 may start later or may be
  /// busy with strangers. Fails at once if rank 0 refuses this rank.
  static Expected<std::unique_ptr<TcpStoreClient>>
  connect(const StoreAddress &address, int rank, int ranks, double seconds);
  ~TcpStoreClient();

  /// Appends a message to the queue of a key.
  Status put(const std::string &key, const char *data, int64_t bytes);
  /// Removes and returns the first message in the queue of a key. Fails with
  /// Timeout and an empty message if nothing arrives within `seconds`.
  Expected<std::string> take(const std::string &key, double seconds);
  /// Makes take() fail with Cancelled on all ranks from now on.
  void abort();
  bool aborted();

private:
  explicit TcpStoreClient(int socket) : socket(socket) {}
  Status request(char kind, const std::string &key, const char *data,
                 int64_t bytes, double seconds);
  Expected<std::string> reply(double seconds);

  int socket;
  std::mutex writing; ///< abort() may be called while another thread waits
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_COMM_TCPSTORE_H
