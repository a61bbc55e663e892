//===- Megatron.h - Parts of the export for Megatron-LM ---------*- C++ -*-===//
#pragma once

#include "codegen/export/Targets.h"

#include <sstream>

namespace dpc::exports {

/// Flags of a command, one a line.
class Command {
public:
  void add(const std::string &flag) { text << " \\\n  --" << flag; }
  template <typename T> void add(const std::string &flag, const T &value) {
    text << " \\\n  --" << flag << " " << value;
  }
  void addSize(const std::string &flag, int64_t size) {
    if (size > 0)
      add(flag, size);
  }
  std::string str() const { return text.str(); }

private:
  std::ostringstream text;
};

/// The rules for strategies and for the kind of model.
Rules megatronPlanRules();

/// The rules for models: flags can describe every term of the model.
Rules megatronModelRules();

/// Adds the flags that define the model.
void addMegatronModel(Command &command, const Job &job);
std::vector<std::string> megatronModelRemarks(const Job &job);

} // namespace dpc::exports
