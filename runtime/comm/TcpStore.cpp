#include "runtime/comm/TcpStore.h"

#include "runtime/base/Wait.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace dpc::rt {

namespace {

/// The key and the value follow. All ranks have the same byte order.
struct Request {
  char kind =
      0; ///< 'h' hello, 'p' put, 't' take, 'a' abort, 'q' query, 'b' bye
  char unused[3] = {};
  uint32_t keyBytes = 0;
  int64_t valueBytes = 0;
  double seconds = 0; ///< for 't'; for 'h' (value: RANK " " TOKEN), the number
                      ///< of ranks
};

struct Reply {
  char status = 0; ///< 'v' value, 't' timeout, 'c' cancelled, 'd' a rank died
  char unused[7] = {};
  int64_t valueBytes = 0;
};

/// Limits messages, because a stranger may announce any length.
constexpr int64_t kMostBytes = int64_t(1) << 34;
constexpr uint32_t kMostKeyBytes = 256;
/// Limits how much memory a stranger can use on rank 0.
constexpr int64_t kMostHelloBytes = 4096;
constexpr size_t kMostTokenBytes = 1024;
const char *const kHello = "dpc-store-2";

/// Compares secrets. The time does not reveal where they differ.
bool isSame(const std::string &a, const std::string &b) {
  unsigned char differs = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    differs |= static_cast<unsigned char>(a[i] ^ b[i]);
  return differs == 0;
}

std::string systemError() { return std::strerror(errno); }

/// Calls use(info) for each address of a host until use() returns true.
template <typename Use>
Status withAddress(const StoreAddress &address, bool passive, Use &&use) {
  addrinfo hints = {}, *list = nullptr;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = passive ? AI_PASSIVE : 0;
  std::string place = address.host + ":" + std::to_string(address.port);
  if (int error =
          getaddrinfo(address.host.c_str(),
                      std::to_string(address.port).c_str(), &hints, &list))
    return Status::invalid("MASTER_ADDR ", address.host, ": ",
                           gai_strerror(error));
  std::string why = "no address";
  bool ok = false;
  for (addrinfo *info = list; info && !ok; info = info->ai_next) {
    ok = use(*info);
    if (!ok)
      why = systemError();
  }
  freeaddrinfo(list);
  return ok ? Status::success() : Status::io(place, ": ", why);
}

} // namespace

Expected<StoreAddress> storeAddressFromEnvironment() {
  const char *host = std::getenv("MASTER_ADDR"),
             *port = std::getenv("MASTER_PORT");
  if (!host || !*host || !port)
    return Status::invalid("MASTER_ADDR and MASTER_PORT must have the address "
                           "and port of rank 0");
  char *end = nullptr;
  long number = std::strtol(port, &end, 10);
  const char *agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  if (agent && std::string(agent) == "True")
    ++number;
  if (!*port || *end || number < 1 || number > 65535)
    return Status::invalid("MASTER_PORT is '", port,
                           "', a port from 1 to 65535 is accepted");
  const char *token = std::getenv("DPC_JOB_TOKEN");
  StoreAddress address{host, static_cast<int>(number), token ? token : ""};
  // A token is required, because any local or remote user can connect.
  if (address.token.empty())
    return Status::invalid(
        "DPC_JOB_TOKEN is not set: processes that connect to "
        "MASTER_ADDR need a secret that only this job knows; "
        "export DPC_JOB_TOKEN=$(openssl rand -hex 16) before the launcher "
        "starts, with the same value on every machine");
  if (address.token.size() > kMostTokenBytes)
    return Status::invalid("DPC_JOB_TOKEN has ", address.token.size(),
                           " characters, at most ", kMostTokenBytes,
                           " are accepted");
  return address;
}

struct TcpStoreServer::Connection {
  int socket = -1;
  double since = nowSeconds();
  std::string rank;    ///< "" before its hello
  std::string in, out; ///< unprocessed input, unwritten output
  bool isWaiting = false;
  std::string key;
  double deadline = 0;
};

