/**
 * Counts words and marks in the texts of a step, for the monitors. The algorithm is in `texts/counts.h`; this file has
 * the function that JavaScript calls. `test/domain/monitors/step-texts.test.ts` compares the results with those of the
 * TypeScript version. Uses only Node-API. Any thread: no state is kept between calls.
 */
#include <node_api.h>

#include <cstdint>

#include "arguments.h"
#include "texts/counts.h"

namespace {

inline bool ReadText(napi_env env, napi_value value, Text* text) {
  // Reads one unit more than the limit, to detect longer texts. Node-API appends a zero.
  size_t length = 0;
  if (napi_get_value_string_utf16(env, value, reinterpret_cast<char16_t*>(text->units), kTextUnits, &length) !=
      napi_ok) {
    napi_throw_type_error(env, nullptr, "a text is expected");
    return false;
  }
  if (length >= kTextUnits - 1) {
    napi_throw_range_error(env, nullptr, "the text is too long");
    return false;
  }
  text->length = length;
  return true;
}

/** measureTexts(input, thought, observation, lexicon, triggers, features, counts): fills `features` and `counts`. */
napi_value MeasureTexts(napi_env env, napi_callback_info info) {
  napi_value arguments[7];
  Tables tables;
  uint32_t* counts;
  uint8_t* features;
  size_t count_length;
  size_t feature_length;
  if (!ReadArguments(env, info, 7, arguments) ||
      !ReadNumbers(env, arguments[3], napi_uint32_array, &tables.lexicon, &tables.lexicon_length) ||
      !ReadNumbers(env, arguments[4], napi_uint32_array, &tables.triggers, &tables.trigger_length) ||
      !ReadNumbers(env, arguments[5], napi_uint8_array, &features, &feature_length) ||
      !ReadNumbers(env, arguments[6], napi_uint32_array, &counts, &count_length)) {
    return nullptr;
  }
  if (!tables.AreWhole() || feature_length != kMeasuredBytes || count_length < kCounts) {
    napi_throw_range_error(env, nullptr, "a table has another size than in native/texts/counts.h");
    return nullptr;
  }
  const auto read = [env, &arguments](Which which, Text* text) { return ReadText(env, arguments[which], text); };
  CountTexts(read, tables, features, counts);
  return nullptr;
}

napi_value Init(napi_env env, napi_value exports) {
  return Export(env, exports, {{"measureTexts", MeasureTexts}});
}

}  // namespace

NAPI_MODULE(NODE_GYP_MODULE_NAME, Init)
