//===- NamedStrategy.cpp - --strategy=@FILE -------------------------------===//
#include "tools/driver/NamedStrategy.h"

#include "cost-model/machine/Cluster.h"
#include "codegen/export/Import.h"
#include "codegen/export/Legality.h"

#include <fstream>
#include <sstream>

namespace dpc {

/// The batch and the precision: the file's, unless the command line says
/// others. What was taken is added to `taken` as options. Returns "" or a
/// one-line error.
static std::string takeBatch(CompileOptions &options, const std::string &path,
                             const exports::Imported &imported,
                             std::string &taken) {
  if (imported.globalBatch > 0 && options.globalBatch > 0 &&
      imported.globalBatch != options.globalBatch)
    return path + ": a global batch of " +
           std::to_string(imported.globalBatch) +
           ", but --global-batch=" + std::to_string(options.globalBatch) +
           "; leave that out, or change the file";
  if (imported.globalBatch > 0) {
    options.globalBatch = imported.globalBatch;
    taken += " --global-batch=" + std::to_string(imported.globalBatch);
  }
  if (!options.givesPrecision && !imported.precision.empty() &&
      imported.precision != options.precision) {
    options.precision = imported.precision;
    taken += " --precision=" + imported.precision;
  }
  if (imported.usesSgd && options.train.empty() && !options.infer) {
    options.train = "sgd";
    taken += " --train=sgd";
  }
  return "";
}

std::string readNamedStrategy(CompileOptions &options) {
  if (!options.strategy.starts_with("@") || options.cluster.empty())
    return "";
  std::string path = options.strategy.substr(1);
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in)
    return "--strategy=@" + path + ": cannot be read";
  Expected<cost::Cluster> cluster =
      cost::loadCluster(options.cluster, options.device);
  if (!cluster)
    return cluster.message();
  auto imported = exports::readStrategy(text.str(), cluster->numDevices());
  if (!imported)
    return path + ": " + imported.message();
  options.strategyFile = path;
  options.statedSizes = imported->sizes;
  std::string taken;
  if (std::string error = takeBatch(options, path, *imported, taken);
      !error.empty())
    return error;
  options.strategy =
      cost::stringifyStrategy(imported->strategy, cluster->numDevices());
  std::string note = path + ": read as --strategy=" + options.strategy + taken;
  options.readAs = note;
  if (size_t ignored = imported->ignored.size())
    options.readAs +=
        "; " + std::to_string(ignored) + " other settings ignored";
  for (size_t i = 0; i < imported->ignored.size(); ++i)
    note += (i == 0 ? "; ignored: " : ", ") + imported->ignored[i];
  options.notes.push_back(note);
  return "";
}

} // namespace dpc
