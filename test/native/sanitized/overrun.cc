/** An addon that reads one byte beyond its memory: run.mjs checks that the sanitizer reports it. */
#include <node_api.h>

namespace {

/** `volatile` hides the mistake from the compiler, as in most real mistakes. */
__attribute__((noinline)) char ReadAt(const char* bytes, volatile size_t at) { return bytes[at]; }

napi_value Init(napi_env env, napi_value exports) {
  napi_value read;
  return napi_create_uint32(env, static_cast<uint32_t>(ReadAt(new char[8](), 8)), &read) == napi_ok ? exports : nullptr;
}

}  // namespace

NAPI_MODULE(NODE_GYP_MODULE_NAME, Init)
