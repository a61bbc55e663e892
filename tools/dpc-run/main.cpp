//===- main.cpp - dpc-run -------------------------------------------------===//
//
// The exit status is 0 on success and 1 on any error. Errors are one line on
// stderr; if several processes of a job have the same error, only rank 0 prints
// it. A process that cannot tell the others prints its error with its rank.
//
//===----------------------------------------------------------------------===//
#include "runtime/comm/TcpComm.h"
#include "runtime/exec/ChooseComm.h"
#include "runtime/job/Job.h"
#include "runtime/job/Measure.h"
#include "runtime/job/Supervisor.h"
#include "runtime/plan/Ledger.h"
#include "runtime/plan/PlanJson.h"
#include "tools/cli/Spinning.h"
#include "tools/dpc-run/Options.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <random>
#include <thread>
#include <unistd.h>

using namespace dpc;
using namespace dpc::rt;

static int printError(const std::string &message) {
  std::fprintf(stderr, "dpc-run: error: %s\n", message.c_str());
  return 1;
}

/// Prints the error of this process, which the other processes do not know.
static int printOwnError(const Launch &launch, const std::string &message) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return printError(errorOfProcess(launch, host, message));
}

static int runLocal(const RunOptions &options) {
  Job job(options, /*isDistributed=*/false);
  Status status = job.prepare();
  auto commsFor = [&](const Plan *plan) {
    return plan ? makeLocalComms(static_cast<int>(plan->ranks()),
                                 {options.timeoutSeconds})
                : std::vector<std::unique_ptr<Communicator>>();
  };
  if (status.ok())
    status = job.checkFiles();
  if (status.ok())
    status = job.start(commsFor(&job.thePlan()), commsFor(job.evalPlan()));
  if (status.ok())
    status = job.run();
  if (!status.ok())
    printError(status.message());
  return job.exitCode(!status.ok());
}

/// Returns whether all processes have succeeded so far. If not, rank 0 prints
/// each different error once. If the processes cannot communicate, each process
/// prints its own error.
static bool agree(Communicator &comm, const Status &own) {
  constexpr size_t length = 1024;
  std::vector<char> mine(length, 0), all(length * comm.size(), 0);
  std::strncpy(mine.data(), own.message().c_str(), length - 1);
  Status met = comm.allGather(kWorldGroup, mine.data(), all.data(), length);
  if (!met.ok()) {
    printOwnError(detectLaunch(), own.ok() ? met.message() : own.message());
    comm.abort();
    return false;
  }
  std::vector<std::string> printed;
  bool ok = true;
  for (int rank = 0; rank < comm.size(); ++rank) {
    std::string text(all.data() + rank * length);
    if (text.empty())
      continue;
    ok = false;
    if (std::find(printed.begin(), printed.end(), text) != printed.end())
      continue;
    printed.push_back(text);
    if (comm.rank() == 0)
      printError((rank == 0 ? "" : "rank " + std::to_string(rank) + ": ") +
                 text);
  }
  return ok;
}

static std::string secret() {
  std::random_device device;
  std::string text;
  for (int i = 0; i < 4; ++i)
    text += std::to_string(device()) + "-";
  return text;
}

/// Connects this process to the job: over MPI, or over TCP at MASTER_ADDR,
/// `offset` ports after MASTER_PORT.
static Expected<std::unique_ptr<Communicator>>
makeOwnComm(const RunOptions &options, const std::vector<int> &ranks,
            int offset) {
  CommOptions settings{options.timeoutSeconds, ranks};
  Launch launch = detectLaunch();
  // srun can also start processes that do not use MPI.
  bool byMpi = options.comm == "mpi" ||
               (options.comm == "nccl" && hasMpi() &&
                (launch.launcher == "mpirun" ||
                 (launch.launcher == "srun" && !std::getenv("MASTER_ADDR"))));
  if (byMpi)
    return makeMpiComm(settings);
  Expected<StoreAddress> address = launch.size == 1
                                       ? StoreAddress{"127.0.0.1", 0, secret()}
                                       : storeAddressFromEnvironment();
  if (!address)
    return Status(address.status().code(),
                  "--comm=" + options.comm + ": " + address.status().message());
  if (address->port > 0)
    address->port += offset;
  return makeTcpComm(*address, ranks.empty() ? launch.rank : ranks[launch.rank],
                     launch.size, settings);
}

