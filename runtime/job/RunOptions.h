//===- RunOptions.h - the options of a run ----------------------*- C++ -*-===//
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dpc {

struct RunOptions {
  std::string plan;
  std::string batches, data, inputs, outputs;
  /// 0: `epochs` of --data, or 10 without data. With both, the smaller number.
  int64_t steps = 0;
  int64_t epochs = 0;              ///< 0: not given
  std::optional<uint64_t> shuffle; ///< seed
  std::string lastBatch = "wrap";
  std::string ignoredLabel; ///< "NAME=VALUE" for --last-batch=mask; "": default
  bool newData = false;
  std::string evalPlan, evalData; ///< "" without evaluation
  int64_t evalEvery = 0;          ///< every N steps; 0: only at the end
  std::string comm;               ///< "": mpi under a launcher, otherwise local
  std::string device = "cpu";
  bool tf32 = false;
  std::string gemmCache; ///< folder, "off", or "": the user's cache folder
  std::vector<std::string> metrics; ///< see MetricsPlace
  std::string saveParams, trace, init;
  bool initPartial = false;         ///< see WeightMatch::check()
  std::string exportDir;            ///< "": none
  std::string maxShardSize = "5GB"; ///< of a file in exportDir
  std::string checkpoint;           ///< folder, "" without checkpoints
  int64_t checkpointEvery = 0;      ///< every N steps; 0: only at the end
  int64_t checkpointKeep = 2;
  bool checkpointSync = false;
  /// The folder of a checkpoint; "" for the newest checkpoint in `checkpoint`.
  std::optional<std::string> resume;
  int64_t maxRestarts = -1; ///< -1: not supervised
  double hangSeconds = 600;
  std::string launcher; ///< the words to put before the command, or ""
  std::string elastic;  ///< "MIN:MAX" ranks; "": as many ranks as in the plan
  double elasticWait = 300; ///< seconds until lost ranks are tried again
  std::string ranksFile;    ///< file with the number of ranks; "": none
  double timeoutSeconds = 300;
  int threads = 0;
  bool poison = false;
  std::string onNan = "stop";
  bool checkNumbers = false;
  int64_t checkReplicas = 0; ///< every N steps; 0: never
  double slowRank = 0;       ///< see slowRanks(); 0: no alarms
  double spike = 0;          ///< see SpikeAlarm; 0: no alarms
  bool noOverlap = false;
  bool profile = false;
  std::string offloadDir;    ///< "": the plan's folder
  std::string flightRecord;  ///< folder; "": only for supervised runs
  std::string ledgers;       ///< folder for --dump-ledger, "" without it
  std::string measureLinks;  ///< file for --measure-links, "" without it
  std::string measureDevice; ///< file for --measure-device, "" without it
  int ranks = 0;             ///< for --measure-links on this machine

  /// Whether the inputs are not random numbers.
  bool hasData() const {
    return !data.empty() || !batches.empty() || !inputs.empty();
  }
  bool traces() const { return !trace.empty() || profile; }
};

} // namespace dpc
