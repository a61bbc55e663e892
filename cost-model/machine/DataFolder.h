//===- DataFolder.h - JSON files that are known by name ---------*- C++ -*-===//
#ifndef DPC_COST_MODEL_MACHINE_DATAFOLDER_H
#define DPC_COST_MODEL_MACHINE_DATAFOLDER_H

#include "runtime/base/Status.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace dpc::cost {

/// A folder of NAME.json, of devices or software.
struct DataFolder {
  const char *kind;     ///< Of what, for messages.
  const char *variable; ///< Of the environment; names another folder if set.
  /// The folder this library was built with; where the program is installed,
  /// one of that name in ../share/dpc.
  const char *builtIn;
  const char *always = ""; ///< A name that needs no file, if not empty.

  /// Names of the files, and `always`, sorted.
  std::vector<std::string> names() const;
  /// The path of NAME.json and what it holds; not of `always`. A name that is
  /// not there is refused with those that are, so that it never leaves the
  /// folder.
  Expected<std::pair<std::string, nlohmann::json>>
  read(const std::string &name) const;

private:
  std::string path() const;
};

} // namespace dpc::cost

#endif // DPC_COST_MODEL_MACHINE_DATAFOLDER_H