static int runProcesses(const RunOptions &options) {
  Launch launch = detectLaunch();
  auto world = makeOwnComm(options, {}, 0);
  // A variable may be missing on one machine only, so one process of each
  // prints. Its value may be wrong in one process only.
  if (!world)
    return world.status().code() != StatusCode::Invalid || launch.localRank == 0
               ? printOwnError(launch, world.status().message())
               : 1;
  Communicator &comm = **world;
  Job job(options, /*isDistributed=*/true);
  Status status = job.prepare();
  int ranks = static_cast<int>(job.thePlan().ranks());
  std::string wrong =
      status.ok() ? wrongCount(options.comm, launch, comm.size(), ranks) : "";
  if (!wrong.empty())
    status = Status::invalid(options.plan + ": " + wrong);
  if (!wrong.empty() && comm.size() == 1 && launch.rank != 0)
    return 1; // rank 0 has the same error
  if (!agree(comm, status))
    return 1;
  if (comm.size() > 1 && !agree(comm, job.compareRanks(comm)))
    return 1;
  if (!agree(comm, job.checkFiles()))
    return 1;
  std::string speed = speedOf(options.comm, hasMpi(), ranks);
  if (!speed.empty() && comm.size() > 1 && comm.rank() == 0)
    std::printf("%s\n", speed.c_str());
  std::vector<std::unique_ptr<Communicator>> comms[2];
  int offset = 1;
  for (const Plan *plan : {&job.thePlan(), job.evalPlan()}) {
    if (!plan)
      continue;
    auto own = makeOwnComm(options, plan->ranksOfProcesses(), offset);
    if (!own)
      return printOwnError(launch, own.status().message());
    comms[offset++ - 1].push_back(std::move(*own));
  }
  status = job.start(std::move(comms[0]), std::move(comms[1]));
  if (!status.ok() && job.hasPrintedFailure())
    return 1;
  if (!agree(comm, status))
    return 1;
  // If a step failed, its rank has printed the error and ended the job.
  status = job.run();
  if (job.areAgreed()) { // the failed process prints the message
    agree(comm, status.code() == StatusCode::Cancelled ? Status() : status);
    return job.exitCode(/*hasFailed=*/true);
  }
  if (!status.ok() &&
      (job.hasPrintedFailure() || status.code() == StatusCode::Cancelled))
    return 1;
  return job.exitCode(!agree(comm, status));
}

static int dumpLedgers(const RunOptions &options, bool speaks) {
  if (!speaks)
    return 0;
  Expected<Plan> plan = readPlan(options.plan);
  Status status = plan ? writeLedgers(*plan, options.ledgers) : plan.status();
  if (!status.ok())
    return printError(status.message());
  std::printf("wrote %s/rank-N.txt of %lld ranks\n", options.ledgers.c_str(),
              static_cast<long long>(plan->ranks()));
  return 0;
}

static int finish(const Status &status) {
  return status.ok() ? 0 : printError(status.message());
}

/// Sets options.comm. Returns "" or an error.
static std::string resolveComm(RunOptions &options, const Launch &launch) {
  CommChoice choice =
      chooseComm({options.comm, options.device == "cuda", launch, hasMpi(),
                  std::getenv("MASTER_ADDR") != nullptr});
  options.comm = choice.comm;
  if (choice.error.empty() && choice.comm == "tcp" &&
      !options.measureLinks.empty())
    return "--measure-links: all data of --comm=tcp passes through rank 0, so "
           "no link can be measured; start dpc-run with mpirun, or alone for "
           "threads of one process";
  return choice.error;
}

static int runMain(int argc, char **argv) {
  RunOptions options;
  int exitCode = 0;
  if (!parseOptions(argc, argv, options, exitCode))
    return exitCode;
  Launch launch = detectLaunch();
  if (!launch.error.empty())
    return printOwnError(launch, launch.error);
  if (options.maxRestarts >= 0 && launch.size > 1)
    return launch.rank == 0
               ? printError("--max-restarts under " + launch.launcher +
                            ": start one process, with --launcher=\"" +
                            startWords(launch, launch.size) + "\"")
               : 1;
  if (options.maxRestarts >= 0)
    return supervise(options, wordsOfRun(options, argc, argv));
  if (!options.ledgers.empty())
    return dumpLedgers(options, launch.rank == 0);
  if (!options.measureDevice.empty())
    return finish(measureDevice(options));
  std::string wrong = resolveComm(options, launch);
  if (!wrong.empty())
    return launch.localRank == 0 ? printOwnError(launch, wrong) : 1;
  if (options.threads == 0 && launch.size > 1)
    options.threads =
        std::max(1, static_cast<int>(std::thread::hardware_concurrency()) /
                        launch.localSize);
  if (!options.measureLinks.empty())
    return finish(measureLinks(options));
  return options.comm == "local" ? runLocal(options) : runProcesses(options);
}

int main(int argc, char **argv) {
  limitSpinning(argv);
  try {
    return runMain(argc, argv);
  } catch (const std::exception &exception) { // most likely out of memory
    return printError(exception.what());
  }
}
