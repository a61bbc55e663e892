//===- StopSignal.h - signals that end a run --------------------*- C++ -*-===//
#pragma once

namespace dpc {

/// Records the first SIGTERM, SIGINT or SIGUSR1 from now on. A supervisor sends
/// SIGUSR1 to make the run save and exit. A second SIGTERM or SIGINT ends the
/// process at once. If `announces` is true, SIGINT prints that the run stops
/// after the current step. Also ignores SIGPIPE: Ctrl-C ends the reader of a
/// pipe, too, and the run must still save.
void catchStopSignals(bool announces);

/// Returns the recorded signal, or 0.
int stopSignal();

/// While true, a second SIGTERM or SIGINT does not end this process, which
/// must end its children first (see mustStopAtOnce()).
void holdSecondSignal(bool holds);

/// Returns whether a second signal came while it was held.
bool mustStopAtOnce();

} // namespace dpc
