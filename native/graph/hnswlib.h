/**
 * hnswlib as it is used here: the headers of the package hnswlib-node, without its addon.
 */
#pragma once

#include <cstddef>
#include <cstdint>

/**
 * Disables its prefetches. They read the neighbour after the current one, which for a full list of a higher level is
 * four bytes beyond the point's memory. They save no measurable time (native/README.md).
 */
#define NO_MANUAL_VECTORIZATION

#include "hnswlib/hnswlib.h"

namespace {

using Points = hnswlib::HierarchicalNSW<float>;
using hnswlib::tableint;

}  // namespace
