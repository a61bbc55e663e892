//===- DatasetKinds.h - the kinds of files of a dataset ---------*- C++ -*-===//
//
// openDataset() chooses one of these.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_DATA_DATASETKINDS_H
#define DPC_RUNTIME_DATA_DATASETKINDS_H

#include "runtime/data/Dataset.h"

namespace dpc::rt {

Expected<std::unique_ptr<Dataset>> openNpyDataset(const Plan &plan,
                                                  const std::string &dir);
Expected<std::unique_ptr<Dataset>>
openSafetensorsDataset(const Plan &plan, const std::string &path);
Expected<std::unique_ptr<Dataset>> openTokenDataset(const Plan &plan,
                                                    const std::string &path);

/// The index of the first of `count` aligned elements of the input that is not
/// below its limit; -1 if there is none.
int64_t firstBeyond(const Port &port, const std::byte *data, int64_t count);

} // namespace dpc::rt

#endif // DPC_RUNTIME_DATA_DATASETKINDS_H
