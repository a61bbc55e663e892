//===- main.cpp - dpc-run -------------------------------------------------===//
//
// The exit status is 0 on success and 1 on any error. Errors are one line on
// stderr; if several processes of a job have the same error, only rank 0 prints
// it.
//
//===----------------------------------------------------------------------===//
#include "runtime/comm/TcpComm.h"
#include "runtime/exec/Launch.h"
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

using namespace dpc;
using namespace dpc::rt;

static int printError(const std::string &message) {
  std::fprintf(stderr, "dpc-run: error: %s\n", message.c_str());
  return 1;
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
    status = job.start(commsFor(&job.thePlan()), commsFor(job.evalPlan()));
  if (status.ok())
    status = job.run();
  if (status.ok())
    return job.exitCode();
  printError(status.message());
  return job.exitCodeOfFailure();
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
    printError(own.ok() ? met.message() : own.message());
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

/// Connects this process to the job: over MPI, or, for GPUs without MPI, at
/// MASTER_ADDR and `offset` ports after MASTER_PORT.
static Expected<std::unique_ptr<Communicator>>
makeOwnComm(const RunOptions &options, const std::vector<int> &ranks,
            int offset) {
  CommOptions settings{options.timeoutSeconds, ranks};
  Launch launch = detectLaunch();
  // srun can also start processes that do not use MPI.
  bool byMpi = options.comm == "mpi" ||
               (hasMpi() &&
                (launch.launcher == "mpirun" ||
                 (launch.launcher == "srun" && !std::getenv("MASTER_ADDR"))));
  if (byMpi)
    return makeMpiComm(settings);
  Expected<StoreAddress> address = launch.size == 1
                                       ? StoreAddress{"127.0.0.1", 0, secret()}
                                       : storeAddressFromEnvironment();
  if (!address)
    return Status(address.status().code(),
                  "--comm=nccl: " + address.status().message());
  if (address->port > 0)
    address->port += offset;
  return makeTcpComm(*address, ranks.empty() ? launch.rank : ranks[launch.rank],
                     launch.size, settings);
}

static int runProcesses(const RunOptions &options) {
  auto world = makeOwnComm(options, {}, 0);
  if (!world)
    return printError(world.status().message());
  Communicator &comm = **world;
  Job job(options, /*isDistributed=*/true);
  Status status = job.prepare();
  if (status.ok() && comm.size() != job.thePlan().ranks())
    status = Status::invalid(options.plan + ": the plan is for " +
                             std::to_string(job.thePlan().ranks()) +
                             " ranks, " + std::to_string(comm.size()) +
                             " processes were started; use mpirun -np " +
                             std::to_string(job.thePlan().ranks()));
  if (!agree(comm, status))
    return 1;
  std::vector<std::unique_ptr<Communicator>> comms[2];
  int offset = 1;
  for (const Plan *plan : {&job.thePlan(), job.evalPlan()}) {
    if (!plan)
      continue;
    auto own = makeOwnComm(options, plan->ranksOfProcesses(), offset);
    if (!own)
      return printError(own.status().message());
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
    return job.exitCodeOfFailure();
  }
  if (!status.ok() &&
      (job.hasPrintedFailure() || status.code() == StatusCode::Cancelled))
    return 1;
  return agree(comm, status) ? job.exitCode() : job.exitCodeOfFailure();
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

static std::string wrongComm(const RunOptions &options, const Launch &launch) {
  bool onGpu = options.device == "cuda";
  if (options.comm == "nccl" && !onGpu)
    return "--comm=nccl is for GPUs: add --device=cuda, or use --comm=mpi";
  if (options.comm == "mpi" && onGpu)
    return "--comm=mpi does not reach the memory of GPUs; --comm=nccl does";
  if (options.comm == "local" && launch.size > 1)
    return "--comm=local under " + launch.launcher +
           " would run the whole job " + std::to_string(launch.size) +
           " times; use --comm=" + (onGpu ? "nccl" : "mpi");
  if (options.comm == "mpi" && launch.launcher == "torchrun")
    return "--comm=mpi under torchrun: MPI needs mpirun or srun";
  return "";
}

static int runMain(int argc, char **argv) {
  RunOptions options;
  int exitCode = 0;
  if (!parseOptions(argc, argv, options, exitCode))
    return exitCode;
  Launch launch = detectLaunch();
  if (options.maxRestarts >= 0 && launch.size > 1)
    return launch.rank == 0
               ? printError("--max-restarts under " + launch.launcher +
                            ": start one process, with --launcher=\"" +
                            launch.launcher + " ...\"")
               : 1;
  if (options.maxRestarts >= 0)
    return supervise(options, wordsOfRun(options, argc, argv));
  if (!options.ledgers.empty())
    return dumpLedgers(options, launch.rank == 0);
  if (!options.measureDevice.empty())
    return finish(measureDevice(options));
  if (options.comm.empty())
    options.comm = launch.size == 1           ? "local"
                   : options.device == "cuda" ? "nccl"
                                              : "mpi";
  std::string wrong = wrongComm(options, launch);
  if (!wrong.empty())
    return launch.rank == 0 ? printError(wrong) : 1;
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
