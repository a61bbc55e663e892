//===- dpc-opt.cpp - main() of dpc-opt ------------------------------------===//
#include "tools/dpc-opt/Main.h"

int main(int argc, char **argv) { return dpc::dpcOptMain(argc, argv); }
