// The floor: what a call into native code costs when it does nothing.
#include <napi.h>

static void Noop(const Napi::CallbackInfo&) {}

static Napi::Object Init(Napi::Env env, Napi::Object exports) {
  exports.Set("noop", Napi::Function::New<Noop>(env));
  return exports;
}

NODE_API_MODULE(floor, Init)
