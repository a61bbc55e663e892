#include "runtime/io/InitialValues.h"

#include "runtime/base/Random.h"
#include "runtime/io/SourceFiles.h"
#include "runtime/io/WeightMatch.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace dpc::rt {

/// The standard deviation of weights in GPT-2.
static constexpr double kDeviation = 0.02;

static std::string nameWithRole(const Tensor &tensor) {
  return std::string(nameOf(tensor.role)) + " '" + tensor.name + "'";
}

/// Copies a shard from a dense global array of element type `type`.
static void packConverted(const void *global, DType type, const Tensor &tensor,
                          const Mesh &mesh, int rank, void *local) {
  if (type == tensor.dtype)
    return packShard(global, local, sizeOf(type), tensor.layout, mesh, rank, 0);
  // packShard() does not write padding. Converting the shard to `type` and back
  // preserves the padding.
  int64_t count = numElements(localShape(tensor.layout, mesh));
  std::vector<std::byte> narrow(count * sizeOf(type));
  convertElements(local, tensor.dtype, narrow.data(), type, count);
  packShard(global, narrow.data(), sizeOf(type), tensor.layout, mesh, rank, 0);
  convertElements(narrow.data(), type, local, tensor.dtype, count);
}

Expected<InitChoice> InitChoice::parse(const std::string &text) {
  InitChoice choice;
  if (text == "zeros") {
    choice.kind = Kind::Zeros;
    return choice;
  }
  if (text == "random" || text.rfind("random:", 0) == 0) {
    choice.kind = Kind::Random;
    std::string seed = text.size() > 7 ? text.substr(7) : "0";
    if (text == "random:" || seed.size() > 18 ||
        seed.find_first_not_of("0123456789") != std::string::npos)
      return Status::invalid("--init=", text,
                             ": expected random:SEED with a whole number");
    choice.seed = std::stoull(seed);
    return choice;
  }
  if (!namesWeightFiles(text))
    return Status::invalid("--init=", text,
                           ": expected random:SEED, zeros, a .safetensors "
                           "file, or a folder of such files with an index");
  choice.kind = Kind::File;
  DPC_ASSIGN(choice.file, WeightFiles::open(text).in("--init"));
  return choice;
}

InitialValues::InitialValues(const Plan &plan, std::string planDir,
                             InitChoice choice,
                             std::map<std::string, HostTensor> given)
    : planDir(std::move(planDir)), choice(std::move(choice)),
      given(std::move(given)), recorded(plan.sourceFiles) {}

Status InitialValues::fill(const Tensor &tensor, const Mesh &mesh, int rank,
                           void *local) const {
  if (auto it = given.find(tensor.name); it != given.end()) {
    const HostTensor &value = it->second;
    if (value.shape != tensor.globalShape)
      return Status::invalid(nameWithRole(tensor), ": given ",
                             describe(value.dtype, value.shape), ", expected ",
                             describe(tensor.dtype, tensor.globalShape));
    packConverted(value.data.data(), value.dtype, tensor, mesh, rank, local);
    return Status::success();
  }
  if (choice.kind == InitChoice::Kind::File)
    if (const WeightFiles::Weight *weight = findWeight(*choice.file, tensor))
      return fillFromFile(*weight, tensor, mesh, rank, local);
  if (tensor.source)
    return fillFromSource(tensor, mesh, rank, local);
  return fillFromChoice(tensor, mesh, rank, local);
}

Expected<InitialValues::Source>
InitialValues::openSource(const std::string &file) const {
  std::lock_guard lock(mutex);
  if (auto it = sources.find(file); it != sources.end())
    return it->second;
  auto entry =
      std::find_if(recorded.begin(), recorded.end(),
                   [&](const SourceFile &other) { return other.file == file; });
  assert(entry != recorded.end() && "validatePlan() passed");
  DPC_ASSIGN(MappedFile opened, MappedFile::open(sourcePath(planDir, file)));
  Source source{opened, checkSourceFile(*entry, opened, planDir)};
  sources.emplace(file, source);
  return source;
}

Status InitialValues::fillFromSource(const Tensor &tensor, const Mesh &mesh,
                                     int rank, void *local) const {
  const TensorSource &source = *tensor.source;
  Expected<Source> opened = openSource(source.file);
  bool isFilled = choice.kind == InitChoice::Kind::Random ||
                  choice.kind == InitChoice::Kind::Zeros;
  if (!opened && isFilled)
    return fillFromChoice(tensor, mesh, rank, local);
  if (!opened)
    return Status(opened.status().code(),
                  nameWithRole(tensor) + ": " + opened.status().message() +
                      "; put the model's data there or start with "
                      "--init=random:SEED, zeros or FILE.safetensors");
  DPC_TRY(opened->check);
  const MappedFile &file = opened->file;
  if (source.bytes > file.size() || source.offset > file.size() - source.bytes)
    return Status::invalid(nameWithRole(tensor), ": bytes ", source.offset,
                           " to ", source.offset + source.bytes, " of ",
                           file.path(), " are past its end (", file.size(),
                           " bytes)");
  packConverted(file.data() + source.offset, source.dtype, tensor, mesh, rank,
                local);
  return Status::success();
}

// A global tensor may exceed the memory, so these functions fill the shard.

