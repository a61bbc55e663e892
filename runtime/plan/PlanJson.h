//===- PlanJson.h - writing and reading plan.json ---------------*- C++ -*-===//
#pragma once

#include "runtime/plan/Plan.h"

#include <string>

namespace dpc::rt {

/// The name of plan.json while a compile replaces it, and after the compile has
/// failed.
inline constexpr const char *kPreviousPlan = "plan.json.previous";

/// Returns plan.json: all fields, one buffer or instruction per line, and a
/// checksum. Equal plans have equal texts.
std::string planToJson(const Plan &plan);

/// Folder `dir` must exist.
Status writePlan(const Plan &plan, const std::string &dir);

/// Parses plan.json. Refuses other versions, a wrong checksum, unknown or
/// missing fields, and values of the wrong type, but does not validate values
/// (PlanValidate.h). Errors begin with `file`.
Expected<Plan> planFromJson(const std::string &text, const std::string &file);

/// Reads and validates DIR/plan.json. After a failed compile, says how to
/// restore the plan before it.
Expected<Plan> readPlan(const std::string &dir);

/// Hashes are XXH3-64, written as 16 hexadecimal digits in lower case.
Expected<std::string> hashFile(const std::string &path);
std::string hashText(std::string_view text);
std::string hashDigits(uint64_t hash);
bool isHash(const std::string &text);

} // namespace dpc::rt
