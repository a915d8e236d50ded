/**
 * Decides which runs may be a secret or part of one, by their beginnings and by what precedes them.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "byte-classes.h"
#include "key-beginnings.h"
#include "runs.h"

namespace {

constexpr size_t kContextBytes = 64;
constexpr size_t kTokenBackBytes = 2048;

/** Whether the word ends at `at` and begins at `lowest` or later, ignoring case. */
bool EndsWith(const uint8_t* bytes, size_t lowest, size_t at, const char* word) {
  const size_t size = strlen(word);
  if (at - lowest < size) return false;
  for (size_t i = 0; i < size; i++) {
    if ((bytes[at - size + i] | 0x20) != word[i]) return false;
  }
  return true;
}

/**
 * Remembers the token of the last run, so that each byte of a long token is read only once. Callers must pass the runs
 * of a search in ascending order.
 */
struct TokenWalk {
  /** Start of the token, and end of the last run. */
  size_t token = 0;
  size_t run_end = 0;
  /** Whether a label or a scheme precedes the token, or a label is part of it. */
  bool is_labelled = false;
  bool is_known = false;
};

/** Whether a label or a scheme precedes the token without being part of it. */
bool HasLabelBefore(const uint8_t* bytes, size_t token) {
  // No label can precede the beginning of a line.
  if (token > 0 && bytes[token - 1] == '\n') return false;
  const size_t context = token > kContextBytes ? token - kContextBytes : 0;
  size_t at = token;
  while (at > context && kTables.after_label[bytes[at - 1]]) at--;
  if (EndsWith(bytes, context, at, "key") || EndsWith(bytes, context, at, "token") || EndsWith(bytes, context, at, "secret") ||
      EndsWith(bytes, context, at, "authorization")) {
    return true;
  }
  at = token;
  while (at > context && kTables.after_scheme[bytes[at - 1]]) at--;
  return EndsWith(bytes, context, at, "bearer") || EndsWith(bytes, context, at, "basic");
}

/** Whether a label or a scheme precedes the run's token or is part of it. */
bool IsLabelled(const uint8_t* bytes, size_t start, size_t end, TokenWalk* walk) {
  const size_t farthest = start > kTokenBackBytes ? start - kTokenBackBytes : 0;
  const size_t lowest = walk->is_known ? walk->run_end : farthest;
  size_t token = start;
  bool is_glued = false;
  while (token > lowest && kTables.token[bytes[token - 1]]) {
    token--;
    if (bytes[token] == '=' && (EndsWith(bytes, 0, token, "key") || EndsWith(bytes, 0, token, "token") ||
                                EndsWith(bytes, 0, token, "secret") || EndsWith(bytes, 0, token, "signature"))) {
      is_glued = true;
    }
  }
  if (!walk->is_known || token > walk->run_end) {
    walk->token = token;
    walk->is_labelled = HasLabelBefore(bytes, token);
  }
  walk->is_known = true;
  walk->is_labelled |= is_glued;
  walk->run_end = end;
  return walk->is_labelled;
}

bool IsSuspect(const uint8_t* bytes, size_t start, size_t end, TokenWalk* walk) {
  // IsLabelled must see every run, so it is called before the other checks.
  const bool is_labelled = IsLabelled(bytes, start, end, walk);
  if (is_labelled || (start >= 3 && bytes[start - 1] == '.')) return true;
  return HoldsBeginning(bytes + start, bytes + end) || BeginsLikeKey(bytes, start, end);
}

/**
 * Finds the first suspect in [at, to), and writes its start and end to `run`.
 * @returns whether there is a suspect
 */
bool FindSuspect(const uint8_t* bytes, size_t at, size_t to, size_t run[2], TokenWalk* walk) {
  while (FindRun(bytes, at, to, run)) {
    if (IsSuspect(bytes, run[0], run[1], walk)) return true;
    at = run[1] + 1;
  }
  return false;
}

}  // namespace
