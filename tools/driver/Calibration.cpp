//===- Calibration.cpp - Measures this machine ----------------------------===//
#include "tools/driver/Calibration.h"

#include "codegen/Codegen.h"
#include "cost-model/calibrate/Calibrate.h"
#include "cost-model/calibrate/CalibrateGpu.h"
#include "cost-model/calibrate/LinkMeasurements.h"
#include "ir/Dialect.h"
#include "runtime/base/ReadFile.h"
#include "runtime/comm/MeasureCollectives.h"
#include "runtime/exec/Device.h"
#include "runtime/exec/MeasureDevice.h"
#include "runtime/kernels/KernelLibrary.h"
#include "runtime/kernels/Matmul.h"
#include "tools/driver/OutputFolder.h"

#include "mlir/Parser/Parser.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
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
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

using namespace mlir;

namespace dpc {

namespace {

/// Runs gelu and its gradient, two kernels that are bound by arithmetic. Each
/// copy of this object has its own arrays, which stay in the caches of its
/// core.
class ElementwiseProbe {
public:
  static std::optional<ElementwiseProbe> compile(std::string &error);

  /// Runs both kernels once.
  void run();
  double operations() const { return flops; }

private:
  rt::KernelLibrary loaded;
  std::vector<rt::KernelFunction> kernels;
  std::vector<float> x, y;
  double flops = 0;
};

} // namespace

/// 64 KiB per array
static constexpr int64_t kElements = 16384;

static std::string textOfStep() {
  std::string type = "tensor<" + std::to_string(kElements) + "xf32>";
  std::string text = "func.func @step(%x: " + type +
                     " {dpc.role = \"input\", dpc.name = \"x\"}) -> (" + type +
                     " {dpc.name = \"y\"}, " + type + " {dpc.name = \"dy\"}) {";
  for (const char *kind : {"gelu", "gelu_grad"})
    text += std::string("\n%") + kind + " = dpc.unary " + kind +
            " %x : " + type + " -> " + type;
  return text + "\nreturn %gelu, %gelu_grad : " + type + ", " + type + "\n}";
}

static FailureOr<rt::Plan> compileStep(MLIRContext &context,
                                       const std::string &folder) {
  context.loadDialect<DpcDialect, func::FuncDialect>();
  auto module = parseSourceString<ModuleOp>(textOfStep(), &context);
  if (!module)
    return failure();
  codegen::CodegenOptions options;
  options.model = "calibration";
  auto draft =
      codegen::buildPlan({module->lookupSymbol<func::FuncOp>("step")}, options);
  if (failed(draft) || failed(codegen::writeKernels(*draft, folder)))
    return failure();
  return std::move(draft->plan);
}

std::optional<ElementwiseProbe> ElementwiseProbe::compile(std::string &error) {
  llvm::SmallString<128> folder;
  if (llvm::sys::fs::createUniqueDirectory("dpc-calibrate", folder)) {
    error = "a folder for kernels cannot be made";
    return std::nullopt;
  }
  llvm::scope_exit remove([&] {
    std::error_code ignored;
    std::filesystem::remove_all(folder.str().str(), ignored);
  });
  MLIRContext context;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    error = diagnostic.str();
    return success();
  });
  auto plan = compileStep(context, folder.str().str());
  if (failed(plan))
    return std::nullopt;
  auto library = rt::KernelLibrary::load(*plan, folder.str().str());
  if (!library) {
    error = library.status().message();
    return std::nullopt;
  }
  ElementwiseProbe probe;
  probe.loaded = *library;
  probe.x.assign(kElements, 0.5f);
  probe.y.resize(kElements);
  for (const auto &[phase, instructions] : plan->phases)
    for (const rt::Instruction &instruction : instructions)
      if (auto *call = std::get_if<rt::KernelOp>(&instruction.op)) {
        if (call->buffers.size() != 2 || !call->scalars.empty()) {
          error = "the probe's kernel takes other arguments than x and y";
          return std::nullopt;
        }
        probe.kernels.push_back(library->find(call->symbol));
        probe.flops += instruction.flops;
      }
  return probe;
}

void ElementwiseProbe::run() {
  void *buffers[] = {x.data(), y.data()};
  for (rt::KernelFunction kernel : kernels)
    kernel(buffers, nullptr);
}

namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

