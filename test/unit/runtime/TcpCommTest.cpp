//===- TcpCommTest.cpp - the conformance suite over sockets ---------------===//
#include "runtime/comm/TcpComm.h"
#include "test/unit/runtime/CommConformance.h"
#include "test/unit/runtime/Expect.h"

#include <atomic>
#include <cstdlib>
#include <future>
#include <gtest/gtest.h>
#include <mutex>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace dpc::rt::test {

std::vector<int> worldSizes() { return {1, 2, 3, 4}; }

/// Ranks are threads that communicate through sockets.
void onRanks(int ranks, double timeoutSeconds,
             const std::function<void(Communicator &)> &body) {
  // Finds a free port by a server that is closed at once.
  auto started = TcpStoreServer::start({"127.0.0.1", 0}, 1);
  ASSERT_TRUE(started.ok()) << started.status().message();
  int port = (*started)->port();
  (*started)->leaveSeconds = 0;
  *started = nullptr;
  std::vector<std::thread> threads;
  threads.reserve(ranks);
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([=, &body] {
      CommOptions options;
      options.timeoutSeconds = std::max(timeoutSeconds, 10.0);
      auto comm = makeTcpComm({"127.0.0.1", port}, rank, ranks, options);
      ASSERT_TRUE(comm.ok()) << comm.status().message();
      ASSERT_TRUE((*comm)->barrier(kWorldGroup).ok());
      (*comm)->setTimeout(timeoutSeconds);
      body(**comm);
    });
  for (std::thread &thread : threads)
    thread.join();
}

namespace {

struct Server {
  std::unique_ptr<TcpStoreServer> store;
  StoreAddress address{"127.0.0.1", 0};

  explicit Server(int ranks, const std::string &token = "",
                  const StrangerLimits &limits = StrangerLimits()) {
    address.token = token;
    store = std::move(*TcpStoreServer::start(address, ranks, limits));
    store->leaveSeconds = 0;
    address.port = store->port();
  }
};

void expectMessage(TcpStoreClient &from, TcpStoreClient &to) {
  ASSERT_TRUE(from.put("key", "abc", 3).ok());
  Expected<std::string> value = to.take("key", 10);
  ASSERT_TRUE(value.ok()) << value.status().message();
  EXPECT_EQ(*value, "abc");
}

TEST(TcpComm, AbortCancelsTheOthers) {
  onRanks(3, 30, [](Communicator &comm) {
    if (comm.rank() == 1) {
      comm.abort();
      EXPECT_TRUE(comm.aborted());
      return;
    }
    EXPECT_EQ(comm.barrier(kWorldGroup).code(), StatusCode::Cancelled);
    EXPECT_TRUE(comm.aborted());
  });
}

TEST(TcpComm, DifferentCallsAreNoticed) {
  onRanks(2, 30, [](Communicator &comm) {
    int32_t values[2] = {};
    Status status = comm.rank() == 0
                        ? comm.barrier(kWorldGroup)
                        : comm.broadcast(kWorldGroup, values, 4, 1);
    EXPECT_EQ(status.code(), StatusCode::Invalid) << status.message();
  });
}

int strangersSocket(int port) {
  int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in place = {};
  place.sin_family = AF_INET;
  place.sin_port = htons(static_cast<uint16_t>(port));
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(socket, reinterpret_cast<sockaddr *>(&place), sizeof place),
            0);
  return socket;
}

bool isClosed(int socket, int milliseconds) {
  pollfd polled = {socket, POLLIN, 0};
  char answer = 0;
  return poll(&polled, 1, milliseconds) == 1 &&
         recv(socket, &answer, 1, 0) <= 0;
}

/// Whether the server closes a connection that sends `bytes`.
bool closesAfter(int port, const std::string &bytes) {
  int socket = strangersSocket(port);
  bool isSent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0;
  bool closes = isSent && isClosed(socket, 8000);
  close(socket);
  return closes;
}

TEST(TcpStore, AMissingServerIsReported) {
  auto client = TcpStoreClient::connect({"127.0.0.1", 1}, 3, 4, 0.05);
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.status().code(), StatusCode::Timeout);
  EXPECT_EQ(client.status().message(),
            "rank 3 found no rank 0 at 127.0.0.1:1: Connection refused");
}