Expected<std::unique_ptr<TcpStoreServer>>
TcpStoreServer::start(const StoreAddress &address, int ranks,
                      const StrangerLimits &limits, OnRefusal onRefusal) {
  int listener = -1;
  Status status = withAddress(address, true, [&](const addrinfo &info) {
    listener = ::socket(info.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int yes = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (listener >= 0 && bind(listener, info.ai_addr, info.ai_addrlen) == 0 &&
        listen(listener, 4096) == 0)
      return true;
    int error = errno;
    close(listener);
    errno = error;
    return false;
  });
  if (!status.ok())
    return Status(status.code(), "rank 0 cannot listen on " + status.message());
  sockaddr_storage bound = {};
  socklen_t length = sizeof bound;
  getsockname(listener, reinterpret_cast<sockaddr *>(&bound), &length);
  int port = ntohs(bound.ss_family == AF_INET6
                       ? reinterpret_cast<sockaddr_in6 &>(bound).sin6_port
                       : reinterpret_cast<sockaddr_in &>(bound).sin_port);
  fcntl(listener, F_SETFL, O_NONBLOCK);
  return std::unique_ptr<TcpStoreServer>(new TcpStoreServer(
      listener, port, ranks, address.token, limits, std::move(onRefusal)));
}

TcpStoreServer::TcpStoreServer(int listener, int port, int ranks,
                               std::string token, const StrangerLimits &limits,
                               OnRefusal onRefusal)
    : listener(listener), boundPort(port), ranks(ranks),
      token(std::move(token)), limits(limits), onRefusal(std::move(onRefusal)),
      thread([this] { loop(); }) {}

TcpStoreServer::~TcpStoreServer() {
  stopping = true;
  thread.join();
  for (auto &connection : connections)
    close(connection->socket);
  close(listener);
}

void TcpStoreServer::loop() {
  double stopAt = 0;
  std::vector<pollfd> polled;
  while (true) {
    if (stopping && stopAt == 0)
      stopAt = nowSeconds() + leaveSeconds;
    if (stopping && (connections.empty() || nowSeconds() > stopAt))
      return;
    polled = {{listener, POLLIN, 0}};
    for (auto &c : connections)
      polled.push_back(
          {c->socket,
           static_cast<short>(POLLIN | (c->out.empty() ? 0 : POLLOUT)), 0});
    poll(polled.data(), polled.size(), 20);
    for (size_t i = 1; i < polled.size(); ++i) {
      Connection &c = *connections[i - 1];
      bool isSilent =
          c.rank.empty() && nowSeconds() - c.since > limits.helloSeconds;
      bool speaks = polled[i].revents & (POLLIN | POLLERR | POLLHUP);
      if (isSilent || (speaks && !readFrom(c))) {
        leave(c);
        continue;
      }
      if (polled[i].revents & POLLOUT) {
        ssize_t sent = ::send(c.socket, c.out.data(), c.out.size(),
                              MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0)
          c.out.erase(0, static_cast<size_t>(sent));
      }
    }
    std::erase_if(connections, [](auto &c) { return c->socket < 0; });
    if (polled[0].revents & POLLIN)
      acceptOne();
    serveWaiting();
  }
}

void TcpStoreServer::acceptOne() {
  int accepted =
      accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (accepted < 0) {
    // Without a free descriptor, the connection waits until a stranger leaves.
    if ((errno == EMFILE || errno == ENFILE) && !leaveOldestStranger())
      usleep(20000);
    return;
  }
  int yes = 1;
  setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  connections.push_back(std::make_unique<Connection>());
  connections.back()->socket = accepted;
  limitStrangers();
}

template <typename Connection>
static bool isStranger(const std::unique_ptr<Connection> &connection) {
  return connection->rank.empty();
}

void TcpStoreServer::limitStrangers() {
  auto strangers = static_cast<size_t>(std::count_if(
      connections.begin(), connections.end(), isStranger<Connection>));
  size_t here = connections.size() - strangers;
  size_t absent = static_cast<size_t>(ranks) - here;
  if (strangers > limits.connections + absent)
    leaveOldestStranger();
}

/// Returns false if there is no stranger.
bool TcpStoreServer::leaveOldestStranger() {
  // Connections are in order of arrival.
  auto oldest = std::find_if(connections.begin(), connections.end(),
                             isStranger<Connection>);
  if (oldest == connections.end())
    return false;
  leave(**oldest);
  connections.erase(oldest);
  return true;
}

/// Returns false if the connection must be closed.
bool TcpStoreServer::readFrom(Connection &c) {
  // A stranger may send at most a hello.
  const size_t chunk = c.rank.empty() ? kMostHelloBytes : 1 << 20;
  while (true) {
    size_t had = c.in.size();
    c.in.resize(had + chunk);
    ssize_t got = recv(c.socket, c.in.data() + had, chunk, 0);
    c.in.resize(had + (got > 0 ? static_cast<size_t>(got) : 0));
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
      return false;
    if (got < 0)
      return true;
    if (!processRequests(c))
      return false;
    if (static_cast<size_t>(got) < chunk)
      return true;
  }
}

/// Returns false after a goodbye or invalid data.
bool TcpStoreServer::processRequests(Connection &c) {
  size_t at = 0;
  while (c.in.size() - at >= sizeof(Request)) {
    Request r;
    std::memcpy(&r, c.in.data() + at, sizeof r);
    if (r.keyBytes > kMostKeyBytes || r.valueBytes < 0 ||
        r.valueBytes > kMostBytes || c.rank.empty() != (r.kind == 'h') ||
        (r.kind == 'h' && r.valueBytes > kMostHelloBytes))
      return false;
    size_t whole = sizeof r + r.keyBytes + static_cast<size_t>(r.valueBytes);
    if (c.in.size() - at < whole)
      break;
    std::string key = c.in.substr(at + sizeof r, r.keyBytes);
    std::string value = c.in.substr(at + sizeof r + r.keyBytes,
                                    static_cast<size_t>(r.valueBytes));
    at += whole;
    if (r.kind == 'h') {
      std::string why = key == kHello ? whyRefused(value, r.seconds)
                                      : "has another version of dpc-run";
      if (!why.empty()) {
        refuse(c, why);
        return false;
      }
      c.rank = value.substr(0, value.find(' '));
      answer(c, 'v', "");
    } else if (r.kind == 'p') {
      queues[key].push_back(std::move(value));
    } else if (r.kind == 't') {
      c.isWaiting = true;
      c.key = key;
      c.deadline = nowSeconds() + r.seconds;
    } else if (r.kind == 'a') {
      end('c', "another rank failed");
    } else if (r.kind == 'q') {
      answer(c, 'v', ended ? "1" : "0");
    } else {
      c.rank = "";
      return false;
    }
  }
  c.in.erase(0, at);
  return true;
}

/// Returns "" if `words`, "RANK TOKEN", name a rank that is not yet connected
/// and have the token of this job, and the job has `ranksOfOther` ranks.
std::string TcpStoreServer::whyRefused(const std::string &words,
                                       double ranksOfOther) {
  size_t split = words.find(' ');
  // Checked first: without the token, no other word can be trusted.
  if (split == std::string::npos || !isSame(words.substr(split + 1), token))
    return "gave another DPC_JOB_TOKEN";
  std::string rank = words.substr(0, split);
  if (ranksOfOther != ranks)
    return concat("is rank ", rank, " of a job of ",
                  static_cast<int64_t>(ranksOfOther), " ranks, not ", ranks);
  bool isRank = false;
  for (int i = 0; i < ranks; ++i)
    isRank = isRank || rank == std::to_string(i);
  if (!isRank)
    return concat("is rank ", rank, " in a job of ", ranks, " ranks");
  for (const auto &other : connections)
    if (other->rank == rank)
      return "is a second rank " + rank;
  return "";
}

static std::string addressOf(int socket) {
  sockaddr_storage peer = {};
  socklen_t length = sizeof peer;
  char host[NI_MAXHOST] = "?";
  if (getpeername(socket, reinterpret_cast<sockaddr *>(&peer), &length) == 0)
    getnameinfo(reinterpret_cast<sockaddr *>(&peer), length, host, sizeof host,
                nullptr, 0, NI_NUMERICHOST);
  return host;
}

/// Tells the process nothing, because it may be a stranger.
void TcpStoreServer::refuse(Connection &c, const std::string &why) {
  constexpr double kPause = 10; // strangers must not flood the output
  answer(c, 'c', "refused");
  if (!onRefusal || nowSeconds() < nextRefusal)
    return;
  nextRefusal = nowSeconds() + kPause;
  onRefusal("a process from " + addressOf(c.socket) + " " + why +
            ", and is refused");
}

void TcpStoreServer::answer(Connection &c, char status,
                            const std::string &value) {
  Reply reply;
  reply.status = status;
  reply.valueBytes = static_cast<int64_t>(value.size());
  c.out.append(reinterpret_cast<const char *>(&reply), sizeof reply);
  c.out += value;
  ssize_t sent =
      ::send(c.socket, c.out.data(), c.out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent > 0)
    c.out.erase(0, static_cast<size_t>(sent));
}

void TcpStoreServer::serveWaiting() {
  double now = nowSeconds();
  for (auto &c : connections) {
    if (!c->isWaiting)
      continue;
    auto it = queues.find(c->key);
    if (it != queues.end()) {
      c->isWaiting = false;
      answer(*c, 'v', it->second.front());
      it->second.pop_front();
      if (it->second.empty())
        queues.erase(it);
    } else if (ended || now > c->deadline) {
      c->isWaiting = false;
      answer(*c, ended ? ended : 't', ended ? endReason : "");
    }
  }
}

void TcpStoreServer::end(char status, const std::string &why) {
  if (ended)
    return;
  ended = status;
  endReason = why;
}

void TcpStoreServer::leave(Connection &c) {
  if (!c.rank.empty())
    end('d', "rank " + c.rank + " ended too early");
  close(c.socket);
  c.socket = -1;
}

static Expected<int> connectTo(const StoreAddress &address) {
  int made = -1;
  DPC_TRY(withAddress(address, false, [&](const addrinfo &info) {
    made = ::socket(info.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made >= 0 && ::connect(made, info.ai_addr, info.ai_addrlen) == 0)
      return true;
    int error = errno;
    close(made);
    errno = error;
    return false;
  }));
  int yes = 1;
  setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  return made;
}

Expected<std::unique_ptr<TcpStoreClient>>
TcpStoreClient::connect(const StoreAddress &address, int rank, int ranks,
                        double seconds) {
  double deadline = nowSeconds() + seconds;
  std::string name = std::to_string(rank) + " " + address.token;
  Status status;
  bool isThere = false;
  // After this many closed connections, gives up 30 s after the start, because
  // an unrelated server closes every connection. Rank 0 closes only some, if
  // there are many strangers, and a proxy closes them until rank 0 has started.
  constexpr int kMostClosed = 100;
  const double patient = std::min(deadline, nowSeconds() + 30);
  int closed = 0;
  do {
    Expected<int> made = connectTo(address);
    isThere = made.ok();
    if (isThere) {
      std::unique_ptr<TcpStoreClient> self(new TcpStoreClient(*made));
      status = self->request('h', kHello, name.data(),
                             static_cast<int64_t>(name.size()), ranks);
      if (status.ok())
        status = self->reply(std::max(0.0, deadline - nowSeconds())).status();
      if (status.ok())
        return self;
      ++closed;
      if (status.code() == StatusCode::Cancelled)
        break; // refused by name
    } else {
      status = made.status();
    }
    usleep(20000);
  } while (nowSeconds() < (closed < kMostClosed ? deadline : patient));
  if (isThere)
    return Status::io(address.host, ":", address.port,
                      " is not rank 0 of this job of ", ranks,
                      " ranks, or has another DPC_JOB_TOKEN");
  return Status::timeout("rank ", rank, " found no rank 0 at ",
                         status.message());
}

TcpStoreClient::~TcpStoreClient() {
  (void)request('b', "", nullptr, 0, 0).ok();
  shutdown(socket, SHUT_WR);
  close(socket);
}

static bool sendAll(int socket, const char *data, int64_t bytes) {
  while (bytes > 0) {
    ssize_t sent =
        ::send(socket, data, static_cast<size_t>(bytes), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent <= 0)
      return false;
    data += sent;
    bytes -= sent;
  }
  return true;
}

/// Returns false if no data arrives for `seconds`.
static bool receiveAll(int socket, char *data, int64_t bytes, double seconds) {
  while (bytes > 0) {
    pollfd polled = {socket, POLLIN, 0};
    int ready =
        poll(&polled, 1, static_cast<int>(std::min(seconds * 1000, 1e9)));
    if (ready < 0 && errno == EINTR)
      continue;
    if (ready <= 0)
      return false;
    ssize_t got = recv(socket, data, static_cast<size_t>(bytes), 0);
    if (got <= 0)
      return false;
    data += got;
    bytes -= got;
  }
  return true;
}

static Status lostRankZero() {
  return Status::io("rank 0 closed its connection");
}

Status TcpStoreClient::request(char kind, const std::string &key,
                               const char *data, int64_t bytes,
                               double seconds) {
  Request r;
  r.kind = kind;
  r.keyBytes = static_cast<uint32_t>(key.size());
  r.valueBytes = bytes;
  r.seconds = seconds;
  std::string head(reinterpret_cast<const char *>(&r), sizeof r);
  head += key;
  std::lock_guard lock(writing);
  bool ok = sendAll(socket, head.data(), static_cast<int64_t>(head.size())) &&
            sendAll(socket, data, bytes);
  return ok ? Status::success() : lostRankZero();
}

Expected<std::string> TcpStoreClient::reply(double seconds) {
  constexpr double grace = 10;
  Reply r;
  if (!receiveAll(socket, reinterpret_cast<char *>(&r), sizeof r,
                  seconds + grace))
    return lostRankZero();
  if (r.valueBytes < 0 || r.valueBytes > kMostBytes)
    return lostRankZero();
  std::string value(static_cast<size_t>(r.valueBytes), '\0');
  if (!receiveAll(socket, value.data(), r.valueBytes, grace))
    return lostRankZero();
  switch (r.status) {
  case 'v':
    return value;
  case 't':
    return Status::timeout();
  case 'd':
    return Status::io(value);
  default:
    return Status::cancelled(value);
  }
}

Status TcpStoreClient::put(const std::string &key, const char *data,
                           int64_t bytes) {
  return request('p', key, data, bytes, 0);
}

Expected<std::string> TcpStoreClient::take(const std::string &key,
                                           double seconds) {
  DPC_TRY(request('t', key, nullptr, 0, seconds));
  return reply(seconds);
}

void TcpStoreClient::abort() { (void)request('a', "", nullptr, 0, 0).ok(); }

bool TcpStoreClient::aborted() {
  if (!request('q', "", nullptr, 0, 0).ok())
    return true;
  Expected<std::string> value = reply(0);
  return !value || *value == "1";
}

} // namespace dpc::rt
