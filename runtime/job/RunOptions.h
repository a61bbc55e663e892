//===- RunOptions.h - What a run is asked for -------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_JOB_RUNOPTIONS_H
#define DPC_RUNTIME_JOB_RUNOPTIONS_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dpc {

/// The fields have the names of dpc-run's options.
struct RunOptions {
  std::string plan;
  std::string batches, data, inputs, outputs;
  int64_t steps = 0;               ///< 0: `epochs`, else all batches, else 10
  int64_t epochs = 0;              ///< of --data; 0: not given
  std::optional<uint64_t> shuffle; ///< seed
  std::string lastBatch = "wrap";
  std::string ignoredLabel; ///< "NAME=VALUE" of --last-batch=mask; "": usual
  bool newData = false;
  std::string evalPlan, evalData; ///< "" without evaluation
  int64_t evalEvery = 0;          ///< steps; 0: at the end alone
  std::string comm;               ///< "": mpi under a launcher, else local
  std::string device = "cpu";
  bool tf32 = false;
  std::string gemmCache; ///< folder, "off", "": the user's cache folder
  std::vector<std::string> metrics; ///< each a MetricsPlace
  std::string saveParams, trace, init;
  std::string exportDir;            ///< "": none
  std::string maxShardSize = "5GB"; ///< of a file in exportDir
  std::string checkpoint;           ///< folder, "" without checkpoints
  int64_t checkpointEvery = 0;      ///< steps; 0: at the end alone
  int64_t checkpointKeep = 2;
  bool checkpointSync = false;
  /// --resume: a checkpoint's folder; "": the newest in `checkpoint`.
  std::optional<std::string> resume;
  int64_t maxRestarts = -1; ///< -1: not supervised
  double hangSeconds = 600;
  std::string launcher;     ///< words before the command, "" for none
  std::string elastic;      ///< "MIN:MAX" ranks, "" for those of the plan
  double elasticWait = 300; ///< seconds until a lost rank is tried again
  std::string ranksFile;    ///< says how many ranks there are, "" without it
  double timeoutSeconds = 300;
  int threads = 0;
  bool poison = false;
  std::string onNan = "stop";
  bool checkNumbers = false;
  int64_t checkReplicas = 0; ///< steps between checks; 0: none
  double slowRank = 0;       ///< factor of alarms; 0: none
  double spike = 0;          ///< factor of alarms; 0: none
  bool noOverlap = false;
  bool profile = false;
  std::string offloadDir;    ///< "": the plan's folder
  std::string flightRecord;  ///< folder, "": only where it is supervised
  std::string ledgers;       ///< folder for --dump-ledger, "" without it
  std::string measureLinks;  ///< file for --measure-links, "" without it
  std::string measureDevice; ///< file for --measure-device, "" without it
  int ranks = 0;             ///< of --measure-links on this machine
};

} // namespace dpc

#endif // DPC_RUNTIME_JOB_RUNOPTIONS_H
