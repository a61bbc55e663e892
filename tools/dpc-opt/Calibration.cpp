//===- Calibration.cpp - Measures this machine ----------------------------===//
#include "tools/dpc-opt/Calibration.h"

#include "cost-model/Calibrate.h"
#include "runtime/kernels/Matmul.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

namespace dpc {

namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Best of several runs: noise only ever adds time.
template <typename F> double bestSeconds(F run, int repetitions = 7) {
  double best = 1e30;
  run(); // page in, pick kernels
  for (int i = 0; i < repetitions; ++i) {
    Clock::time_point start = Clock::now();
    run();
    best = std::min(best, secondsSince(start));
  }
  return best;
}

double gemmSeconds(const cost::GemmShape &shape, cost::DType type) {
  if (type != cost::DType::F32)
    return -1;
  std::vector<float> a(shape.batch * shape.m * shape.k, 1.0f);
  std::vector<float> b(shape.batch * shape.k * shape.n, 1.0f);
  std::vector<float> c(shape.batch * shape.m * shape.n);
  rt::MatmulOp op;
  op.m = shape.m;
  op.n = shape.n;
  op.k = shape.k;
  op.lda = shape.k;
  op.ldb = op.ldc = shape.n;
  op.batch = shape.batch;
  op.strideA = shape.m * shape.k;
  op.strideB = shape.k * shape.n;
  op.strideC = shape.m * shape.n;
  bool ok = true;
  double seconds = bestSeconds([&] {
    ok &= rt::runMatmul(op, a.data(), rt::DType::F32, b.data(), rt::DType::F32,
                        c.data(), rt::DType::F32)
              .ok();
  });
  return ok ? seconds : -1;
}

/// Reads half of the bytes and writes the other half.
double streamSeconds(double bytes) {
  std::vector<char> from(static_cast<size_t>(bytes / 2), 1);
  std::vector<char> to(from.size());
  return bestSeconds([&] { std::memcpy(to.data(), from.data(), from.size()); });
}

double launchSeconds() {
  volatile int sink = 0;
  void (*volatile kernel)(volatile int *) = [](volatile int *p) { *p = 1; };
  constexpr int kCalls = 10000;
  return bestSeconds([&] {
           for (int i = 0; i < kCalls; ++i)
             kernel(&sink);
         }) /
         kCalls;
}

/// One thread copies what another has just written.
double exchangeSeconds(double bytes) {
  std::vector<char> message(static_cast<size_t>(bytes), 1);
  std::vector<char> received(message.size());
  std::atomic<int> turn = 0;
  constexpr int kRounds = 9;
  double best = 1e30;
  std::thread peer([&] {
    for (int round = 0; round < kRounds; ++round) {
      while (turn.load(std::memory_order_acquire) != 2 * round + 1)
        std::this_thread::yield();
      std::memcpy(received.data(), message.data(), message.size());
      turn.store(2 * round + 2, std::memory_order_release);
    }
  });
  for (int round = 0; round < kRounds; ++round) {
    Clock::time_point start = Clock::now();
    turn.store(2 * round + 1, std::memory_order_release);
    while (turn.load(std::memory_order_acquire) != 2 * round + 2)
      std::this_thread::yield();
    best = std::min(best, secondsSince(start));
  }
  peer.join();
  return best;
}

std::string cpuName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name"))
      return line.substr(line.find(':') + 2);
  return "unknown CPU";
}

} // namespace

std::string calibrateMachine(const std::string &file) {
  cost::CalibrationProbe probe;
  probe.gemm = gemmSeconds;
  probe.stream = streamSeconds;
  probe.launch = launchSeconds;
  probe.exchange = exchangeSeconds;
  probe.machine = cpuName();
  probe.memoryBytes =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  probe.cores = std::max(1u, std::thread::hardware_concurrency());
  rt::setMatmulThreads(probe.cores);
  cost::Result<std::string> text = cost::calibrateDevice(probe);
  if (!text)
    return text.error();
  std::ofstream out(file);
  out << *text;
  out.close();
  return out ? "" : file + ": cannot be written";
}

} // namespace dpc