/// If a connection closes without a goodbye, other ranks learn the rank.
TEST(TcpStore, ADeadRankIsNamed) {
  Server server(2);
  auto client = TcpStoreClient::connect(server.address, 0, 2, 10);
  ASSERT_TRUE(client.ok());
  pid_t child = fork();
  if (child == 0) { // exits without a goodbye
    auto own = TcpStoreClient::connect(server.address, 1, 2, 10);
    _exit(own.ok() ? 0 : 1);
  }
  Expected<std::string> value = (*client)->take("nothing", 30);
  ASSERT_FALSE(value.ok());
  EXPECT_EQ(value.status().message(), "rank 1 ended too early");
}

/// A client of a different job is refused and does not disturb the ranks.
TEST(TcpStore, OtherJobsAreRefused) {
  Server server(1);
  auto other = TcpStoreClient::connect(server.address, 0, 7, 0.2);
  ASSERT_FALSE(other.ok());
  EXPECT_HAS(other.status().message(), "not rank 0 of this job of 7 ranks");
  auto client = TcpStoreClient::connect(server.address, 0, 1, 10);
  ASSERT_TRUE(client.ok());
  expectMessage(**client, **client);
}

/// A client with a wrong token or a wrong rank is refused. Data of a stranger
/// is not kept, and the run continues when the stranger disconnects.
TEST(TcpStore, AStrangerCannotJoinOrEndARun) {
  Server server(2, "sesame");
  auto first = TcpStoreClient::connect(server.address, 0, 2, 10);
  ASSERT_TRUE(first.ok()) << first.status().message();
  for (const char *token : {"", "Sesame", "sesame "}) {
    auto other = TcpStoreClient::connect(
        {"127.0.0.1", server.address.port, token}, 1, 2, 0.2);
    ASSERT_FALSE(other.ok()) << token;
    EXPECT_HAS(other.status().message(), "another DPC_JOB_TOKEN");
  }
  for (int rank : {0, 2, -1}) // 0 is connected, 2 and -1 do not exist
    EXPECT_FALSE(TcpStoreClient::connect(server.address, rank, 2, 0.2).ok())
        << rank;
  // A hello that announces a key of 11 bytes and a value of 16 GB.
  char hello[40] = {'h', 0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0, 4};
  EXPECT_TRUE(
      closesAfter(server.address.port, std::string(hello, sizeof hello)));
  EXPECT_TRUE(closesAfter(server.address.port,
                          "GET / HTTP/1.1\r\nHost: rank-0\r\n\r\n"));
  auto second = TcpStoreClient::connect(server.address, 1, 2, 10);
  ASSERT_TRUE(second.ok()) << second.status().message();
  expectMessage(**second, **first);
}

/// Rank 0 learns at once who was refused and why, but strangers cannot flood
/// its output.
TEST(TcpStore, ARefusedProcessIsReportedOnce) {
  std::mutex mutex;
  std::vector<std::string> lines;
  auto refusalOf = [&](const std::string &token, int rank, int ranks) {
    lines.clear();
    auto server =
        TcpStoreServer::start({"127.0.0.1", 0, "sesame"}, 2, StrangerLimits(),
                              [&](const std::string &line) {
                                std::lock_guard lock(mutex);
                                lines.push_back(line);
                              });
    (*server)->leaveSeconds = 0;
    for (int attempt = 0; attempt < 3; ++attempt) {
      auto client = TcpStoreClient::connect(
          {"127.0.0.1", (*server)->port(), token}, rank, ranks, 0.2);
      EXPECT_FALSE(client.ok());
      EXPECT_EQ(client.status().code(), StatusCode::Io);
    }
    std::lock_guard lock(mutex);
    EXPECT_EQ(lines.size(), 1u);
    return lines.empty() ? "" : lines[0];
  };
  EXPECT_EQ(refusalOf("Sesame", 1, 2),
            "a process from 127.0.0.1 gave another DPC_JOB_TOKEN, and is "
            "refused");
  EXPECT_HAS(refusalOf("sesame", 1, 3), "is rank 1 of a job of 3 ranks, not 2");
  EXPECT_HAS(refusalOf("sesame", 2, 2), "is rank 2 in a job of 2 ranks");
}

