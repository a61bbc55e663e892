//===- StopSignal.h - signals that end a run --------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_JOB_STOPSIGNAL_H
#define DPC_RUNTIME_JOB_STOPSIGNAL_H

namespace dpc {

/// From now on, records the first SIGTERM or SIGINT; a second one ends the
/// process. Also records SIGUSR1, with which a supervisor tells the run to save
/// and exit.
void catchStopSignals();

/// The recorded signal, or 0.
int stopSignal();

} // namespace dpc

#endif // DPC_RUNTIME_JOB_STOPSIGNAL_H
