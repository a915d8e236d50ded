/** hnswlib as it is used here: headers of the package hnswlib-node, whose own addon is not. */
#pragma once

#include <cstddef>
#include <cstdint>

/**
 * Without its hints to the processor. They read the neighbour behind the one that is looked at: behind a full list of an
 * upper floor that is four bytes beyond the memory of the point. They save nothing that can be measured (native/README.md).
 */
#define NO_MANUAL_VECTORIZATION

#include "hnswlib/hnswlib.h"

namespace {

using Points = hnswlib::HierarchicalNSW<float>;
using hnswlib::tableint;

}  // namespace