static void fillWithNumber(double number, const Tensor &tensor,
                           const Mesh &mesh, int rank, void *local) {
  forEachRun(tensor.layout, mesh, rank, 0,
             [&](int64_t, int64_t at, int64_t count) {
               for (int64_t i = at; i < at + count; ++i)
                 storeFromDouble(local, tensor.dtype, i, number);
             });
}

static void fillWithRandom(const RandomStream &stream, const Tensor &tensor,
                           const Mesh &mesh, int rank, void *local) {
  constexpr int64_t kChunk = 1 << 16;
  int64_t bytes = sizeOf(tensor.dtype);
  HostTensor chunk = HostTensor::zeros(tensor.dtype, {kChunk});
  forEachRun(tensor.layout, mesh, rank, 0,
             [&](int64_t global, int64_t at, int64_t count) {
               for (int64_t done = 0; done < count; done += kChunk) {
                 int64_t now = std::min(kChunk, count - done);
                 chunk.shape = {now};
                 fillRandom(chunk, stream, kDeviation, 0, global + done);
                 std::memcpy(static_cast<char *>(local) + (at + done) * bytes,
                             chunk.data.data(), now * bytes);
               }
             });
}

std::string faultIn(const Tensor &tensor, const Mesh &mesh, int rank,
                    const void *local) {
  const char *fault = "";
  auto look = [&](double value) {
    if (std::isnan(value))
      fault = "nan";
    else if (value == HUGE_VAL)
      fault = "inf";
  };
  if (!isFloat(tensor.dtype))
    return fault;
  forEachRun(tensor.layout, mesh, rank, 0,
             [&](int64_t, int64_t at, int64_t count) {
               const float *floats = static_cast<const float *>(local);
               for (int64_t i = at; !*fault && i < at + count; ++i)
                 look(tensor.dtype == DType::F32
                          ? floats[i]
                          : loadAsDouble(local, tensor.dtype, i));
             });
  return fault;
}

/// Returns a finite number of the dense global array `source` that is infinite
/// in the shard: "1e+39, which f32 cannot represent". Returns "" if there is
/// none.
static std::string overflowIn(const void *source, DType type,
                              const Tensor &tensor, const Mesh &mesh, int rank,
                              const void *local) {
  std::string text;
  if (!isFloat(tensor.dtype) || type == tensor.dtype)
    return text;
  forEachRun(tensor.layout, mesh, rank, 0,
             [&](int64_t global, int64_t at, int64_t count) {
               for (int64_t i = 0; text.empty() && i < count; ++i) {
                 if (!std::isinf(loadAsDouble(local, tensor.dtype, at + i)))
                   continue;
                 double value = loadAsDouble(source, type, global + i);
                 char number[32];
                 std::snprintf(number, sizeof number, "%.6g", value);
                 if (std::isfinite(value))
                   text = concat(number, ", which ", nameOf(tensor.dtype),
                                 " cannot represent");
               }
             });
  return text;
}

Status InitialValues::check(const Plan &plan) const {
  if (choice.kind != InitChoice::Kind::File)
    return Status::success();
  return matchWeights(plan, *choice.file).check(choice.isPartial);
}

Status InitialValues::fillFromFile(const WeightFiles::Weight &weight,
                                   const Tensor &tensor, const Mesh &mesh,
                                   int rank, void *local) const {
  const SafetensorsEntry &entry = weight.entry;
  if (entry.shape != tensor.globalShape)
    return Status::invalid(nameWithRole(tensor), ": ", weight.file.path(),
                           " has ", describe(entry.dtype, entry.shape),
                           ", expected ",
                           describe(tensor.dtype, tensor.globalShape));
  packConverted(weight.data(), entry.dtype, tensor, mesh, rank, local);
  std::string fault =
      overflowIn(weight.data(), entry.dtype, tensor, mesh, rank, local);
  if (fault.empty())
    fault = faultIn(tensor, mesh, rank, local);
  return fault.empty() ? Status::success()
                       : Status::invalid("--init: ", nameWithRole(tensor), ": ",
                                         weight.file.path(), " holds ", fault);
}

Status InitialValues::fillFromChoice(const Tensor &tensor, const Mesh &mesh,
                                     int rank, void *local) const {
  bool isWeight =
      tensor.init != InitKind::Zeros && tensor.init != InitKind::Value;
  bool isRandom = choice.kind == InitChoice::Kind::Random;
  bool isZeros = choice.kind == InitChoice::Kind::Zeros;
  if (tensor.init == InitKind::Source && !isRandom && !isZeros)
    return Status::notFound(
        nameWithRole(tensor),
        ": the model has no data for it; start with --init=random:SEED, zeros "
        "or FILE.safetensors");
  if (!isWeight || isZeros) {
    bool hasValue = tensor.init == InitKind::Value &&
                    !(isZeros && tensor.role != TensorRole::State);
    fillWithNumber(hasValue ? tensor.value : 0, tensor, mesh, rank, local);
    return Status::success();
  }
  uint64_t seed = isRandom ? choice.seed : static_cast<uint64_t>(tensor.seed);
  fillWithRandom(RandomStream(seed, tensor.name), tensor, mesh, rank, local);
  return Status::success();
}

} // namespace dpc::rt
