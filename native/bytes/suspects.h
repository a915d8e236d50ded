/** Which runs may be, or be part of, a secret: by how they begin, or by what stands before them. */
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

/** Whether the bytes before `at`, down to `lowest`, end with the word in any case. */
bool EndsWith(const uint8_t* bytes, size_t lowest, size_t at, const char* word) {
  const size_t size = strlen(word);
  if (at - lowest < size) return false;
  for (size_t i = 0; i < size; i++) {
    if ((bytes[at - size + i] | 0x20) != word[i]) return false;
  }
  return true;
}

/** Whether a label or a scheme stands before the token that the run is part of, or is glued to it. */
bool IsLabelled(const uint8_t* bytes, size_t start) {
  size_t token = start;
  const size_t lowest = start > kTokenBackBytes ? start - kTokenBackBytes : 0;
  while (token > lowest && kTables.token[bytes[token - 1]]) {
    token--;
    if (bytes[token] == '=' && (EndsWith(bytes, lowest, token, "key") || EndsWith(bytes, lowest, token, "token") ||
                                EndsWith(bytes, lowest, token, "secret") || EndsWith(bytes, lowest, token, "signature"))) {
      return true;
    }
  }
  // At the beginning of a line there is no label.
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

bool IsSuspect(const uint8_t* bytes, size_t start, size_t end) {
  if (start >= 3 && bytes[start - 1] == '.') return true;
  return HoldsBeginning(bytes + start, bytes + end) || BeginsLikeKey(bytes, start, end) || IsLabelled(bytes, start);
}

/**
 * The first run at or after `at` that is a suspect: its start and end in `run`.
 * @returns whether there is one before `to`
 */
bool FindSuspect(const uint8_t* bytes, size_t at, size_t to, size_t run[2]) {
  while (FindRun(bytes, at, to, run)) {
    if (IsSuspect(bytes, run[0], run[1])) return true;
    at = run[1] + 1;
  }
  return false;
}

}  // namespace
