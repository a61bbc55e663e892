//===- PlanJson.h - writing and reading plan.json ---------------*- C++ -*-===//
#ifndef DPC_RUNTIME_PLAN_PLANJSON_H
#define DPC_RUNTIME_PLAN_PLANJSON_H

#include "runtime/plan/Plan.h"

#include <string>

namespace dpc::rt {

/// Returns the text of plan.json: all fields, with one buffer or instruction
/// per line, and a checksum. Equal plans give equal texts.
std::string planToJson(const Plan &plan);

/// Writes DIR/plan.json (DIR must exist).
Status writePlan(const Plan &plan, const std::string &dir);

/// Parses the text of a plan. Errors begin with `file`. Refuses other versions,
/// a wrong checksum, unknown or missing fields, and values of the wrong type.
/// Does not validate the values (see PlanValidate.h).
Expected<Plan> planFromJson(const std::string &text, const std::string &file);

/// Reads and validates DIR/plan.json.
Expected<Plan> readPlan(const std::string &dir);

/// XXH3-64 of a file's bytes or of a text, as 16 hexadecimal digits.
Expected<std::string> hashFile(const std::string &path);
std::string hashText(std::string_view text);

} // namespace dpc::rt

#endif // DPC_RUNTIME_PLAN_PLANJSON_H
