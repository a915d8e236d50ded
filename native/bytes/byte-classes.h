/**
 * Tables of byte classes: bytes of runs, of tokens, of base64, and of separators between a label and its token.
 * Constants; any thread.
 */
#pragma once

#include <cstdint>
#include <cstring>

namespace {

struct Tables {
  /** Letters, digits, - and _. */
  uint8_t run[256];
  /** Bytes of a Bearer token or of base64. */
  uint8_t token[256];
  /** Bytes of base64, base64url and escaped slashes. */
  uint8_t base64[256];
  /** Bytes between a label and its token, including percent-encoding. */
  uint8_t after_label[256];
  /** Bytes between a scheme and its token, including escapes and percent-encoding. */
  uint8_t after_scheme[256];

  Tables() {
    memset(this, 0, sizeof(*this));
    for (int byte = 0; byte < 256; byte++) {
      bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9');
      run[byte] = letter || byte == '-' || byte == '_';
      token[byte] = letter || (byte != 0 && strchr("._~+/=-", byte) != nullptr);
      base64[byte] = letter || (byte != 0 && strchr("+/=-_\\", byte) != nullptr);
      bool space = byte == ' ' || (byte >= 9 && byte <= 13) || byte == 0xa0;
      after_label[byte] = space || (byte != 0 && strchr("\"'\\:=%023adAD", byte) != nullptr);
      after_scheme[byte] = space || (byte != 0 && strchr("%20+\\tnTN", byte) != nullptr);
    }
  }
};
const Tables kTables;

}  // namespace
