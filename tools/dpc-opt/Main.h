//===- Main.h - dpc-opt ------------------------------------------*- C++
//-*-===//
#pragma once

namespace dpc {

int dpcOptMain(int argc, char **argv);

} // namespace dpc
