//===- StrategyReader.h - Base of the configuration readers -----*- C++ -*-===//
#pragma once

#include "codegen/export/FileSettings.h"
#include "codegen/export/Import.h"

#include <optional>
#include <set>

namespace dpc::exports {

/// Base of the readers. Keeps only the first error. A setting that no reader
/// asks for has no effect on the strategy.
class StrategyReader {
public:
  StrategyReader(const FileSettings &file, const AskedStrategy &asked)
      : file(file), asked(asked), devices(asked.devices) {}

protected:
  /// Returns the value, or null if the setting is missing, null or "auto".
  const nlohmann::json *find(const std::string &key);
  bool has(const std::string &key) { return find(key) != nullptr; }
  /// Returns whether the setting is true. Fails if it is not a boolean.
  bool isTrue(const std::string &key, bool missing = false);
  /// Returns the text of the value, or `missing`.
  std::string word(const std::string &key, const std::string &missing = "");
  /// The value if it is an integer of at least `least`, else nullopt.
  std::optional<int64_t> findNumber(const std::string &key, int64_t least = 1);
  /// Fails unless the value is a whole number from `least` to kMost.
  int64_t number(const std::string &key, int64_t missing, int64_t least = 1);
  /// The settings in this section have no effect that would be listed.
  void useSection(const std::string &key);

  /// Fails with "line N: KEY=VALUE WHY".
  void fail(const std::string &key, const std::string &why);
  void fail(const std::string &why);
  /// As fail(), unless the user states the key of --strategy after the file.
  void refuse(const std::string &key, const std::string &strategyKey,
              const std::string &why);
  bool isAsked(const std::string &strategyKey) const {
    return asked.keys.count(strategyKey) > 0;
  }

  /// Sets the degrees, unless the user states other ones, and chooses dp so
  /// that the strategy uses all devices.
  void setDegrees(int64_t tp, int64_t pp, int64_t cp);
  /// Takes the number of devices from the file, if the user does not state it.
  void setDevices(const std::string &key, int64_t ranks);
  /// Takes the number of devices from the flags of torchrun.
  void readTorchrun();
  /// Fails if dpc shards each expert over another number of ranks than the
  /// file, which says it in the setting `key`.
  void checkExpertTensor(const std::string &key, int64_t ranks);
  /// Takes the size of the batch: the micro-batch, or else the number of
  /// micro-batches of a step.
  void setBatch(int64_t global, int64_t micro, int64_t steps);

  Expected<Imported> finish();

  const FileSettings &file;
  const AskedStrategy &asked;
  int64_t devices;
  Imported result;
  std::string error;

private:
  /// The product of three accepted numbers does not overflow.
  static constexpr int64_t kMost = 1 << 20;

  std::set<std::string> used;

  void listOthers();
};

/// One kind of file.
struct ReaderOf {
  const char *name; ///< "a DeepSpeed configuration".
  bool (*recognizes)(const FileSettings &file);
  Expected<Imported> (*read)(const FileSettings &file,
                             const AskedStrategy &asked);
};

extern const ReaderOf accelerateReader, calculonReader, colossalAiReader,
    deepSpeedReader, galvatronReader, maxTextReader, megatronReader,
    openSoraReader, torchtitanReader;

} // namespace dpc::exports
