//===- DataFolder.h - JSON files with names ---------------------*- C++ -*-===//
#ifndef DPC_COST_MODEL_MACHINE_DATAFOLDER_H
#define DPC_COST_MODEL_MACHINE_DATAFOLDER_H

#include "runtime/base/Status.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace dpc::cost {

/// A folder with files NAME.json of devices or software.
struct DataFolder {
  const char *kind;     ///< "device" or "software", for messages.
  const char *variable; ///< Environment variable with another folder.
  /// The folder that this library was built with. An installed program uses the
  /// folder of the same name in ../share/dpc.
  const char *builtIn;
  const char *always = ""; ///< A name without a file; empty = none.

  /// The names of the files and `always`, sorted.
  std::vector<std::string> names() const;
  /// The path and the content of NAME.json; not for `always`. Fails with the
  /// list of names on a name without a file, so that no name leaves the folder.
  Expected<std::pair<std::string, nlohmann::json>>
  read(const std::string &name) const;

private:
  std::string path() const;
};

} // namespace dpc::cost

#endif // DPC_COST_MODEL_MACHINE_DATAFOLDER_H
