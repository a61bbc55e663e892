//===- Checks.h - the checks that see each sample ---------------*- C++ -*-===//
#pragma once

#include "runtime/facts/SampleCheck.h"

namespace dpc::rt {

/// Returns every check for which the data have the inputs.
SampleChecks sampleChecks(const SampleShape &shape);

// Each of these adds its checks.

/// Padding of ids against the last position, the padding id of the model, and
/// labels that end a text (PaddingChecks.cpp).
void addPaddingChecks(const SampleShape &shape, SampleChecks &checks);
/// Rows of probabilities, classes without weight (TargetChecks.cpp).
void addTargetChecks(const SampleShape &shape, SampleChecks &checks);
/// Targets that are computed from the inputs, elements that are equal or the
/// next target (ColumnChecks.cpp).
void addColumnChecks(const SampleShape &shape, SampleChecks &checks);
/// Images whose channels are interleaved (ImageChecks.cpp).
void addImageChecks(const SampleShape &shape, SampleChecks &checks);
/// Windows of targets that begin too early, ids that tell the class
/// (LeakChecks.cpp).
void addLeakChecks(const SampleShape &shape, SampleChecks &checks);
/// A unit that changes, texts of different corpora (PartChecks.cpp).
void addPartChecks(const SampleShape &shape, SampleChecks &checks);
/// Targets of the sample before or after, or swapped with the weights of the
/// samples (RowChecks.cpp).
void addRowChecks(const SampleShape &shape, SampleChecks &checks);
/// Windows of a series that are transposed or go backwards (SeriesChecks.cpp).
void addSeriesChecks(const SampleShape &shape, SampleChecks &checks);

} // namespace dpc::rt
