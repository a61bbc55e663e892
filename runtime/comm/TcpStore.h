//===- TcpStore.h - messages between processes, held by rank 0 --*- C++ -*-===//
//
// Rank 0 holds queues of messages by key, and every rank is connected to it.
// The store serves rare messages (NCCL's id, losses, parameters to save) where
// there is no MPI: all bytes pass through rank 0.
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
  int port = 0; ///< 0: any free port, for tests that ask TcpStoreServer::port()
  /// The secret of a job: a process that presents another token is refused. It
  /// crosses the network in plain text.
  std::string token = "";
};

/// The address from MASTER_ADDR and MASTER_PORT, or the port after it when
/// torchrun's agent occupies that port, and the token from DPC_JOB_TOKEN. Fails
/// when a variable is missing or the port is invalid.
Expected<StoreAddress> storeAddressFromEnvironment();

/// Limits for connections that are not identified. Ranks identify themselves as
/// soon as they are connected.
struct StrangerLimits {
  /// A connection that has not identified itself by then is closed.
  double helloSeconds = 10;
  /// The number of connections that may be unidentified, in addition to one for
  /// each rank that has not arrived. A further connection closes the oldest of
  /// them, so strangers can neither exhaust the descriptors nor keep ranks out.
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
  char ended = 0; ///< the answer to every take once the run is over
  std::string endReason;
  std::map<std::string, std::deque<std::string>> queues;
  std::vector<std::unique_ptr<Connection>> connections;
  std::thread thread; ///< last: it uses the other members
};

/// One rank's connection.
class TcpStoreClient {
public:
  /// Tries for `seconds`: rank 0 may start later, or close the connection
  /// because strangers have opened many. A client that is refused by name does
  /// not try again.
  static Expected<std::unique_ptr<TcpStoreClient>>
  connect(const StoreAddress &address, int rank, int ranks, double seconds);
  ~TcpStoreClient();

  /// Appends to the key's queue and returns.
  Status put(const std::string &key, const char *data, int64_t bytes);
  /// Removes and returns the first message of the key's queue. Fails with
  /// Timeout and an empty message when none arrives.
  Expected<std::string> take(const std::string &key, double seconds);
  /// Makes all takes of all ranks fail with Cancelled from now on.
  void abort();
  bool aborted();

private:
  explicit TcpStoreClient(int socket) : socket(socket) {}
  Status request(char kind, const std::string &key, const char *data,
                 int64_t bytes, double seconds);
  Expected<std::string> reply(double seconds);

  int socket;
  std::mutex writing; ///< abort() may come while another thread waits
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_COMM_TCPSTORE_H
