//===- ExportJobs.h - jobs and their files ----------------------*- C++ -*-===//
#pragma once

#include "codegen/export/Targets.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace dpc::exports::test {

/// Returns a job for a GPT with 24 layers on `ranks` devices, 8 per node.
inline Job jobOf(const std::string &strategy, int64_t ranks,
                 int64_t batch = 64) {
  Job job;
  auto request = cost::parseStrategy(strategy, ranks);
  EXPECT_TRUE(request) << strategy;
  cost::StrategySpace space;
  space.ranks = ranks;
  space.globalBatch = batch;
  job.strategy = cost::enumerateStrategies(*request, space).at(0);
  job.devicesPerNode = 8;
  job.globalBatch = batch;
  job.precision = "bf16";
  job.optimizer = {"adamw", 1e-3, 0.9, 0.95, 1e-8, 0.1, 0, 1.0};
  job.model = {24, 2048, 1024, 16, 4, 64, 4096, 50257};
  job.model.kind = ModelKind::decoder;
  job.levels = {{"tp", 0}, {"dp", 1}, {"pp", 1}};
  return job;
}

/// A model of 8 layers with RMS norms, rotary positions and SwiGLU.
inline ModelShape smallLlama() {
  ModelShape model = {8, 1024, 1024, 16, 4, 64, 2816, 32000};
  model.hasRmsNorm = model.hasRope = model.hasSwiglu = true;
  model.kind = ModelKind::decoder;
  model.activation = "silu";
  model.normEps = 1e-5;
  model.ropeBase = 10000;
  model.hasExperts.assign(8, false);
  model.parameters = 155730944;
  return model;
}

/// The same model with 4 experts in each layer.
inline ModelShape smallMixture() {
  ModelShape model = smallLlama();
  model.hasExperts.assign(8, true);
  model.experts = 4;
  model.expertsPerToken = 2;
  model.expertWidth = 2816;
  model.sharesSumToOne = true;
  model.parameters += 8 * (3 * 3 * 1024 * 2816 + 4 * 1024);
  return model;
}

/// Gives the job a model that the target builds.
inline Job withModelFor(std::string_view target, Job job) {
  if (target == "maxtext")
    job.model = smallMixture();
  return job;
}

inline const Target &target(const char *name) {
  const Target *found = findTarget(name);
  EXPECT_NE(found, nullptr) << name;
  return *found;
}

inline Legality legalityOf(const char *name, const Job &job) {
  return checkLegality(job, target(name).rules());
}

/// The text of `file`.
inline std::string textOf(const Exported &exported, const std::string &file) {
  for (const ExportedFile &written : exported.files)
    if (written.name == file)
      return written.text;
  ADD_FAILURE() << "no file " << file;
  return "";
}

inline nlohmann::json jsonOf(const char *name, const Job &job,
                             const char *file) {
  EXPECT_EQ(legalityOf(name, job).rule, "");
  return nlohmann::json::parse(textOf(target(name).write(job), file));
}

} // namespace dpc::exports::test
