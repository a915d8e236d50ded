/**
 * Includes hnswlib from the headers of the package hnswlib-node. That package's own addon is not used.
 */
#pragma once

#include <cstddef>
#include <cstdint>

/**
 * Disables hnswlib's prefetches, which read the neighbour after the current one. After the last neighbour of a full
 * list on a higher level, they would read four bytes beyond the point's memory. They save no measurable time
 * (native/README.md).
 */
#define NO_MANUAL_VECTORIZATION

#include "hnswlib/hnswlib.h"

namespace {

using Points = hnswlib::HierarchicalNSW<float>;
using hnswlib::tableint;

}  // namespace
