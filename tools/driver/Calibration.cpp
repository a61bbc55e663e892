//===- Calibration.cpp - Measures this machine ----------------------------===//
#include "tools/driver/Calibration.h"

#include "cost-model/calibrate/Calibrate.h"
#include "cost-model/calibrate/CalibrateGpu.h"
#include "cost-model/calibrate/LinkMeasurements.h"
#include "runtime/base/ReadFile.h"
#include "runtime/comm/MeasureCollectives.h"
#include "runtime/exec/Device.h"
#include "runtime/exec/MeasureDevice.h"
#include "runtime/kernels/Matmul.h"
#include "tools/driver/ElementwiseProbe.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <fstream>
#include <thread>
#include <vector>

namespace dpc {

namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

int numCores() {
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
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

/// Seconds that this thread has run.
double threadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * now.tv_nsec;
}

/// What this process had of the cores while it measured.
struct Presence {
  double ran = 0, passed = 0; ///< Of all cores together.
  double share() const { return passed > 0 ? ran / passed : 1; }
};

/// Runs `work(core)` on so many cores at once, several times. Seconds of the
/// slowest core, the median of the rounds. Counted is the time that the threads
/// ran: what others took of the cores meanwhile is added to `presence`, not to
/// the result.
template <typename F>
double secondsOnCores(int cores, Presence &presence, F work, int rounds) {
  std::barrier<> meet(cores);
  std::vector<std::vector<double>> seconds(cores);
  std::vector<double> passed(cores, 0);
  std::vector<std::thread> threads;
  threads.reserve(cores);
  for (int core = 0; core < cores; ++core)
    threads.emplace_back([&, core] {
      rt::setMatmulThreads(1);
      work(core); // page in, pick kernels
      for (int round = 0; round < rounds; ++round) {
        meet.arrive_and_wait();
        Clock::time_point start = Clock::now();
        double before = threadSeconds();
        work(core);
        seconds[core].push_back(threadSeconds() - before);
        passed[core] += secondsSince(start);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  std::vector<double> slowest(rounds, 0);
  for (int core = 0; core < cores; ++core) {
    presence.passed += passed[core];
    for (int round = 0; round < rounds; ++round) {
      presence.ran += seconds[core][round];
      slowest[round] = std::max(slowest[round], seconds[core][round]);
    }
  }
  std::nth_element(slowest.begin(), slowest.begin() + rounds / 2,
                   slowest.end());
  return slowest[rounds / 2];
}

/// One core's operands and product.
struct Product {
  explicit Product(const cost::GemmShape &shape)
      : a(shape.m * shape.k, 1.0f), b(shape.k * shape.n, 1.0f),
        c(shape.m * shape.n) {}
  std::vector<float> a, b, c;
};

rt::MatmulOp productOf(const cost::GemmShape &shape) {
  rt::MatmulOp op;
  op.m = shape.m;
  op.n = shape.n;
  op.k = shape.k;
  op.transA = shape.transA;
  op.transB = shape.transB;
  op.lda = shape.transA ? shape.m : shape.k;
  op.ldb = shape.transB ? shape.k : shape.n;
  op.ldc = shape.n;
  return op;
}

/// Small ones often enough that the clock and the meeting do not count.
int repeatsOf(const cost::GemmShape &shape) {
  constexpr double kFlopsOfRound = 2e7;
  return std::max(1, static_cast<int>(kFlopsOfRound / shape.flops()));
}

/// A core's operands and products for `repeats` of them, in turn: as in a plan,
/// an operand is not in the core's caches because of the product before.
class Products {
public:
  Products(const cost::GemmShape &shape, int repeats)
      : op(productOf(shape)), each(countFor(shape, repeats), Product(shape)) {}

  bool multiply(int repeats = 1) {
    for (int i = 0; i < repeats; ++i) {
      Product &p = each[next++ % each.size()];
      if (!rt::runMatmul(op, p.a.data(), rt::DType::F32, p.b.data(),
                         rt::DType::F32, p.c.data(), rt::DType::F32)
               .ok())
        return false;
    }
    return true;
  }

private:
  static size_t countFor(const cost::GemmShape &shape, int repeats) {
    constexpr double kPastTheCaches = 16 << 20;
    double count = 1 + kPastTheCaches / shape.bytes(cost::DType::F32);
    return std::min<size_t>(std::max(2, repeats), static_cast<size_t>(count));
  }

  rt::MatmulOp op;
  std::vector<Product> each;
  size_t next = 0;
};

double gemmSeconds(Presence &presence, const cost::GemmShape &shape) {
  int repeats = repeatsOf(shape);
  std::vector<Products> products(numCores(), Products(shape, repeats));
  std::atomic<bool> ok = true;
  double seconds = secondsOnCores(
      numCores(), presence,
      [&](int core) {
        if (!products[core].multiply(repeats))
          ok = false;
      },
      shape.flops() > 1e9 ? 3 : 5);
  return ok ? seconds / repeats : -1;
}

void wait(double seconds) {
  for (Clock::time_point start = Clock::now(); secondsSince(start) < seconds;)
    ;
}

/// One product on the threads of a rank that has all cores, the median of
/// several. By the clock: threads that wait for each other run, too. Before it
/// the others fall asleep, as they do while a rank runs another kernel.
double sharedGemmSeconds(const cost::GemmShape &shape) {
  constexpr double kUntilAsleep = 1e-3; // limitSpinning
  int rounds = shape.flops() > 1e9 ? 3 : 9;
  Products products(shape, rounds);
  bool ok = true;
  std::vector<double> seconds;
  rt::setMatmulThreads(numCores());
  for (int round = 0; round <= rounds; ++round) {
    wait(kUntilAsleep);
    Clock::time_point start = Clock::now();
    ok &= products.multiply();
    if (round > 0) // pages in, picks kernels
      seconds.push_back(secondsSince(start));
  }
  std::nth_element(seconds.begin(), seconds.begin() + rounds / 2,
                   seconds.end());
  return ok ? seconds[rounds / 2] : -1;
}

/// So many cores read half of the bytes and write the other half.
double streamSeconds(int cores, Presence &presence, double bytes) {
  auto part = static_cast<size_t>(bytes / 2 / cores);
  std::vector<std::vector<char>> from(cores, std::vector<char>(part, 1));
  std::vector<std::vector<char>> to = from;
  return secondsOnCores(
      cores, presence,
      [&](int core) { std::memcpy(to[core].data(), from[core].data(), part); },
      7);
}

/// Runs of a kernel that are timed together.
constexpr int kElementwiseRuns = 50;

double elementwiseSeconds(Presence &presence, const ElementwiseProbe &kernel) {
  std::vector<ElementwiseProbe> each(numCores(), kernel);
  return secondsOnCores(
      numCores(), presence,
      [&](int core) {
        for (int i = 0; i < kElementwiseRuns; ++i)
          each[core].run();
      },
      5);
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

/// Two threads reduce `bytes` each, as ranks of a plan do.
double allReduceSeconds(double bytes) {
  std::vector<std::unique_ptr<rt::Communicator>> comms =
      rt::makeLocalComms(2, rt::CommOptions());
  auto seconds = [&](int rank) {
    auto sample = rt::measureAllReduce(*comms[rank], llround(bytes));
    return sample ? sample->seconds : -1;
  };
  std::thread peer([&] { seconds(1); });
  double measured = seconds(0);
  peer.join();
  return measured;
}

std::string cpuName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name"))
      return line.substr(line.find(':') + 2);
  return "unknown CPU";
}

} // namespace

static std::string writeText(const std::string &file, const std::string &text) {
  std::ofstream out(file);
  out << text;
  out.close();
  return out ? "" : file + ": cannot be written";
}

static std::string calibrateLinks(const std::string &cluster,
                                  const std::vector<std::string> &links,
                                  const std::string &file, Reporter &reporter) {
  Expected<std::string> text = readTextFile(cluster, "a cluster.json");
  if (!text)
    return text.message();
  Expected<cost::Cluster> parsed = cost::parseCluster(*text, cluster);
  if (!parsed)
    return parsed.message();
  std::vector<cost::LinkMeasurement> measurements;
  for (const std::string &link : links) {
    Expected<std::string> table =
        readTextFile(link, "what nccl-tests or dpc-run --measure-links wrote");
    if (!table)
      return "--links=" + table.message();
    auto measured = cost::parseLinkMeasurement(*table, link);
    if (!measured)
      return measured.message();
    measurements.push_back(*measured);
  }
  cost::Cluster was = *parsed;
  Status applied = cost::applyLinkMeasurements(*parsed, measurements);
  if (!applied)
    return applied.message();
  auto result = cost::withMeasuredLevels(*text, cluster, *parsed);
  if (!result)
    return result.message();
  reporter.output() << cost::describeLevels(was, *parsed);
  return writeText(file, *result);
}

static std::string calibrateMachine(const std::string &file,
                                    Reporter &reporter) {
  Presence presence;
  cost::CalibrationProbe probe;
  probe.gemm = [&](const cost::GemmShape &shape) {
    return gemmSeconds(presence, shape);
  };
  probe.stream = [&](double bytes) {
    return streamSeconds(numCores(), presence, bytes);
  };
  probe.sharedGemm = sharedGemmSeconds;
  probe.coreStream = [&](double bytes) {
    return streamSeconds(1, presence, bytes);
  };
  std::string missing;
  std::optional<ElementwiseProbe> kernel = ElementwiseProbe::compile(missing);
  if (kernel) {
    probe.scalars = [&] { return elementwiseSeconds(presence, *kernel); };
    probe.scalarOperations = kElementwiseRuns * kernel->operations();
  } else {
    reporter.warning(file +
                     ": without the rate of elementwise kernels: " + missing);
  }
  probe.launch = launchSeconds;
  probe.allReduce = allReduceSeconds;
  probe.machine = cpuName();
  probe.memoryBytes =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  probe.cores = numCores();
  Expected<std::string> text = cost::calibrateDevice(probe);
  if (!text)
    return text.message();
  constexpr double kQuiet = 0.9;
  if (presence.share() < kQuiet)
    reporter.warning(llvm::formatv(
        "{0}: other work had {1:f0} % of the cores while they were measured; "
        "memory and links are slower in it than on a quiet machine",
        file, 100 * (1 - presence.share())));
  if (auto table = cost::describeCalibration(*text))
    reporter.output() << *table;
  return writeText(file, *text);
}

/// Of this machine's first GPU.
static Expected<std::string> measureGpu() {
  auto device = rt::openCudaDevice();
  if (!device)
    return Status(device.status().code(),
                  "--device=cuda: " + device.status().message());
  auto probe = (*device)->probe(0);
  if (!probe)
    return probe.status();
  return rt::measureDevice(**probe, rt::usualSchedule());
}

/// Of this machine's GPU (`device` is "cuda"), or of the one that the file
/// `device` is of.
static std::string calibrateGpu(const std::string &device,
                                const std::string &file, Reporter &reporter) {
  std::string text, from = "what was measured";
  if (device == "cuda") {
    auto measured = measureGpu();
    if (!measured)
      return measured.status().message();
    text = *measured;
  } else {
    auto read = readTextFile(
        device, "cpu, cuda, or what dpc-run --measure-device wrote");
    if (!read)
      return "--device=" + read.message();
    text = *read;
    from = device;
  }
  auto measured = cost::parseGpuMeasurements(text, from);
  if (!measured)
    return measured.message();
  auto calibration = cost::calibrateGpu(*measured);
  if (!calibration)
    return calibration.message();
  reporter.output() << calibration->table;
  return writeText(file, calibration->device);
}

std::string calibrate(const CompileOptions &options, Reporter &reporter) {
  const std::string &file = options.calibrate;
  if (!options.calibrated.empty() && options.calibrated != "cpu")
    return calibrateGpu(options.calibrated, file, reporter);
  return options.links.empty()
             ? calibrateMachine(file, reporter)
             : calibrateLinks(options.cluster, options.links, file, reporter);
}

} // namespace dpc