/// If many strangers are connected, the oldest must leave, and ranks can join.
TEST(TcpStore, StrangersDoNotKeepRanksOut) {
  StrangerLimits limits;
  limits.helloSeconds = 1000;
  limits.connections = 5;
  Server server(2, "", limits);
  auto first = TcpStoreClient::connect(server.address, 0, 2, 10);
  ASSERT_TRUE(first.ok()) << first.status().message();
  std::vector<int> strangers(40);
  for (int &socket : strangers)
    socket = strangersSocket(server.address.port);
  auto second = TcpStoreClient::connect(server.address, 1, 2, 10);
  ASSERT_TRUE(second.ok()) << second.status().message();
  // All ranks are connected, so no place is reserved for a rank.
  size_t kept = limits.connections;
  for (size_t i = 0; i < strangers.size() - kept; ++i)
    EXPECT_TRUE(isClosed(strangers[i], 8000)) << i;
  for (size_t i = strangers.size() - kept; i < strangers.size(); ++i)
    EXPECT_FALSE(isClosed(strangers[i], 0)) << i;
  expectMessage(**second, **first);
  for (int socket : strangers)
    close(socket);
}

/// A stranger that sends slowly is disconnected at the time limit.
TEST(TcpStore, SlowStrangersAreClosed) {
  StrangerLimits limits;
  limits.helloSeconds = 0.2;
  Server server(1, "", limits);
  int socket = strangersSocket(server.address.port);
  // A hello that announces a key of 11 bytes and a value of 4 KiB.
  const std::string start = {'h', 0, 0, 0, 11, 0, 0, 0, 0, 16};
  bool closes = false;
  for (size_t i = 0; i < 4000 && !closes; ++i) {
    char byte = i < start.size() ? start[i] : '\0';
    closes = send(socket, &byte, 1, MSG_NOSIGNAL) != 1 || isClosed(socket, 5);
  }
  EXPECT_TRUE(closes);
  close(socket);
}

TEST(TcpStore, EveryJobNeedsAToken) {
  setenv("MASTER_PORT", "29500", 1);
  for (const char *host : {"10.0.0.1", "127.0.0.1", "localhost", "::1"}) {
    setenv("MASTER_ADDR", host, 1);
    unsetenv("DPC_JOB_TOKEN");
    EXPECT_EQ(storeAddressFromEnvironment().status().message().find(
                  "DPC_JOB_TOKEN is not set"),
              0u)
        << host;
    setenv("DPC_JOB_TOKEN", "", 1);
    EXPECT_FALSE(storeAddressFromEnvironment().ok()) << host;
  }
  setenv("DPC_JOB_TOKEN", "sesame", 1);
  EXPECT_EQ(storeAddressFromEnvironment()->token, "sesame");
  setenv("DPC_JOB_TOKEN", std::string(2000, 'x').c_str(), 1);
  EXPECT_FALSE(storeAddressFromEnvironment().ok());
  unsetenv("DPC_JOB_TOKEN");
}

TEST(TcpStore, AddressesComeFromTheEnvironment) {
  unsetenv("MASTER_ADDR");
  EXPECT_FALSE(storeAddressFromEnvironment().ok());
  setenv("MASTER_ADDR", "localhost", 1);
  setenv("DPC_JOB_TOKEN", "sesame", 1);
  setenv("MASTER_PORT", "29x", 1);
  EXPECT_EQ(storeAddressFromEnvironment().status().message(),
            "MASTER_PORT is '29x', a port from 1 to 65535 is accepted");
  setenv("MASTER_PORT", "29500", 1);
  EXPECT_EQ(storeAddressFromEnvironment()->port, 29500);
  setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
  EXPECT_EQ(storeAddressFromEnvironment()->port, 29501);
  unsetenv("TORCHELASTIC_USE_AGENT_STORE");
  unsetenv("DPC_JOB_TOKEN");
}

} // namespace
} // namespace dpc::rt::test
