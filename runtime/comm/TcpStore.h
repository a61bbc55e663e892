//===- TcpStore.h - messages between processes, kept by one -----*- C++ -*-===//
//
// Rank 0 holds queues of messages by key; every rank is connected to it. For
// what is said once or seldom (NCCL's id, losses, parameters to be saved) where
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
  int port = 0; ///< 0: any, for a test that asks TcpStoreServer::port()
  /// What the processes of a job know and strangers do not: who says another
  /// one is turned away. It crosses the network as it is.
  std::string token = "";
};

/// MASTER_ADDR and MASTER_PORT; the port behind it where torchrun's agent holds
/// the port itself; the token is DPC_JOB_TOKEN. Fails when one is absent or no
/// port.
Expected<StoreAddress> storeAddressFromEnvironment();

/// What strangers may take of rank 0. Ranks say who they are as soon as they
/// are connected.
struct StrangerLimits {
  /// A connection that has not said all of it by then is closed.
  double helloSeconds = 10;
  /// Connections that have not said it, besides one for each rank that is not
  /// here yet. One more closes the oldest of them: strangers neither use up the
  /// descriptors nor keep ranks out.
  size_t connections = 64;
};

/// Rank 0's side: a thread that answers all connections.
class TcpStoreServer {
public:
  /// Listens on the given address only.
  static Expected<std::unique_ptr<TcpStoreServer>>
  start(const StoreAddress &address, int ranks,
        const StrangerLimits &limits = StrangerLimits());
  /// Waits for the clients to leave, for at most `leaveSeconds`.
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
  bool obey(Connection &connection);
  bool welcome(Connection &connection, const std::string &words);
  void answer(Connection &connection, char status, const std::string &value);
  void serveWaiting();
  void end(char status, const std::string &why);
  void leave(Connection &connection);

  int listener, boundPort, ranks;
  std::string token;
  StrangerLimits limits;
  std::atomic<bool> stopping{false};
  char ended = 0; ///< what every take is answered with, once the run is over
  std::string endReason;
  std::map<std::string, std::deque<std::string>> queues;
  std::vector<std::unique_ptr<Connection>> connections;
  std::thread thread; ///< last: it uses the others
};

/// One rank's connection.
class TcpStoreClient {
public:
  /// Tries for `seconds`: rank 0 may come later, or close the connection
  /// because strangers have opened many. Who is refused by name is not.
  static Expected<std::unique_ptr<TcpStoreClient>>
  connect(const StoreAddress &address, int rank, int ranks, double seconds);
  ~TcpStoreClient();

  /// Appends to the key's queue and returns.
  Status put(const std::string &key, const char *data, int64_t bytes);
  /// The first of the key's queue, which is removed. Timeout with an empty
  /// message when none came.
  Expected<std::string> take(const std::string &key, double seconds);
  /// Takes of all ranks fail with Cancelled from now on.
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