int numCores() {
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

/// Returns the time of the shortest run, because noise only adds time.
template <typename F> double bestSeconds(F run) {
  constexpr int repetitions = 7;
  double best = 1e30;
  run(); // loads pages, picks kernels
  for (int i = 0; i < repetitions; ++i) {
    Clock::time_point start = Clock::now();
    run();
    best = std::min(best, secondsSince(start));
  }
  return best;
}

double threadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * now.tv_nsec;
}

/// Measures the share of the cores' time that this process got.
struct Presence {
  double ran = 0, passed = 0; ///< summed over cores
  double share() const { return passed > 0 ? ran / passed : 1; }
};

/// Runs `work(core)` on several cores at once, in rounds. Returns the CPU time
/// of the slowest core, as the median over the rounds. Adds the times to
/// `presence`.
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
      work(core); // loads pages, picks kernels
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

struct GemmArrays {
  explicit GemmArrays(const cost::GemmShape &shape)
      : a(shape.m * shape.k, 1.0f), b(shape.k * shape.n, 1.0f),
        c(shape.m * shape.n) {}
  std::vector<float> a, b, c;
};

rt::MatmulOp gemmOf(const cost::GemmShape &shape) {
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

/// Returns enough repeats to make the time of clock and barrier negligible.
int repeatsOf(const cost::GemmShape &shape) {
  constexpr double kFlopsOfRound = 2e7;
  return std::max(1, static_cast<int>(kFlopsOfRound / shape.flops()));
}

/// GEMMs run in sequence, so operands are not in the caches, as in a plan.
class GemmCopies {
public:
  GemmCopies(const cost::GemmShape &shape, int repeats)
      : op(gemmOf(shape)), each(countFor(shape, repeats), GemmArrays(shape)) {}

  bool multiply(int repeats = 1) {
    for (int i = 0; i < repeats; ++i) {
      GemmArrays &p = each[next++ % each.size()];
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
  std::vector<GemmArrays> each;
  size_t next = 0;
};

double gemmSeconds(Presence &presence, const cost::GemmShape &shape) {
  int repeats = repeatsOf(shape);
  std::vector<GemmCopies> copies(numCores(), GemmCopies(shape, repeats));
  std::atomic<bool> ok = true;
  double seconds = secondsOnCores(
      numCores(), presence,
      [&](int core) {
        if (!copies[core].multiply(repeats))
          ok = false;
      },
      shape.flops() > 1e9 ? 3 : 5);
  return ok ? seconds / repeats : -1;
}

void wait(double seconds) {
  for (Clock::time_point start = Clock::now(); secondsSince(start) < seconds;)
    ;
}

/// Returns the median time of one GEMM on all cores. Measures wall-clock time,
/// because waiting threads also use CPU time. The threads are asleep before
/// each GEMM, as in a plan after another kernel.
double sharedGemmSeconds(const cost::GemmShape &shape) {
  constexpr double kUntilAsleep = 1e-3; // limitSpinning
  int rounds = shape.flops() > 1e9 ? 3 : 9;
  GemmCopies copies(shape, rounds);
  bool ok = true;
  std::vector<double> seconds;
  rt::setMatmulThreads(numCores());
  for (int round = 0; round <= rounds; ++round) {
    wait(kUntilAsleep);
    Clock::time_point start = Clock::now();
    ok &= copies.multiply();
    if (round > 0) // The first round loads pages and picks kernels.
      seconds.push_back(secondsSince(start));
  }
  std::nth_element(seconds.begin(), seconds.begin() + rounds / 2,
                   seconds.end());
  return ok ? seconds[rounds / 2] : -1;
}

double streamSeconds(int cores, Presence &presence, double bytes) {
  auto part = static_cast<size_t>(bytes / 2 / cores);
  std::vector<std::vector<char>> from(cores, std::vector<char>(part, 1));
  std::vector<std::vector<char>> to = from;
  return secondsOnCores(
      cores, presence,
      [&](int core) { std::memcpy(to[core].data(), from[core].data(), part); },
      7);
}

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
                     ": lacks the rate of elementwise kernels: " + missing);
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
        "{0}: other processes used {1:f0} % of the cores during the "
        "measurement; its memory and links are slower than on a quiet machine",
        file, 100 * (1 - presence.share())));
  if (auto table = cost::describeCalibration(*text))
    reporter.output() << *table;
  return writeText(file, *text);
}

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

/// Writes a device file for the GPU of this machine (`device` is "cuda"), or
/// for the GPU that the file `device` describes.
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
